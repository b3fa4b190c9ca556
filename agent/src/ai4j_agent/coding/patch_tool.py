"""The `apply_patch` tool: all files or none.

What the paths of a patch mean is settled first, so that two spellings of one file are one file. Adding needs a place
where nothing is, not even a symlink; updating follows a symlink, as an editor does; deleting removes the symlink
itself. A file that is to be deleted is put aside by renaming, so that taking it back needs no room.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ai4j_agent.errors import ToolError
from ai4j_agent.permission import ToolEffect
from ai4j_sandbox.errors import SandboxException, SandboxFileError
from ai4j_sandbox.files import FileKind

from .manifest import RESERVED
from .patch import FilePatch, Operation, apply_hunks, parse_patch
from .workbench import ToolDefinition, Workbench, encoded, text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One file before and after; ``None`` where there is none, or where it is not read."""

    file: FilePatch
    location: str
    before: bytes | None
    after: bytes | None


def apply_patch(work: Workbench, *, patch: str) -> dict[str, Any]:
    """Apply a patch; nothing is written before everything fits, and a failing write takes back what was written."""
    files = parse_patch(patch)
    changes = [_change(work, file, location) for file, location in zip(files, _locations(work, files), strict=True)]
    _Writer(work).write(changes)
    return {
        "filesChanged": len(files),
        "operationsApplied": sum(len(file.hunks) or 1 for file in files),
        "changedFiles": [file.path for file in files],
        "fileChanges": list(map(_change_facts, changes)),
    }


def _locations(work: Workbench, files: Sequence[FilePatch]) -> list[str]:
    """Return where each file really is.

    Raises:
        ToolError: A path may not be written, or two of them mean the same file.
    """
    updated = [file.path for file in files if file.operation is Operation.UPDATE]
    others = [file.path for file in files if file.operation is not Operation.UPDATE]
    found = dict(zip(updated, work.rules.all_writable(work.workspace, updated), strict=True))
    found |= zip(others, work.rules.all_writable_entries(work.workspace, others), strict=True)
    paths: dict[str, str] = {}
    for file in files:
        other = paths.setdefault(found[file.path], file.path)
        if other != file.path:
            raise ToolError(f"{other} and {file.path} are the same file; put its changes into one section")
    return [found[file.path] for file in files]


def _change(work: Workbench, file: FilePatch, location: str) -> _Change:
    if file.operation is Operation.ADD:
        if work.find(location):
            raise ToolError(f"{file.path} exists already; use Update File")
        return _Change(file=file, location=location, before=None, after=encoded(file.content))
    if file.operation is Operation.DELETE:
        return _Change(file=file, location=location, before=_content_to_delete(work, file, location), after=None)
    content = work.read_text(file.path, location)
    changed = apply_hunks(content, file.hunks, file.path)
    return _Change(file=file, location=location, before=encoded(content), after=encoded(changed))


def _content_to_delete(work: Workbench, file: FilePatch, location: str) -> bytes | None:
    """Return the content that counts as removed, which for a symlink or a large file is none."""
    info = work.find(location)
    if info is None:
        raise ToolError(f"{file.path} does not exist")
    if info.kind is FileKind.DIRECTORY:
        raise ToolError(f"{file.path} is a directory; delete its files, or use bash")
    countable = info.kind is FileKind.FILE and info.size_bytes <= work.limits.file_bytes
    return work.read_bytes(file.path, location) if countable else None


class _Writer:
    """Writes changes and knows how to take each back."""

    def __init__(self, work: Workbench) -> None:
        self._work = work
        self._files = work.workspace.files
        self._undo: list[Callable[[], None]] = []

    def write(self, changes: Sequence[_Change]) -> None:
        """Write all of them.

        Raises:
            ToolError: One cannot be written; says what could not be taken back, if anything.
        """
        aside: list[str] = []
        try:
            for change in changes:
                if change.after is None:
                    aside.append(self._put_aside(change.location))
                else:
                    self._put(change, change.after)
        except BaseException as error:
            lost = self._take_back()
            if lost:
                raise ToolError(f"the patch failed and could not be taken back: {lost}") from error
            if isinstance(error, SandboxFileError):
                raise ToolError(f"nothing was changed: {error.message}") from error
            raise
        for location in aside:
            self._files.remove(location)

    def _put_aside(self, location: str) -> str:
        aside = posixpath.join(posixpath.dirname(location), f"{RESERVED}deleted-{uuid.uuid4().hex}")
        self._undo.append(lambda: self._put_back(aside, location))
        self._files.move(location, aside)
        return aside

    def _put_back(self, aside: str, location: str) -> None:
        if self._work.find(aside):
            self._files.move(aside, location)

    def _put(self, change: _Change, after: bytes) -> None:
        before = change.before
        if before is None:
            missing = self._missing_directories(change.location)
            self._undo.append(lambda: self._remove(change.location, *missing))
        else:
            self._undo.append(lambda: self._files.write(change.location, before))
        self._files.write(change.location, after)

    def _missing_directories(self, location: str) -> list[str]:
        """Return the directories that writing will make, the deepest first."""
        missing = []
        while self._work.find(location := posixpath.dirname(location)) is None:
            missing.append(location)
        return missing

    def _remove(self, *locations: str) -> None:
        for location in locations:
            if self._work.find(location):
                self._files.remove(location)

    def _take_back(self) -> str:
        """Undo everything, the last first; return in words what could not be undone."""
        problems = []
        for undo in reversed(self._undo):
            try:
                undo()
            except SandboxException as error:
                problems.append(error.message)
        return "; ".join(problems)


def _change_facts(change: _Change) -> dict[str, Any]:
    file = change.file
    added, removed = (sum(getattr(hunk, name) for hunk in file.hunks) for name in ("added", "removed"))
    return {
        "path": file.path,
        "operation": str(file.operation),
        "linesAdded": _line_count(change.after) if file.operation is Operation.ADD else added,
        "linesRemoved": _line_count(change.before) if file.operation is Operation.DELETE else removed,
    }


def _line_count(content: bytes | None) -> int:
    return len((content or b"").splitlines())


APPLY_PATCH = ToolDefinition(
    name="apply_patch",
    effect=ToolEffect.WRITES,
    description=(
        "Change several files at once, all or none. First line '*** Begin Patch', last line '*** End Patch'; between "
        "them '*** Add File: path' with lines that begin with '+', '*** Update File: path' with hunks ('@@', then "
        "lines that begin with ' ', '-' or '+'), '*** Delete File: path'. Give three lines of context."
    ),
    function=apply_patch,
    required=("patch",),
    properties={"patch": text("The patch.")},
)
