"""One command's channel: its pipes, read and written by the host itself, and the agent's word about its end.

`receive` waits on everything at once: output, room in the command's stdin, and the conversation with the agent. Once
the exit has arrived, what was written before it is read, and nothing more is waited for: a process that the command
left behind may hold the pipes for as long as it likes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import termios
import threading
from collections import deque
from collections.abc import Mapping
from time import monotonic

from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import OutputStream, TerminalSize
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit

from .client import AgentClient, Conversation
from .payloads import AgentRefusal, exit_of, signal_number, terminal_size

READ_BYTES = 256 * 1024
_FULL_PIPE = 64 * 1024
_LARGE_PIPE = 1024 * 1024
_TERMINAL_SETTLE_SECONDS = 0.05  # how long the kernel may take to move a terminal's last output to our end
_END_OF_FILE = b"\x04"


class Output:
    """Our end of one output stream."""

    def __init__(self, stream: OutputStream, descriptor: int, *, terminal: bool) -> None:
        self.stream = stream
        self.descriptor = descriptor
        self._terminal = terminal
        self._enlarged = terminal
        self._left: int | None = None  # after the exit: how many bytes were written before it
        self.ended = False

    def read(self) -> bytes:
        """Return what is there, or nothing; sets `ended` at the end."""
        size = READ_BYTES if self._left is None else min(READ_BYTES, self._left)
        try:
            data = os.read(self.descriptor, size) if size else b""
        except BlockingIOError:
            if self._left is not None:
                self.ended = True
            return b""
        except OSError:  # EIO: nobody has the terminal open any more
            data = b""
        if self._left is not None:
            self._left -= len(data)
        self.ended = not data
        self._enlarge(data)
        return data

    def command_ended(self) -> None:
        """From now on only what is in the pipe already is of interest."""
        if self._terminal:
            self._let_settle()
        else:
            (self._left,) = struct.unpack("i", fcntl.ioctl(self.descriptor, termios.FIONREAD, b"\0" * 4))

    def _let_settle(self) -> None:
        self._left = _LARGE_PIPE
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.poll(_TERMINAL_SETTLE_SECONDS * 1000)

    def _enlarge(self, data: bytes) -> None:
        """Give a command that fills its pipe a larger one: fewer turns for the same bytes."""
        if not self._enlarged and len(data) >= _FULL_PIPE:
            self._enlarged = True
            with contextlib.suppress(OSError):  # over the user's share of pipe memory
                fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, _LARGE_PIPE)


class Input:
    """Our end of the command's stdin, and what it has not taken yet. Any thread may write.

    Args:
        data: What is known beforehand.
        keep_open: Whether more may come.
        terminal: It is a terminal, which has no end of file but a character that means it.
    """

    def __init__(self, descriptor: int, data: bytes, *, keep_open: bool, terminal: bool = False) -> None:
        self.descriptor = descriptor
        self.waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.closed = False
        self._terminal = terminal
        self._pending: deque[memoryview] = deque()
        self._last = b""
        self._finishing = False
        self._lock = threading.Lock()
        os.set_blocking(descriptor, False)
        self._accept(data)
        if not keep_open:
            self._accept_end()

    def __contains__(self, descriptor: object) -> bool:
        return descriptor in (self.descriptor, self.waker)

    def register(self, poll: select.poll) -> None:
        """Add what must be waited for: room for what is pending, and another thread that has more."""
        with self._lock:
            if self.closed:
                return
            poll.register(self.waker, select.POLLIN)
            if self._pending or self._finishing:
                poll.register(self.descriptor, select.POLLOUT)

    def append(self, data: bytes) -> None:
        """Accept more input.

        Raises:
            SandboxException: The input has ended.
        """
        with self._lock:
            if self.closed or self._finishing:
                raise SandboxException("the command's stdin is closed")
            self._accept(data)
            self._flush_and_wake()

    def finish(self) -> None:
        """Let the input end after what is pending. Idempotent."""
        with self._lock:
            if not self.closed and not self._finishing:
                self._accept_end()
                self._flush_and_wake()

    def flush(self) -> None:
        """Hand over what fits now."""
        with self._lock:
            if not self.closed:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self.waker)
                self._flush()

    def close(self) -> None:
        """Let go of it, whatever is pending. Idempotent."""
        with self._lock:
            self._close()

    def _accept(self, data: bytes) -> None:
        if data:
            self._pending.append(memoryview(data))
            self._last = data

    def _accept_end(self) -> None:
        if self._terminal:
            # The character ends a line first, and the input only at the start of a line.
            self._accept(_END_OF_FILE if self._last[-1:] in (b"", b"\n") else 2 * _END_OF_FILE)
        self._finishing = True

    def _flush_and_wake(self) -> None:
        self._flush()
        if not self.closed:  # whoever receives must wait for room, too
            os.eventfd_write(self.waker, 1)

    def _flush(self) -> None:
        try:
            while self._pending:
                written = os.write(self.descriptor, self._pending[0][:_LARGE_PIPE])
                self._pending[0] = self._pending[0][written:]
                if not self._pending[0]:
                    self._pending.popleft()
        except BlockingIOError:
            return
        except OSError:  # the command closed its stdin, which is its right
            self._pending.clear()
            self._finishing = True
        if self._finishing:
            self._close()

    def _close(self) -> None:
        if not self.closed:
            self.closed = True
            self._pending.clear()
            os.close(self.descriptor)
            os.close(self.waker)


class LocalChannel(ProcessChannel):
    """The channel of one command in a local sandbox."""

    def __init__(
        self,
        *,
        command_id: str,
        client: AgentClient,
        conversation: Conversation,
        outputs: Mapping[OutputStream, int],
        stdin: Input | None,
        pid: int | None,
        terminal: bool,
    ) -> None:
        self.pid = pid
        self._command_id = command_id
        self._client = client
        self._conversation = conversation
        self._outputs = [Output(stream, descriptor, terminal=terminal) for stream, descriptor in outputs.items()]
        self._stdin = stdin
        self._terminal = terminal
        self._end: ProcessExit | SandboxException | None = None
        self._using = threading.Lock()  # held while descriptors are in use, so that `close` cannot pull them away
        self._closing = False
        self._closed = False
        self._kept: deque[OutputChunk] = deque()

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        """Return the next chunk or the exit; also hands pending stdin to the command."""
        with self._using:
            if self._closing:
                return None
            if self._end is None:
                chunk = self._wait(timeout)
                if chunk is not None or self._end is None:
                    return chunk
            return self._leftover() or self._ended()

    def sandbox_ended(self) -> None:
        """The sandbox is gone: keep what it had written for a later `receive`, and let go of all descriptors."""
        with self._using:
            if self._closed:
                return
            if self._end is None:
                self._hear()
            while chunk := self._leftover():
                self._kept.append(chunk)
            self._close()

    def _wait(self, timeout: float | None) -> OutputChunk | None:
        """Wait for output, which is returned, or for the end, or for `timeout` seconds."""
        until = None if timeout is None else monotonic() + timeout
        while True:
            ready = self._ready(None if until is None else max(0.0, until - monotonic()))
            if not ready or self._closing:
                return None
            if self._conversation.fileno() in ready:
                self._hear()
                return None
            if self._stdin is not None and any(descriptor in self._stdin for descriptor in ready):
                self._stdin.flush()
            for output in self._outputs:
                if output.descriptor in ready and (data := output.read()):
                    return OutputChunk(output.stream, data)

    def _ready(self, timeout: float | None) -> set[int]:
        poll = select.poll()
        poll.register(self._conversation, select.POLLIN)
        for output in self._outputs:
            if not output.ended:
                poll.register(output.descriptor, select.POLLIN)
        if self._stdin is not None:
            self._stdin.register(poll)
        return {descriptor for descriptor, _ in poll.poll(None if timeout is None else timeout * 1000)}

    def _hear(self) -> None:
        """Take the agent's word about the end, or that there is no agent any more."""
        try:
            answer = self._conversation.receive()
            answer.discard()
            self._end = exit_of(answer.payload)
        except SandboxException as error:
            self._end = error
        for output in self._outputs:
            if not output.ended:
                output.command_ended()

    def _ended(self) -> ProcessExit | None:
        if isinstance(self._end, SandboxException):
            raise self._end
        return self._end

    def _leftover(self) -> OutputChunk | None:
        if self._closed:
            return self._kept.popleft() if self._kept else None
        for output in self._outputs:
            if not output.ended and (data := output.read()):
                return OutputChunk(output.stream, data)
        return None

    def kill(self, signal: str) -> bool:
        """Send a signal to every process that descends from the command, however it detached itself."""
        number = signal_number(signal)
        if self._end is not None or self._closing:
            return False
        try:
            self._client.call({"do": "kill", "id": self._command_id, "number": number})
        except AgentRefusal:  # no such command runs: it has ended, and its exit is on the way
            return False
        return True

    def write_stdin(self, data: bytes) -> None:
        """Accept input; what the pipe does not take now is handed over while somebody receives."""
        if self._stdin is None:
            super().write_stdin(data)
        else:
            self._stdin.append(data)

    def close_stdin(self) -> None:
        """End the command's input."""
        if self._stdin is not None:
            self._stdin.finish()

    def resize(self, size: TerminalSize) -> None:
        """Change the terminal's size."""
        if not self._terminal:
            super().resize(size)
        request = {"do": "resize", "id": self._command_id, "size": terminal_size(size)}
        with contextlib.suppress(AgentRefusal):  # the command has ended
            self._client.call(request)

    def close(self) -> None:
        """Close our ends; the agent then empties the pipes of a command that goes on."""
        self._closing = True
        self._conversation.wake()
        with self._using:
            if not self._closed:
                self._close()

    def _close(self) -> None:
        self._closed = True
        self._conversation.close()
        for output in self._outputs:
            os.close(output.descriptor)
        if self._stdin is not None:
            self._stdin.close()
