"""Files inside a sandbox: the interface, and a fallback that needs nothing but POSIX ``sh`` and ``start``.

A service with a file API implements the primitives of `SandboxFiles` natively. For every other provider
`ShellFiles` runs small scripts, so that even the smallest third-party provider has files.

Paths are sandbox paths (POSIX). A relative path is relative to the sandbox's default directory. Bytes of a name that
are not UTF-8 stand in it as lone surrogates, as `os.fsdecode` gives them.
"""

from __future__ import annotations

import base64
import contextlib
import os
import posixpath
import stat
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from . import shell_scripts
from .arguments import check_calls, require_text, require_whole
from .errors import (
    SandboxConfigError,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxOutputLimitError,
    UnsupportedCapabilityError,
)
from .frozen import type_name
from .model import OutputStream, SandboxCommand, SandboxResult, encodable, is_utf8
from .process import SandboxProcess
from .shell_scripts import encoded_argument, joined_path, parse_entries, path_argument

CHUNK_BYTES = 256 * 1024
_EXECUTABLE = stat.S_IXUSR

Content = bytes | str | BinaryIO | Iterable[bytes]

Start = Callable[[SandboxCommand], SandboxProcess]


class FileKind(StrEnum):
    """What a path names."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """One entry of a sandbox's file system.

    Attributes:
        path: Absolute, or relative when it was asked for relatively.
        size_bytes: Size of the content; for a symlink, of the link.
        mode: Permission bits (``0o644``).
        modified_at_epoch_ms: Milliseconds since 1970.
        target: Where a symlink points.
    """

    path: str
    kind: FileKind
    size_bytes: int
    mode: int | None = None
    modified_at_epoch_ms: int | None = None
    owner: str | None = None
    group: str | None = None
    target: str | None = None

    @property
    def name(self) -> str:
        """Last component of the path."""
        return posixpath.basename(self.path.rstrip("/"))


def _check_path(path: str, *_: Any, **__: Any) -> None:
    require_text("path", path)


def _check_read(path: str, *_: Any, limit_bytes: int | None = None, **__: Any) -> None:
    require_text("path", path)
    if limit_bytes is not None:
        require_whole("limit_bytes", limit_bytes, minimum=0)


def _check_list(path: str, *_: Any, depth: int = 1, **__: Any) -> None:
    require_text("path", path)
    require_whole("depth", depth, minimum=1)


def _check_move(source: str, destination: str, *_: Any, **__: Any) -> None:
    require_text("source", source)
    require_text("destination", destination)


def _check_upload(source: str | os.PathLike[str], destination: str, *_: Any, **__: Any) -> None:
    _require_host_path("source", source)
    require_text("destination", destination)


def _check_download(source: str, destination: str | os.PathLike[str], *_: Any, **__: Any) -> None:
    require_text("source", source)
    _require_host_path("destination", destination)


def _require_host_path(name: str, value: object) -> None:
    if not isinstance(value, str | os.PathLike):
        raise SandboxConfigError(f"{name} must be a path of this host, got {type_name(value)}")


_CHECKS: Mapping[str, Callable[..., None]] = {
    **dict.fromkeys(
        ("read_chunks", "write_chunks", "write", "stat", "exists", "make_dir", "remove", "make_executable"),
        _check_path,
    ),
    **dict.fromkeys(("read", "read_text"), _check_read),
    "list": _check_list,
    "move": _check_move,
    "upload": _check_upload,
    "download": _check_download,
}


class SandboxFiles(ABC):
    """A sandbox's files. Seven primitives; everything else is built on them.

    Every method raises `SandboxConfigError` for an argument of the wrong type, an empty path and a `depth` below 1;
    subclasses need not look again.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_calls(cls, _CHECKS)

    @abstractmethod
    def read_chunks(self, path: str) -> Iterator[bytes]:
        """Yield a file's content in chunks.

        Raises:
            SandboxNotFoundError: No such file.
            SandboxFileError: It is a directory or cannot be read.
        """

    @abstractmethod
    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        """Create or replace a file, with its parent directories, from chunks. A failed write leaves the old content.

        Raises:
            SandboxFileError: It cannot be written.
        """

    @abstractmethod
    def list(self, path: str, *, depth: int = 1) -> list[FileInfo]:
        """Return the entries below a directory down to `depth` levels, sorted by path; symlinks are not followed.

        Raises:
            SandboxNotFoundError: No such directory.
            SandboxFileError: It is not a directory.
        """

    @abstractmethod
    def stat(self, path: str) -> FileInfo:
        """Describe one path; a symlink is described itself, not its target.

        Raises:
            SandboxNotFoundError: No such path.
        """

    @abstractmethod
    def make_dir(self, path: str) -> None:
        """Create a directory and its parents; an existing directory is fine.

        Raises:
            SandboxFileError: Something that is not a directory is in the way.
        """

    @abstractmethod
    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a symlink or a directory; a directory with entries only when `recursive`.

        Raises:
            SandboxNotFoundError: No such path.
            SandboxFileError: The directory is not empty, or may not be removed.
        """

    @abstractmethod
    def move(self, source: str, destination: str) -> None:
        """Rename; an existing file at the destination is replaced, missing parents are created.

        Raises:
            SandboxNotFoundError: No such source.
            SandboxFileError: It cannot be moved.
        """

    def make_executable(self, path: str) -> None:  # noqa: B027  optional, nothing to do without permissions
        """Let whoever may read a file execute it. Where files have no permissions there is nothing to do.

        Raises:
            SandboxNotFoundError: No such file.
            SandboxFileError: Its permissions may not be changed.
        """

    def read(self, path: str, *, limit_bytes: int | None = None) -> bytes:
        """Return a file's content.

        Raises:
            SandboxOutputLimitError: It is longer than `limit_bytes`.
            SandboxNotFoundError, SandboxFileError: As `read_chunks`.
        """
        parts: list[bytes] = []
        total = 0
        for chunk in self.read_chunks(path):
            total += len(chunk)
            if limit_bytes is not None and total > limit_bytes:
                raise SandboxOutputLimitError(f"{path!r} is longer than limit_bytes={limit_bytes}")
            parts.append(chunk)
        return b"".join(parts)

    def read_text(self, path: str, *, limit_bytes: int | None = None) -> str:
        """Return a file's content as text: UTF-8, invalid bytes as U+FFFD."""
        return self.read(path, limit_bytes=limit_bytes).decode("utf-8", "replace")

    def write(self, path: str, content: Content) -> None:
        """Create or replace a file from bytes, text (UTF-8), an open binary file or an iterable of bytes."""
        self.write_chunks(path, content_chunks(content))

    def exists(self, path: str) -> bool:
        """Whether the path names something (a dangling symlink does)."""
        try:
            self.stat(path)
        except SandboxNotFoundError:
            return False
        return True

    def upload(self, source: str | os.PathLike[str], destination: str) -> None:
        """Copy a host file, or a directory with everything in it, into the sandbox. What is executable stays so.

        Symlinks inside a directory are skipped: a host link must not smuggle in what the caller did not name.

        Raises:
            SandboxConfigError: The source does not exist.
            SandboxFileError: As `write`.
        """
        local = Path(source)
        if local.is_dir():
            self.make_dir(destination)
            for entry in sorted(local.iterdir()):
                if not entry.is_symlink() and (entry.is_dir() or entry.is_file()):
                    self.upload(entry, posixpath.join(destination, entry.name))
            return
        if not local.is_file():
            raise SandboxConfigError(f"upload source {str(local)!r} is not a file or directory")
        with local.open("rb") as stream:
            self.write(destination, stream)
            if os.fstat(stream.fileno()).st_mode & _EXECUTABLE:
                self.make_executable(destination)

    def download(self, source: str, destination: str | os.PathLike[str]) -> None:
        """Copy a sandbox file, or a directory with everything in it, to the host. What is executable stays so.

        A file appears complete or not at all. Symlinks inside a directory are skipped, and names that would
        leave the destination are refused: the sandbox's content is not trusted.

        Raises:
            SandboxNotFoundError: No such path in the sandbox.
            SandboxFileError: A name would leave the destination, or the source is neither file nor directory.
        """
        pending = [(source, Path(destination))]  # not a call in a call: the depth is the sandbox's to choose
        while pending:
            path, target = pending.pop()
            info = self.stat(path)
            if info.kind is FileKind.DIRECTORY:
                target.mkdir(parents=True, exist_ok=True)
                pending += [
                    (posixpath.join(path, entry.name), target / safe_name(entry.name))
                    for entry in reversed(self.list(path))
                    if entry.kind in (FileKind.FILE, FileKind.DIRECTORY)
                ]
            elif info.kind is FileKind.OTHER:
                raise SandboxFileError(f"{path!r} is neither a file nor a directory", path=path)
            else:
                executable = bool((info.mode or 0) & _EXECUTABLE)
                save_atomically(self.read_chunks(path), target, executable=executable)


def content_chunks(content: Content) -> Iterator[bytes]:
    """Yield `content` in chunks of bytes, whatever form it has.

    Raises:
        SandboxConfigError: It is none of them, or text that UTF-8 cannot write.
    """
    if isinstance(content, str):
        content = encodable("content", content).encode()
    if isinstance(content, bytes | bytearray | memoryview):
        view = memoryview(content)
        for start in range(0, len(view), CHUNK_BYTES):
            yield bytes(view[start : start + CHUNK_BYTES])
    elif hasattr(content, "read"):
        while chunk := content.read(CHUNK_BYTES):
            yield _content_piece(chunk)
    elif isinstance(content, Iterable):
        yield from map(_content_piece, content)
    else:
        raise SandboxConfigError(f"content must be bytes, text, a binary file or chunks, got {type_name(content)}")


def _content_piece(piece: object) -> bytes:
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, bytearray | memoryview):
        return bytes(piece)
    raise SandboxConfigError(
        f"content must consist of bytes, got {type_name(piece)}", hint='open the file in binary mode ("rb")'
    )


def safe_name(name: str) -> str:
    """Return `name` if it is one harmless path component on any host.

    Raises:
        SandboxFileError: It is empty, ``.``, ``..``, absolute, or holds a separator, a drive or a NUL.
    """
    if name in ("", ".", "..") or any(character in name for character in "/\\\0") or name[1:2] == ":":
        raise SandboxFileError(f"the name {name!r} from the sandbox would leave the download folder", path=name)
    return name


def save_atomically(chunks: Iterable[bytes], destination: Path, *, executable: bool = False) -> None:
    """Write chunks to a host file that appears complete or not at all; an existing file's permissions are kept.

    Raises:
        SandboxFileError: `destination` is a directory.
        OSError: The host cannot write it.
    """
    if destination.is_dir():
        raise SandboxFileError(f"cannot save a file as {str(destination)!r}: there is a directory")
    destination.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=destination.parent, prefix=".ai4j-")
    try:
        with os.fdopen(handle, "wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
        os.chmod(temporary, _wanted_mode(destination, executable=executable))
        os.replace(temporary, destination)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _wanted_mode(destination: Path, *, executable: bool) -> int:
    if destination.is_file():
        return stat.S_IMODE(destination.stat().st_mode)
    return (0o777 if executable else 0o666) & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --- the fallback -----------------------------------------------------------------------------------------------

LISTING_LIMIT_BYTES = 64 * 1024 * 1024  # some 500,000 entries; longer listings are refused, never cut in silence
_MESSAGE_LIMIT_BYTES = 4096
_ARGUMENT_BYTES = 48 * 1024  # as base64 well below the 128 KiB that Linux allows for one argument

_KINDS = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.DIRECTORY, stat.S_IFLNK: FileKind.SYMLINK}


class ShellFiles(SandboxFiles):
    """Files by small POSIX ``sh`` scripts (`shell_scripts`) run through `start`.

    Content goes through stdin where the session has one, else base64-encoded through arguments. A directory that
    may not be read is listed itself, without what is below.
    """

    def __init__(self, start: Start, *, listing_limit_bytes: int = LISTING_LIMIT_BYTES) -> None:
        self._start = start
        self._listing_limit_bytes = listing_limit_bytes

    def read_chunks(self, path: str) -> Iterator[bytes]:
        # The result keeps no second copy of what is streamed, only room for a message.
        command = script_command(shell_scripts.READ, path_argument(path), output_limit_bytes=_MESSAGE_LIMIT_BYTES)
        with self._start(command) as process:
            for chunk in process.output():
                if chunk.stream is OutputStream.STDOUT:
                    yield chunk.data
            require_success(process.wait(), path)

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        transfer = uuid.uuid4().hex
        try:
            size = self._stage(path, transfer, chunks)
            self._run(shell_scripts.COMMIT, path, transfer, str(size))
        except BaseException:
            with contextlib.suppress(SandboxException):
                self._run(shell_scripts.DISCARD, path, transfer)
            raise

    def list(self, path: str, *, depth: int = 1) -> list[FileInfo]:
        command = script_command(
            shell_scripts.LIST, path_argument(path), str(depth), output_limit_bytes=self._listing_limit_bytes
        )
        entries = parse_entries(run_listing(self._start, command, path))
        found = (_file_info(joined_path(path, entry), entry) for entry in entries)
        return sorted(found, key=lambda info: info.path)

    def stat(self, path: str) -> FileInfo:
        result = self._run(shell_scripts.STAT, path)
        for entry in parse_entries(result.stdout_bytes):
            return _file_info(path, entry)
        raise SandboxFileError(f"{path!r} could not be described: unexpected answer of stat", path=path)

    def make_dir(self, path: str) -> None:
        self._run(shell_scripts.MAKE_DIR, path)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        self._run(shell_scripts.REMOVE, path, "recursive" if recursive else "")

    def move(self, source: str, destination: str) -> None:
        self._run(shell_scripts.MOVE, source, path_argument(destination))

    def make_executable(self, path: str) -> None:
        self._run(shell_scripts.MAKE_EXECUTABLE, path)

    def _run(self, script: str, path: str, *arguments: str) -> SandboxResult:
        with self._start(script_command(script, path_argument(path), *arguments)) as process:
            return require_success(process.wait(), path)

    def _stage(self, path: str, transfer: str, chunks: Iterable[bytes]) -> int:
        """Send the content beside the file; return how many bytes were sent."""
        try:
            command = script_command(shell_scripts.STAGE, path_argument(path), transfer, keep_stdin_open=True)
            process = self._start(command)
        except UnsupportedCapabilityError:
            return self._stage_by_arguments(path, transfer, chunks)
        with process:
            size = _send(process, chunks)
            require_success(process.wait(), path)
        return size

    def _stage_by_arguments(self, path: str, transfer: str, chunks: Iterable[bytes]) -> int:
        self._run(shell_scripts.STAGE, path, transfer)
        size = 0
        for chunk in chunks:
            for start in range(0, len(chunk), _ARGUMENT_BYTES):
                piece = chunk[start : start + _ARGUMENT_BYTES]
                self._run(shell_scripts.APPEND, path, transfer, base64.b64encode(piece).decode("ascii"))
            size += len(chunk)
        return size


def run_listing(start: Start, command: SandboxCommand, path: str) -> bytes:
    """Return the answer of a script that uses ``find``, which fails in part where a directory may not be read.

    Raises:
        SandboxNotFoundError: No such directory.
        SandboxFileError: Nothing at all could be described.
        SandboxOutputLimitError: The answer is too long.
    """
    with start(command) as process:
        result = process.wait()
    if result.stdout_truncated:
        raise SandboxOutputLimitError(f"{path!r} holds too many entries for one listing", hint="list with less depth")
    described_some = result.stdout_bytes[:1] not in (b"", b"\0")
    if not (result.exit_code == 1 and described_some):
        require_success(result, path)
    return result.stdout_bytes


def script_command(script: str, *arguments: str, **options: Any) -> SandboxCommand:
    """Return the command that runs one of the `shell_scripts`.

    Raises:
        SandboxConfigError: An argument holds a NUL, or a lone surrogate that stands for no byte.
    """
    if not all(map(is_utf8, arguments)):
        script = shell_scripts.DECODE_ARGUMENTS + script
        try:
            arguments = tuple(map(encoded_argument, arguments))
        except ValueError:
            raise SandboxConfigError("the path holds a lone surrogate that stands for no byte") from None
    return SandboxCommand(
        command=("/bin/sh", "-c", script, "sh", *arguments),
        environment={"LC_ALL": "C"},  # messages in one language, names as bytes
        **options,
    )


def require_success(result: SandboxResult, path: str) -> SandboxResult:
    """Return the result of a script that worked.

    Raises:
        SandboxNotFoundError: The path does not exist.
        SandboxFileError: Anything else, in the words of the script or its tool.
    """
    if result.exit_code == 0:
        return result
    if result.exit_code == shell_scripts.MISSING:
        raise SandboxNotFoundError(f"no such file or directory in the sandbox: {path!r}", operation="files")
    if result.canceled:
        raise SandboxFileError(f"{path!r}: the transfer was canceled", path=path, operation="files")
    if result.timed_out:
        raise SandboxFileError(f"{path!r}: looking at it took too long", path=path, operation="files")
    reason = result.stderr.strip() or f"exit code {result.exit_code}"
    raise SandboxFileError(f"{path!r}: {reason}", path=path, operation="files")


def _send(process: SandboxProcess, chunks: Iterable[bytes]) -> int:
    """Feed the chunks to stdin and close it; return how many bytes were given, arrived or not."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        try:
            process.write_stdin(chunk)
        except SandboxException:
            break  # it ended early; its exit code or the byte count tells why
    process.close_stdin()
    return size


def _file_info(path: str, entry: shell_scripts.Entry) -> FileInfo:
    return FileInfo(
        path=path,
        kind=_KINDS.get(stat.S_IFMT(entry.mode), FileKind.OTHER),
        size_bytes=entry.size_bytes,
        mode=entry.permissions,
        modified_at_epoch_ms=entry.modified_at_seconds * 1000,
        owner=entry.owner,
        group=entry.group,
        target=entry.target,
    )
