"""envd's view of a file system over the SPI's. Everything here blocks and runs in threads."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Mapping
from dataclasses import replace

from ai4j_sandbox.errors import SandboxNotFoundError
from ai4j_sandbox.files import FileInfo, FileKind, SandboxFiles

from .codec import Document
from .connect import Code, ConnectError

_MOST_LINKS = 40  # as the kernel follows before it says ELOOP
_TYPES = {FileKind.FILE: "FILE_TYPE_FILE", FileKind.DIRECTORY: "FILE_TYPE_DIRECTORY"}
_LETTERS = {FileKind.DIRECTORY: "d", FileKind.SYMLINK: "L"}
_USUAL_MODES = {FileKind.DIRECTORY: 0o755, FileKind.SYMLINK: 0o777}


class CyclicLinkError(ConnectError):
    """A symlink leads to itself."""

    def __init__(self, path: str) -> None:
        super().__init__(Code.FAILED_PRECONDITION, f"cyclic symlink or chain >{_MOST_LINKS} links at {path}")


def look(files: SandboxFiles, path: str) -> FileInfo | None:
    """Return what a path names, a symlink itself; ``None`` for nothing."""
    try:
        return files.stat(path)
    except SandboxNotFoundError:
        return None


def find(files: SandboxFiles, path: str) -> FileInfo | None:
    """Return what a path leads to, symlinks followed; ``None`` for nothing.

    Raises:
        CyclicLinkError: It leads nowhere for ever.
    """
    entry = look(files, path)
    return None if entry is None else target_of(files, entry)


def target_of(files: SandboxFiles, entry: FileInfo) -> FileInfo | None:
    """Return what an entry leads to: itself, or the end of its chain of symlinks.

    Raises:
        CyclicLinkError: The chain has no end.
    """
    current: FileInfo | None = entry
    for _ in range(_MOST_LINKS):
        if current is None or current.kind is not FileKind.SYMLINK:
            return current
        directory = posixpath.dirname(current.path)
        current = look(files, posixpath.normpath(posixpath.join(directory, current.target or "")))
    raise CyclicLinkError(entry.path)


def describe(files: SandboxFiles, entry: FileInfo, metadata: Mapping[str, Mapping[str, str]]) -> Document:
    """Return envd's EntryInfo of an entry."""
    linked = entry.kind is FileKind.SYMLINK
    try:
        target = target_of(files, entry)
    except CyclicLinkError:
        target = None
    # envd: type and mode of a symlink are its target's, size and permissions text its own.
    shown = target or entry
    document: Document = {
        "name": entry.name,
        "type": _TYPES.get(shown.kind, "FILE_TYPE_SYMLINK" if linked else "FILE_TYPE_UNSPECIFIED"),
        "path": entry.path,
        "size": entry.size_bytes,
        "mode": mode_of(shown),
        "permissions": permissions(entry),
        "owner": _account_name(entry.owner),
        "group": _account_name(entry.group),
        "modifiedTime": entry.modified_at_epoch_ms or 0,
        "metadata": metadata.get(entry.path, {}),
    }
    if linked:
        document |= {"symlinkTarget": target.path if target else entry.target, "isSymlink": True}
    return document


def _account_name(name: str | None) -> str:
    """Return what an E2B machine calls the account: ``user``, whatever the provider calls its ordinary user."""
    return "root" if name == "root" else "user"


def mode_of(entry: FileInfo) -> int:
    """Return the permission bits, usual ones where the provider does not tell."""
    return _USUAL_MODES.get(entry.kind, 0o644) if entry.mode is None else stat.S_IMODE(entry.mode)


def permissions(entry: FileInfo) -> str:
    """Return the permissions as Go writes them: ``-rw-r--r--``, ``drwxr-xr-x``, ``Lrwxrwxrwx``."""
    return _LETTERS.get(entry.kind, "-") + stat.filemode(mode_of(entry))[1:]


def require_directory(files: SandboxFiles, path: str) -> FileInfo:
    """Return the directory that a path leads to.

    Raises:
        ConnectError: There is nothing, or something else.
    """
    entry = find(files, path)
    if entry is None:
        raise ConnectError(Code.NOT_FOUND, f"path not found: {path}")
    if entry.kind is not FileKind.DIRECTORY:
        raise ConnectError(Code.INVALID_ARGUMENT, f"path is not a directory: {path}")
    return entry


def list_directory(files: SandboxFiles, path: str, depth: int) -> list[FileInfo]:
    """Return what is below a directory, depth first, names in order.

    Raises:
        ConnectError: It is no directory.
    """
    directory = require_directory(files, path)
    found = files.list(directory.path, depth=depth)
    shown = [replace(entry, path=_below(path, posixpath.relpath(entry.path, directory.path))) for entry in found]
    return sorted(shown, key=lambda entry: entry.path.split("/"))


def _below(directory: str, relative: str) -> str:
    return posixpath.join(directory, relative)


def missing_parents(files: SandboxFiles, path: str) -> list[str]:
    """Return the parent directories of a path that do not exist, outermost first."""
    missing: list[str] = []
    parent = posixpath.dirname(path)
    while parent not in ("", "/") and look(files, parent) is None:
        missing.insert(0, parent)
        parent = posixpath.dirname(parent)
    return missing
