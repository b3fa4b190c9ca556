"""A running command: the bytes a provider delivers, and the policy around them.

A provider implements `ProcessChannel`: bytes out, bytes in, signals. `SandboxProcess` is the same for all of
them and owns the rules:

* Whoever iterates or waits drives the channel; there is no thread of ours. One thread at a time receives.
* The deadline is wall-clock for the whole command. When it passes, the tree gets TERM, after a grace KILL, and the
  call returns soon after even if nothing more arrives.
* Once an exit was received the result is fixed. A channel that ends without one raises
  `SandboxOutcomeUnknownError` with what had arrived; an unknown exit code is never 0.
* Output is bytes until somebody asks for text. Events are masked, results are the user's own and are not.
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from .deadline import Clock, Deadline
from .errors import SandboxConfigError, SandboxException, SandboxOutcomeUnknownError
from .events import CommandEvents, Observer
from .frozen import type_name
from .model import (
    OutputStream,
    SandboxArtifact,
    SandboxCommand,
    SandboxEvent,
    SandboxEventType,
    SandboxResult,
    StreamMode,
    TerminalSize,
    encodable,
)
from .output import OutputCapture
from .redaction import Scrubber

TERM_GRACE_SECONDS = 0.5
"""How long a command may take to end after TERM before it gets KILL."""

KILL_GRACE_SECONDS = 1.0
"""How long we wait for the end of a command after KILL before we return without it."""

_WAKE_SECONDS = 0.5  # the longest wait in one `receive`, so that a cancellation by another thread is noticed


@dataclass(frozen=True, slots=True)
class OutputChunk:
    """Bytes of one stream as they arrived; never empty.

    Attributes:
        skipped_bytes: How many bytes the command wrote right before these and the service did not keep. Only where
            nobody asked for live output.
    """

    stream: OutputStream
    data: bytes
    skipped_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """How a command ended, as the provider learned it.

    Attributes:
        exit_code: As a shell reports it: 128 + n after signal n; ``None`` when the service does not say.
        signal: ``"SIGKILL"``, when a signal ended it and the service says so.
        timed_out: The service itself enforced the deadline.
        status_text: The service's own words.
    """

    exit_code: int | None
    signal: str | None = None
    timed_out: bool = False
    status_text: str | None = None


class ProcessChannel(ABC):
    """What a provider opens for one command. It moves bytes and signals and knows no policy.

    `receive` is called by one thread at a time; every other method may be called from any thread.
    """

    pid: int | None = None

    @abstractmethod
    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        """Return the next piece of output or the exit, or ``None`` after `timeout` seconds without either.

        Not called again after it returned a `ProcessExit`.

        Raises:
            SandboxOutcomeUnknownError: The stream ended without an exit.
            SandboxSessionLostError: It ended because the sandbox is gone.
            SandboxException: Any other failure of the provider.
        """

    @abstractmethod
    def kill(self, signal: str) -> bool:
        """Send a signal (``"SIGTERM"``) to the command and all its descendants; ``False`` when it had ended."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection and wake a `receive` in another thread; a running command runs on. Idempotent."""

    def write_stdin(self, data: bytes) -> None:
        """Hand bytes to the command; returns when they were accepted, not when they were read."""
        raise SandboxException("this command has no open stdin", hint="start it with keep_stdin_open=True")

    def close_stdin(self) -> None:  # noqa: B027 - without an open stdin there is nothing to do
        """Tell the command that its input ends here. Idempotent."""

    def resize(self, size: TerminalSize) -> None:
        """Change the size of the command's terminal."""
        raise SandboxException("this command has no terminal", hint="start it with terminal=TerminalSize()")


SIGNAL_NAMES = frozenset(
    f"SIG{name}"
    for name in (
        *("HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "IOT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE"),
        *("ALRM", "TERM", "STKFLT", "CHLD", "CLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ"),
        *("VTALRM", "PROF", "WINCH", "IO", "POLL", "PWR", "SYS", "RTMIN", "RTMAX"),
    )
)
"""Names of signal(7): those of the sandbox, which runs Linux, whatever the host is."""


def _signal_name(signal: object) -> str:
    name = signal if isinstance(signal, str) and signal.startswith("SIG") else f"SIG{signal}"
    if not isinstance(signal, str) or name not in SIGNAL_NAMES:
        raise SandboxConfigError(f"{signal!r} is not the name of a signal", hint="for example SIGTERM")
    return name


def _input_bytes(data: object) -> bytes:
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if not isinstance(data, str | bytes):
        raise SandboxConfigError(f"input must be text or bytes, got {type_name(data)}")
    return encodable("input", data).encode() if isinstance(data, str) else data


def _no_artifacts(command: SandboxCommand) -> tuple[SandboxArtifact, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessContext:
    """What the session gives a process it starts.

    Attributes:
        scrubber: Masks what the session knows to be secret, in events and errors.
        observer: Receives every event; ``None`` when nobody listens, which spares making output events.
        collect_artifacts: Called after the exit; turns the command's patterns into artifacts.
        ended: Called once when the process needs no more looking after.
    """

    session_id: str | None = None
    provider_id: str | None = None
    streams: StreamMode = StreamMode.SEPARATE
    scrubber: Scrubber = field(default_factory=Scrubber)
    observer: Observer | None = None
    collect_artifacts: Callable[[SandboxCommand], tuple[SandboxArtifact, ...]] = _no_artifacts
    ended: Callable[[SandboxProcess], None] = lambda process: None
    clock: Clock = time.monotonic
    term_grace: float = TERM_GRACE_SECONDS
    kill_grace: float = KILL_GRACE_SECONDS


class SandboxProcess:
    """A started command. Iterate it for events, `wait` for the result, `kill` or `cancel` it from any thread.

    Made by `SandboxSession.start`. Also a context manager: leaving the block while the command runs cancels it.
    """

    def __init__(
        self,
        command: SandboxCommand,
        channel: ProcessChannel,
        context: ProcessContext,
        deadline: Deadline | None = None,
    ) -> None:
        self.command = command
        self._channel = channel
        self._context = context
        self._started_at = context.clock()
        self._deadline = deadline or Deadline.after_millis(command.timeout_millis, context.clock)
        self._stop_deadline: Deadline | None = None  # set once the tree was told to end
        self._killed = False
        self._timed_out = False
        self._canceled = False
        self._captures = {stream: OutputCapture(command.output_limit_bytes) for stream in OutputStream}
        self._events = CommandEvents(
            session_id=context.session_id,
            command_id=command.command_id,
            scrubber=context.scrubber,
            observer=context.observer,
        )
        self._receiving = threading.RLock()
        self._stopping = threading.Lock()
        self._reader: int | None = None  # the thread that iterates `output`
        self._helper: SandboxProcess | None = None
        self._done = threading.Event()
        self._result: SandboxResult | None = None
        self._error: BaseException | None = None
        self._events.tell(SandboxEventType.COMMAND_STARTED, f"pid {self.pid}" if self.pid else "started")

    # --- what the host does with it ---------------------------------------------------------------------------

    @property
    def command_id(self) -> str:
        """Names the command within the session, for `SandboxSession.cancel`."""
        return self.command.command_id

    @property
    def pid(self) -> int | None:
        """The process id inside the sandbox, where the service tells."""
        return self._channel.pid

    @property
    def done(self) -> bool:
        """Whether the end of the command has been seen."""
        return self._done.is_set()

    @property
    def error(self) -> BaseException | None:
        """Why `wait` raises, once the command is over without a result."""
        return self._error

    def output(self) -> Iterator[OutputChunk]:
        """Yield the command's output as raw, unmasked chunks, as they arrive, until it ends.

        For binary transfers and for showing a user's own output. `wait` afterwards gives the result.

        Raises:
            SandboxOutcomeUnknownError, SandboxSessionLostError, SandboxException: As `wait`.
        """
        self._reader = threading.get_ident()
        try:
            while (chunk := self._receive()) is not None:
                yield chunk
        finally:
            self._reader = None

    def __iter__(self) -> Iterator[SandboxEvent]:
        """Yield the command's events as they happen, output included, known secrets masked.

        Raises:
            SandboxOutcomeUnknownError, SandboxSessionLostError, SandboxException: As `wait`.
        """
        self._events.follow()
        yield from self._events.take()
        while self._receive() is not None:
            yield from self._events.take()
        yield from self._events.take()

    def wait(self) -> SandboxResult:
        """Return the result once the command has ended.

        Returns:
            The result, also for a non-zero exit, a timeout and a cancellation.

        Raises:
            SandboxOutcomeUnknownError: The stream broke; carries the partial result.
            SandboxSessionLostError: The sandbox is gone.
            SandboxException: Any other failure of the provider.
        """
        while self._receive() is not None:
            pass
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def write_stdin(self, data: bytes | str) -> None:
        """Hand input to the command (text as UTF-8). See `SandboxCommand.stdin` for input known beforehand.

        Raises:
            SandboxConfigError: It is neither bytes nor text that UTF-8 can write.
            SandboxException: The command has ended, or its stdin is closed.
        """
        self._channel.write_stdin(_input_bytes(data))

    def close_stdin(self) -> None:
        """Tell the command that its input ends here."""
        self._channel.close_stdin()

    def resize(self, size: TerminalSize) -> None:
        """Change the size of the command's terminal.

        Raises:
            SandboxConfigError: It is no `TerminalSize`.
            SandboxException: The command has no terminal.
        """
        if not isinstance(size, TerminalSize):
            raise SandboxConfigError(f"size must be a TerminalSize, got {type_name(size)}")
        self._channel.resize(size)

    def kill(self, signal: str = "SIGKILL") -> bool:
        """Send a signal (``"SIGTERM"``, or ``"TERM"``) to the command and all its descendants.

        Returns:
            ``False`` when it had ended already.

        Raises:
            SandboxConfigError: Linux has no signal of that name.
            SandboxException: The service cannot send it.
        """
        name = _signal_name(signal)
        return False if self.done else self._channel.kill(name)

    def cancel(self) -> bool:
        """Stop the command and its descendants for good: TERM, a grace, KILL. From any thread.

        Returns:
            ``True`` when it was running and is stopped now; its result says ``canceled``. ``False`` when it had
            ended by itself.
        """
        if self.done:
            return False
        with self._stopping:
            if self._stop_deadline is None:
                self._canceled = True
                self._canceled = self._stop()
        if self._helper is not None:
            self._helper.cancel()
        if self._reader not in (None, threading.get_ident()):
            self._done.wait(self._context.term_grace)  # the command's last words belong to whoever reads its output
        if self._receiving.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._receiving.release()
        else:  # the receiving thread finds the stop deadline when it wakes
            self._done.wait(self._context.term_grace + self._context.kill_grace + 2 * _WAKE_SECONDS)
        return self._canceled if self._result is None else self._result.canceled

    def helped_by(self, helper: SandboxProcess) -> None:
        """Let `cancel` also reach a process of ours that looks at what this command left behind."""
        self._helper = helper
        if self._stop_deadline is not None:
            helper.cancel()

    def detach(self) -> None:
        """Let go of the command without stopping it; a provider that can find it again does so by `command_id`."""
        self._channel.close()
        self._finish(error=SandboxOutcomeUnknownError("the command was detached and may still run"))

    def session_closing(self) -> None:
        """The session is being closed: the command counts as canceled, and whoever receives is woken."""
        if not self.done:
            self._canceled = True
            self._stop_deadline = Deadline(self._context.kill_grace, self._context.clock)
            self._killed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.done:
            self.cancel()

    def __repr__(self) -> str:
        state = "done" if self.done else "running"
        return f"SandboxProcess(command_id={self.command_id!r}, pid={self.pid}, {state})"

    # --- receiving ----------------------------------------------------------------------------------------------

    def _receive(self) -> OutputChunk | None:
        """Return the next chunk, or ``None`` when the command has ended and result or error are set."""
        with self._receiving:
            while not self._done.is_set():
                self._enforce_limits()
                if self._done.is_set():
                    break
                try:
                    piece = self._channel.receive(self._patience())
                    if isinstance(piece, OutputChunk):
                        self._captures[piece.stream].feed(piece.data, skipped_bytes=piece.skipped_bytes)
                        self._events.output(piece.stream, piece.data, skipped_bytes=piece.skipped_bytes)
                        return piece
                    if isinstance(piece, ProcessExit):
                        self._exited(piece)
                except SandboxException as error:
                    self._broke(error)
                except BaseException as error:
                    # KeyboardInterrupt above all: what runs remotely must not outlive our interest in it.
                    self._abandon(error)
                    raise
            if self._error is not None:
                raise self._error
            return None

    def _patience(self) -> float:
        return (self._stop_deadline or self._deadline).bound(_WAKE_SECONDS)

    def _enforce_limits(self) -> None:
        """Act when the limit in force has passed: deadline, then TERM; grace, then KILL; second grace, then leave."""
        if self._stop_deadline is None:
            if self._deadline.expired:
                self._timed_out = self._stop()
        elif self._stop_deadline.expired:
            if self._killed:
                self._timed_out = not self._canceled
                self._exited(ProcessExit(exit_code=None, status_text="did not end after SIGKILL"))
            else:
                self._kill_hard()

    def _stop(self) -> bool:
        """Tell the tree to end. ``False`` when it had ended by itself and its exit only waits to be received."""
        self._stop_deadline = Deadline(self._context.term_grace, self._context.clock)
        return self._signal("SIGTERM")

    def _kill_hard(self) -> None:
        self._killed = True
        self._stop_deadline = Deadline(self._context.kill_grace, self._context.clock)
        self._signal("SIGKILL")

    def _signal(self, signal: str) -> bool:
        try:
            return self._channel.kill(signal)
        except SandboxException:
            return True  # not known; then the end of the stream tells

    def _drain(self) -> None:
        with contextlib.suppress(SandboxException):
            while self._receive() is not None:
                pass

    def _abandon(self, error: BaseException) -> None:
        self._canceled = True
        self._stop()
        self._kill_hard()
        self._channel.close()
        self._finish(error=error)

    # --- ending -------------------------------------------------------------------------------------------------

    def _exited(self, end: ProcessExit) -> None:
        self._channel.close()
        timed_out = self._timed_out or end.timed_out
        canceled = self._canceled and not timed_out
        exit_code = end.exit_code
        if exit_code == 0 and (timed_out or canceled):
            exit_code = None  # it was stopped: whatever its trap reported, it did not succeed
        artifacts, artifacts_error = ((), None) if timed_out or canceled else self._artifacts()
        self._events.end_streams()
        self._tell_dropped()
        for artifact in artifacts:
            self._events.tell(SandboxEventType.ARTIFACT_CREATED, artifact.path)
        kind = SandboxEventType.COMMAND_CANCELED if canceled else SandboxEventType.COMMAND_FINISHED
        message = _finish_message(exit_code, end, timed_out=timed_out, canceled=canceled)
        self._events.tell(kind, message, exit_code=exit_code, timed_out=timed_out)
        self._finish(
            result=self._snapshot(
                exit_code=exit_code,
                signal=end.signal,
                timed_out=timed_out,
                canceled=canceled,
                artifacts=artifacts,
                status_text=end.status_text,
                artifacts_error=artifacts_error,
            )
        )

    def _broke(self, error: SandboxException) -> None:
        """The channel failed. While we were stopping the command that is an end as good as any other."""
        self._channel.close()
        if self._timed_out or self._canceled:
            self._exited(ProcessExit(exit_code=None, status_text=error.message))
            return
        self._events.end_streams()
        error.scrubbed(self._context.scrubber)
        self._events.tell(SandboxEventType.ERROR, error.message)
        if isinstance(error, SandboxOutcomeUnknownError) and error.result is None:
            error.result = self._snapshot()
        self._finish(
            error=error.located(
                provider_id=self._context.provider_id,
                session_id=self._context.session_id,
                command_id=self.command_id,
                operation="execute",
            )
        )

    def _finish(self, *, result: SandboxResult | None = None, error: BaseException | None = None) -> None:
        if self._done.is_set():
            return
        self._result, self._error = result, error
        self._done.set()
        self._context.ended(self)

    def _artifacts(self) -> tuple[tuple[SandboxArtifact, ...], str | None]:
        """Return what the command left behind, and why nobody knows where that is so."""
        if not self.command.artifacts:
            return (), None
        try:
            return self._context.collect_artifacts(self.command), None
        except SandboxException as error:
            # The command has ended and its result is known: a failure to look around must not take it away.
            reason = str(error.scrubbed(self._context.scrubber))
            self._events.tell(SandboxEventType.ERROR, f"artifacts could not be collected: {reason}")
            return (), reason

    def _snapshot(
        self,
        *,
        exit_code: int | None = None,
        signal: str | None = None,
        timed_out: bool = False,
        canceled: bool = False,
        artifacts: tuple[SandboxArtifact, ...] = (),
        status_text: str | None = None,
        artifacts_error: str | None = None,
    ) -> SandboxResult:
        return SandboxResult(
            command_id=self.command_id,
            exit_code=exit_code,
            captured_stdout=self._captures[OutputStream.STDOUT].captured(),
            captured_stderr=self._captures[OutputStream.STDERR].captured(),
            signal=signal,
            timed_out=timed_out,
            canceled=canceled,
            duration_millis=round((self._context.clock() - self._started_at) * 1000),
            artifacts=artifacts,
            events=tuple(self._events.lifecycle),
            streams=StreamMode.MERGED if self.command.terminal else self._context.streams,
            status_text=status_text,
            artifacts_error=artifacts_error,
        )

    def _tell_dropped(self) -> None:
        for stream, capture in self._captures.items():
            dropped = capture.dropped_bytes
            if dropped:
                message = f"{stream} truncated: {dropped} of {capture.total_bytes} bytes dropped"
                self._events.tell(SandboxEventType.COMMAND_OUTPUT, message, stream=stream, dropped_bytes=dropped)


def _finish_message(exit_code: int | None, end: ProcessExit, *, timed_out: bool, canceled: bool) -> str:
    parts = [f"exit code {'unknown' if exit_code is None else exit_code}"]
    if timed_out:
        parts.append("timed out")
    if canceled:
        parts.append("canceled")
    if end.signal:
        parts.append(end.signal)
    if end.status_text:
        parts.append(end.status_text)
    return ", ".join(parts)
