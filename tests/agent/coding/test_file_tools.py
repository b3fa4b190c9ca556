"""The tools `read_file`, `write_file`, `edit`, `list`, `update_agents_md`: section H 127 to 142 and 157 to 162."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ai4j_agent.coding import CodingLimits
from support.coding_bench import Bench

# --- read_file ----------------------------------------


def test_a_file_is_read(bench: Bench) -> None:
    bench.put("notes.txt", "one\ntwo\n")

    assert bench.call("read_file", path="notes.txt") == {
        "path": "notes.txt",
        "content": "one\ntwo\n",
        "startLine": 1,
        "endLine": 2,
        "totalLines": 2,
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("arguments", "content", "end"),
    [
        ({"startLine": 2}, "two\nthree", 3),
        ({"endLine": 1}, "one\n", 1),
        ({"startLine": 2, "endLine": 2}, "two\n", 2),
        ({"startLine": 9}, "", 3),
    ],
)
def test_some_lines_are_read(bench: Bench, arguments: dict[str, int], content: str, end: int) -> None:
    bench.put("notes.txt", "one\ntwo\nthree")

    facts = bench.call("read_file", path="notes.txt", **arguments)

    assert (facts["content"], facts["endLine"]) == (content, end)


def test_a_long_file_is_cut(bench: Bench) -> None:
    bench.put("long.txt", "é" * 100)

    facts = bench.call("read_file", path="long.txt", maxChars=10)

    assert (facts["content"], facts["truncated"]) == ("é" * 10, True)


def test_a_line_separator_of_unicode_ends_no_line(bench: Bench) -> None:
    bench.put("odd.txt", "a\u2028b\x0cc\nd\n")

    assert bench.call("read_file", path="odd.txt", endLine=1)["content"] == "a\u2028b\x0cc\n"


@pytest.mark.parametrize(
    ("path", "content", "refusal"),
    [
        ("picture.png", b"\x89PNG\0\0", "picture.png is a binary file of 6 bytes"),
        ("big.txt", b"x" * 200, "big.txt is too large: 200 bytes; the limit is 100"),
        ("missing.txt", None, "missing.txt does not exist"),
    ],
)
def test_what_is_no_text_to_read_is_refused(
    make_bench: Callable[..., Bench], path: str, content: bytes | None, refusal: str
) -> None:
    bench = make_bench(limits=CodingLimits(file_bytes=100))
    if content is not None:
        bench.put(path, content)

    assert bench.refusal("read_file", path=path) == refusal


def test_a_directory_is_no_file(bench: Bench) -> None:
    bench.sh("mkdir folder")

    assert "folder cannot be read" in bench.refusal("read_file", path="folder")


def test_a_path_is_required(bench: Bench) -> None:
    assert "is not a path" in bench.refusal("read_file", path="")


# --- write_file ----------------------------------------


def test_a_file_is_created_with_its_directories_then_replaced_then_extended(bench: Bench) -> None:
    created = bench.call("write_file", path="a/b/notes.txt", content="é\n", mode="create")
    replaced = bench.call("write_file", path="a/b/notes.txt", content="one\n")
    appended = bench.call("write_file", path="a/b/notes.txt", content="two\n", mode="append")

    assert created == {
        "path": "a/b/notes.txt",
        "resolvedPath": bench.at("a/b/notes.txt"),
        "mode": "create",
        "created": True,
        "appended": False,
        "bytesWritten": 3,
    }
    assert (replaced["created"], replaced["mode"]) == (False, "overwrite")
    assert (appended["created"], appended["appended"]) == (False, True)
    assert bench.bytes("a/b/notes.txt") == b"one\ntwo\n"


def test_appending_to_nothing_creates(bench: Bench) -> None:
    facts = bench.call("write_file", path="log", content="x", mode="append")

    assert (facts["created"], facts["appended"], bench.bytes("log")) == (True, False, b"x")


def test_creating_what_exists_is_refused(bench: Bench) -> None:
    bench.put("here", "old")

    assert "here exists" in bench.refusal("write_file", path="here", content="new", mode="create")
    assert bench.bytes("here") == b"old"


def test_an_unknown_mode_is_refused(bench: Bench) -> None:
    assert "mode must be one of create, overwrite, append" in bench.refusal(
        "write_file", path="x", content="", mode="truncate"
    )


def test_a_file_keeps_its_permissions(bench: Bench) -> None:
    bench.sh("echo old > tool; chmod 750 tool")

    bench.call("write_file", path="tool", content="new\n")

    assert bench.sh("stat -c %a tool") == "750\n"


def test_a_file_over_the_limit_is_not_written(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(limits=CodingLimits(file_bytes=10))

    assert "would be too large: 11 bytes" in bench.refusal("write_file", path="x", content="x" * 11)
    assert not bench.exists("x")


# --- edit ----------------------------------------


def test_a_unique_piece_is_replaced(bench: Bench) -> None:
    bench.put("code.py", "a = 1\nb = 2\nc = 3\n")

    facts = bench.call("edit", path="code.py", old_string="b = 2\nc", new_string="b = 4\nc")

    assert facts == {"path": "code.py", "resolvedPath": bench.at("code.py"), "replacements": 1, "success": True}
    assert bench.bytes("code.py") == b"a = 1\nb = 4\nc = 3\n"


def test_every_match_is_replaced_when_asked(bench: Bench) -> None:
    bench.put("code.py", "x x")

    assert bench.call("edit", path="code.py", old_string="x", new_string="y", replaceAll=True)["replacements"] == 2
    assert bench.bytes("code.py") == b"y y"


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"old_string": "absent", "new_string": "y"}, "not found"),
        ({"old_string": "x", "new_string": "y"}, "not unique"),
        ({"old_string": "x", "new_string": "x"}, "identical"),
        ({"old_string": "", "new_string": "x"}, "must not be empty"),
        ({"old_string": "x", "new_string": "y", "path": "missing"}, "missing does not exist"),
    ],
)
def test_an_edit_that_cannot_be_meant_changes_nothing(bench: Bench, arguments: dict[str, Any], refusal: str) -> None:
    bench.put("code.py", "x x")

    assert refusal in bench.refusal("edit", **({"path": "code.py"} | arguments))
    assert bench.bytes("code.py") == b"x x"


def test_line_ends_and_bytes_that_are_no_text_survive_an_edit(bench: Bench) -> None:
    bench.put("windows.txt", b"one\r\ntwo\r\n\xff\xfe three")

    bench.call("edit", path="windows.txt", old_string="one\ntwo", new_string="one\n2")

    assert bench.bytes("windows.txt") == b"one\r\n2\r\n\xff\xfe three"


def test_a_binary_file_is_not_edited(bench: Bench) -> None:
    bench.put("picture", b"a\0b")

    assert "is a binary file" in bench.refusal("edit", path="picture", old_string="a", new_string="b")


# --- list ----------------------------------------


def test_a_directory_is_listed(bench: Bench) -> None:
    bench.sh("mkdir src; printf 12345 > src/five; ln -s five src/link; touch .hidden")

    assert bench.call("list", depth=2) == {
        "path": ".",
        "entries": [
            {"path": ".hidden", "kind": "file", "sizeBytes": 0},
            {"path": "src", "kind": "directory", "sizeBytes": bench.workspace.files.stat(bench.at("src")).size_bytes},
            {"path": "src/five", "kind": "file", "sizeBytes": 5},
            {"path": "src/link", "kind": "symlink", "sizeBytes": 4, "target": "five"},
        ],
        "count": 4,
        "truncated": False,
    }


def test_what_is_no_directory_is_not_listed(bench: Bench) -> None:
    bench.put("file", "")

    assert "file cannot be listed" in bench.refusal("list", path="file")
    assert "missing cannot be listed" in bench.refusal("list", path="missing")


# --- update_agents_md ----------------------------------------


def test_the_notes_for_agents_are_read_written_and_extended(bench: Bench) -> None:
    assert bench.call("update_agents_md") == {"path": "AGENTS.md", "exists": False, "content": ""}

    bench.call("update_agents_md", action="write", content="# Notes\n")
    bench.call("update_agents_md", action="append", content="Run make.\n")

    assert bench.call("update_agents_md", action="read") == {
        "path": "AGENTS.md",
        "exists": True,
        "content": "# Notes\nRun make.\n",
    }
    assert "action must be one of read, write, append" in bench.refusal("update_agents_md", action="delete")


@pytest.mark.parametrize(
    ("tool", "arguments", "name"),
    [
        ("write_file", {"path": "x", "content": "\ud83d"}, "content"),
        ("write_file", {"path": "x\udce9", "content": ""}, "path"),
        ("edit", {"path": "x", "old_string": "a", "new_string": "\ude00"}, "new_string"),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: x\n+\ud83d\n*** End Patch"}, "patch"),
        ("bash", {"command": "echo \ud83d"}, "command"),
        ("bash", {"command": "true", "environment": {"A": "\ud83d"}}, "environment"),
        ("git", {"action": "add", "paths": ["\ud83d"]}, "paths"),
    ],
)
def test_half_a_character_is_refused_in_words(bench: Bench, tool: str, arguments: dict[str, Any], name: str) -> None:
    assert bench.refusal(tool, **arguments).startswith(f"{name} holds half of a character, U+D")
    assert not bench.exists("x")


def test_a_file_of_any_size_can_be_overwritten(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(limits=CodingLimits(file_bytes=10))
    bench.put("large", b"x" * 100)

    bench.call("write_file", path="large", content="small")

    assert "is too large" in make_bench(limits=CodingLimits(file_bytes=4)).refusal(
        "write_file", path="large", content="", mode="append"
    )
    assert bench.bytes("large") == b"small"


@pytest.mark.parametrize("make", ["mkfifo odd", "mkdir odd", "ln -s nowhere odd; mkdir nowhere"])
def test_what_is_no_file_is_neither_read_nor_written(bench: Bench, make: str) -> None:
    bench.sh(make)

    assert "odd cannot be read" in bench.refusal("read_file", path="odd")
    assert "odd cannot be written" in bench.refusal("write_file", path="odd", content="x")
    assert "odd cannot be read" in bench.refusal("edit", path="odd", old_string="a", new_string="b")
