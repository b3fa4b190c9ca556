from __future__ import annotations

import pytest

from ai4j_sandbox.compatibility import unmet_requirement, version_of


@pytest.mark.parametrize(
    ("clauses", "version", "met"),
    [
        (">=0.1,<0.2", "0.1.0", True),
        (">=0.1,<0.2", "0.1.99", True),
        (">=0.1,<0.2", "0.2.0", False),
        (">=0.1,<0.2", "0.2", False),
        (">=0.1,<0.2", "0.0.9", False),
        ("<0.2", "0.2.0rc1", False),
        (">=0.2", "0.2.0.dev3", False),
        (">0.1", "0.1.0", False),
        (">0.1", "0.1.1", True),
        ("<=0.1", "0.1.0", True),
        ("<=0.1", "0.1.1", False),
        ("==0.1", "0.1.0", True),
        ("==0.1", "0.1.1", False),
        ("==0.1.*", "0.1.7", True),
        ("==0.1.*", "0.10.7", False),
        ("!=0.1.3", "0.1.3", False),
        ("!=0.1.3", "0.1.4", True),
        ("!=0.1.*", "0.1.4", False),
        ("~=0.1.2", "0.1.9", True),
        ("~=0.1.2", "0.1.1", False),
        ("~=0.1.2", "0.2.0", False),
        ("~=0.1", "0.9", True),
        ("~=0.1", "1.0", False),
        (" >= 0.1 , < 0.2 ", "0.1.0", True),
        ("(>=0.1,<0.2)", "0.2.0", False),
        ("[testing]>=0.2", "0.1.0", False),
        ("", "0.1.0", True),
    ],
)
def test_clauses_admit_versions(clauses: str, version: str, met: bool) -> None:
    unmet = unmet_requirement([f"ai4j-sandbox{clauses}"], "ai4j-sandbox", version)

    assert (unmet is None) is met


@pytest.mark.parametrize(
    "requirement", ["ai4j-sandbox nonsense", "AI4J_Sandbox>=", "ai4j-sandbox[x", "ai4j-sandbox (>0.1,)!"]
)
def test_line_on_us_that_cannot_be_read_is_not_met(requirement: str) -> None:
    assert unmet_requirement([requirement], "ai4j-sandbox", "0.1.0") == requirement


@pytest.mark.parametrize(
    "requirement",
    [
        "other>=9",
        "ai4j-sandbox-wire>=9",
        "ai4j-sandbox>=9; extra == 'test'",
        "ai4j-sandbox>=9 ; python_version < '3'",
        "ai4j-sandbox @ file:///somewhere",
        "",
        "[x",
    ],
)
def test_lines_that_say_nothing_certain_about_us_admit(requirement: str) -> None:
    assert unmet_requirement([requirement], "ai4j-sandbox", "0.1.0") is None


def test_a_version_without_numbers_is_admitted() -> None:
    assert unmet_requirement(["ai4j-sandbox>=9"], "ai4j-sandbox", "unknown") is None


def test_the_unmet_line_is_returned_as_written() -> None:
    lines = ["requests>=2", "AI4J_Sandbox <0.1 ", "ai4j-sandbox<0.05"]

    assert unmet_requirement(lines, "ai4j-sandbox", "0.1.0") == "AI4J_Sandbox <0.1"


def test_versions_sort_as_releases_do_and_unreadable_ones_come_first() -> None:
    texts = ["0.10.0", "v0.9", "x", "0.10.0rc1"]

    assert sorted(texts, key=version_of) == ["x", "v0.9", "0.10.0rc1", "0.10.0"]
