"""Files as the daemon shows and moves them. Relative paths begin at the sandbox's home; links are followed."""

from __future__ import annotations

import fnmatch
import posixpath
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ai4j_sandbox.errors import SandboxException, SandboxFileError, SandboxNotFoundError
from ai4j_sandbox.files import FileInfo, FileKind, SandboxFiles
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.spi import SandboxSession

from .errors import ToolboxError

_MOST_LINKS = 10
_DEEPEST = 64
_SNIFFED_BYTES = 512


def absolute(path: str | None, home: str) -> str:
    """Return a path from a request, made absolute.

    Raises:
        ToolboxError: 400: there is none.
    """
    if not path:
        raise ToolboxError(400, "path is required", wordless=True, code="INVALID_FILE_PATH")
    return posixpath.join(home, path)


def resolved(files: SandboxFiles, path: str) -> FileInfo:
    """Return what a path leads to.

    Raises:
        ToolboxError: 404: to nothing.
    """
    shown = path
    for _ in range(_MOST_LINKS):
        try:
            info = files.stat(path)
        except SandboxNotFoundError:
            break
        if info.kind is not FileKind.SYMLINK:
            return info
        path = posixpath.join(posixpath.dirname(path), info.target or "")
    raise missing(shown)


def missing(path: str) -> ToolboxError:
    """Return the answer for a path that does not exist."""
    return ToolboxError(404, f"stat {path}: no such file or directory", wordless=True, code="FILE_NOT_FOUND")


def wrong(error: SandboxException) -> ToolboxError:
    """Return the answer to what the sandbox's files refuse."""
    if isinstance(error, SandboxNotFoundError):
        return ToolboxError(404, error.message, wordless=True, code="FILE_NOT_FOUND")
    status = 400 if isinstance(error, SandboxFileError) else 500
    return ToolboxError(status, error.message, wordless=True, code="FILE_READ_FAILED")


def describe(files: SandboxFiles, path: str) -> dict[str, Any]:
    """Return one path as the daemon describes it."""
    return _described(posixpath.basename(path.rstrip("/")) or "/", path, resolved(files, path))


def listing(files: SandboxFiles, path: str, depth: int = 1) -> list[dict[str, Any]]:
    """Return a directory's entries, sorted by name; links that lead nowhere are left out."""
    if resolved(files, path).kind is not FileKind.DIRECTORY:
        raise ToolboxError(400, "not a directory", wordless=True, code="INVALID_FILE_PATH")
    found = []
    for info in files.list(path, depth=depth):
        try:
            found.append(_described(info.name, info.path, resolved(files, info.path)))
        except ToolboxError:
            continue
    return found


def _described(name: str, path: str, info: FileInfo) -> dict[str, Any]:
    is_directory = info.kind is FileKind.DIRECTORY
    mode = (info.mode or 0) | (stat.S_IFDIR if is_directory else stat.S_IFREG)
    modified = datetime.fromtimestamp((info.modified_at_epoch_ms or 0) / 1000, UTC)
    return {
        "name": name,
        "path": path,
        "size": info.size_bytes,
        "mode": stat.filemode(mode),
        "modTime": modified.strftime("%Y-%m-%d %H:%M:%S +0000 UTC"),
        "modifiedAt": modified.isoformat().replace("+00:00", "Z"),
        "isDir": is_directory,
        "owner": info.owner or "",
        "group": info.group or "",
        "permissions": f"{info.mode or 0:04o}",
    }


def make_folder(session: SandboxSession, path: str, mode: str) -> None:
    """Create a directory with its parents."""
    _run(session, "mkdir", "-p", "-m", mode or "0755", "--", path)


def delete(files: SandboxFiles, path: str, recursive: bool) -> None:
    """Delete a path."""
    try:
        info = files.stat(path)
    except SandboxNotFoundError:
        raise missing(path) from None
    if info.kind is FileKind.DIRECTORY and not recursive:
        raise ToolboxError(400, "cannot delete directory without recursive flag", wordless=True)
    files.remove(path, recursive=recursive)


def move(files: SandboxFiles, source: str, destination: str) -> None:
    """Rename a path; nothing is replaced, and no parent is made."""
    if not files.exists(source) or not files.exists(posixpath.dirname(destination)):
        raise missing(source)
    if files.exists(destination):
        raise ToolboxError(409, "destination already exists", wordless=True)
    files.move(source, destination)


def set_permissions(session: SandboxSession, path: str, mode: str | None, owner: str | None, group: str | None) -> None:
    """Change mode and owner of a path."""
    resolved(session.files, path)
    if mode:
        _run(session, "chmod", mode, "--", path)
    if owner or group:
        _run(session, "chown", f"{owner or ''}:{group or ''}" if group else owner or "", "--", path)


def find_text(files: SandboxFiles, path: str, pattern: str) -> list[dict[str, Any]]:
    """Return the lines that contain a text, of the files that look like text."""
    return [
        {"file": file, "line": number, "content": line}
        for file in _files_below(files, path)
        for number, line in enumerate(_lines(files, file), 1)
        if pattern in line
    ]


def search(files: SandboxFiles, path: str, pattern: str) -> list[str]:
    """Return the paths whose last component matches a glob."""
    resolved(files, path)
    return [info.path for info in files.list(path, depth=_DEEPEST) if fnmatch.fnmatchcase(info.name, pattern)]


def replace(files: SandboxFiles, path: str, pattern: str, value: str) -> dict[str, Any]:
    """Replace a text in one file, and tell how it went."""
    try:
        files.write(path, files.read_text(path).replace(pattern, value))
    except SandboxException as error:
        return {"file": path, "success": False, "error": error.message}
    return {"file": path, "success": True}


def _files_below(files: SandboxFiles, path: str) -> Iterator[str]:
    info = resolved(files, path)
    if info.kind is FileKind.FILE:
        yield path
        return
    for entry in files.list(path, depth=_DEEPEST):
        if entry.kind is FileKind.FILE:
            yield entry.path


def _lines(files: SandboxFiles, path: str) -> list[str]:
    content = files.read(path)
    return [] if b"\0" in content[:_SNIFFED_BYTES] else content.decode("utf-8", "replace").splitlines()


def _run(session: SandboxSession, *arguments: str) -> None:
    result = session.execute(SandboxCommand(command=arguments, timeout_millis=30_000))
    if result.exit_code != 0:
        raise ToolboxError(400, result.stderr.strip(), wordless=True)
