"""Files of this machine behind the core's file interface."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ai4j_sandbox.errors import SandboxConfigError, SandboxFileError, SandboxNotFoundError
from ai4j_sandbox.files import CHUNK_BYTES, FileInfo, FileKind, SandboxFiles

_KINDS = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.DIRECTORY, stat.S_IFLNK: FileKind.SYMLINK}


class HostFiles(SandboxFiles):
    """The host's files; nothing is confined here."""

    def read_chunks(self, path: str) -> Iterator[bytes]:
        """Yield a file's content in chunks."""
        with _told(path):
            if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for a writer
                raise SandboxFileError(f"{path!r}: is not a regular file", path=path)
            with open(path, "rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        """Write to a file beside the old one, which takes its place and its permissions at the end."""
        with _told(path):
            target = Path(os.path.realpath(path))
            if target.exists() and not target.is_file():
                raise SandboxFileError(f"{path!r}: is not a regular file", path=path)
            target.parent.mkdir(parents=True, exist_ok=True)
            staged = _staged_beside(target)
            try:
                with staged.open("wb") as file:
                    file.writelines(chunks)
                os.replace(staged, target)
            except BaseException:
                staged.unlink(missing_ok=True)
                raise

    def list(self, path: str, *, depth: int = 1) -> list[FileInfo]:
        """Return the entries below a directory."""
        if depth < 1:
            raise SandboxConfigError(f"depth must be at least 1, got {depth}")
        with _told(path):
            return sorted(_entries(path, depth), key=lambda info: info.path)

    def stat(self, path: str) -> FileInfo:
        """Describe one path."""
        with _told(path):
            return _file_info(path, os.lstat(path))

    def make_dir(self, path: str) -> None:
        """Create a directory and its parents."""
        with _told(path):
            os.makedirs(path, exist_ok=True)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a symlink or a directory."""
        with _told(path):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                os.unlink(path)
            elif recursive:
                shutil.rmtree(path)
            else:
                os.rmdir(path)

    def make_executable(self, path: str) -> None:
        """Let whoever may read a file execute it."""
        with _told(path):
            mode = os.stat(path).st_mode
            os.chmod(path, mode | (mode & 0o444) >> 2)

    def move(self, source: str, destination: str) -> None:
        """Rename, from one file system to another as well."""
        with _told(source):
            os.lstat(source)
            if os.path.isdir(destination):
                raise SandboxFileError(f"{destination!r}: the destination is a directory", path=destination)
            os.makedirs(os.path.dirname(destination) or ".", exist_ok=True)
            shutil.move(source, destination)


def _staged_beside(target: Path) -> Path:
    """Make an empty file for new content, with the permissions of the old one."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".ai4j-")
    os.close(handle)
    staged = Path(name)
    if target.exists():
        shutil.copymode(target, staged)
        return staged
    staged.unlink()
    staged.touch(0o666)  # a new file gets what the user's umask says
    return staged


def _entries(directory: str, depth: int) -> Iterator[FileInfo]:
    with os.scandir(directory) as entries:
        for entry in entries:
            yield _file_info(entry.path, entry.stat(follow_symlinks=False))
            if depth > 1 and entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path, depth - 1)


def _file_info(path: str, status: os.stat_result) -> FileInfo:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), FileKind.OTHER)
    return FileInfo(
        path=path,
        kind=kind,
        size_bytes=status.st_size,
        mode=stat.S_IMODE(status.st_mode),
        modified_at_epoch_ms=status.st_mtime_ns // 1_000_000,
        target=os.readlink(path) if kind is FileKind.SYMLINK else None,
    )


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Turn what the operating system says into the core's errors."""
    try:
        yield
    except FileNotFoundError as error:
        raise SandboxNotFoundError(f"no such file or directory: {path!r}", operation="files") from error
    except OSError as error:
        raise SandboxFileError(f"{path!r}: {error.strerror or error}", path=path, operation="files") from error
