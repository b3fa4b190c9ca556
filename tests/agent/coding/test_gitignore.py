"""What ``.gitignore`` excludes: git itself is the judge."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ai4j_agent.coding.gitignore import IgnoreRules

FILES = (
    "a.log", "keep.log", "src/a.log", "src/keep.log", "build/x", "src/build/x", "docs/build", "doc/a.txt",
    "doc/sub/a.txt", "foo/bar/baz/x", "foo/x", "abc/1", "abc/def/2", "x y ", "x y", "#hash", "!bang",
    "node_modules/m/index.js", "a[1].txt", "a1.txt", "ab.txt", "src/deep/er/thing.o", ".env", ".hidden/file",
    "star*", "UPPER.LOG", "tail.txt", "é.txt", "src/.env",
)  # fmt: skip

IGNORE_FILES = [
    {"": "*.log\n!keep.log\n"},
    {"": "build/\n"},
    {"": "/build\n"},
    {"": "doc/*.txt\n"},
    {"": "doc/**/*.txt\n"},
    {"": "**/build\n"},
    {"": "foo/**\n"},
    {"": "foo/**/x\n"},
    {"": "abc/**/2\n"},
    {"": "foo/*\n!foo/bar\n"},
    {"": "foo\n!foo/bar/baz/x\n"},
    {"": "*\n!src\n!*.log\n"},
    {"": "*\n!*/\n!*.o\n"},
    {"": "x y\\ \n\\#hash\n\\!bang\n# comment\n\n"},
    {"": "a[0-9].txt\na\\[1\\].txt\n"},
    {"": "a[!1].txt\n"},
    {"": "a[^b].txt\n"},
    {"": "[[:upper:]]*.LOG\n"},
    {"": "a?.txt\r\n"},
    {"": ".*\n"},
    {"": "*.log\n", "src": "!a.log\nkeep.*\n"},
    {"": "src/*.log\n", "src": "/deep/\n"},
    {"": "/src/deep/er/\n"},
    {"": "star\\*\n"},
    {"": "tail.txt   \n"},
    {"": "node_modules\n.env\n"},
    {"": "é.txt\n"},
    {"": "[\n[]\nsrc/[\n"},
    {"": "!\n/\n//\n"},
    {"": "a**.txt\n**.o\n"},
]


@pytest.mark.parametrize("ignore_files", IGNORE_FILES, ids=str)
def test_git_agrees(tmp_path: Path, ignore_files: dict[str, str]) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for directory, text in ignore_files.items():
        (tmp_path / directory / ".gitignore").write_bytes(text.encode())
    git = ["git", "-c", "core.excludesFile=/dev/null", "-c", "core.quotePath=false"]
    subprocess.run([*git, "init", "-q", str(tmp_path)], check=True)
    listing = [*git, "ls-files", "--others", "--exclude-standard", "-z"]
    kept = subprocess.run(listing, cwd=tmp_path, capture_output=True, check=True).stdout.decode().split("\0")

    rules = IgnoreRules(ignore_files)

    assert [name for name in FILES if not rules.excludes(name)] == [name for name in FILES if name in kept]


@pytest.mark.parametrize("pattern", ["*a" * 40 + "b", "**/a/" * 40 + "b", "a/**/" * 40 + "b", "x/" + "*?" * 60 + "b"])
def test_no_pattern_takes_long(pattern: str) -> None:
    rules = IgnoreRules({"": pattern})

    assert not rules.excludes("x/" + "a" * 250)
    assert not rules.excludes("/".join("a" * 1500))
