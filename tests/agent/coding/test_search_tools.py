"""The tools `glob` and `grep`: section H 143 to 156."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ai4j_agent.coding import PathRules
from ai4j_agent.coding.search_tools import extended_regex
from support.coding_bench import Bench


@pytest.fixture
def project(bench: Bench) -> Bench:
    """A small project with things that are not to be searched."""
    bench.put("README.md", "# Demo\nTODO write\n")
    bench.put("src/main/App.java", "class App {\n  // todo first\n  // TODO second\n}\n")
    bench.put("src/test/AppTest.java", "class AppTest {\n  // TODO third\n}\n")
    bench.put("target/classes/App.java", "TODO built\n")
    bench.put("node_modules/x/index.js", "TODO foreign\n")
    bench.put("src/with space:2:/-odd.txt", "TODO odd\n")
    bench.put("picture.bin", b"TODO\0\1\2")
    return bench


def globbed(bench: Bench, pattern: str, **arguments: Any) -> list[str]:
    return bench.call("glob", pattern=pattern, **arguments)["matches"]  # type: ignore[no-any-return]


def test_names_are_found_at_any_depth_but_not_in_what_is_excluded(project: Bench) -> None:
    assert globbed(project, "**/*.java") == ["src/main/App.java", "src/test/AppTest.java"]
    assert globbed(project, "*.md") == ["README.md"]
    assert globbed(project, "src/*/App*.java") == ["src/main/App.java", "src/test/AppTest.java"]
    assert globbed(project, "*.java") == []


def test_a_directory_limits_the_search(project: Bench) -> None:
    assert globbed(project, "**/*.java", path="src/test") == ["src/test/AppTest.java"]
    assert globbed(project, "*.java", path="src/test/") == ["src/test/AppTest.java"]


def test_many_files_are_cut(project: Bench) -> None:
    facts = project.call("glob", pattern="**/*.java", maxResults=1)

    assert (facts["matches"], facts["count"], facts["truncated"]) == (["src/main/App.java"], 1, True)


@pytest.mark.parametrize("pattern", ["/etc/*", "../*"])
def test_a_pattern_that_leaves_is_refused(project: Bench, pattern: str) -> None:
    assert "must be relative" in project.refusal("glob", pattern=pattern)


def test_a_directory_that_is_not_there_is_told(project: Bench) -> None:
    assert "missing cannot be searched" in project.refusal("glob", pattern="*", path="missing")


def grepped(bench: Bench, pattern: str, **arguments: Any) -> list[tuple[str, int, str]]:
    matches = bench.call("grep", pattern=pattern, **arguments)["matches"]
    return [(match["file"], match["line"], match["content"]) for match in matches]


def test_lines_are_found_with_file_and_number(project: Bench) -> None:
    facts = project.call("grep", pattern="TODO")

    assert [(match["file"], match["line"], match["content"]) for match in facts["matches"]] == [
        ("README.md", 2, "TODO write"),
        ("src/main/App.java", 3, "  // TODO second"),
        ("src/test/AppTest.java", 2, "  // TODO third"),
        ("src/with space:2:/-odd.txt", 1, "TODO odd"),
    ]
    assert (facts["filesSearched"], facts["filesMatched"], facts["totalMatches"], facts["truncated"]) == (
        5,
        4,
        4,
        False,
    )


def test_case_counts_unless_told_otherwise(project: Bench) -> None:
    assert len(grepped(project, "todo")) == 1
    assert len(grepped(project, "todo", caseInsensitive=True)) == 5


def test_files_can_be_chosen(project: Bench) -> None:
    assert len(grepped(project, "TODO", include="*.java")) == 2
    assert len(grepped(project, "TODO", include="src/test/**")) == 1
    assert len(grepped(project, "TODO", path="src/main")) == 1
    assert grepped(project, "TODO", path="README.md") == [("README.md", 2, "TODO write")]


@pytest.mark.parametrize(
    ("pattern", "count"), [(r"TODO (first|third)", 1), (r"\bclass\s+\w+Test\b", 1), (r"^#", 1), (r"-\w", 0), (r"\d", 0)]
)
def test_patterns_are_regular_expressions(project: Bench, pattern: str, count: int) -> None:
    assert len(grepped(project, pattern)) == count


def test_many_matches_are_cut_and_counted(project: Bench) -> None:
    facts = project.call("grep", pattern="TODO", maxResults=1)

    assert (len(facts["matches"]), facts["totalMatches"], facts["truncated"]) == (1, 4, True)


def test_a_pattern_that_cannot_be_read_is_refused(project: Bench) -> None:
    assert "is not an extended regular expression" in project.refusal("grep", pattern="(open")
    assert "must not be empty" in project.refusal("grep", pattern="")


def test_nothing_needs_to_be_excluded(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(rules=PathRules(excluded_names=frozenset()))
    bench.put("target/x.txt", "found")

    assert globbed(bench, "**/*.txt") == ["target/x.txt"]


def test_nothing_to_search_finds_nothing(bench: Bench) -> None:
    assert bench.call("grep", pattern="x")["filesSearched"] == 0


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\d+\.\d", r"[0-9]+\.[0-9]"),
        (r"[\d.]+", "[0-9.]+"),
        (r"[^\w\s-]", "[^[:alnum:]_[:space:]-]"),
        (r"(?:a|b)", "(a|b)"),
        (r"[]\d]", "[]0-9]"),
        (r"\\d", r"\\d"),
    ],
)
def test_what_models_write_becomes_an_extended_regular_expression(pattern: str, expected: str) -> None:
    assert extended_regex(pattern) == expected


ODD_NAMES = ("new\nline:3:x", "-dash", "co:lon:7:", "tab\t", " blank ", "back\\slash", "caf\\351", "é", "*?[x]")


@pytest.fixture
def oddities(bench: Bench) -> Bench:
    """Files of all kinds of names, one of them no UTF-8, each with one line to find."""
    for name in ODD_NAMES:
        if name == "caf\\351":
            bench.sh("mkdir -p odd; printf 'first\\nTODO\\n' > \"odd/$(printf 'caf\\351')\"")
        else:
            bench.put(f"odd/{name}", "first\nTODO\n")
    return bench


def shown_names() -> list[str]:
    return sorted(f"odd/{name}".replace("\\351", "\ufffd") for name in ODD_NAMES)


def test_files_of_any_name_are_found(oddities: Bench) -> None:
    assert sorted(globbed(oddities, "**/*")) == shown_names()
    assert sorted(entry["path"] for entry in oddities.call("list", path="odd")["entries"]) == shown_names()


def test_files_of_any_name_are_searched(oddities: Bench) -> None:
    facts = oddities.call("grep", pattern="todo", caseInsensitive=True)

    assert sorted((match["file"], match["line"], match["content"]) for match in facts["matches"]) == [
        (name, 2, "TODO") for name in shown_names()
    ]
    assert (facts["filesSearched"], facts["totalMatches"]) == (len(ODD_NAMES), len(ODD_NAMES))
    assert "is not an extended" in oddities.refusal("grep", pattern="(open", include="new*")


def test_bytes_that_are_no_text_are_shown_as_such(bench: Bench) -> None:
    bench.put("latin1", b"caf\xe9 TODO\n")

    assert grepped(bench, "TODO") == [("latin1", 1, "caf\ufffd TODO")]
