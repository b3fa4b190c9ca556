"""A command that runs in an emulated sandbox, and everybody who listens to it.

One thread per command pumps the SPI's output to the subscribers. Rules taken from envd, which the other services share
or do not contradict:

* A subscriber gets what happens after it subscribed; output nobody listens to is gone.
* The slowest subscriber sets the pace of all, and in the end of the command itself.
* A subscriber that leaves does not stop the command.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox.deadline import Clock
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import SandboxCommand, SandboxResult, TerminalSize
from ai4j_sandbox.process import OutputChunk, SandboxProcess

from .bridge import Subscription


@dataclass(frozen=True, slots=True)
class Started:
    """The command runs under this process id."""

    pid: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The command ended."""

    result: SandboxResult


@dataclass(frozen=True, slots=True)
class Failed:
    """The command could not be started, or it is not known how it ended."""

    error: SandboxException


@dataclass(frozen=True, slots=True)
class Expired:
    """Its time is up; it is being killed."""


ProcessEvent = Started | OutputChunk | Ended | Failed | Expired
Listener = Subscription[ProcessEvent]


class EmulatedProcess:
    """One command. Its thread writes the state, the loop's thread reads it.

    Attributes:
        command: What was asked for.
        tag: The client's own name for it.
        pid: Its process id, once it has started.
        end: How it ended, once it has.
        ended_at: When it ended, by the emulator's clock.
        accepts_stdin: Whether its stdin is open.
    """

    def __init__(
        self,
        command: SandboxCommand,
        start: Callable[[SandboxCommand], SandboxProcess],
        *,
        tag: str | None,
        next_pid: Callable[[], int],
        clock: Clock,
    ) -> None:
        self.command = command
        self.tag = tag
        self.accepts_stdin = command.keep_stdin_open
        self.pid: int | None = None
        self.end: Ended | Failed | None = None
        self.ended_at: float | None = None
        self._start = start
        self._next_pid = next_pid
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self._process: SandboxProcess | None = None
        self._over = asyncio.Event()

    @property
    def is_terminal(self) -> bool:
        """Whether it runs on a terminal."""
        return self.command.terminal is not None

    @property
    def tells_pid(self) -> bool:
        """Whether `pid` is the provider's, so that a ``kill`` inside the sandbox knows it."""
        return self._process is not None and self._process.pid is not None

    @property
    def is_running(self) -> bool:
        """Whether it has started and not ended."""
        return self.pid is not None and self.end is None

    def run(self) -> None:
        """Start the command; what becomes of it the listeners learn."""
        threading.Thread(target=self._pump, name=f"emulator-{self.command.command_id[:8]}", daemon=True).start()

    def listen(self) -> Listener:
        """Return a queue of what happens from now on; for a command that has started or ended, that comes first."""
        listener: Listener = Subscription(self._loop)
        with self._lock:
            if self.pid is not None:
                listener.put_now(Started(self.pid))
            if self.end is not None:
                listener.put_now(self.end)
            self._listeners = (*self._listeners, listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """Stop listening. The command goes on."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
        listener.close()

    async def write_stdin(self, data: bytes) -> None:
        """Hand bytes to the command.

        Raises:
            SandboxException: It takes none, or none any more.
        """
        await in_thread(self._live().write_stdin, data)

    async def close_stdin(self) -> None:
        """End the command's input."""
        self.accepts_stdin = False
        await in_thread(self._live().close_stdin)

    async def resize(self, size: TerminalSize) -> None:
        """Change the size of its terminal."""
        await in_thread(self._live().resize, size)

    async def kill_tree(self, signal: str) -> bool:
        """Send a signal to the command and its descendants; ``False`` when it had ended."""
        return self._process is not None and await in_thread(self._process.kill, signal)

    async def wait_over(self, seconds: float) -> bool:
        """Whether the command ended within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    def _live(self) -> SandboxProcess:
        if self._process is None or self.end is not None:
            raise SandboxException("the process has ended")
        return self._process

    # --- in the command's own thread -----------------------------------------------------------------------------

    def _pump(self) -> None:
        try:
            self._process = self._start(self.command)
            self._tell_started(self._process.pid or self._next_pid())
            for chunk in self._process.output():
                for listener in self._listeners:
                    listener.put(chunk, len(chunk.data))
            self._tell_end(Ended(self._process.wait()))
        except SandboxException as error:
            self._tell_end(Failed(error))
        except Exception as error:  # noqa: BLE001  any provider may be behind this; its bug must not hang a client
            self._tell_end(Failed(SandboxException(f"the provider failed: {type(error).__name__}: {error}")))

    def _tell_started(self, pid: int) -> None:
        with self._lock:
            self.pid = pid
            for listener in self._listeners:
                listener.put_now(Started(pid))

    def _tell_end(self, end: Ended | Failed) -> None:
        with self._lock:
            self.ended_at = self._clock()
            self.end = end
            for listener in self._listeners:
                listener.put_now(end)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._over.set)
