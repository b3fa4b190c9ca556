"""The tools `glob` and `grep`. Both walk the tree with one command; excluded directories are not entered."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ai4j_agent.errors import ToolError
from ai4j_agent.permission import ToolEffect
from ai4j_sandbox.globs import glob_regex, split_glob
from ai4j_sandbox.model import SandboxCommand, SandboxResult

from .output_view import failure_text
from .workbench import ToolDefinition, Workbench, boolean, integer, readable, text

_LISTING_BYTES = 16 * 1024 * 1024
_MATCHES_BYTES = 4 * 1024 * 1024
_SEARCH_MILLIS = 120_000
_LINE_CHARACTERS = 500
_WRONG_PATTERN = 2  # what grep exits with for a pattern it cannot read

# $1 is the directory, the rest are names not to enter. Names are NUL-separated, because they may hold anything else.
_WALK = """
cd "$1" || exit 1
shift
for name; do set -- "$@" -o -name "$name"; shift; done
shift
exec find . -mindepth 1 -type d \\( "$@" \\) -prune -o -type f -print0
"""

# $1 is the directory, $2 the pattern, $3 more letters for the options; the names come from stdin.
_BEGIN = f"""
cd "$1" || exit 1
grep -E -e "$2" /dev/null
[ $? -lt {_WRONG_PATTERN} ] || exit {_WRONG_PATTERN}
"""

# /dev/null lets grep name the file of every match, also when there is only one.
_GREP = f"""{_BEGIN}
xargs -0 grep "-nE$3" -e "$2" /dev/null
exit 0
"""

# The same for names with a line break, which would be several lines of grep's answer: NUL ends the matches of each.
_GREP_EACH = f"""{_BEGIN}
export pattern="$2" letters="$3"
xargs -0 /bin/sh -c 'for name; do grep "-nE$letters" -e "$pattern" < "$name"; printf "\\0"; done' sh
exit 0
"""


class _Match(NamedTuple):
    """One line that matches."""

    name: str
    line: int
    content: str


def glob(work: Workbench, *, pattern: str, path: str = ".", max_results: int = 1000) -> dict[str, Any]:
    """Return the files that a pattern means, sorted."""
    found = _chosen(_files_below(work, path), pattern)
    return {
        "pattern": pattern,
        "path": path,
        "matches": [_joined(path, name) for name in found[:max_results]],
        "count": min(len(found), max_results),
        "truncated": len(found) > max_results,
    }


def grep(
    work: Workbench,
    *,
    pattern: str,
    path: str = ".",
    include: str | None = None,
    case_insensitive: bool = False,
    max_results: int = 100,
) -> dict[str, Any]:
    """Return the lines that match a regular expression."""
    if not pattern:
        raise ToolError("pattern must not be empty")
    directory, names = _searched(work, path, include)
    found, cut = _found(_Search(work, directory, pattern, "i" if case_insensitive else ""), names)
    return {
        "pattern": pattern,
        "path": path,
        "matches": [
            {"file": _shown(path, match.name, names), "line": match.line, "content": match.content}
            for match in found[:max_results]
        ],
        "filesSearched": len(names),
        "filesMatched": len({match.name for match in found}),
        "totalMatches": len(found),
        "truncated": len(found) > max_results or cut,
    }


def extended_regex(pattern: str) -> str:
    r"""Return a pattern for ``grep -E``; ``\d``, ``\D``, ``\t``, ``(?:`` and classes in brackets are understood too."""
    pieces: list[str] = []
    inside = False
    for part in re.findall(r"\\.|\[\^?\]?|\(\?:|.", pattern, re.DOTALL):
        if not inside and part.startswith("["):
            inside = True
            pieces.append(part)
        elif inside and part == "]":
            inside = False
            pieces.append(part)
        else:
            pieces.append((_IN_BRACKETS if inside else _OUTSIDE).get(part, part))
    return "".join(pieces)


_OUTSIDE = {"\\d": "[0-9]", "\\D": "[^0-9]", "\\t": "\t", "(?:": "("}
_IN_BRACKETS = {"\\d": "0-9", "\\w": "[:alnum:]_", "\\s": "[:space:]", "\\t": "\t", "\\.": ".", "\\-": "-", "\\/": "/"}


def _searched(work: Workbench, path: str, include: str | None) -> tuple[str, list[str]]:
    """Return the directory to search in and the files there; a path may also name one file."""
    location = work.rules.readable(work.workspace, path)
    if work.workspace.files.exists(location) and work.workspace.files.stat(location).kind == "file":
        return posixpath.dirname(location), [posixpath.basename(location)]
    found = _files_below(work, path)
    if include is None:
        return location, found
    # A pattern without a slash is about names, wherever they are.
    return location, _chosen(found, include if "/" in include else f"**/{include}")


def _files_below(work: Workbench, path: str) -> list[str]:
    directory = work.rules.readable(work.workspace, path)
    command = SandboxCommand(
        command=("/bin/sh", "-c", _WALK, "sh", directory, *(sorted(work.rules.excluded_names) or [""])),
        output_limit_bytes=_LISTING_BYTES,
        timeout_millis=_SEARCH_MILLIS,
    )
    result = work.execute_helper(command)
    if result.timed_out or result.stdout_truncated:
        raise ToolError(f"{path} holds too many files to search; search a directory below it")
    if result.exit_code != 0 and not result.stdout:
        raise ToolError(f"{path} cannot be searched: {failure_text(result)}")
    return sorted(name.removeprefix("./") for name in os.fsdecode(result.stdout_bytes).split("\0") if name)


def _chosen(names: list[str], pattern: str) -> list[str]:
    directory, rest = split_glob(pattern.removeprefix("./"))
    if directory.startswith("/") or ".." in directory.split("/"):
        raise ToolError(f"pattern {pattern!r} must be relative; give the directory as path")
    below = "" if directory == "." else f"{directory}/"
    accepts = glob_regex(rest).fullmatch
    return [name for name in names if name.startswith(below) and accepts(name.removeprefix(below))]


class _Search(NamedTuple):
    """What is looked for, and where."""

    work: Workbench
    directory: str
    pattern: str
    letters: str

    def grepped(self, script: str, names: Sequence[str], locale: str = "C.UTF-8") -> SandboxResult:
        """Return what a script that runs grep says about files."""
        arguments = (self.directory, extended_regex(self.pattern), self.letters)
        command = SandboxCommand(
            command=("/bin/sh", "-c", script, "sh", *arguments),
            stdin=b"".join(b"./%s\0" % os.fsencode(name) for name in names),
            environment={"LC_ALL": locale},
            output_limit_bytes=_MATCHES_BYTES,
            timeout_millis=_SEARCH_MILLIS,
        )
        result = self.work.execute_helper(command)
        if result.exit_code == _WRONG_PATTERN:
            raise ToolError(f"pattern {self.pattern!r} is not an extended regular expression: {result.stderr.strip()}")
        if not result.succeeded:
            raise ToolError(f"the search failed: {failure_text(result)}")
        return result


def _found(search: _Search, names: Sequence[str]) -> tuple[list[_Match], bool]:
    """Return the matches, and whether some are missing because there is too much."""
    plain = [name for name in names if "\n" not in name]
    broken = [name for name in names if "\n" in name]
    found: list[_Match] = []
    results: list[SandboxResult] = []
    if plain:
        results.append(search.grepped(_GREP, plain))
        no_utf8 = _called_binary(results[0], plain)
        found += (match for match in _matches(results[0], plain) if match.name not in no_utf8)
        if no_utf8:  # as bytes, only a file with NUL is binary
            results.append(search.grepped(_GREP, sorted(no_utf8), "C"))
            found += _matches(results[1], sorted(no_utf8))
    if broken:
        results.append(search.grepped(_GREP_EACH, broken))
        found += _matches_of_each(results[-1], broken)
    return sorted(found, key=lambda match: match.name), any(result.truncated for result in results)


_BINARY = re.compile(
    r"^(?:grep: (?P<name>.*): binary file matches|Binary file (?P<old_name>.*) matches)$", re.MULTILINE
)


def _called_binary(result: SandboxResult, names: Sequence[str]) -> set[str]:
    """Return the names of files that grep takes for binary."""
    said = os.fsdecode(result.stdout_bytes + b"\n" + result.stderr_bytes)
    called = {(match["name"] or match["old_name"]).removeprefix("./") for match in _BINARY.finditer(said)}
    return called.intersection(names)


_LINE_NUMBER = re.compile(r":(\d+):")


def _matches(result: SandboxResult, names: Sequence[str]) -> Iterator[_Match]:
    """Yield what grep found; what it says about binary files is no match."""
    known = frozenset(names)
    for line in os.fsdecode(result.stdout_bytes).split("\n"):
        for number in _LINE_NUMBER.finditer(line):  # a name may hold what looks like one
            name = line[: number.start()].removeprefix("./")
            if name in known:
                yield _Match(name, int(number[1]), _content(line[number.end() :]))
                break


def _matches_of_each(result: SandboxResult, names: Sequence[str]) -> Iterator[_Match]:
    for name, lines in zip(names, os.fsdecode(result.stdout_bytes).split("\0"), strict=False):
        for line in lines.split("\n"):
            number, colon, content = line.partition(":")
            if colon and number.isdecimal():
                yield _Match(name, int(number), _content(content))


def _content(line: str) -> str:
    return readable(line.removesuffix("\r"))[:_LINE_CHARACTERS]


def _shown(path: str, name: str, names: list[str]) -> str:
    is_file = names == [posixpath.basename(path)]
    return path if is_file else _joined(path, name)


def _joined(path: str, name: str) -> str:
    return readable(posixpath.normpath(posixpath.join(path, name)))


GLOB = ToolDefinition(
    name="glob",
    effect=ToolEffect.READS,
    description="Find files by name: * and ? within a name, ** for any directories (src/**/*.py). Sorted by path.",
    function=glob,
    required=("pattern",),
    properties={
        "pattern": text("Pattern, relative to path. A name that begins with a dot needs a pattern with the dot."),
        "path": text("Directory to search in. Default: the workspace root."),
        "maxResults": integer("How many paths to return at most. Default 1000.", minimum=1),
    },
)

GREP = ToolDefinition(
    name="grep",
    effect=ToolEffect.READS,
    description="Find lines that match an extended regular expression (grep -E; \\d, \\w, \\s and \\b work as well).",
    function=grep,
    required=("pattern",),
    properties={
        "pattern": text("Regular expression; case counts."),
        "path": text("Directory or file to search in. Default: the workspace root."),
        "include": text("Pattern for the files to look at (*.py)."),
        "caseInsensitive": boolean("Take upper and lower case as equal. Default false."),
        "maxResults": integer("How many matches to return at most. Default 100.", minimum=1),
    },
)
