"""Writing what happened to a file as ``git diff`` does, so that ``git apply`` takes it. Pure.

Text that is UTF-8 becomes a unified diff, everything else a binary patch (``git diff --binary``); a name that holds
anything but printable ASCII is quoted. The whole is therefore text whatever the files are.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .lines import lines_of

_CONTEXT_LINES = 3
_MOST_PAIRS = 4_000_000  # of equal lines; comparing more would take minutes, and what is compared is not ours
_BINARY_LINE_BYTES = 52
_NO_BLOB = "0" * 40
_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """A file as git sees it."""

    content: bytes
    executable: bool = False

    @property
    def mode(self) -> str:
        """The mode as git writes it."""
        return "100755" if self.executable else "100644"


def file_diff(path: str, before: FileVersion | None, after: FileVersion | None) -> str:
    """Return the diff between two versions of a file; ``None`` stands for no file.

    Args:
        path: Relative to the root, bytes that are no UTF-8 as `os.fsdecode` gives them.
    """
    old, new = (_content(version) for version in (before, after))
    head = [f"diff --git {quoted(f'a/{path}')} {quoted(f'b/{path}')}\n", *_mode_lines(before, after)]
    if old == new:
        return "".join(head)
    old_text, new_text = _text(old), _text(new)
    if old_text is None or new_text is None:
        mode = f" {after.mode}" if before and after and before.mode == after.mode else ""
        return "".join((*head, f"index {_blob(before)}..{_blob(after)}{mode}\n", *_binary_patch(old, new)))
    names = [
        f"--- {_header_name(f'a/{path}') if before else '/dev/null'}\n",
        f"+++ {_header_name(f'b/{path}') if after else '/dev/null'}\n",
    ]
    return "".join((*head, *names, *_hunks(lines_of(old_text), lines_of(new_text))))


def quoted(path: str) -> str:
    """Return a path as git shows it: as it is, or in double quotes with C escapes."""
    raw = os.fsencode(path)
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in raw):
        return path
    return '"' + "".join(map(_escaped, raw)) + '"'


def _escaped(byte: int) -> str:
    return _ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")


def _header_name(path: str) -> str:
    """Return a name for ``---`` and ``+++``; the tab ends a name with blanks, which others would cut."""
    name = quoted(path)
    return f"{name}\t" if " " in name else name


def _mode_lines(before: FileVersion | None, after: FileVersion | None) -> Iterator[str]:
    if after is None:
        if before is not None:
            yield f"deleted file mode {before.mode}\n"
    elif before is None:
        yield f"new file mode {after.mode}\n"
    elif before.mode != after.mode:
        yield f"old mode {before.mode}\nnew mode {after.mode}\n"


def _content(version: FileVersion | None) -> bytes:
    return b"" if version is None else version.content


def _text(content: bytes) -> str | None:
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


# --- text -----------------------------------------------------------------------------------------------------------


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(None, old, new) if _comparable(old, new) else _EndsMatcher(old, new)
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from _marked(" ", old[old_start:old_end])
            else:
                yield from _marked("-", old[old_start:old_end])
                yield from _marked("+", new[new_start:new_end])


def _comparable(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether `difflib`, which looks at every pair of equal lines, can do it in seconds."""
    times = Counter(new)
    popular = len(new) // 100 + 1 if len(new) >= 200 else len(new)  # lines that it leaves out itself
    return sum(times[line] for line in old if times[line] <= popular) <= _MOST_PAIRS


class _EndsMatcher(difflib.SequenceMatcher[str]):
    """Compares only the beginning and the end; what is between them counts as replaced."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__()
        self._old, self._new = old, new

    def get_opcodes(self) -> list[tuple[str, int, int, int, int]]:  # type: ignore[override]  # tags as texts
        """Return at most three steps."""
        old, new = len(self._old), len(self._new)
        beginning = _common(self._old, self._new)
        most = min(old, new) - beginning
        ending = _common(self._old[::-1][:most], self._new[::-1][:most])
        steps = [
            ("equal", 0, beginning, 0, beginning),
            ("replace", beginning, old - ending, beginning, new - ending),
            ("equal", old - ending, old, new - ending, new),
        ]
        return [step for step in steps if step[1] < step[2] or step[3] < step[4]]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _range(start: int, end: int) -> str:
    """Return a range of lines as a hunk's header counts them."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


# --- everything else ------------------------------------------------------------------------------------------------


def _blob(version: FileVersion | None) -> str:
    """Return git's name for a content; ``git apply`` takes a binary patch only with the names of both sides."""
    if version is None:
        return _NO_BLOB
    header = b"blob %d\0" % len(version.content)
    return hashlib.sha1(header + version.content, usedforsecurity=False).hexdigest()


def _binary_patch(old: bytes, new: bytes) -> Iterator[str]:
    yield "GIT binary patch\n"
    for content in (new, old):  # the second one is for ``git apply --reverse``
        yield f"literal {len(content)}\n"
        packed = zlib.compress(content, zlib.Z_BEST_SPEED)
        for start in range(0, len(packed), _BINARY_LINE_BYTES):
            piece = packed[start : start + _BINARY_LINE_BYTES]
            yield f"{_length_letter(len(piece))}{base64.b85encode(piece, pad=True).decode()}\n"
        yield "\n"


def _length_letter(length: int) -> str:
    return chr(ord("A") + length - 1) if length <= 26 else chr(ord("a") + length - 27)
