"""The `apply_patch` tool: all files or none."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from ai4j_agent.errors import ToolError
from ai4j_sandbox.errors import SandboxException, SandboxFileError

from .patch import FilePatch, Operation, apply_hunks, parse_patch
from .workbench import ToolDefinition, Workbench, encoded, text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One file before and after; ``None`` where there is none."""

    location: str
    before: bytes | None
    after: bytes | None


def apply_patch(work: Workbench, *, patch: str) -> dict[str, Any]:
    """Apply a patch; nothing is written before everything fits, and a failing write takes back what was written."""
    files = parse_patch(patch)
    locations = work.rules.all_writable(work.workspace, [file.path for file in files])
    changes = [_change(work, file, location) for file, location in zip(files, locations, strict=True)]
    facts = [_change_facts(file, change) for file, change in zip(files, changes, strict=True)]
    _write_all(work, changes)
    return {
        "filesChanged": len(files),
        "operationsApplied": sum(len(file.hunks) or 1 for file in files),
        "changedFiles": [file.path for file in files],
        "fileChanges": facts,
    }


def _change(work: Workbench, file: FilePatch, location: str) -> _Change:
    if file.operation is Operation.ADD:
        if work.workspace.files.exists(location):
            raise ToolError(f"{file.path} exists already; use Update File")
        return _Change(location=location, before=None, after=encoded(file.content))
    content = work.read_bytes(file.path, location)
    if file.operation is Operation.DELETE:
        return _Change(location=location, before=content, after=None)
    changed = apply_hunks(work.read_text(file.path, location), file.hunks, file.path)
    return _Change(location=location, before=content, after=encoded(changed))


def _write_all(work: Workbench, changes: list[_Change]) -> None:
    done: list[_Change] = []
    try:
        for change in changes:
            done.append(change)
            _put(work, change.location, change.after)
    except BaseException as error:
        for change in reversed(done):
            with contextlib.suppress(SandboxException):
                _put(work, change.location, change.before)
        if isinstance(error, SandboxFileError):
            raise ToolError(f"nothing was changed: {error.message}") from error
        raise


def _put(work: Workbench, location: str, content: bytes | None) -> None:
    if content is not None:
        work.workspace.files.write(location, content)
    elif work.workspace.files.exists(location):
        work.workspace.files.remove(location)


def _change_facts(file: FilePatch, change: _Change) -> dict[str, Any]:
    return {
        "path": file.path,
        "operation": str(file.operation),
        "linesAdded": _line_count(change.after)
        if file.operation is Operation.ADD
        else sum(h.added for h in file.hunks),
        "linesRemoved": (
            _line_count(change.before) if file.operation is Operation.DELETE else sum(h.removed for h in file.hunks)
        ),
    }


def _line_count(content: bytes | None) -> int:
    return len((content or b"").splitlines())


APPLY_PATCH = ToolDefinition(
    name="apply_patch",
    description=(
        "Change several files at once, all or none. First line '*** Begin Patch', last line '*** End Patch'; between "
        "them '*** Add File: path' with lines that begin with '+', '*** Update File: path' with hunks ('@@', then "
        "lines that begin with ' ', '-' or '+'), '*** Delete File: path'. Give three lines of context."
    ),
    function=apply_patch,
    required=("patch",),
    properties={"patch": text("The patch.")},
)
