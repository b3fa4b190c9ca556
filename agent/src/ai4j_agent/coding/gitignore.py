"""Which files of a tree ``.gitignore`` files exclude. Pure: patterns and paths in, answers out.

Rules are git's: the last matching pattern decides, a deeper file wins over a shallower one, ``!`` takes back, a slash
at the end means directories, a slash elsewhere ties the pattern to the file's directory, and what is below an excluded
directory cannot be taken back.

Patterns may come from a sandbox, so matching takes no longer than path length times pattern length: a name is matched
by a regular expression that has no choices to go back to, a path name by name.
"""

from __future__ import annotations

import bisect
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

FILE_NAME = ".gitignore"

Run: TypeAlias = tuple[re.Pattern[str], ...]
"""Patterns for names that follow each other in a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnorePattern:
    """One line of a file.

    Attributes:
        runs: What paths relative to the file's directory have to look like; between two runs may be any directories
            (``**``). An empty run at the end stands for anything below.
    """

    runs: tuple[Run, ...]
    takes_back: bool = False
    directories_only: bool = False

    def accepts(self, names: Sequence[str]) -> bool:
        """Whether the path of these names, relative to the file's directory, is meant."""
        first, last = self.runs[0], self.runs[-1]
        if len(self.runs) == 1:
            return len(names) == len(first) and _fits(first, names, 0)
        end = len(names) - max(len(last), 1)
        if end < len(first) or not _fits(first, names, 0) or not _fits(last, names, end):
            return False
        start = len(first)
        for run in self.runs[1:-1]:  # the first place where a run fits is as good as any later one
            places = range(start, end - len(run) + 1)
            found = next((place for place in places if _fits(run, names, place)), None)
            if found is None:
                return False
            start = found + len(run)
        return True


def _fits(run: Run, names: Sequence[str], start: int) -> bool:
    return all(pattern.fullmatch(names[start + number]) for number, pattern in enumerate(run))


class IgnoreRules:
    """The rules of one tree.

    Args:
        files: Content of each ``.gitignore`` by the directory it is in, relative to the root (``""`` for the root).
    """

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._patterns: list[
            tuple[str, tuple[IgnorePattern, ...]]
        ] = []  # the deepest directory and the last line first
        self._known: dict[str, bool] = {"": False}
        for directory, text in (files or {}).items():
            self.add(directory, text)

    def add(self, directory: str, text: str) -> None:
        """Add the file of a directory, before anybody asks about what is below it."""
        patterns = tuple(parse_ignore_file(text))[::-1]
        bisect.insort(self._patterns, (directory, patterns), key=lambda item: -len(item[0]))

    def excludes(self, path: str, *, directory: bool = False) -> bool:
        """Whether the path, relative to the root, is excluded itself or by a directory above it."""
        if self._excludes_directory(posixpath.dirname(path)):
            return True
        return self._matches(path, directory=directory)

    def _excludes_directory(self, path: str) -> bool:
        unknown: list[str] = []
        while path not in self._known:
            unknown.append(path)
            path = posixpath.dirname(path)
        excluded = self._known[path]
        for below in reversed(unknown):
            excluded = self._known[below] = excluded or self._matches(below, directory=True)
        return excluded

    def _matches(self, path: str, *, directory: bool) -> bool:
        for above, patterns in self._patterns:
            if above and not path.startswith(f"{above}/"):
                continue
            names = path[len(above) + 1 if above else 0 :].split("/")
            for pattern in patterns:
                if (directory or not pattern.directories_only) and pattern.accepts(names):
                    return not pattern.takes_back
        return False


def parse_ignore_file(text: str) -> Iterator[IgnorePattern]:
    """Yield the patterns of a file in order."""
    for line in text.replace("\r\n", "\n").split("\n"):
        pattern = _without_blank_end(line)
        if not pattern or pattern.startswith("#"):
            continue
        takes_back = pattern.startswith("!")
        pattern = pattern.removeprefix("!")
        directories_only = pattern.endswith("/")
        runs = _runs(pattern.rstrip("/"))
        if runs:
            yield IgnorePattern(runs=runs, takes_back=takes_back, directories_only=directories_only)


def _without_blank_end(line: str) -> str:
    """Drop blanks at the end, unless the last one is quoted with a backslash."""
    bare = line.rstrip(" ")
    quoted = len(bare) - len(bare.rstrip("\\")) & 1
    return line[: len(bare) + 1] if quoted and len(line) > len(bare) else bare


_TOKEN = re.compile(
    r"(?P<slash>\\?/)|(?P<stars>\*+)|(?P<one>\?)"
    r"|\[(?P<negated>[!^]?)(?P<members>\]?(?:\\.|\[:\w+:\]|[^\]])*)\]|\\(?P<quoted>.)|(?P<literal>.)",
    re.DOTALL,
)


def _runs(pattern: str) -> tuple[Run, ...]:
    """Return the runs of a line; none if git would not read it either."""
    names: list[list[re.Match[str]]] = [[]]
    for token in _TOKEN.finditer(pattern.removeprefix("/")):
        if token["slash"]:
            names.append([])
        else:
            names[-1].append(token)
    if not pattern or not all(names):
        return ()
    anchored = "/" in pattern
    runs: list[Run] = [()] if anchored else [(), ()]
    try:
        for name in names:
            if anchored and _is_any(name):
                runs.append(())
            else:
                runs[-1] = (*runs[-1], _name_regex(name))
    except re.error:
        return ()
    return tuple(runs)


def _is_any(name: Sequence[re.Match[str]]) -> bool:
    return len(name) == 1 and name[0]["stars"] == "**"


def _name_regex(name: Sequence[re.Match[str]]) -> re.Pattern[str]:
    pieces = [""]
    for token in name:
        if token["stars"]:
            pieces.append("")
        else:
            pieces[-1] += _character_regex(token)
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    # The first place where a piece fits is as good as any later one: (?>...) never looks for another.
    between = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1])
    return re.compile(f"{pieces[0]}{between}.*{pieces[-1]}", re.DOTALL)


def _character_regex(token: re.Match[str]) -> str:
    if token["one"]:
        return "."
    if token["members"] is not None:
        return f"[{'^' if token['negated'] else ''}{_members(token['members'])}]"
    return re.escape(token["quoted"] or token["literal"])


def _members(members: str) -> str:
    """Return the inside of brackets for Python: classes by name are the ASCII ones, a leading ``]`` is itself."""
    for name, characters in _CLASSES.items():
        members = members.replace(f"[:{name}:]", characters)
    return members.replace("[", "\\[").replace("^", "\\^") if not members.startswith("]") else f"\\{members}"


_CLASSES = {"alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "digit": "0-9", "lower": "a-z", "upper": "A-Z", "space": r"\s"}
