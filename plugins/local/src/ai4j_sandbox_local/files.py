"""Files of a local sandbox: the agent opens them inside and hands out the descriptor; reading and writing is ours.

Paths are resolved inside, so no link leads out. What is opened for reading is a regular file, so nothing here waits.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any

from ai4j_sandbox.errors import SandboxException, SandboxFileError, SandboxProtocolError, SessionState
from ai4j_sandbox.files import CHUNK_BYTES, FileInfo, SandboxFiles

from .client import AgentClient, Answer
from .payloads import AgentRefusal, file_error, file_info, file_path, list_of, text_of

_DEEPEST = 4096  # no path has more components


class LocalFiles(SandboxFiles):
    """Native file access through the agent."""

    def __init__(self, client: AgentClient) -> None:
        self._client = client

    def read_chunks(self, path: str) -> Iterator[bytes]:
        """Yield a file's content in chunks."""
        descriptor = _regular_file(self._ask("open", path))
        with open(descriptor, "rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        """Write to a new file beside the old one, which takes its place at the end."""
        answer = self._ask("create", path)
        with open(_regular_file(answer), "wb", buffering=0) as file:
            temporary, final = text_of(answer.payload, "temporary"), text_of(answer.payload, "final")
            try:
                for chunk in chunks:
                    _write(file.fileno(), chunk, path)
                self._ask("commit", path, temporary=temporary, final=final)
            except BaseException:
                with contextlib.suppress(SandboxException):  # what happened before is what matters
                    self._ask("remove", temporary, recursive=False)
                raise

    def list(self, path: str, *, depth: int = 1) -> list[FileInfo]:
        """Return the entries below a directory."""
        answer = self._ask("list", path, depth=min(depth, _DEEPEST))
        return sorted((file_info(entry) for entry in list_of(answer.payload, "entries")), key=lambda info: info.path)

    def stat(self, path: str) -> FileInfo:
        """Describe one path."""
        return file_info(self._ask("stat", path).payload)

    def make_dir(self, path: str) -> None:
        """Create a directory and its parents."""
        self._ask("make_dir", path)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a symlink or a directory."""
        self._ask("remove", path, recursive=recursive)

    def move(self, source: str, destination: str) -> None:
        """Rename, from one file system to another as well."""
        self._ask("move", source, destination=file_path(destination))

    def make_executable(self, path: str) -> None:
        """Let whoever may read a file execute it."""
        descriptor = _regular_file(self._ask("open", path))
        try:
            mode = os.fstat(descriptor).st_mode
            os.fchmod(descriptor, stat.S_IMODE(mode | (mode & 0o444) >> 2))
        finally:
            os.close(descriptor)

    def _ask(self, operation: str, path: str, **more: Any) -> Answer:
        request = {"do": operation, "path": file_path(path), **more}
        try:
            return self._client.call(request)
        except AgentRefusal as refusal:
            raise file_error(refusal, path) from None


def _regular_file(answer: Answer) -> int:
    """Return the answer's one descriptor, if it is a regular file: the agent's word is not trusted for it."""
    if len(answer.descriptors) == 1 and stat.S_ISREG(os.fstat(answer.descriptors[0]).st_mode):
        return answer.descriptors[0]
    answer.discard()
    raise SandboxProtocolError("the agent handed out something that is not a file")


def _write(descriptor: int, chunk: bytes, path: str) -> None:
    view = memoryview(chunk)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError as error:
        raise SandboxFileError(f"{path!r}: {error.strerror}", path=path, session_state=SessionState.INTACT) from None
