from __future__ import annotations

import pytest

from ai4j_sandbox.shell_scripts import Entry, joined_path, parse_entries, path_argument


@pytest.mark.parametrize(
    ("path", "argument"),
    [
        ("a", "./a"),
        ("a/b/", "./a/b"),
        ("./a", "././a"),
        (".", "./."),
        ("-rf", "./-rf"),
        ("~", "./~"),
        ("/", "/"),
        ("//", "/"),
        ("/a//b/", "/a/b"),
        (" ", "./ "),
    ],
)
def test_path_cannot_be_taken_for_an_option(path: str, argument: str) -> None:
    assert path_argument(path) == argument


def test_records_become_entries() -> None:
    answer = b"81a4 12 1700 root wheel ./a b//\na1ff 3 -5 u g ./l\nk//\n\0./l\nk\0to\nthere\0"

    assert list(parse_entries(answer)) == [
        Entry(path="./a b", mode=0o100644, size_bytes=12, modified_at_seconds=1700, owner="root", group="wheel"),
        Entry(
            path="./l\nk",
            mode=0o120777,
            size_bytes=3,
            modified_at_seconds=-5,
            owner="u",
            group="g",
            target="to\nthere",
        ),
    ]


@pytest.mark.parametrize("answer", [b"", b"\0", b"nonsense\n\0", b"81a4 1 1 u g ./cut off"])
def test_what_is_no_record_is_no_entry(answer: bytes) -> None:
    assert list(parse_entries(answer)) == []


@pytest.mark.parametrize(
    ("directory", "path"), [("/w", "/w/a"), ("/", "/a"), ("w/", "w/a"), (".", "./a"), ("", "a"), ("./w", "./w/a")]
)
def test_found_entry_is_named_as_its_directory_was(directory: str, path: str) -> None:
    (entry,) = parse_entries(b"81a4 0 0 u g ./a//\n\0")

    assert joined_path(directory, entry) == path
