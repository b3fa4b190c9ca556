"""Patches as models write them: parsing and applying, without any file.

    *** Begin Patch
    *** Add File: path            lines with + in front
    *** Update File: path         hunks: @@, then lines with " ", - or + in front
    *** Delete File: path
    *** End Patch

Short forms ``*** Add:``, ``*** Update:`` and ``*** Delete:`` count as well, a slash in front of a path is dropped, and
lines of other diff formats before the first hunk are ignored. Applying keeps the file's own line ends, its byte order
mark, and whether its last line has an end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ai4j_agent.errors import ToolError

from .lines import lines_of


class Operation(StrEnum):
    """What a patch does to one file."""

    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One place of a file.

    Attributes:
        old, new: The lines before and after, without line ends.
        anchor: A line that comes somewhere before the place.
        old_start: The place's line number in the old file, if the patch tells.
        added, removed: How many lines are marked so.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    anchor: str | None = None
    old_start: int | None = None
    added: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """What happens to one file."""

    operation: Operation
    path: str
    content: str = ""
    hunks: tuple[Hunk, ...] = ()


_HEADER = re.compile(r"\*\*\* ?(?P<operation>Add|Update|Delete)(?: File)?: ?(?P<path>.*)")
_FOREIGN = re.compile(r"(?:diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename )")
_RANGE = re.compile(r"@@ -(?P<start>\d+)(?:,\d+)? \+\d+(?:,\d+)? @@ ?(?P<anchor>.*)")


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Return the files of a patch in order.

    Raises:
        ToolError: It is no such patch; says which line is wrong.
    """
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    if len(lines) < 2 or lines[0].strip() != "*** Begin Patch" or lines[-1].strip() != "*** End Patch":
        raise ToolError("a patch must begin with '*** Begin Patch' and end with '*** End Patch'")
    files = tuple(_file_patch(header, body) for header, body in _sections(lines[1:-1]))
    if not files:
        raise ToolError("the patch changes no file")
    twice = {file.path for file in files if sum(other.path == file.path for other in files) > 1}
    if twice:
        raise ToolError(f"the patch has more than one section for {', '.join(sorted(twice))}")
    return files


def apply_hunks(content: str, hunks: Sequence[Hunk], path: str) -> str:
    """Return the content of a file with all hunks applied, in order.

    Raises:
        ToolError: A hunk fits nowhere, or in more than one place.
    """
    mark, content = ("\ufeff", content[1:]) if content.startswith("\ufeff") else ("", content)
    lines = lines_of(content)
    line_end = _line_end(lines)
    ends_open = bool(lines) and not lines[-1].endswith("\n")
    done: list[str] = []
    cursor = 0
    for number, hunk in enumerate(hunks, 1):
        start = _place(lines, cursor, hunk, f"hunk {number} of {path}")
        done += lines[cursor:start]
        done += _replaced(lines[start : start + len(hunk.old)], hunk, line_end)
        cursor = start + len(hunk.old)
    done += lines[cursor:]
    return mark + _with_last_end(done, line_end, ends_open=ends_open)


def _sections(lines: Sequence[str]) -> Iterator[tuple[re.Match[str], list[str]]]:
    header: re.Match[str] | None = None
    body: list[str] = []
    for line in lines:
        match = _HEADER.fullmatch(line.rstrip())
        if match:
            if header:
                yield header, body
            header, body = match, []
        elif line.startswith("*** ") and line.strip() != "*** End of File":
            raise ToolError(f"unknown line in the patch: {line!r}; there are Add File, Update File and Delete File")
        elif header:
            body.append(line)
        elif line.strip():
            raise ToolError(f"the patch must name a file before {line!r}")
    if header:
        yield header, body


def _file_patch(header: re.Match[str], body: Sequence[str]) -> FilePatch:
    path = header["path"].strip().lstrip("/")
    if not path:
        raise ToolError(f"the patch names no file in {header[0]!r}")
    operation = Operation(header["operation"].lower())
    if operation is Operation.ADD:
        return FilePatch(operation=operation, path=path, content=_added_content(path, body))
    if operation is Operation.UPDATE:
        return FilePatch(operation=operation, path=path, hunks=_hunks(path, body))
    return FilePatch(operation=operation, path=path)


def _added_content(path: str, body: Sequence[str]) -> str:
    wrong = next((line for line in body if line.strip() and not line.startswith("+")), None)
    if wrong is not None:
        raise ToolError(f"every line of the new file {path} must begin with '+', unlike {wrong!r}")
    return "".join(f"{line[1:]}\n" for line in body if line.startswith("+"))


def _hunks(path: str, body: Sequence[str]) -> tuple[Hunk, ...]:
    groups: list[tuple[str, list[str]]] = []
    for line in body:
        if line.startswith("@@"):
            groups.append((line, []))
        elif groups:
            groups[-1][1].append(line)
        elif line.strip() and not _FOREIGN.match(line):
            groups.append(("@@", [line]))
    hunks = tuple(_hunk(path, header, _without_blank_end(lines)) for header, lines in groups if any(lines))
    if not hunks:
        raise ToolError(f"the patch has no hunk for {path}")
    return hunks


def _without_blank_end(lines: list[str]) -> list[str]:
    """Drop empty lines at the end: they set sections apart and are no context."""
    while lines and not lines[-1]:
        lines.pop()
    return [line for line in lines if line.strip() != "*** End of File" and not line.startswith("\\ ")]


def _hunk(path: str, header: str, lines: Sequence[str]) -> Hunk:
    wrong = next((line for line in lines if line and line[0] not in " +-"), None)
    if wrong is not None:
        raise ToolError(f"a line in a hunk of {path} must begin with ' ', '+' or '-', unlike {wrong!r}")
    numbered = _RANGE.fullmatch(header)
    anchor = (numbered["anchor"] if numbered else header[2:]).strip().removesuffix("@@").strip()
    return Hunk(
        old=tuple(line[1:] for line in lines if not line.startswith("+")),
        new=tuple(line[1:] for line in lines if not line.startswith("-")),
        anchor=anchor or None,
        old_start=int(numbered["start"]) if numbered else None,
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
    )


def _place(lines: Sequence[str], cursor: int, hunk: Hunk, name: str) -> int:
    """Return where the hunk's old lines are; exactly if possible, else with other spaces at the ends of lines."""
    bare = [line.rstrip("\r\n") for line in lines]
    after = _after_anchor(bare, cursor, hunk)
    if not hunk.old:
        return len(lines) if hunk.anchor is None and hunk.old_start is None else after
    for found in (_matches(bare, after, hunk.old), _matches(_stripped(bare), after, _stripped(hunk.old))):
        if found:
            return _chosen(found, hunk, name)
    raise ToolError(f"{name} was not found in the file; read the file again. Its first line is {hunk.old[0]!r}")


def _after_anchor(bare: Sequence[str], cursor: int, hunk: Hunk) -> int:
    if hunk.anchor is None:
        return cursor
    found = (index for index in range(cursor, len(bare)) if bare[index].strip() == hunk.anchor)
    start = next(found, None)
    if start is None:
        return cursor  # the anchor may be any description of the place
    # An anchor may be repeated as the first line of the hunk.
    return start if hunk.old and hunk.old[0].strip() == hunk.anchor else start + 1


def _matches(bare: Sequence[str], start: int, old: Sequence[str]) -> list[int]:
    size = len(old)
    return [index for index in range(start, len(bare) - size + 1) if tuple(bare[index : index + size]) == tuple(old)]


def _chosen(found: Sequence[int], hunk: Hunk, name: str) -> int:
    if hunk.old_start is not None:
        wanted = hunk.old_start - 1
        return min(found, key=lambda index: abs(index - wanted))
    if len(found) > 1 and hunk.anchor is None:
        raise ToolError(f"{name} is not unique: {len(found)} places match; give more context lines, or an @@ anchor")
    return found[0]


def _stripped(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines]


def _replaced(old_lines: Sequence[str], hunk: Hunk, line_end: str) -> list[str]:
    """Return the new lines; what stays keeps its own bytes, so that a patch changes nothing it does not name."""
    kept: dict[str, list[str]] = {}
    for line, known in zip(old_lines, hunk.old, strict=True):
        kept.setdefault(known, []).append(line)
    result = []
    for line in hunk.new:
        same = kept.get(line)
        result.append(_ended(same.pop(0), line_end) if same else line + line_end)
    return result


def _ended(line: str, line_end: str) -> str:
    return line if line.endswith("\n") else line + line_end


def _line_end(lines: Sequence[str]) -> str:
    crlf = sum(line.endswith("\r\n") for line in lines)
    return "\r\n" if crlf * 2 > len(lines) else "\n"


def _with_last_end(lines: list[str], line_end: str, *, ends_open: bool) -> str:
    text = "".join(_ended(line, line_end) for line in lines)
    return text.removesuffix("\n").removesuffix("\r") if ends_open else text
