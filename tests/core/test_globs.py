from __future__ import annotations

import pytest

from ai4j_sandbox.globs import glob_depth, glob_regex, split_glob

PATTERNS = [
    # pattern, what it means, what it does not
    ("report.xml", ["report.xml"], ["report-xml", "a/report.xml", "report.xml2", "REPORT.XML"]),
    ("*.xml", ["a.xml", "a b.xml", "new\nline.xml"], [".xml", ".a.xml", "a/b.xml", "a.xml.gz"]),
    ("*", ["a", "a.b"], [".a", "a/b", ""]),
    ("a*c", ["ac", "abc", "a.c"], ["a/c", "abcd"]),
    ("?.txt", ["a.txt", "ü.txt"], ["ab.txt", ".txt", "..txt", "/.txt"]),
    ("[abc].txt", ["a.txt", "c.txt"], ["d.txt", "ab.txt"]),
    ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
    ("[!a-c]x", ["dx", "-x"], ["ax", ".x", "/x"]),
    ("[^a]x", ["bx"], ["ax"]),
    ("[]a]x", ["]x", "ax"], ["bx"]),
    ("[a-]x", ["ax", "-x"], ["bx"]),
    ("[--0]x", ["-x", "0x"], ["/x", ".x", "ax"]),
    ("[z-a]x", [], ["ax", "zx", "[z-a]x"]),
    ("a[", ["a["], ["a"]),
    ("[*]x", ["*x"], ["ax"]),
    ("[[]x", ["[x"], ["x"]),
    ("[&&~~||]x", ["&x", "|x"], ["ax"]),
    ("a\\*", ["a\\", "a\\b"], ["a*"]),
    ("a.(b)+{c}$", ["a.(b)+{c}$"], ["axb"]),
    ("*/x", ["a/x"], ["x", ".a/x", "a/b/x"]),
    ("**/x", ["x", "a/x", "a/b/x"], ["ax", ".a/x", "a/.b/x", "x/"]),
    ("**/*.txt", ["a.txt", "a/b.txt"], [".a.txt", ".git/a.txt", "a/.b.txt"]),
    ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "b", "a/.x/b"]),
    ("a/**", ["a/b", "a/b/c"], ["a", "a/", "a/.b", "b/a"]),
    ("**", ["a", "a/b"], [".a", "a/.b"]),
    ("**/**", ["a", "a/b", "a/b/c"], [".a"]),
    ("a**b", ["ab", "axxb"], ["a/b"]),
    (".*", [".a", ".a.b"], ["a"]),
    (".git/**", [".git/config", ".git/a/b"], [".git/.x"]),
    ("**/.env", [".env", "a/.env"], ["a.env"]),
    ("/abs/*.log", ["/abs/a.log"], ["abs/a.log", "/abs/.a.log"]),
]


@pytest.mark.parametrize(("pattern", "meant", "not_meant"), PATTERNS)
def test_pattern_means_these_paths_and_not_those(pattern: str, meant: list[str], not_meant: list[str]) -> None:
    accepts = glob_regex(pattern).fullmatch

    assert [path for path in (*meant, *not_meant) if accepts(path)] == meant


@pytest.mark.parametrize(
    ("pattern", "directory", "rest"),
    [
        ("report.xml", ".", "report.xml"),
        ("*.xml", ".", "*.xml"),
        ("./*.xml", ".", "*.xml"),
        ("out/report.xml", "out", "report.xml"),
        ("out/deep/*.xml", "out/deep", "*.xml"),
        ("out/*/x/*.xml", "out", "*/x/*.xml"),
        ("**/x", ".", "**/x"),
        ("a/[b]/c", "a", "[b]/c"),
        ("/abs/report.xml", "/abs", "report.xml"),
        ("/*.log", "/", "*.log"),
        ("/x", "/", "x"),
        ("a//b///c", "a/b", "c"),
        ("-n/x", "-n", "x"),
    ],
)
def test_search_begins_where_the_first_wildcard_does(pattern: str, directory: str, rest: str) -> None:
    assert split_glob(pattern) == (directory, rest)


@pytest.mark.parametrize(
    ("rest", "depth"), [("x", 1), ("*", 1), ("*/x/*", 3), ("**", None), ("a/**/b", None), ("a**", 1)]
)
def test_search_goes_no_deeper_than_the_pattern(rest: str, depth: int | None) -> None:
    assert glob_depth(rest) == depth


def test_many_wildcards_do_not_explode() -> None:
    accepts = glob_regex("**/" * 4 + "*a*a*a*b").fullmatch

    assert accepts("x/" * 20 + "a" * 60) is None
