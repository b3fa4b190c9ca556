"""The service provider interface: what a provider implements and what a host calls.

Read `SandboxProvider` and `SandboxSession` first. A provider author writes three small classes: a provider, a
session with `_open_channel` and `_destroy`, and a `ProcessChannel`; commands, streaming, cancellation, events,
files, artifacts and the life of the session come from here. Abilities that only some services have are the
``Supports…`` protocols at the end.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable

from .arguments import check_calls, require_text, require_whole
from .artifacts import collect_artifacts
from .capability import (
    Admission,
    Capabilities,
    Capability,
    Decision,
    FieldDecision,
    IsolationLevel,
    ProviderInfo,
    SandboxLocation,
)
from .deadline import Deadline
from .errors import (
    SandboxAdmissionError,
    SandboxCleanupError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxException,
    SandboxNotFoundError,
    SandboxSessionClosedError,
    SandboxSessionLostError,
    UnsupportedCapabilityError,
)
from .events import event_message
from .files import SandboxFiles, ShellFiles
from .frozen import EMPTY, empty_mapping, type_name
from .model import (
    SandboxArtifact,
    SandboxCommand,
    SandboxEvent,
    SandboxEventType,
    SandboxResult,
    SandboxSpec,
    SandboxStatus,
    SandboxSummary,
    StreamMode,
)
from .observers import notify_observers
from .process import ProcessChannel, ProcessContext, SandboxProcess
from .redaction import Scrubber, filter_labels
from .settings import NO_SETTINGS, SettingsTable

EventCallback = Callable[[SandboxEvent], None]
OpenChannel = Callable[[SandboxCommand, Deadline], ProcessChannel]

LAST_PORT = 65535


# What callers may pass; looked at before the provider's own code runs (`check_calls`).


def _check_session_id(session_id: str, *_: Any, **__: Any) -> None:
    require_text("session_id", session_id)


def _check_connect(session_id: str, spec: SandboxSpec | None = None, **_: Any) -> None:
    require_text("session_id", session_id)
    _check_spec(spec)


def _check_spec(spec: SandboxSpec | None = None, **_: Any) -> None:
    if not isinstance(spec, SandboxSpec | None):
        raise SandboxConfigError(f"spec must be a SandboxSpec, got {type_name(spec)}")


def _check_labels(labels: Mapping[str, str] | None = None, **_: Any) -> None:
    if not isinstance(labels, Mapping | None):
        raise SandboxConfigError(f"labels must be a mapping, got {type_name(labels)}")


def _check_command_id(command_id: str, **_: Any) -> None:
    require_text("command_id", command_id)


def _check_port(port: int, **_: Any) -> None:
    require_whole("port", port, minimum=1, maximum=LAST_PORT)


def _check_seconds(seconds: int, **_: Any) -> None:
    require_whole("seconds", seconds, minimum=1)


def _check_name(name: str | None = None, **_: Any) -> None:
    if name is not None:
        require_text("name", name)


_PROVIDER_CHECKS: Mapping[str, Callable[..., None]] = {
    "create_session": _check_spec,
    "connect": _check_connect,
    "destroy": _check_session_id,
    "list_sessions": _check_labels,
}
_SESSION_CHECKS: Mapping[str, Callable[..., None]] = {
    "attach": _check_command_id,
    "port_url": _check_port,
    "extend": _check_seconds,
    "snapshot": _check_name,
}


class SandboxProvider(ABC):
    """Creates sandboxes of one kind. Cheap to make: no network, no environment, no files until a method says so.

    `create_session`, `connect`, `destroy` and `list_sessions` of a subclass are only called with arguments of the right
    type; the core raises `SandboxConfigError` for others.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_calls(cls, _PROVIDER_CHECKS)

    info: ProviderInfo
    """What this provider is and can do; the same data its entry-point module gives."""

    settings: SettingsTable = NO_SETTINGS
    """Everything that can be configured. Without a table no `config` key, image or workspace is accepted."""

    @property
    def provider_id(self) -> str:
        """The id that specs name."""
        return self.info.provider_id

    @abstractmethod
    def _create(self, spec: SandboxSpec) -> SandboxSession:
        """Create the sandbox. `spec` was admitted. Whatever was made is destroyed again when this fails."""

    def check(self, spec: SandboxSpec | None) -> Admission:
        """Decide field by field whether the spec can be honoured. Pure: nothing is contacted.

        A field that would be ignored is refused, with the nearest known name; `profile` and `labels` are always
        accepted. Extend it where a combination of fields matters.
        """
        if spec is not None and not self._is_addressed_by(spec):
            other = FieldDecision(field="provider_id", decision=Decision.REFUSED, reason=f"is {spec.provider_id!r}")
            return Admission(provider_id=self.provider_id, decisions=(other,))
        return Admission(provider_id=self.provider_id, decisions=self.settings.check(spec))

    def supports(self, spec: SandboxSpec | None) -> bool:
        """Whether `check` accepts the spec. No spec, and one without a provider id, are for everybody."""
        return self.check(spec).accepted

    def create_session(self, spec: SandboxSpec | None = None) -> SandboxSession:
        """Create a sandbox and return its live session.

        Args:
            spec: What is wanted; ``None`` means this provider's defaults.

        Raises:
            SandboxAdmissionError: The spec is for another provider, or holds a field that would be ignored.
            SandboxConfigError: A setting is missing or wrong.
            SandboxAuthError, SandboxPermissionError, SandboxQuotaError, SandboxRateLimitError,
            SandboxCapacityError, SandboxNotFoundError, SandboxConflictError: The service refused.
            SandboxTimeoutError, SandboxConnectionError, SandboxProtocolError: It could not be talked to.
            SandboxCleanupError: Creating failed, and so did removing what was already made.
        """
        spec = spec or SandboxSpec(provider_id=self.provider_id)
        self._admit(spec)
        return self._create(spec)

    def _is_addressed_by(self, spec: SandboxSpec) -> bool:
        return spec.provider_id is None or spec.provider_id.casefold() == self.provider_id.casefold()

    def _admit(self, spec: SandboxSpec) -> None:
        if not self._is_addressed_by(spec):
            raise SandboxAdmissionError(
                f"unsupported sandbox provider {spec.provider_id!r} for {self.info.display_name}",
                hint=f"use provider_id={self.provider_id!r}, or ask the registry for the provider",
                provider_id=self.provider_id,
                operation="create",
            )
        admission = self.check(spec)
        if not admission.accepted:
            raise SandboxAdmissionError(
                f"{self.provider_id} refuses the spec: {admission.explain()}",
                provider_id=self.provider_id,
                operation="create",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDescription:
    """What is fixed about a session when it is made.

    Attributes:
        spec: The request; the session keeps it without `config` and with filtered labels.
        owned: Whether we made the sandbox. `close` never destroys one that was only attached unless told.
        outlives_close: Whether the sandbox goes on after `close`, which then ends the running commands one by one.
        secrets: Values to mask in events and errors of this session.
    """

    session_id: str
    info: ProviderInfo
    spec: SandboxSpec
    owned: bool = True
    outlives_close: bool = False
    capabilities: Capabilities | None = None
    isolation: IsolationLevel | None = None
    streams: StreamMode = StreamMode.SEPARATE
    secrets: Sequence[str | None] = field(default=(), repr=False)


class SandboxSession(ABC):
    """One live sandbox: runs commands, moves files, ends. Every public method may be called from any thread.

    A context manager; leaving the block closes it. Nothing happens in ``__del__``.

    `attach`, `port_url`, `extend` and `snapshot` of a subclass are only called with arguments of the right type and
    range; the core raises `SandboxConfigError` for others.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_calls(cls, _SESSION_CHECKS)

    def __init__(self, description: SessionDescription) -> None:
        self._description = description
        self._scrubber = Scrubber(description.secrets)
        self._spec = _shown_spec(description.spec, self._scrubber)
        self._status = SandboxStatus.RUNNING
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self._refusing = False  # from the first `close` on, whatever becomes of it
        self._starting: set[str] = set()
        self._processes: dict[str, SandboxProcess] = {}
        self._artifacts: dict[str, SandboxArtifact] = {}
        self._callbacks: list[EventCallback] = []
        self._sequence = count(1)
        self._observers = notify_observers(self)
        self._announce(SandboxEventType.SESSION_CREATED, f"provider {self.provider_id}")

    # --- identity -----------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """The sandbox's id at its provider."""
        return self._description.session_id

    @property
    def provider_id(self) -> str:
        """The provider's id."""
        return self._description.info.provider_id

    @property
    def spec(self) -> SandboxSpec:
        """The request this session was made for, without `config` and without sensitive labels."""
        return self._spec

    @property
    def status(self) -> SandboxStatus:
        """Where the session is in its life, as known here; nothing is contacted.

        A paused session is still `RUNNING`: the contract knows no fifth state. A service that lists its sandboxes tells
        its own word in `SandboxSummary.state`.
        """
        return self._status

    @property
    def owned(self) -> bool:
        """Whether this session made the sandbox (and not merely attached to it)."""
        return self._description.owned

    @property
    def capabilities(self) -> Capabilities:
        """What this session can do: the provider's capabilities, narrowed."""
        return self._description.capabilities or self._description.info.capabilities

    @property
    def isolation(self) -> IsolationLevel:
        """The isolation in force for this session."""
        isolation = self._description.isolation
        return self._description.info.isolation if isolation is None else isolation

    @property
    def location(self) -> SandboxLocation:
        """Where the sandbox runs, as its provider declares it."""
        return self._description.info.location

    # --- commands -----------------------------------------------------------------------------------------------

    def start(self, command: SandboxCommand) -> SandboxProcess:
        """Start a command and return its process: the one primitive everything else is built on.

        The request is sent at most once.

        Raises:
            SandboxConfigError: `command` is not a `SandboxCommand`, or its id is in use.
            SandboxSessionClosedError: The session was closed.
            UnsupportedCapabilityError: The command asks for something this session cannot do.
            SandboxNotFoundError: The working directory does not exist.
            SandboxException: The provider could not start it; `outcome` says whether it may have run.
        """
        return self._begin(command, self._open_channel)

    def execute(self, command: SandboxCommand, on_event: EventCallback | None = None) -> SandboxResult:
        """Run a command to its end and return the result.

        Args:
            command: What to run.
            on_event: Receives every event as it happens, output included.

        Returns:
            The result, also for a non-zero exit code, a timeout and a cancellation.

        Raises:
            SandboxOutcomeUnknownError: The command was sent and its end never arrived; carries the partial result.
            SandboxSessionLostError: The sandbox is gone.
            SandboxException: As `start`.
        """
        process = self._begin(command, self._run_channel if on_event is None else self._open_channel)
        try:
            if on_event is not None:
                for event in process:
                    on_event(event)
            return process.wait()
        except BaseException:
            process.cancel()
            raise

    def cancel(self, command_id: str) -> bool:
        """Stop a running command and all its descendants, never the sandbox. From any thread.

        Returns:
            ``True`` when it was running; ``False`` for an unknown id or a command that had ended.
        """
        with self._lock:
            process = self._processes.get(command_id)
        return False if process is None else process.cancel()

    def start_helper(self, command: SandboxCommand, *, helped_id: str | None = None) -> SandboxProcess:
        """Start a command of a tool's own making, such as a script that looks at files; otherwise as `start`.

        Observers and subscribers are not told of it: they see the host's commands, not the means by which a file is
        read. Where the service cannot limit a command's time, its `timeout_millis` is enforced from here.

        Args:
            helped_id: The command it works for; `cancel` of that one then reaches this one as well.
        """
        helper = self._begin(command, self._open_channel, observed=False)
        with self._lock:
            helped = None if helped_id is None else self._processes.get(helped_id)
        if helped is not None:
            helped.helped_by(helper)
        return helper

    # --- files and artifacts ------------------------------------------------------------------------------------

    @property
    def files(self) -> SandboxFiles:
        """The sandbox's files: the service's own API where it has one, else POSIX ``sh``."""
        self._require_open()
        return self._files()

    def list_artifacts(self) -> list[SandboxArtifact]:
        """Return what the session's commands left behind that matched their patterns; the latest of each path."""
        with self._lock:
            return list(self._artifacts.values())

    # --- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session; promptly, also while commands run (their results say ``canceled``). Idempotent.

        Destroys the sandbox if the session owns it and was not told to keep it. When that fails the session is
        `FAILED`, refuses commands, and a second call tries again.

        Raises:
            SandboxCleanupError: The sandbox could not be destroyed and may still exist.
        """
        with self._lock:
            self._refusing = True
            running = list(self._processes.values())
        with self._closing:
            if self._status is SandboxStatus.CLOSED:
                return
            for process in running:
                if self._description.outlives_close:
                    process.cancel()
                process.session_closing()
            try:
                with suppress(SandboxNotFoundError, SandboxSessionLostError):
                    self._destroy()
            except SandboxException as error:
                self._status = SandboxStatus.FAILED
                raise self._cleanup_failed(error) from error
            except BaseException:
                self._status = SandboxStatus.FAILED
                raise
            self._status = SandboxStatus.CLOSED
        self._announce(SandboxEventType.SESSION_CLOSED, "closed")

    def subscribe(self, callback: EventCallback) -> None:
        """Let `callback` receive every event of this session from now on; its errors are ignored."""
        self._callbacks.append(callback)

    def protect(self, *secrets: str) -> None:
        """Mask these values too in events and errors from now on."""
        with self._lock:
            self._scrubber = self._scrubber.with_secrets(secrets)
            self._spec = _shown_spec(self._description.spec, self._scrubber)

    def require(self, ability: Callable[..., AbilityT]) -> AbilityT:
        """Return this session as one of the ``Supports…`` protocols: ``session.require(SupportsPause).pause()``.

        Raises:
            UnsupportedCapabilityError: It cannot do that; the message says what it can.
        """
        # Typed as a callable because type checkers refuse a protocol where a `type[...]` is asked for.
        protocol = cast("type[AbilityT]", ability)
        if isinstance(self, protocol):
            return self
        raise self._unsupported(protocol.__name__.removeprefix("Supports").casefold())

    def __getattr__(self, name: str) -> Any:
        if name in OPTIONAL_METHODS:
            raise self._unsupported(f"{OPTIONAL_METHODS[name]} ({name})")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = f"provider_id={self.provider_id!r}, session_id={self.session_id!r}"
        return f"{type(self).__name__}({where}, status={self._status})"

    # --- what a provider implements -----------------------------------------------------------------------------

    @abstractmethod
    def _open_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        """Send the command, once, and return its channel. Never waits past `deadline`.

        Includes `command.stdin`, `environment`, `working_directory` and `terminal`. A command that was sent and
        whose start is not known raises with ``outcome=UNKNOWN``; one that was not, with ``NOT_STARTED``.
        """

    def _run_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        """Send a command of which only the result is wanted, once, and return its channel; as `_open_channel`.

        Override it where the service has a cheaper call for that. Its output may come in one piece at the end, and
        without what `output_limit_bytes` would drop anyway (`OutputChunk.skipped_bytes`).
        """
        return self._open_channel(command, deadline)

    @abstractmethod
    def _destroy(self) -> None:
        """Destroy or release the sandbox; `SandboxNotFoundError` counts as done. Called again after a failure."""

    def _files(self) -> SandboxFiles:
        """Return the service's own files. The fallback needs nothing but commands."""
        return ShellFiles(self.start_helper)

    def _find_artifacts(self, command: SandboxCommand) -> tuple[SandboxArtifact, ...]:
        """Return the files that match the command's patterns. The default needs nothing but commands."""
        return collect_artifacts(partial(self.start_helper, helped_id=command.command_id), command)

    # --- the rest is ours ---------------------------------------------------------------------------------------

    def _follow(self, command: SandboxCommand, open_channel: OpenChannel) -> SandboxProcess:
        """Return the process of a command that runs already: what an `attach` ends with.

        Args:
            command: What runs, with its `command_id`.
            open_channel: Opens a channel to it; called once.

        Raises:
            SandboxConflictError: Another handle of this session follows it.
        """
        with self._lock:
            followed = command.command_id in self._processes
        if followed:
            raise SandboxConflictError(
                f"the command {command.command_id!r} is followed already",
                hint="detach() it first",
                provider_id=self.provider_id,
                session_id=self.session_id,
                command_id=command.command_id,
                retryable=False,
            )
        return self._begin(command, open_channel)

    def _begin(self, command: SandboxCommand, open_channel: OpenChannel, *, observed: bool = True) -> SandboxProcess:
        if not isinstance(command, SandboxCommand):
            raise SandboxConfigError(f"a SandboxCommand is needed, got {type_name(command)}")
        self._require_abilities(command, observed=observed)
        deadline = Deadline.after_millis(command.timeout_millis)
        self._reserve(command.command_id)
        try:
            channel = open_channel(command, deadline)
        except SandboxException as error:
            raise self._told(error, command, observed=observed) from error.__cause__
        else:
            return self._run(command, channel, deadline, observed=observed)
        finally:
            with self._lock:
                self._starting.discard(command.command_id)

    def _reserve(self, command_id: str) -> None:
        """Keep a command id for one command while it starts; whoever comes second is refused."""
        with self._lock:
            self._require_open()
            if command_id in self._processes or command_id in self._starting:
                raise SandboxConfigError(
                    f"a command with the id {command_id!r} is already running", session_id=self.session_id
                )
            self._starting.add(command_id)

    def _run(
        self, command: SandboxCommand, channel: ProcessChannel, deadline: Deadline, *, observed: bool
    ) -> SandboxProcess:
        context = ProcessContext(
            session_id=self.session_id,
            provider_id=self.provider_id,
            streams=self._description.streams,
            scrubber=self._scrubber,
            observer=self._publish if observed and (self._observers or self._callbacks) else None,
            collect_artifacts=self._collect_artifacts,
            ended=self._forget,
        )
        process = SandboxProcess(command, channel, context, deadline)
        with self._lock:
            if not self._refusing:
                self._processes[command.command_id] = process
                return process
        process.cancel()  # the session was closed while the command was being sent: nobody else knows of it
        return process

    def _forget(self, process: SandboxProcess) -> None:
        with self._lock:
            if self._processes.get(process.command_id) is process:
                del self._processes[process.command_id]
        self._note_loss(process.error)

    def _collect_artifacts(self, command: SandboxCommand) -> tuple[SandboxArtifact, ...]:
        found = self._find_artifacts(command)
        # A name is for showing; the path must stay true, because `files.download` takes it.
        artifacts = tuple(replace(artifact, name=self._scrubber.text(artifact.name or "")) for artifact in found)
        with self._lock:
            self._artifacts.update({artifact.path or "": artifact for artifact in artifacts})
        return artifacts

    def _require_open(self) -> None:
        if self._refusing:
            raise SandboxSessionClosedError(
                f"sandbox session {self.session_id} is closed",
                hint="create a new session",
                provider_id=self.provider_id,
                session_id=self.session_id,
            )

    def _require_abilities(self, command: SandboxCommand, *, observed: bool) -> None:
        needed = {
            Capability.TERMINAL: command.terminal is not None,
            Capability.STDIN: bool(command.stdin) or command.keep_stdin_open,
            # A limit of our own making is a precaution, and no promise to anybody.
            Capability.TIMEOUT: observed and command.timeout_millis is not None,
        }
        for capability, wanted in needed.items():
            if wanted and capability not in self.capabilities:
                raise self._unsupported(capability.value)

    def _unsupported(self, what: str) -> UnsupportedCapabilityError:
        offered = ", ".join(self.capabilities.offered()) or "nothing beyond commands"
        return UnsupportedCapabilityError(
            f"provider {self.provider_id!r} does not support {what} in this session; it can do: {offered}",
            provider_id=self.provider_id,
            session_id=self.session_id,
        )

    def _told(self, error: SandboxException, command: SandboxCommand, *, observed: bool) -> SandboxException:
        error.scrubbed(self._scrubber).located(
            provider_id=self.provider_id,
            session_id=self.session_id,
            command_id=command.command_id,
            operation="execute",
        )
        self._note_loss(error)
        if observed:
            self._announce(SandboxEventType.ERROR, error.message, command_id=command.command_id)
        return error

    def _note_loss(self, error: BaseException | None) -> None:
        """Once the sandbox is known to be gone, the session says so; `close` still works."""
        if isinstance(error, SandboxSessionLostError) and self._status is SandboxStatus.RUNNING:
            self._status = SandboxStatus.FAILED

    def _cleanup_failed(self, error: SandboxException) -> SandboxException:
        failure = SandboxCleanupError(
            f"could not destroy sandbox {self.session_id}: {error.message}",
            hint="call close() again, or remove it with `ai4j sandbox rm`",
            http_status=error.http_status,
            request_id=error.request_id,
            operation="close",
        )
        return self._told_closing(failure)

    def _told_closing(self, error: SandboxException) -> SandboxException:
        error.scrubbed(self._scrubber).located(provider_id=self.provider_id, session_id=self.session_id)
        self._announce(SandboxEventType.ERROR, error.message)
        return error

    def _announce(self, kind: SandboxEventType, message: str, *, command_id: str | None = None) -> None:
        self._publish(
            SandboxEvent(
                type=kind,
                session_id=self.session_id,
                command_id=command_id,
                message=event_message(message, self._scrubber),
                sequence=next(self._sequence),
            )
        )

    def _publish(self, event: SandboxEvent) -> None:
        for callback in (*self._observers, *self._callbacks):
            # An observer must not be able to break a command: this is the one door to foreign callbacks.
            with suppress(Exception):
                callback(event)


def _shown_spec(spec: SandboxSpec, scrubber: Scrubber) -> SandboxSpec:
    """The spec as it may be shown: no `config`, no label with a sensitive name or with a secret this session knows."""
    labels = {name: value and scrubber.text(value) for name, value in filter_labels(spec.labels).items()}
    return replace(spec, config=EMPTY, labels=labels)


# --- what only some can do --------------------------------------------------------------------------------------

AbilityT = TypeVar("AbilityT")


@runtime_checkable
class SupportsConnect(Protocol):
    """A provider that can attach to a sandbox that already exists."""

    def connect(self, session_id: str, spec: SandboxSpec | None = None) -> SandboxSession:
        """Attach; never shortens the sandbox's life, and `close` leaves it alive.

        Raises:
            SandboxConfigError: `session_id` is no text, or empty.
            SandboxNotFoundError: It does not exist.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether a provider can be used now.

    Attributes:
        advice: What to do about it, one line each.
        details: Facts worth showing (versions, the tier in force). No secrets.
    """

    healthy: bool
    summary: str
    advice: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=empty_mapping)


@runtime_checkable
class SupportsHealth(Protocol):
    """A provider that can tell whether it would work, without creating anything."""

    def health(self) -> Health:
        """Look, and say. An unreachable service is an answer, not an exception."""


@runtime_checkable
class SupportsListing(Protocol):
    """A provider that can find and destroy sandboxes it has no session for."""

    def list_sessions(self, labels: Mapping[str, str] | None = None) -> list[SandboxSummary]:
        """Return the sandboxes that carry all of `labels`."""

    def destroy(self, session_id: str) -> None:
        """Destroy one by id; one that is gone already is fine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSummary:
    """A process that runs in a sandbox."""

    pid: int
    command: str
    command_id: str | None = None


@runtime_checkable
class SupportsBackground(Protocol):
    """A session whose commands outlive the handle that started them."""

    def list_processes(self) -> list[ProcessSummary]:
        """Return the commands that still run."""

    def attach(self, command_id: str) -> SandboxProcess:
        """Return a process for a running command, from here on.

        Raises:
            SandboxNotFoundError: No such command runs.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PortUrl:
    """Where a port of the sandbox can be reached.

    Attributes:
        headers: What a request must carry. Hidden from ``repr``: it may hold a token.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)


@runtime_checkable
class SupportsPorts(Protocol):
    """A session whose ports can be reached from outside."""

    def port_url(self, port: int) -> PortUrl:
        """Return where a TCP port that something inside listens on can be reached."""


@runtime_checkable
class SupportsPause(Protocol):
    """A session that can be frozen and woken."""

    def pause(self) -> None:
        """Freeze everything inside; idempotent."""

    def resume(self) -> None:
        """Wake it; idempotent."""


@runtime_checkable
class SupportsExtend(Protocol):
    """A session whose life ends by itself and can be prolonged."""

    def extend(self, seconds: int) -> None:
        """Let the sandbox live at least `seconds` from now; never shortens."""


@runtime_checkable
class SupportsSnapshot(Protocol):
    """A session whose state can be kept as an image."""

    def snapshot(self, name: str | None = None) -> str:
        """Keep the state; return what `SandboxSpec.image` takes to start from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What a sandbox uses now; ``None`` where the service does not tell."""

    cpu_percent: float | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    disk_bytes: int | None = None
    disk_limit_bytes: int | None = None


@runtime_checkable
class SupportsMetrics(Protocol):
    """A session that tells what it uses."""

    def metrics(self) -> Metrics:
        """Return the use right now."""


class Browser(Protocol):
    """A browser in a sandbox, with one page. Every method may be called from any thread; calls run one after the other.

    Selectors are CSS. What a page says is the page's own: not to be trusted.

    Raises (every method):
        SandboxTimeoutError: The page took too long.
        SandboxNotFoundError: Nothing on the page matches the selector.
        SandboxException: The browser, the page or the script failed.
    """

    def open(self, url: str) -> str:
        """Load a page and return its title."""

    def text(self) -> str:
        """Return the text of the page as a reader sees it."""

    def screenshot(self) -> bytes:
        """Return what is visible, as a PNG image."""

    def click(self, selector: str) -> None:
        """Click in the middle of an element, as a mouse does, and wait for what it loads."""

    def type(self, selector: str, text: str, *, submit: bool = False) -> None:
        """Type into an element, and press Enter afterwards if `submit`."""

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, a promise's once it is kept, as JSON data."""

    def close(self) -> None:
        """End the browser. Idempotent."""


@runtime_checkable
class SupportsBrowser(Protocol):
    """A session with a browser of its own."""

    def browser(self) -> Browser:
        """Start a browser with a fresh profile."""


OPTIONAL_METHODS: Mapping[str, Capability] = {
    "list_processes": Capability.BACKGROUND,
    "attach": Capability.BACKGROUND,
    "port_url": Capability.PORTS,
    "pause": Capability.PAUSE,
    "resume": Capability.PAUSE,
    "extend": Capability.EXTEND,
    "snapshot": Capability.SNAPSHOT,
    "metrics": Capability.METRICS,
    "watch": Capability.WATCH,
    "browser": Capability.BROWSER,
}
"""Session methods that raise `UnsupportedCapabilityError` where a provider has none, and what they belong to."""
