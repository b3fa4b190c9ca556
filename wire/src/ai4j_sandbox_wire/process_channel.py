"""A command that runs under envd, as the core's `ProcessChannel`.

* The command carries a marker in its environment, so that `kill` reaches the whole tree (`process_tree`).
* Input known beforehand is fed by a thread of its own: a command that echoes ten megabytes while it reads them would
  otherwise wait for us to read while we wait for it to read.
* An end event is the end, whatever the stream says afterwards. A stream that stops without one is diagnosed by the
  provider, which alone can find out whether the sandbox still lives; it is never a success.
* A deadline that the service enforces is a result. envd then kills one process; we end the rest of the tree.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
    SandboxTimeoutError,
)
from ai4j_sandbox.model import TerminalSize
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit

from .connect import ConnectError, Envelope, parse_end_of_stream
from .envd import ProcessEnded, ProcessEvent, ProcessStarted, Selector, StartRequest, event_decoder, process_exit
from .envd_client import EnvdClient, MessageStream
from .errors import StreamCutError
from .process_tree import kill_arguments, marked_environment

KILL_SECONDS = 1.0
"""How long one attempt to signal a tree may keep its caller."""

_INPUT_CHUNK_BYTES = 256 * 1024
_END_OF_TRANSMISSION = b"\x04\x04"  # a terminal's end of input; within a line the first only hands over the line
_DONE_WITH_INPUT = frozenset((400, 404, 409, 500))  # envd's answers when the process, or its input, has ended

_FED = threading.Event()  # of every command that reads nothing
_FED.set()

Diagnose = Callable[[SandboxException], SandboxException | None]
"""Finds out why a command's stream broke: the error to raise, or ``None`` when nothing better is known. May ask the
service, and takes a few seconds at most."""


def no_diagnosis(cause: SandboxException) -> SandboxException | None:
    """Know nothing better."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What it takes to start one command.

    Attributes:
        request: The process. Its marker, tag and stdin are added here.
        stdin: What it reads.
        keep_stdin_open: Leave its input open afterwards.
        timeout_millis: What the service is told; ``None`` tells it nothing.
        diagnose: Asked when the stream breaks.
        kill_user: Linux user that signals the tree; ``None`` for the client's own.
    """

    request: StartRequest
    command_id: str
    stdin: bytes = b""
    keep_stdin_open: bool = False
    timeout_millis: int | None = None
    diagnose: Diagnose = no_diagnosis
    kill_user: str | None = None

    @property
    def reads(self) -> bool:
        """Whether the command gets input at all; without any it finds its end at once."""
        return bool(self.stdin) or self.keep_stdin_open or self.request.terminal is not None

    def start_request(self, client: EnvdClient) -> StartRequest:
        """Return the request as it is sent."""
        # Before 0.3.0 envd did not know the field; on a terminal it has no meaning.
        told = self.request.terminal is None and client.options.at_least(0, 3, 0)
        return replace(
            self.request,
            environment={**self.request.environment, **marked_environment(self.command_id)},
            tag=self.command_id,
            stdin=self.reads if told else None,
        )


def launch(client: EnvdClient, launching: Launch, deadline: Deadline) -> ProcessChannel:
    """Start a command, once, and return its channel when it is known to run.

    A deadline that passes before the service says anything is a timed-out command, like any other.

    Raises:
        SandboxNotFoundError: The working directory does not exist.
        SandboxOutcomeUnknownError: It was sent, and the stream broke before its start was known.
        SandboxException: It could not be started.
    """
    try:
        stream = client.start(
            launching.start_request(client), timeout_millis=launching.timeout_millis, deadline=deadline
        )
    except SandboxTimeoutError as error:
        if error.outcome is Outcome.NOT_STARTED or not deadline.expired:
            raise
        return _Unanswered(client, launching)
    except StreamCutError as cut:
        raise launching.diagnose(cut) or _outcome_unknown(cut) from None
    channel = EnvdProcessChannel(client, launching, stream)
    try:
        channel.await_start(deadline)
    except BaseException:
        channel.close()
        raise
    channel.feed()
    return channel


def follow(client: EnvdClient, selector: Selector, launching: Launch, deadline: Deadline) -> ProcessChannel:
    """Return a channel for a command that already runs, from now on. `launching` says how it was started.

    Raises:
        SandboxNotFoundError: No such command runs.
    """
    channel = EnvdProcessChannel(client, launching, client.follow(selector, deadline=deadline))
    try:
        channel.await_start(deadline)
    except BaseException:
        channel.close()
        raise
    channel.input_ready()
    return channel


def run_to_end(client: EnvdClient, request: StartRequest, deadline: Deadline, user: str | None = None) -> ProcessExit:
    """Run a small command of ours and return how it ended; its output is dropped.

    Raises:
        SandboxTimeoutError: It did not end in time.
        SandboxException: It could not be run.
    """
    stream = client.start(request, deadline=deadline, user=user)
    try:
        decode = event_decoder(stream.codec)
        while True:
            envelopes = stream.receive(deadline.remaining())
            if envelopes is None:
                raise SandboxTimeoutError(f"{request.program} did not end in time")
            for envelope in envelopes:
                if envelope.end_of_stream:
                    raise _stream_error(envelope) or StreamCutError("a command's stream ended without its end")
                event = decode(envelope.payload)
                if isinstance(event, ProcessEnded):
                    stream.finish()
                    return process_exit(event)
    finally:
        stream.close()


def kill_tree(
    client: EnvdClient,
    command_id: str,
    signal: str,
    pid: int | None,
    user: str | None = None,
    *,
    seconds: float = KILL_SECONDS,
) -> bool:
    """Signal a command and all its descendants; ``False`` when none was left.

    Args:
        pid: The command's own process, where it is known and has not ended.
        user: Linux user to do it as.
        seconds: How long to wait for it to be done.

    Raises:
        SandboxException: The service could not be reached, or not in time.
    """
    deadline = Deadline(seconds)
    arguments = kill_arguments(command_id, signal, pid)
    end = run_to_end(client, StartRequest(program="/bin/sh", arguments=arguments), deadline, user)
    if end.exit_code in (0, 1):
        return end.exit_code == 0
    if pid is None or signal not in ("SIGTERM", "SIGKILL"):
        return False
    # No shell, or no /proc: at least the command itself can be reached.
    try:
        client.send_signal(Selector(pid), signal, Deadline(KILL_SECONDS))
    except SandboxNotFoundError:
        return False
    return True


class EnvdProcessChannel(ProcessChannel):
    """One command's stream, input and signals. Made by `launch` and `follow`."""

    def __init__(self, client: EnvdClient, launching: Launch, stream: MessageStream) -> None:
        self.pid: int | None = None
        self._client = client
        self._launching = launching
        self._stream = stream
        self._decode: Callable[[bytes], ProcessEvent | None] = event_decoder(stream.codec)
        self._ready: deque[OutputChunk | ProcessExit | SandboxException] = deque()
        self._over = False  # the end, or a failure, is known or was reported
        self._told_to_end = False
        self._closed = False
        self._fed = threading.Event() if launching.reads else _FED  # the input known beforehand has been taken
        self._input_closed = False
        self._input_failure: SandboxException | None = None

    # --- starting -----------------------------------------------------------------------------------------------

    def await_start(self, deadline: Deadline) -> None:
        """Return when the process is known to run, or to have ended, or when `deadline` has passed.

        Raises:
            SandboxException: It was not started, or that is not known.
        """
        patience = Deadline(deadline.bound(self._client.http.limits.read_seconds))
        while self.pid is None and not self._ready:
            if not self._fill(patience.remaining()) and patience.expired:
                if deadline.expired:
                    return
                raise SandboxTimeoutError("the command was sent and its start was not confirmed in time")
        if self._ready and isinstance(self._ready[0], SandboxException):
            raise self._ready[0]

    def feed(self) -> None:
        """Begin to hand over the input known beforehand."""
        if not self._launching.stdin and (self._launching.keep_stdin_open or not self._on_terminal):
            self.input_ready()
            return
        threading.Thread(target=self._feed, name="ai4j-stdin", daemon=True).start()

    def input_ready(self) -> None:
        """Let `write_stdin` through."""
        self._fed.set()

    # --- ProcessChannel -----------------------------------------------------------------------------------------

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        """Return the next piece of output or the exit (`ProcessChannel.receive`)."""
        if not self._ready:
            if self._input_failure is not None:
                self._fed.wait(2 * KILL_SECONDS)  # so that whoever learns of it finds the command ended
                raise self._input_failure
            self._fill(timeout)
            if not self._ready:
                return None
        piece = self._ready.popleft()
        if isinstance(piece, SandboxException):
            raise piece
        if isinstance(piece, ProcessExit) and self._told_to_end:
            self._end_survivors()
        return piece

    def _end_survivors(self) -> None:
        """End what ignored the signal that ended the command itself; by its mark alone, the pid may be reused."""
        with contextlib.suppress(SandboxException):
            kill_tree(self._client, self._launching.command_id, "SIGKILL", None, self._launching.kill_user)

    def kill(self, signal: str) -> bool:
        """Signal the command and all its descendants (`ProcessChannel.kill`)."""
        if self._over:
            return False
        self._told_to_end = self._told_to_end or signal in ("SIGTERM", "SIGKILL")
        return kill_tree(self._client, self._launching.command_id, signal, self.pid, self._launching.kill_user)

    def close(self) -> None:
        """Let go of the stream (`ProcessChannel.close`)."""
        self._closed = True
        self._stream.close()

    def write_stdin(self, data: bytes) -> None:
        """Hand bytes to the command (`ProcessChannel.write_stdin`)."""
        if not self._launching.keep_stdin_open or self._input_closed:
            super().write_stdin(data)
        self._fed.wait()
        for chunk in _chunks(data):
            self._client.send_input(self._selector, chunk, terminal=self._on_terminal)

    def close_stdin(self) -> None:
        """End the command's input (`ProcessChannel.close_stdin`)."""
        self._fed.wait()
        if self._input_closed or self._over or not self._launching.reads:
            return
        self._input_closed = True
        with contextlib.suppress(SandboxNotFoundError):  # it has ended, and its input with it
            if self._on_terminal:
                self._client.send_input(self._selector, _END_OF_TRANSMISSION, terminal=True)
            else:
                self._client.close_stdin(self._selector)

    def resize(self, size: TerminalSize) -> None:
        """Change the size of the command's terminal (`ProcessChannel.resize`)."""
        if not self._on_terminal:
            super().resize(size)
        self._client.resize(self._selector, size)

    # --- the stream ---------------------------------------------------------------------------------------------

    def _fill(self, timeout: float | None) -> bool:
        """Take what arrives next into `_ready`; ``False`` when nothing did within `timeout`."""
        if self._over:
            return False
        try:
            envelopes = self._stream.receive(timeout)
        except StreamCutError as cut:
            self._fail(self._lost(cut))
            return True
        except SandboxException as error:
            self._fail(error)
            return True
        for envelope in envelopes or ():
            if not self._take(envelope):
                break
        return envelopes is not None

    def _take(self, envelope: Envelope) -> bool:
        """Take one message; ``False`` when nothing after it counts."""
        if envelope.end_of_stream:
            self._end_of_stream(envelope)
            return False
        try:
            event = self._decode(envelope.payload)
        except SandboxException as error:
            self._fail(error)
            return False
        if isinstance(event, OutputChunk):
            self._ready.append(event)
        elif isinstance(event, ProcessStarted):
            self.pid = event.pid
        elif isinstance(event, ProcessEnded):
            self._stream.finish()
            self._end(process_exit(event))
        return not self._over

    def _end_of_stream(self, envelope: Envelope) -> None:
        """The stream ended in good order, but without the end of the process."""
        try:
            error = parse_end_of_stream(envelope.payload).error
        except SandboxException as nonsense:
            self._fail(nonsense)
            return
        if error is None:
            self._fail(self._lost(StreamCutError("the stream ended without the end of the command")))
        elif error.code == "deadline_exceeded":
            with contextlib.suppress(SandboxException):
                kill_tree(self._client, self._launching.command_id, "SIGKILL", None, self._launching.kill_user)
            self._end(ProcessExit(exit_code=None, timed_out=True, status_text=error.message or error.code))
        elif self.pid is None:
            self._fail(self._not_started(error))
        else:
            self._fail(self._lost(error.exception("the command's stream")))

    def _end(self, end: ProcessExit) -> None:
        self._over = True
        self._ready.append(end)

    def _fail(self, error: SandboxException) -> None:
        self._over = True
        self._ready.append(error)

    def _lost(self, cause: SandboxException) -> SandboxException:
        if self._closed:  # by ourselves, from another thread
            return SandboxOutcomeUnknownError("the command was let go of before its end was known")
        return self._launching.diagnose(cause) or _outcome_unknown(cause)

    def _not_started(self, error: ConnectError) -> SandboxException:
        if error.code == "invalid_argument" and "cwd" in error.message:
            return SandboxNotFoundError(
                f"the working directory does not exist: {error.message}",
                hint="check working_directory",
                outcome=Outcome.NOT_STARTED,
            )
        cause = error.exception("starting the command", outcome=Outcome.NOT_STARTED)
        if isinstance(cause, SandboxConnectionError):
            return self._launching.diagnose(cause) or cause
        return cause

    # --- input --------------------------------------------------------------------------------------------------

    @property
    def _on_terminal(self) -> bool:
        return self._launching.request.terminal is not None

    @property
    def _selector(self) -> Selector:
        return Selector(self._launching.command_id if self.pid is None else self.pid)

    def _feed(self) -> None:
        try:
            for chunk in _chunks(self._launching.stdin):
                if self._over or self._closed:
                    return
                self._client.send_input(self._selector, chunk, terminal=self._on_terminal)
            self._fed.set()
            if not self._launching.keep_stdin_open:
                self.close_stdin()
        except SandboxException as error:
            # A command need not read its input to the end; that is its own affair, as with a closed pipe.
            if error.http_status not in _DONE_WITH_INPUT and not self._closed:
                self._input_failure = error
                # It would wait for ever for the rest of its input.
                with contextlib.suppress(SandboxException):
                    self.kill("SIGKILL")
        finally:
            self._fed.set()


class _Unanswered(ProcessChannel):
    """A command that was sent, and whose deadline passed before the service said a word."""

    def __init__(self, client: EnvdClient, launching: Launch) -> None:
        self._client = client
        self._launching = launching
        self._killed = False

    def receive(self, timeout: float | None) -> ProcessExit:
        with contextlib.suppress(SandboxException):
            self.kill("SIGKILL")
        return ProcessExit(exit_code=None, timed_out=True, status_text="the service did not answer in time")

    def kill(self, signal: str) -> bool:
        """Try once, briefly, and for good: a mute service gives no occasion for a grace."""
        if self._killed:
            return False
        self._killed = True
        launching = self._launching
        return kill_tree(
            self._client, launching.command_id, "SIGKILL", None, launching.kill_user, seconds=KILL_SECONDS / 2
        )

    def close(self) -> None:
        pass


def _chunks(data: bytes) -> Iterable[bytes]:
    for start in range(0, len(data), _INPUT_CHUNK_BYTES):
        yield data[start : start + _INPUT_CHUNK_BYTES]


def _outcome_unknown(cause: SandboxException) -> SandboxOutcomeUnknownError:
    return SandboxOutcomeUnknownError(
        f"the command's end never arrived: {cause.message}", hint="it may still run in the sandbox"
    )


def _stream_error(envelope: Envelope) -> SandboxException | None:
    error = parse_end_of_stream(envelope.payload).error
    return None if error is None else error.exception("the command's stream")
