from __future__ import annotations

import pytest

from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.ownership import DEFAULT_OWNER, OWNER_LABEL, OWNER_VARIABLE, current_owner, owned_labels


@pytest.mark.parametrize(
    ("environ", "owner"),
    [({}, DEFAULT_OWNER), ({OWNER_VARIABLE: "  "}, DEFAULT_OWNER), ({OWNER_VARIABLE: " team-ci_2 "}, "team-ci_2")],
)
def test_owner_is_a_word_of_the_environment_or_the_same_for_all(environ: dict[str, str], owner: str) -> None:
    assert current_owner(environ) == owner


def test_owner_is_read_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWNER_VARIABLE, "team-a")

    assert current_owner() == "team-a"


@pytest.mark.parametrize("owner", ["a b", "-a", "ä", "a/b", "a" * 64, "a=b"])
def test_owner_that_some_service_would_refuse_is_refused_by_name(owner: str) -> None:
    with pytest.raises(SandboxConfigError, match=OWNER_VARIABLE):
        current_owner({OWNER_VARIABLE: owner})


def test_labels_are_filtered_and_tagged() -> None:
    labels = {"task": "t-1", "apiToken": "x", "empty": None}

    assert owned_labels(labels, {}) == {OWNER_LABEL: DEFAULT_OWNER, "task": "t-1"}
    assert owned_labels(environ={}) == {OWNER_LABEL: DEFAULT_OWNER}


def test_a_label_of_the_callers_own_says_for_whom_it_is() -> None:
    assert owned_labels({OWNER_LABEL: "somebody"}, {}) == {OWNER_LABEL: "somebody"}
