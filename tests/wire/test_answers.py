from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox.errors import SandboxProtocolError
from ai4j_sandbox_wire.answers import as_object, text_member, text_members


@pytest.mark.parametrize(("document", "word"), [(None, "NoneType"), ([], "list"), ("{}", "str"), (1, "int")])
def test_answer_that_is_no_object_is_an_error(document: Any, word: str) -> None:
    with pytest.raises(SandboxProtocolError, match=f"expected from the service, got {word}"):
        as_object(document)


def test_object_is_what_it_is() -> None:
    assert as_object({"a": 1}) == {"a": 1}


@pytest.mark.parametrize(("value", "read"), [("x", "x"), ("", None), (None, None), (1, None), (["x"], None)])
def test_text_that_is_none_or_empty_counts_as_missing(value: Any, read: str | None) -> None:
    assert text_member({"name": value}, "name") == read
    assert text_member({}, "name") is None


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_labels_that_are_no_object_count_as_none(value: Any) -> None:
    assert text_members({"labels": value}, "labels") == {}


def test_labels_without_text_are_left_out() -> None:
    assert text_members({"labels": {"a": "1", "b": 2, "c": None, "d": ""}}, "labels") == {"a": "1", "d": ""}
