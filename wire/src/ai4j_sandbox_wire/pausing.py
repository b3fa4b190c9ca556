"""Commands that outlive a pause of their sandbox.

A pause ends every stream, also the one a command is followed by, while the command itself goes on afterwards. So
nothing that happens to a stream around a pause counts; when the sandbox runs again, the command is followed anew. What
it wrote before somebody followed it again is lost: envd keeps no output.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from ai4j_sandbox.errors import Outcome, SandboxConflictError, SandboxException, SessionState
from ai4j_sandbox.model import TerminalSize
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit


class PauseGate:
    """Whether a session paused its sandbox, and how often: closed from before the pause until after the resume."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.pauses = 0

    @property
    def closed(self) -> bool:
        """Whether the sandbox is paused, or about to be."""
        return not self._open.is_set()

    def require_open(self) -> None:
        """Refuse what cannot work now.

        Raises:
            SandboxConflictError: The sandbox is paused.
        """
        if self.closed:
            raise SandboxConflictError(
                "the sandbox is paused",
                hint="call resume()",
                retryable=False,
                outcome=Outcome.NOT_STARTED,
                session_state=SessionState.INTACT,
            )

    def wait_open(self, timeout: float | None) -> bool:
        """Wait until the sandbox runs; ``False`` after `timeout` seconds."""
        return self._open.wait(timeout)

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        """Close around the call that pauses; a call that fails leaves the gate as it was."""
        was_closed = self.closed
        self._open.clear()
        try:
            yield
        except BaseException:
            if not was_closed:
                self._open.set()
            raise
        self.pauses += 1

    def resumed(self) -> None:
        """Open: the sandbox runs again."""
        self._open.set()


class PausableChannel(ProcessChannel):
    """A command's channel across pauses.

    Args:
        channel: Follows the command now.
        gate: Tells about pauses.
        follow: Returns a channel that follows the same command from now on.
        kill: Signals the command's tree, whatever became of its streams.
        explained: Entered around calls that the sandbox answers; finds out what it means when something else does.
    """

    def __init__(
        self,
        channel: ProcessChannel,
        gate: PauseGate,
        *,
        follow: Callable[[ProcessChannel], ProcessChannel],
        kill: Callable[[ProcessChannel, str], bool],
        explained: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self.pid = channel.pid
        self._channel = channel
        self._gate = gate
        self._follow = follow
        self._kill = kill
        self._explained = explained
        self._pauses = gate.pauses
        self._cut = False  # by a pause
        self._closed = False

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        """Return the next piece of output or the exit; ``None`` while the sandbox is paused."""
        if not self._gate.wait_open(timeout):
            return None
        if self._pauses != self._gate.pauses or self._cut:
            piece = self._leftover()
            if piece is not None:
                return piece
            self._follow_anew()
        return self._received(timeout)

    def kill(self, signal: str) -> bool:
        """Signal the command and all its descendants (`ProcessChannel.kill`)."""
        return self._kill(self._channel, signal) if self._cut else self._channel.kill(signal)

    def close(self) -> None:
        """Let go of the stream (`ProcessChannel.close`)."""
        self._closed = True
        self._channel.close()

    def write_stdin(self, data: bytes) -> None:
        """Hand bytes to the command (`ProcessChannel.write_stdin`)."""
        self._gate.require_open()
        with self._explained():
            self._channel.write_stdin(data)

    def close_stdin(self) -> None:
        """End the command's input (`ProcessChannel.close_stdin`)."""
        self._gate.require_open()
        with self._explained():
            self._channel.close_stdin()

    def resize(self, size: TerminalSize) -> None:
        """Change the size of the command's terminal (`ProcessChannel.resize`)."""
        self._gate.require_open()
        with self._explained():
            self._channel.resize(size)

    def _received(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        try:
            return self._channel.receive(timeout)
        except SandboxException:
            if self._closed or (self._pauses == self._gate.pauses and not self._gate.closed):
                raise
            self._cut = True
            return None

    def _leftover(self) -> OutputChunk | ProcessExit | None:
        """What had arrived before the pause."""
        return None if self._cut else self._received(0)

    def _follow_anew(self) -> None:
        pauses = self._gate.pauses
        self._channel.close()
        self._channel = self._follow(self._channel)
        self._pauses, self._cut = pauses, False
