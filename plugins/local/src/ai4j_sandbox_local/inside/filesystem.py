"""Files of the sandbox, by path; every function is what the host asked for, done as the commands' user."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from typing import Any


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def describe(path: str) -> dict[str, Any]:
    """Describe a path itself, not what a symlink points at."""
    status = os.lstat(path)
    return {
        "path": path,
        "kind": stat.S_IFMT(status.st_mode),
        "size": status.st_size,
        "mode": stat.S_IMODE(status.st_mode),
        "modified": status.st_mtime_ns // 1_000_000,
        "owner": user_name(status.st_uid),
        "group": group_name(status.st_gid),
        "target": os.readlink(path) if stat.S_ISLNK(status.st_mode) else None,
    }


def entries(path: str, depth: int) -> list[dict[str, Any]]:
    """Describe what is below a directory, down to `depth` levels; fails only if nothing in it may be looked at.

    As with ``ls -R``, a directory further down that may not be read is described itself, without what is below.
    """
    found = []
    refusal = None
    for name in os.listdir(path):
        below = os.path.join(path, name)
        try:
            found.append(describe(below))
            if depth > 1 and found[-1]["kind"] == stat.S_IFDIR:
                found += entries(below, depth - 1)
        except PermissionError as error:
            refusal = error
        except (FileNotFoundError, NotADirectoryError):  # removed, or replaced, while we looked
            continue
    if refusal is not None and not found:
        raise refusal
    return found


def open_plain(path: str) -> int:
    """Open a regular file for reading. Never waits: a pipe without a writer would."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        require_regular(os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def require_regular(mode: int) -> None:
    """Refuse what has no content of its own: directories, pipes, sockets and devices."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file")


def make_parents(path: str) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)


def create_beside(path: str) -> tuple[int, str, str]:
    """Open a new file next to `path`; returns it, its name, and the final name with symlinks resolved."""
    final = os.path.realpath(path)
    mode = 0o644
    if os.path.exists(final):
        status = os.stat(final).st_mode
        require_regular(status)  # a new file would take the place of a pipe or a device
        mode = stat.S_IMODE(status)
    make_parents(final)
    temporary = os.path.join(os.path.dirname(final), f".ai4j-{os.urandom(8).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.fchmod(descriptor, mode)
    return descriptor, temporary, final


def remove(path: str, recursive: bool) -> None:
    """Remove a path; symlinks are removed, never followed."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
        return
    if recursive:
        for name in os.listdir(path):
            remove(os.path.join(path, name), recursive)
    os.rmdir(path)


def move(source: str, destination: str) -> None:
    """Rename, also from one file system to another."""
    os.lstat(source)
    make_parents(destination)
    try:
        os.replace(source, destination)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        import shutil  # costs milliseconds to load, and is rarely needed

        shutil.move(source, destination)
