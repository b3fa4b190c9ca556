"""Which files of a tree ``.gitignore`` files exclude. Pure: patterns and paths in, answers out.

Rules are git's: the last matching pattern decides, a deeper file wins over a shallower one, ``!`` takes back, a slash
at the end means directories, a slash elsewhere ties the pattern to the file's directory, and what is below an excluded
directory cannot be taken back.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FILE_NAME = ".gitignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnorePattern:
    """One line of a file.

    Attributes:
        regex: Accepts paths relative to the file's directory.
    """

    regex: re.Pattern[str]
    takes_back: bool = False
    directories_only: bool = False


class IgnoreRules:
    """The rules of one tree.

    Args:
        files: Content of each ``.gitignore`` by the directory it is in, relative to the root (``""`` for the root).
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self._patterns = {directory: tuple(parse_ignore_file(text)) for directory, text in files.items()}
        self._known: dict[str, bool] = {"": False}

    def excludes(self, path: str, *, directory: bool = False) -> bool:
        """Whether the path, relative to the root, is excluded itself or by a directory above it."""
        parent = posixpath.dirname(path)
        if self._excludes_directory(parent):
            return True
        return self._matches(path, directory=directory)

    def _excludes_directory(self, path: str) -> bool:
        if path not in self._known:
            self._known[path] = self.excludes(path, directory=True)
        return self._known[path]

    def _matches(self, path: str, *, directory: bool) -> bool:
        for above in _directories_above(path):
            relative = path if not above else path[len(above) + 1 :]
            for pattern in reversed(self._patterns.get(above, ())):
                if (directory or not pattern.directories_only) and pattern.regex.fullmatch(relative):
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
        regex = _pattern_regex(pattern.rstrip("/"))
        if regex is not None:
            yield IgnorePattern(regex=regex, takes_back=takes_back, directories_only=directories_only)


def _directories_above(path: str) -> Iterator[str]:
    """Yield the directories a path is in, the deepest first, the root last."""
    while path:
        path = posixpath.dirname(path)
        yield path


def _without_blank_end(line: str) -> str:
    """Drop blanks at the end, unless the last one is quoted with a backslash."""
    bare = line.rstrip(" ")
    quoted = len(bare) - len(bare.rstrip("\\")) & 1
    return line[: len(bare) + 1] if quoted and len(line) > len(bare) else bare


_TOKEN = re.compile(
    r"(?P<leading>^\*\*/)|(?P<between>(?<=/)\*\*/)|(?P<trailing>(?<=/)\*\*$)|(?P<stars>\*+)|(?P<one>\?)"
    r"|\[(?P<negated>[!^]?)(?P<members>\]?(?:\\.|\[:\w+:\]|[^\]])*)\]|\\(?P<quoted>.)|(?P<literal>.)",
    re.DOTALL,
)


def _pattern_regex(pattern: str) -> re.Pattern[str] | None:
    if not pattern:
        return None
    anchored = "/" in pattern
    body = "".join(map(_token_regex, _TOKEN.finditer(pattern.removeprefix("/"))))
    try:
        return re.compile(body if anchored else f"(?:.*/)?{body}", re.DOTALL)
    except re.error:
        return None  # git ignores what it cannot read as well


def _token_regex(token: re.Match[str]) -> str:
    if token["leading"] or token["between"]:
        return "(?:.*/)?"
    if token["trailing"]:
        return ".+"
    if token["stars"]:
        return "[^/]*"
    if token["one"]:
        return "[^/]"
    if token["members"] is not None:
        return f"(?!/)[{'^' if token['negated'] else ''}{_members(token['members'])}]"
    return re.escape(token["quoted"] or token["literal"])


def _members(members: str) -> str:
    """Return the inside of brackets for Python: classes by name are the ASCII ones, a leading ``]`` is itself."""
    for name, characters in _CLASSES.items():
        members = members.replace(f"[:{name}:]", characters)
    return members.replace("[", "\\[").replace("^", "\\^") if not members.startswith("]") else f"\\{members}"


_CLASSES = {"alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "digit": "0-9", "lower": "a-z", "upper": "A-Z", "space": r"\s"}
