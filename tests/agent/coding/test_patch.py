"""Parsing and applying patches, without any file: section H 120 to 123, weakness I-80a."""

from __future__ import annotations

import pytest

from ai4j_agent import ToolError
from ai4j_agent.coding.patch import FilePatch, Hunk, Operation, apply_hunks, parse_patch


def parsed(*lines: str) -> tuple[FilePatch, ...]:
    return parse_patch("\n".join(("*** Begin Patch", *lines, "*** End Patch")))


def applied(content: str, *body: str) -> str:
    (file,) = parsed("*** Update File: f", *body)
    return apply_hunks(content, file.hunks, "f")


def test_three_operations() -> None:
    assert parsed(
        "*** Add File: new.txt",
        "+one",
        "+",
        "*** Update File: old.txt",
        "@@ def main",
        " kept",
        "-gone",
        "+come",
        "*** Delete File: bad.txt",
    ) == (
        FilePatch(operation=Operation.ADD, path="new.txt", content="one\n\n"),
        FilePatch(
            operation=Operation.UPDATE,
            path="old.txt",
            hunks=(Hunk(old=("kept", "gone"), new=("kept", "come"), anchor="def main", added=1, removed=1),),
        ),
        FilePatch(operation=Operation.DELETE, path="bad.txt"),
    )


@pytest.mark.parametrize(
    "header",
    [
        "*** Update File: sample.txt",
        "*** Update: sample.txt",
        "*** Update File:/sample.txt",
        "***Update File: sample.txt",
    ],
)
def test_spellings_of_a_header(header: str) -> None:
    (file,) = parsed(header, "@@", "-a", "+b")

    assert (file.operation, file.path) == (Operation.UPDATE, "sample.txt")


def test_lines_of_other_formats_before_the_first_hunk_are_ignored() -> None:
    body = ("diff --git a/f b/f", "index 1..2 100644", "--- a/f", "+++ b/f", "@@ -1 +1 @@", "-a", "+b")

    assert applied("a\n", *body) == "b\n"


@pytest.mark.parametrize(
    ("lines", "refusal"),
    [
        ((), "changes no file"),
        (("*** Rename File: x",), "unknown line"),
        (("loose",), "must name a file before"),
        (("*** Add File: x", "no plus"), "must begin with '\\+'"),
        (("*** Update File: x",), "no hunk for x"),
        (("*** Update File: x", "@@", "*odd"), "must begin with ' '"),
        (("*** Update File: x", "@@", "-a", "*** Delete File: x"), "more than one section for x"),
        (("*** Add File: ",), "names no file"),
    ],
)
def test_what_is_no_patch_is_refused(lines: tuple[str, ...], refusal: str) -> None:
    with pytest.raises(ToolError, match=refusal):
        parsed(*lines)


def test_a_patch_needs_its_first_and_last_line() -> None:
    with pytest.raises(ToolError, match="must begin with"):
        parse_patch("*** Add File: x\n+y")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a\nb\nc\n", "a\nX\nc\n"),
        ("a\nb\nc", "a\nX\nc"),
        ("a\r\nb\r\nc\r\n", "a\r\nX\r\nc\r\n"),
        ("\ufeffa\nb\nc\n", "\ufeffa\nX\nc\n"),
        ("a\nb\nc\n\n\n", "a\nX\nc\n\n\n"),
        ("a\nb\nc\r\nd\x0ce\n", "a\nX\nc\r\nd\x0ce\n"),
    ],
)
def test_nothing_outside_of_the_hunk_changes_a_byte(content: str, expected: str) -> None:
    assert applied(content, "@@", " a", "-b", "+X") == expected


def test_the_last_line_keeps_being_without_an_end() -> None:
    assert applied("a\nb", "@@", " a", "-b", "+c", "+d") == "a\nc\nd"


def test_a_hunk_without_old_lines_is_added_at_the_end_or_after_its_anchor() -> None:
    assert applied("a\nb\n", "@@", "+c") == "a\nb\nc\n"
    assert applied("a\nb\n", "@@ a", "+c") == "a\nc\nb\n"
    assert applied("", "@@", "+c") == "c\n"


def test_hunks_apply_in_order() -> None:
    assert applied("a\nb\nc\nd\n", "@@", "-a", "+1", "@@", " c", "-d") == "1\nb\nc\n"


def test_a_hunk_is_looked_for_only_after_the_one_before() -> None:
    assert applied("x\na\nx\n", "@@", "-a", "+1", "@@", "-x", "+2") == "x\n1\n2\n"


def test_a_place_that_is_not_unique_is_refused_unless_something_tells() -> None:
    content = "def one():\n    pass\ndef two():\n    pass\n"

    with pytest.raises(ToolError, match="not unique: 2 places match"):
        applied(content, "@@", "-    pass", "+    return 2")
    assert applied(content, "@@ def two():", "-    pass", "+    return 2").endswith("two():\n    return 2\n")
    assert applied(content, "@@ -4 +4 @@", "-    pass", "+    return 2").endswith("two():\n    return 2\n")


def test_blanks_at_the_ends_of_lines_may_differ_and_stay() -> None:
    assert applied("a  \nb\n", "@@", " a", "-b", "+c") == "a  \nc\n"


def test_a_hunk_that_fits_nowhere_is_named() -> None:
    with pytest.raises(ToolError, match="hunk 2 of f was not found"):
        applied("a\nb\n", "@@", "-a", "+x", "@@", "-nowhere", "+y")


def test_an_empty_line_is_an_empty_context_line() -> None:
    assert applied("a\n\nb\n", "@@", " a", "", "-b", "+c") == "a\n\nc\n"
