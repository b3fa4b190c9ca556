"""A session whose sandbox runs envd: what E2B and CubeSandbox have in common.

Commands, files, watching, use and finding commands again are envd's, and the same for both. A provider adds what its
control plane can do, and says what became of a sandbox that does not answer any more.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, ClassVar, Self
from weakref import WeakSet

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
    SandboxPausedError,
    SandboxSessionClosedError,
    SandboxSessionLostError,
    SandboxTimeoutError,
    SandboxUnreachableError,
    SessionState,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.files import SandboxFiles
from ai4j_sandbox.frozen import empty_mapping
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.process import KILL_GRACE_SECONDS, TERM_GRACE_SECONDS, ProcessChannel, SandboxProcess
from ai4j_sandbox.redaction import Scrubber
from ai4j_sandbox.spi import Metrics, ProcessSummary, SandboxSession, SessionDescription

from .base_url import BaseUrl
from .connect import ConnectError, parse_end_of_stream, unary_error
from .direct import DirectTransport
from .envd import FileEvent, ProcessRecord, Selector, StartRequest, decode_watch_message
from .envd_client import EnvdClient, MessageStream
from .envd_files import EnvdFiles
from .errors import StreamCutError
from .faults import Explain, Fault
from .http import HttpClient
from .message import HttpLimits, HttpReply
from .pausing import PausableChannel, PauseGate
from .process_channel import Launch, follow, kill_tree, launch

PROBE_SECONDS = 5.0
"""How long a question may take that is asked only to find out why something broke."""

STOPPING_MILLIS = round((TERM_GRACE_SECONDS + KILL_GRACE_SECONDS) * 1000)
"""How much longer than the command's own limit envd is told: its kill is for when we are gone, ours is polite first."""

_MOST = 2.0**63  # of any figure that a machine tells of itself

# Opens the file before it removes it, so that nothing is left behind however the command ends.
_SPOOLED = 'exec <"$1"; rm -f -- "$1"; shift; exec "$@"'


class RemoteState(StrEnum):
    """What the control plane says of a sandbox."""

    RUNNING = "running"
    PAUSED = "paused"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvdSetup:
    """How a session reaches its envd, and how commands are run there.

    Attributes:
        transport: What the client sends with; closed with the session.
        shell: What a command line is appended to.
        working_directory: Where commands run that name no directory; ``None`` for the user's default.
        environment: Variables under every command's own.
        stopping_millis: How much longer than the command's own limit envd is told.
    """

    client: EnvdClient
    transport: DirectTransport
    shell: tuple[str, ...]
    working_directory: str | None = None
    environment: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    stopping_millis: int = STOPPING_MILLIS


class EnvdSession(SandboxSession):
    """One sandbox with an envd in it."""

    lifetime_advice: ClassVar[str] = "give the sandbox a longer life, or call session.extend() in time"
    """What to do about a sandbox whose life was over; a provider names its setting."""

    def __init__(self, description: SessionDescription, setup: EnvdSetup) -> None:
        self._setup = setup
        self._envd = setup.client
        self._gate = PauseGate()
        self._channels: WeakSet[ProcessChannel] = WeakSet()  # also those whose handle nobody waits for any more
        super().__init__(description)

    # --- what a provider implements -----------------------------------------------------------------------------

    @abstractmethod
    def _remote_state(self, deadline: Deadline) -> RemoteState:
        """Ask the control plane what became of the sandbox.

        Raises:
            SandboxException: It does not say.
        """

    @abstractmethod
    def _destroys(self) -> bool:
        """Whether `close` destroys the sandbox, and does not only leave it."""

    @abstractmethod
    def _destroy_sandbox(self) -> None:
        """Destroy the sandbox; `SandboxNotFoundError` counts as done."""

    def _arguments(self, command: SandboxCommand) -> tuple[str, ...]:
        """Return program and arguments of a command."""
        return command.argv(self._setup.shell)

    # --- commands -----------------------------------------------------------------------------------------------

    def _open_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        self._gate.require_open()
        with self._explained():
            launching = self._launching(command)
            channel = launch(self._envd, launching, deadline)
        return self._pausable(channel, launching)

    def _launching(self, command: SandboxCommand) -> Launch:
        arguments, stdin = self._arguments(command), command.stdin_bytes
        if (stdin or command.keep_stdin_open) and command.terminal is None and not self._closes_stdin:
            arguments, stdin = self._spooled(command, arguments), b""
        program, *rest = arguments
        request = StartRequest(
            program=program,
            arguments=tuple(rest),
            environment={**self._setup.environment, **command.environment},
            working_directory=command.working_directory or self._setup.working_directory,
            terminal=command.terminal,
        )
        return Launch(
            request=request,
            command_id=command.command_id,
            stdin=stdin,
            keep_stdin_open=command.keep_stdin_open,
            timeout_millis=self._told_millis(command),
            diagnose=self._diagnose,
        )

    def _told_millis(self, command: SandboxCommand) -> int | None:
        return None if command.timeout_millis is None else command.timeout_millis + self._setup.stopping_millis

    @property
    def _closes_stdin(self) -> bool:
        return self._envd.options.at_least(0, 5, 2)

    def _spooled(self, command: SandboxCommand, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Let the command read its input from a file: this envd cannot tell it where a pipe ends."""
        if command.keep_stdin_open:
            raise UnsupportedCapabilityError(
                f"envd {self._envd.options.version} cannot close a command's input, so it cannot be left open",
                hint="give the whole input as stdin=, or start from a newer template",
            )
        path = f"/tmp/.ai4j-stdin-{uuid.uuid4().hex}"
        self._envd.write_file(path, [command.stdin_bytes])
        return ("/bin/sh", "-c", _SPOOLED, "ai4j-stdin", path, *arguments)

    def _pausable(self, channel: ProcessChannel, launching: Launch) -> ProcessChannel:
        def followed(before: ProcessChannel) -> ProcessChannel:
            selector = Selector(launching.command_id if before.pid is None else before.pid)
            try:
                return follow(self._envd, selector, launching, Deadline(self._envd.http.limits.read_seconds))
            except SandboxException as error:
                raise SandboxOutcomeUnknownError(
                    f"the command could not be found again after the pause: {error.message}",
                    hint="it may have ended meanwhile",
                ) from None

        def killed(before: ProcessChannel, signal: str) -> bool:
            return kill_tree(self._envd, launching.command_id, signal, before.pid, launching.kill_user)

        pausable = PausableChannel(channel, self._gate, follow=followed, kill=killed, explained=self._explained)
        with self._lock:
            self._channels.add(pausable)
        return pausable

    def list_processes(self) -> list[ProcessSummary]:
        """Return the commands that still run, also those whose handle was let go."""
        return [_summary(record) for record in self._records()]

    def _records(self) -> list[ProcessRecord]:
        self._require_ready()
        with self._explained():
            return self._envd.list_processes()

    def attach(self, command_id: str) -> SandboxProcess:
        """Return a process for a running command; its output is what it writes from now on.

        Raises:
            SandboxNotFoundError: No such command runs.
            SandboxConflictError: Another handle of this session still follows it.
        """
        self._require_ready()
        # By process id: envd finds a tag only while no other tagged process runs.
        record = next((record for record in self._records() if record.tag == command_id), None)
        if record is None:
            raise SandboxNotFoundError(
                f"no command {command_id!r} runs in the sandbox",
                session_state=SessionState.INTACT,
                provider_id=self.provider_id,
                session_id=self.session_id,
            )
        command = SandboxCommand(command=_summary(record).command, command_id=command_id)
        return self._follow(command, lambda command, deadline: self._followed(record, command_id))

    def _followed(self, record: ProcessRecord, command_id: str) -> ProcessChannel:
        request = StartRequest(program=record.program, arguments=record.arguments)
        launching = Launch(request=request, command_id=command_id, keep_stdin_open=True, diagnose=self._diagnose)
        deadline = Deadline(self._envd.http.limits.read_seconds)
        with self._explained():
            channel = follow(self._envd, Selector(record.pid), launching, deadline)
        return self._pausable(channel, launching)

    # --- files and use ------------------------------------------------------------------------------------------

    def _files(self) -> SandboxFiles:
        self._gate.require_open()
        return EnvdFiles(self._envd, super()._files(), explained=self._explained)

    def watch(self, path: str, *, recursive: bool = False) -> FileWatch:
        """Watch a directory; what happens after this returns is told.

        Args:
            recursive: Also everything below it.

        Raises:
            SandboxNotFoundError: No such directory.
            SandboxConfigError: It is no directory.
        """
        self._require_ready()
        with self._explained():
            stream = self._envd.watch_dir(path, recursive=recursive)
        return FileWatch(stream, self._envd.http.limits.read_seconds, self._why_broken)

    def metrics(self) -> Metrics:
        """Return what the machine uses right now."""
        self._require_ready()
        with self._explained():
            return parse_metrics(self._envd.metrics())

    # --- life ---------------------------------------------------------------------------------------------------

    def _destroy(self) -> None:
        try:
            if self._destroys():
                self._destroy_sandbox()
            else:
                self._end_commands()
        finally:
            self.disconnect()

    def disconnect(self) -> None:
        """Close every connection to the sandbox, whatever becomes of it."""
        with self._lock:
            channels = list(self._channels)
        for channel in channels:
            channel.close()
        self._setup.transport.close()

    def _end_commands(self) -> None:
        """Kill what this session's handles follow: it counts as canceled. What was detached runs on."""
        with self._lock:
            running = list(self._processes.values())
        for process in running:
            with contextlib.suppress(SandboxException):
                process.kill()

    def _require_ready(self) -> None:
        self._require_open()
        self._gate.require_open()

    # --- why something broke ------------------------------------------------------------------------------------

    def _diagnose(self, cause: SandboxException) -> SandboxException | None:
        """Find out why a command's stream broke. The command ran, so that no answer invites to run it again."""
        if self._gate.closed:
            return None
        answers, state = self._condition(cause)
        if answers:
            return SandboxOutcomeUnknownError(
                f"the connection to the running command broke: {cause.message}",
                hint="the sandbox runs, and the command may too: session.attach(command_id) follows it",
                session_state=SessionState.INTACT,
            )
        if state is RemoteState.GONE:
            return self._gone(Outcome.UNKNOWN)
        if state is RemoteState.PAUSED:
            return SandboxPausedError(
                "the sandbox was paused while the command ran",
                hint="resume the sandbox; session.attach(command_id) then follows the command",
                session_state=SessionState.INTACT,
            )
        broken = f"the connection to the command broke, and the sandbox {{}}: {cause.message}"
        if state is RemoteState.RUNNING:
            return SandboxUnreachableError(
                broken.format("runs but cannot be reached"), hint="the command may still run"
            )
        return SandboxOutcomeUnknownError(
            broken.format("cannot be reached, and its service does not answer either"),
            hint="the command may still run",
        )

    def _why_broken(self, cut: SandboxException) -> SandboxException:
        """Find out why an answer broke that is no command's: a file's, a watch's. Only then may asking again help."""
        try:
            self._require_open()
        except SandboxSessionClosedError as closed:
            return closed
        answers, state = self._condition(cut)
        if answers:
            cut.session_state = SessionState.INTACT
            error = cut
        elif state is RemoteState.GONE:
            error = self._gone(Outcome.UNKNOWN)
        elif state is RemoteState.PAUSED:
            error = SandboxPausedError(
                "the sandbox was paused meanwhile",
                hint="resume the sandbox, then call again",
                session_state=SessionState.INTACT,
            )
        elif state is RemoteState.RUNNING:
            error = SandboxUnreachableError(f"the sandbox runs but cannot be reached: {cut.message}")
        else:
            error = cut
        return self._found_out(error, cut)

    def _condition(self, cause: SandboxException) -> tuple[bool, RemoteState | None]:
        """Return whether envd answers after `cause`, and if it does not, what the control plane says."""
        if not isinstance(cause, SandboxSessionLostError) and self._answers():
            return True, None
        return False, self._asked_state()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Around calls to envd: find out what it means that an answer broke, or that something else answered."""
        try:
            yield
        except SandboxSessionLostError as lost:
            raise self._found_out(self._refused(lost), lost) from None
        except StreamCutError as cut:
            raise self._why_broken(cut) from None

    def _found_out(self, error: SandboxException, cause: SandboxException) -> SandboxException:
        """Return what was found out, with its place; a sandbox that is gone is one for the whole session."""
        self._note_loss(error)
        return error.located(
            provider_id=self.provider_id,
            session_id=self.session_id,
            operation=cause.operation,
            http_status=cause.http_status,
            request_id=cause.request_id,
        )

    def _refused(self, lost: SandboxSessionLostError) -> SandboxException:
        """The error for a call that was not begun, because something answered in the sandbox's place."""
        state = self._asked_state()
        if state is RemoteState.PAUSED:
            return SandboxConflictError(
                "the sandbox is paused",
                hint="resume it: session.resume(), or connect to it anew",
                retryable=False,
                outcome=Outcome.NOT_STARTED,
                session_state=SessionState.INTACT,
            )
        if state is RemoteState.RUNNING:
            return SandboxConnectionError(
                f"the sandbox runs, but cannot be reached: {lost.message}", outcome=Outcome.NOT_STARTED
            )
        return lost if state is None else self._gone(Outcome.NOT_STARTED)

    def _gone(self, outcome: Outcome) -> SandboxSessionLostError:
        return SandboxSessionLostError(
            "the sandbox is gone: it was destroyed, or its life was over", hint=self.lifetime_advice, outcome=outcome
        )

    def _answers(self) -> bool:
        try:
            self._envd.health(Deadline(PROBE_SECONDS))
        except SandboxException:
            return False
        return True

    def _asked_state(self) -> RemoteState | None:
        try:
            return self._remote_state(Deadline(PROBE_SECONDS))
        except SandboxException:
            return None


class FileWatch:
    """What happens to the files of a directory, as it happens. Iterate it, or ask; `close` it from any thread.

    Made by `EnvdSession.watch`; also a context manager.

    Args:
        patience_seconds: How long to wait until it has begun.
        why_broken: Finds out why the stream broke; returns the error to raise.
    """

    def __init__(
        self, stream: MessageStream, patience_seconds: float, why_broken: Callable[[SandboxException], SandboxException]
    ) -> None:
        self._stream = stream
        self._why_broken = why_broken
        self._ready: list[FileEvent] = []
        self._over = False
        self._closed = threading.Event()
        try:
            self._await_start(Deadline(patience_seconds))
        except BaseException:
            self.close()
            raise

    def next_event(self, timeout: float | None = None) -> FileEvent | None:
        """Return the next event; ``None`` after `timeout` seconds without one, or when the watch was closed.

        Raises:
            SandboxConnectionError: The connection broke. What happens until the next `watch` is not told.
            SandboxSessionLostError: The sandbox is gone.
            SandboxPausedError: It was paused.
            SandboxUnreachableError: It runs, but does not answer.
        """
        deadline = Deadline(timeout)
        while not self._ready:
            if self._over or self._closed.is_set():
                return None
            if self._receive(deadline.remaining()) is False and deadline.expired:
                return None
        return self._ready.pop(0)

    def __iter__(self) -> Iterator[FileEvent]:
        """Yield events until the watch is closed."""
        while (event := self.next_event()) is not None:
            yield event

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._closed.set()
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _await_start(self, deadline: Deadline) -> None:
        while not self._receive(deadline.remaining()):
            if deadline.expired:
                raise SandboxTimeoutError("the watch was asked for and not begun in time")

    def _receive(self, timeout: float | None) -> bool:
        """Take the next messages; ``False`` when none came."""
        try:
            envelopes = self._stream.receive(timeout)
        except StreamCutError as cut:
            if self._closed.is_set():
                return False
            raise self._why_broken(cut) from None
        for envelope in envelopes or ():
            if envelope.end_of_stream:
                self._end(parse_end_of_stream(envelope.payload).error)
            elif (event := decode_watch_message(envelope.payload)) is not None:
                self._ready.append(event)
        return bool(envelopes)

    def _end(self, error: ConnectError | None) -> None:
        """The stream ended in good order; a watch never does by itself."""
        self._over = True
        cause = StreamCutError("the watch ended") if error is None else error.exception("watching the directory")
        raise self._why_broken(cause) if isinstance(cause, SandboxConnectionError) else cause


def parse_metrics(document: Mapping[str, Any]) -> Metrics:
    """Return what envd's ``/metrics`` says; nonsense counts as not told."""
    return Metrics(
        cpu_percent=_number(document.get("cpu_used_pct")),
        memory_bytes=_whole(document.get("mem_used")),
        memory_limit_bytes=_whole(document.get("mem_total")),
        disk_bytes=_whole(document.get("disk_used")),
        disk_limit_bytes=_whole(document.get("disk_total")),
    )


def explain_foreign_answer(port: int, setting: str) -> Explain:
    """Return an explanation for answers of something that is not envd on the port where envd should be."""

    def explain(reply: HttpReply, fault: Fault) -> SandboxException | None:
        if fault.status not in (404, 405, 501) or fault.code is not None or "json" in reply.content_type:
            return None
        return SandboxConnectionError(
            f"port {port} of the sandbox answered {fault.status}, but what listens there is not envd: {fault.message}",
            hint=f"check {setting}; envd usually listens on 49983",
            retryable=False,
            outcome=Outcome.NOT_STARTED,
        )

    return explain


def envd_http(
    address: BaseUrl,
    transport: DirectTransport,
    *,
    headers: Mapping[str, str],
    limits: HttpLimits,
    explain: Explain,
    port: tuple[int, str],
    secrets: Iterable[str | None],
    where: Mapping[str, str],
) -> HttpClient:
    """Return the client that calls one envd.

    Args:
        headers: What every call carries.
        explain: What something in front of the sandbox means with a refusal; asked before envd's own meaning.
        port: envd's port, and the setting that names it.
        secrets: Masked in every error.
        where: What every error tells of its place.
    """
    scrubber = Scrubber(secrets)
    return HttpClient(
        address,
        headers=lambda: headers,
        send=transport.send,
        open_stream=transport.open,
        limits=limits,
        explain=first_explanation(explain, unary_error, explain_foreign_answer(*port)),
        scrubber=lambda: scrubber,
        where=where,
    )


def first_explanation(*explanations: Explain) -> Explain:
    """Return an explanation that asks several, in order."""

    def explain(reply: HttpReply, fault: Fault) -> SandboxException | None:
        return next((error for each in explanations if (error := each(reply, fault)) is not None), None)

    return explain


def _summary(record: ProcessRecord) -> ProcessSummary:
    line = (
        record.arguments[-1] if record.arguments[-2:-1] == ("-c",) else shlex.join((record.program, *record.arguments))
    )
    return ProcessSummary(pid=record.pid, command=line, command_id=record.tag)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= _MOST else None  # neither NaN nor infinite


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else round(number)
