"""The tools `read_file`, `write_file`, `edit`, `list` and `update_agents_md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ai4j_agent.errors import ToolError
from ai4j_agent.permission import ToolEffect
from ai4j_sandbox.errors import SandboxFileError, SandboxNotFoundError
from ai4j_sandbox.files import FileInfo, FileKind

from .lines import lines_of
from .workbench import ToolDefinition, Workbench, boolean, encoded, integer, readable, text

AGENTS_FILE = "AGENTS.md"
_MOST_ENTRIES = 1000


def read_file(
    work: Workbench, *, path: str, start_line: int = 1, end_line: int | None = None, max_chars: int = 12_000
) -> dict[str, Any]:
    """Return lines of a text file."""
    content = work.read_text(path, work.rules.readable(work.workspace, path))
    lines = lines_of(content)
    chosen = "".join(lines[max(start_line, 1) - 1 : end_line])
    last = len(lines) if end_line is None else min(end_line, len(lines))
    return {
        "path": path,
        "content": readable(chosen[:max_chars]),
        "startLine": max(start_line, 1),
        "endLine": last,
        "totalLines": len(lines),
        "truncated": len(chosen) > max_chars,
    }


def write_file(work: Workbench, *, path: str, content: str, mode: str = "overwrite") -> dict[str, Any]:
    """Create, replace or extend a file."""
    location = work.rules.writable(work.workspace, path)
    info = work.find(location)
    exists = info is not None
    if info is not None and info.kind is not FileKind.FILE:
        raise ToolError(f"{path} cannot be written: it is not a regular file")
    if mode == "create" and exists:
        raise ToolError(f"{path} exists; use mode overwrite or append, or edit")
    data = encoded(content)
    old = work.read_bytes(path, location) if mode == "append" and exists else b""
    new = old + data
    _require_size(work, path, len(new))
    _write(work, path, location, new)
    return {
        "path": path,
        "resolvedPath": location,
        "mode": mode,
        "created": not exists,
        "appended": mode == "append" and exists,
        "bytesWritten": len(data),
    }


def edit(work: Workbench, *, path: str, old_string: str, new_string: str, replace_all: bool = False) -> dict[str, Any]:
    """Replace a piece of a file."""
    if old_string == new_string:
        raise ToolError("old_string and new_string are identical")
    if not old_string:
        raise ToolError("old_string must not be empty; use write_file for a new file")
    location = work.rules.writable(work.workspace, path)
    content = work.read_text(path, location)
    old, new = _with_line_ends_of(content, old_string, new_string)
    count = content.count(old)
    if count == 0:
        raise ToolError(f"old_string was not found in {path}; read the file again, spaces count")
    if count > 1 and not replace_all:
        raise ToolError(f"old_string is not unique in {path}: {count} matches; give more context, or replaceAll")
    changed = encoded(content.replace(old, new))
    _require_size(work, path, len(changed))
    _write(work, path, location, changed)
    return {"path": path, "resolvedPath": location, "replacements": count, "success": True}


def list_directory(work: Workbench, *, path: str = ".", depth: int = 1) -> dict[str, Any]:
    """Return the entries of a directory."""
    location = work.rules.readable(work.workspace, path)
    try:
        found = work.workspace.files.list(location, depth=depth)
    except (SandboxNotFoundError, SandboxFileError) as error:
        raise ToolError(f"{path} cannot be listed: {error.message}") from error
    entries = [_entry_facts(work, info) for info in found[:_MOST_ENTRIES]]
    return {"path": path, "entries": entries, "count": len(entries), "truncated": len(found) > len(entries)}


def update_agents_md(work: Workbench, *, action: str = "read", content: str = "") -> dict[str, Any]:
    """Read, replace or extend the notes for agents in the workspace's root."""
    location = work.rules.writable(work.workspace, AGENTS_FILE)
    if action == "read":
        exists = work.workspace.files.exists(location)
        known = work.read_text(AGENTS_FILE, location) if exists else ""
        return {"path": AGENTS_FILE, "exists": exists, "content": readable(known)}
    mode = "overwrite" if action == "write" else "append"
    return {"action": action, **write_file(work, path=AGENTS_FILE, content=content, mode=mode)}


def _with_line_ends_of(content: str, old: str, new: str) -> tuple[str, str]:
    """Models write line feeds; in a file whose lines end with CR LF, so do the texts to find and to put there."""
    if old in content or "\r\n" not in content:
        return old, new
    return _crlf(old), _crlf(new)


def _crlf(content: str) -> str:
    return content.replace("\r\n", "\n").replace("\n", "\r\n")


def _require_size(work: Workbench, path: str, size: int) -> None:
    if size > work.limits.file_bytes:
        raise ToolError(f"{path} would be too large: {size} bytes; the limit is {work.limits.file_bytes}")


def _write(work: Workbench, path: str, location: str, content: bytes) -> None:
    try:
        work.workspace.files.write(location, content)
    except SandboxFileError as error:
        raise ToolError(f"{path} cannot be written: {error.message}") from error


def _entry_facts(work: Workbench, info: FileInfo) -> dict[str, Any]:
    facts = {
        "path": work.shown_path(info.path),
        "kind": str(info.kind),
        "sizeBytes": info.size_bytes,
        "target": None if info.target is None else readable(info.target),
    }
    return {name: value for name, value in facts.items() if value is not None}


READ_FILE = ToolDefinition(
    name="read_file",
    effect=ToolEffect.READS,
    description="Read a text file of the workspace, or some of its lines.",
    function=read_file,
    required=("path",),
    properties={
        "path": text("File, relative to the workspace root."),
        "startLine": integer("First line, from 1. Default 1.", minimum=0),
        "endLine": integer("Last line. Default: the last of the file.", minimum=1),
        "maxChars": integer("How many characters to return at most. Default 12000.", minimum=1),
    },
)

WRITE_FILE = ToolDefinition(
    name="write_file",
    effect=ToolEffect.WRITES,
    description="Write a text file of the workspace; its directories are made. Use edit or apply_patch for changes.",
    function=write_file,
    required=("path", "content"),
    properties={
        "path": text("File, relative to the workspace root."),
        "content": text("What to write."),
        "mode": text("create refuses an existing file. Default overwrite.", "create", "overwrite", "append"),
    },
)

EDIT = ToolDefinition(
    name="edit",
    effect=ToolEffect.WRITES,
    description="Replace a piece of a file. It must match exactly and be unique, unless replaceAll is true.",
    function=edit,
    required=("path", "old_string", "new_string"),
    properties={
        "path": text("File, relative to the workspace root."),
        "old_string": text("The text to replace, with enough context to be unique."),
        "new_string": text("The text to put there."),
        "replaceAll": boolean("Replace every match. Default false."),
    },
)

LIST = ToolDefinition(
    name="list",
    effect=ToolEffect.READS,
    description="List a directory of the workspace.",
    function=list_directory,
    properties={
        "path": text("Directory, relative to the workspace root. Default: the root."),
        "depth": integer("How many levels. Default 1.", minimum=1),
    },
)


def _agents_md_effect(arguments: Mapping[str, Any]) -> ToolEffect:
    return ToolEffect.READS if arguments.get("action") in (None, "", "read") else ToolEffect.WRITES


UPDATE_AGENTS_MD = ToolDefinition(
    name="update_agents_md",
    effect=_agents_md_effect,
    description=f"Read, replace or extend {AGENTS_FILE}, the notes for agents in the workspace root.",
    function=update_agents_md,
    properties={
        "action": text("What to do. Default read.", "read", "write", "append"),
        "content": text("write, append: the text."),
    },
)
