"""The tools `glob` and `grep`. Both walk the tree with one command; excluded directories are not entered."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from typing import Any

from ai4j_agent.errors import ToolError
from ai4j_sandbox.globs import glob_regex, split_glob
from ai4j_sandbox.model import SandboxCommand, SandboxResult

from .output_view import failure_text
from .workbench import ToolDefinition, Workbench, boolean, integer, text

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

# The names come from stdin; /dev/null lets grep name the file of every match, also when there is only one.
_GREP = f"""
cd "$1" || exit 1
shift
grep -E -e "$1" /dev/null
[ $? -lt {_WRONG_PATTERN} ] || exit {_WRONG_PATTERN}
pattern=$1
shift
xargs -0 grep -nE "$@" -e "$pattern" /dev/null
exit 0
"""


def glob(work: Workbench, *, pattern: str, path: str = ".", max_results: int = 1000) -> dict[str, Any]:
    """Return the files that a pattern means, sorted."""
    found = _chosen(_files_below(work, path), pattern)
    return {
        "pattern": pattern,
        "path": path,
        "matches": [posixpath.normpath(posixpath.join(path, name)) for name in found[:max_results]],
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
    result = _grepped(work, directory, pattern, names, case_insensitive=case_insensitive) if names else None
    found = list(_matches(result, names)) if result else []
    return {
        "pattern": pattern,
        "path": path,
        "matches": [
            {"file": _shown(path, name, names), "line": line, "content": content[:_LINE_CHARACTERS]}
            for name, line, content in found[:max_results]
        ],
        "filesSearched": len(names),
        "filesMatched": len({name for name, _, _ in found}),
        "totalMatches": len(found),
        "truncated": len(found) > max_results or bool(result and result.truncated),
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
    result = work.execute(command)
    if result.timed_out or result.stdout_truncated:
        raise ToolError(f"{path} holds too many files to search; search a directory below it")
    if result.exit_code != 0 and not result.stdout:
        raise ToolError(f"{path} cannot be searched: {failure_text(result)}")
    return sorted(name.removeprefix("./") for name in result.stdout.split("\0") if name)


def _chosen(names: list[str], pattern: str) -> list[str]:
    directory, rest = split_glob(pattern.removeprefix("./"))
    if directory.startswith("/") or ".." in directory.split("/"):
        raise ToolError(f"pattern {pattern!r} must be relative; give the directory as path")
    below = "" if directory == "." else f"{directory}/"
    accepts = glob_regex(rest).fullmatch
    return [name for name in names if name.startswith(below) and accepts(name.removeprefix(below))]


def _grepped(
    work: Workbench, directory: str, pattern: str, names: list[str], *, case_insensitive: bool
) -> SandboxResult:
    options = ("-i",) if case_insensitive else ()
    command = SandboxCommand(
        command=("/bin/sh", "-c", _GREP, "sh", directory, extended_regex(pattern), *options),
        stdin="\0".join(f"./{name}" for name in names),
        environment={"LC_ALL": "C.UTF-8"},
        output_limit_bytes=_MATCHES_BYTES,
        timeout_millis=_SEARCH_MILLIS,
    )
    result = work.execute(command)
    if result.exit_code == _WRONG_PATTERN:
        raise ToolError(f"pattern {pattern!r} is not an extended regular expression: {result.stderr.strip()}")
    if not result.succeeded:
        raise ToolError(f"the search failed: {failure_text(result)}")
    return result


_LINE_NUMBER = re.compile(r":(\d+):")


def _matches(result: SandboxResult, names: Collection[str]) -> Iterator[tuple[str, int, str]]:
    """Yield name, line number and line; what grep says about binary files is no match."""
    known = frozenset(names)
    for line in result.stdout.split("\n"):
        for number in _LINE_NUMBER.finditer(line):  # a name may hold what looks like one
            name = line[: number.start()].removeprefix("./")
            if name in known:
                yield name, int(number[1]), line[number.end() :].removesuffix("\r")
                break


def _shown(path: str, name: str, names: list[str]) -> str:
    is_file = names == [posixpath.basename(path)]
    return path if is_file else posixpath.normpath(posixpath.join(path, name))


GLOB = ToolDefinition(
    name="glob",
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
