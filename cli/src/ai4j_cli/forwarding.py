"""Bytes between a command and our own streams: unchanged, unbuffered, and never waiting for good."""

from __future__ import annotations

import errno
import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self, TextIO

from ai4j_sandbox import SandboxConnectionError, SandboxException, SandboxProtocolError, SandboxTimeoutError

from .streams import descriptor_of

if TYPE_CHECKING:
    from ai4j_sandbox import SandboxProcess

_CHUNK_BYTES = 64 * 1024
_STALL_MILLISECONDS = 200


class OutputStalled(Exception):
    """Nobody takes our output, and there is a reason not to wait any longer."""


class RawOutput:
    """One of our output streams, for bytes.

    Args:
        stream: The text stream; ``None`` when it was closed before we started, which discards everything.
        give_up: Asked while nobody takes the output: whether to stop waiting.
    """

    def __init__(self, stream: TextIO | None, give_up: Callable[[], bool]) -> None:
        self._descriptor = descriptor_of(stream)
        self._buffer = None if stream is None else stream.buffer
        self._give_up = give_up

    def write(self, data: bytes) -> None:
        """Write all of `data` now.

        Raises:
            BrokenPipeError: Nobody will ever read it.
            OutputStalled: Nobody reads it now, and `give_up` said to leave it.
        """
        if self._descriptor is not None:
            self._write_descriptor(self._descriptor, memoryview(data))
        elif self._buffer is not None:
            self._buffer.write(data)
            self._buffer.flush()

    def _write_descriptor(self, descriptor: int, rest: memoryview) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        while rest:
            while not poll.poll(_STALL_MILLISECONDS):
                if self._give_up():
                    raise OutputStalled
            # A writable pipe takes PIPE_BUF bytes without blocking, not more. It may be set to non-blocking by others.
            with suppress(BlockingIOError):
                rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]


class InputForwarder:
    """Hands what a stream holds to a command, in a thread, until either ends. A context manager.

    Attributes:
        failure: Why the command could not be given all of it; ``None`` also when it did not want more.
    """

    def __init__(self, source: BinaryIO, process: SandboxProcess) -> None:
        self.failure: Exception | None = None
        self._source = source
        self._process = process
        self._stop_receiver, self._stop_sender = os.pipe()
        self._thread = threading.Thread(target=self._run, name="ai4j-stdin", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._stop_sender)
        self._thread.join(timeout=1)
        if not self._thread.is_alive():  # else it is inside `write_stdin` of a provider that does not let go
            os.close(self._stop_receiver)

    def _run(self) -> None:
        try:
            self._forward()
        except (SandboxConnectionError, SandboxTimeoutError, SandboxProtocolError, OSError) as error:
            # The command must not take a part of its input for the whole.
            self.failure = error
            self._process.cancel()
        except SandboxException:
            pass  # it has ended, or closed its input as `head` does

    def _forward(self) -> None:
        while data := self._read():
            self._process.write_stdin(data)
        self._process.close_stdin()

    def _read(self) -> bytes:
        """Return what there is to read; nothing at the end of the input, and when told to stop."""
        descriptor = descriptor_of(self._source)
        if descriptor is None:
            return self._source.read(_CHUNK_BYTES)
        poll = select.poll()
        for either in (descriptor, self._stop_receiver):
            poll.register(either, select.POLLIN)
        if any(ready == self._stop_receiver for ready, _ in poll.poll()):
            return b""
        try:
            return os.read(descriptor, _CHUNK_BYTES)
        except OSError as error:
            if error.errno == errno.EIO:  # the terminal was hung up
                return b""
            raise
