"""A sandbox's files over envd: its own calls where they keep the core's promises, a step around them where not.

envd's messages are proto3, whose texts are UTF-8. It can neither be given nor tell a name that is not: a listing with
one in it is an error as a whole. For such names scripts do the same work.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    SandboxConfigError,
    SandboxConflictError,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
)
from ai4j_sandbox.files import FileInfo, FileKind, SandboxFiles
from ai4j_sandbox.model import is_utf8
from ai4j_sandbox.process import ProcessExit

from .envd import StartRequest
from .envd_client import EnvdClient
from .process_channel import run_to_end

T = TypeVar("T")

_ENVDS_COMPLAINTS = frozenset((400, 500, 507))  # other statuses are those of gateways
_IN_PLACE_BYTES = 256 * 1024
_SCRIPT_SECONDS = 60.0

# Overwrites in place where there is a file: it keeps its permissions, and a symlink its target.
_INSTALL = 'if [ -e "$2" ]; then cat <"$1" >"$2" && rm -f -- "$1"; else mv -f -- "$1" "$2"; fi'


class EnvdFiles(SandboxFiles):
    """Native files. Permissions are envd's: the user decides where relative paths begin and who owns what is made.

    Args:
        shell: The same files by scripts, for names that are not UTF-8. Permissions are then the user's.
        explained: Entered around every call; finds out what it means when something answers in the sandbox's place.
    """

    def __init__(
        self,
        client: EnvdClient,
        shell: SandboxFiles,
        *,
        explained: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._client = client
        self._shell = shell
        self._explained = explained

    def read_chunks(self, path: str) -> Iterator[bytes]:
        """Yield a file's content in chunks."""
        if not is_utf8(path):
            yield from self._shell.read_chunks(path)
            return
        with self._about(path):
            yield from self._client.read_file(path)

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        """Create or replace a file from chunks. A failed write leaves the old content."""
        if not is_utf8(path):
            self._shell.write_chunks(path, chunks)
            return
        source = iter(chunks)
        beginning, whole = _beginning(source)
        with self._about(path):
            if whole:
                self._client.write_file(path, [beginning])
            else:
                self._write_beside(path, beginning, source)

    def list(self, path: str, *, depth: int = 1) -> list[FileInfo]:
        """Return the entries below a directory, sorted by path."""
        return self._done(
            lambda: sorted(self._client.list_dir(path, depth), key=lambda entry: entry.path),
            lambda: self._shell.list(path, depth=depth),
            path,
        )

    def stat(self, path: str) -> FileInfo:
        """Describe one path."""
        return self._done(lambda: self._client.stat(path), lambda: self._shell.stat(path), path)

    def make_dir(self, path: str) -> None:
        """Create a directory and its parents; an existing directory is fine."""

        def made() -> None:
            with contextlib.suppress(SandboxConflictError):
                self._client.make_dir(path)

        self._done(made, lambda: self._shell.make_dir(path), path)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a symlink or a directory."""
        entry = self.stat(path)  # envd takes a missing path for removed
        if entry.kind is FileKind.DIRECTORY and not recursive and self.list(path):
            raise SandboxFileError(f"the directory {path!r} is not empty", path=path, hint="pass recursive=True")
        self._done(lambda: self._client.remove(path), lambda: self._shell.remove(path, recursive=recursive), path)

    def move(self, source: str, destination: str) -> None:
        """Rename; an existing file at the destination is replaced."""
        self._done(
            lambda: self._client.move(source, destination),
            lambda: self._shell.move(source, destination),
            source,
            destination,
        )

    def make_executable(self, path: str) -> None:
        """Let whoever may read a file execute it."""
        self._done(lambda: self._make_executable(path), lambda: self._shell.make_executable(path), path)

    def _done(self, natively: Callable[[], T], by_script: Callable[[], T], *paths: str) -> T:
        """Return what envd's own call gives or, where a name is not UTF-8, what the script gives."""
        if all(map(is_utf8, paths)):
            try:
                with self._about(paths[0]):
                    return natively()
            except SandboxFileError as error:
                if not _cannot_be_told(error):
                    raise
        return by_script()

    @contextlib.contextmanager
    def _about(self, path: str) -> Iterator[None]:
        with self._explained(), _file_errors(path):
            yield

    def _write_beside(self, path: str, beginning: bytes, rest: Iterable[bytes]) -> None:
        """Upload next to the file and put it in place when it is whole: envd would truncate first and copy then."""
        beside = f"{path}.ai4j-{uuid.uuid4().hex[:12]}"
        try:
            self._client.write_file(beside, _joined(beginning, rest))
            self._install(beside, path)
        except BaseException:
            with contextlib.suppress(SandboxException):
                self._client.remove(beside)
            raise

    def _make_executable(self, path: str) -> None:
        if self._script('chmod +x -- "$1"', path).exit_code != 0:
            raise SandboxFileError(f"the permissions of {path!r} could not be changed", path=path)

    def _install(self, beside: str, path: str) -> None:
        if self._script(_INSTALL, beside, path).exit_code != 0:
            raise SandboxFileError(f"{path!r} could not be written", path=path)

    def _script(self, script: str, *paths: str) -> ProcessExit:
        request = StartRequest(program="/bin/sh", arguments=("-c", script, "ai4j-files", *paths))
        return run_to_end(self._client, request, Deadline(_SCRIPT_SECONDS))


@contextlib.contextmanager
def _file_errors(path: str) -> Iterator[None]:
    """Turn envd's complaints about a path into the errors that `SandboxFiles` promises."""
    try:
        yield
    except SandboxNotFoundError as error:
        missing = SandboxNotFoundError(f"no such file or directory: {path!r}", outcome=error.outcome)
        raise _placed_like(error, missing) from error
    except SandboxException as error:
        if not _is_about_the_path(error):
            raise
        raise _placed_like(error, SandboxFileError(f"{path!r}: {error.message}", path=path)) from error


def _placed_like(error: SandboxException, translated: SandboxException) -> SandboxException:
    """Return the translated error with what the original says of its place."""
    return translated.located(
        provider_id=error.provider_id,
        session_id=error.session_id,
        operation=error.operation,
        http_status=error.http_status,
        request_id=error.request_id,
    )


def _is_about_the_path(error: SandboxException) -> bool:
    """Whether envd itself complained: a bad argument, or what it calls internal (a full disk, another device)."""
    return isinstance(error, SandboxConfigError) or (
        type(error) is SandboxException and error.http_status in _ENVDS_COMPLAINTS
    )


def _cannot_be_told(error: SandboxFileError) -> bool:
    """Whether envd found what it was asked for, and could not write down a name in it."""
    return error.http_status == 500 and "invalid UTF-8" in error.message


def _beginning(chunks: Iterator[bytes]) -> tuple[bytes, bool]:
    """Return the first chunks, up to what is written in place, and whether that is all."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > _IN_PLACE_BYTES:
            return b"".join(parts), False
    return b"".join(parts), True


def _joined(beginning: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield beginning
    yield from rest
