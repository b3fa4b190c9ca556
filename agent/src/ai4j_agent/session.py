"""One agent session: its conversation, its event log, and its sandbox.

What is stored of the sandbox is `AgentSessionSandboxBinding`, the summary without secrets. The live sandbox is held
only here, in this process. A session that remembers a sandbox it does not have is `DETACHED`: it executes nothing until
the host re-attaches it or clears the binding, and never falls back to the host machine.

Every public method may be called from any thread; of two runs at the same time the second is refused, and
of two changes of the sandbox the second waits. Listeners are called in the thread that caused the event.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from ai4j_sandbox.binding import AgentSessionSandboxBinding, WallClock, epoch_millis
from ai4j_sandbox.errors import SandboxException, SandboxNotFoundError, UnsupportedCapabilityError
from ai4j_sandbox.model import SandboxSpec, SandboxStatus
from ai4j_sandbox.redaction import Scrubber
from ai4j_sandbox.registry import SandboxRegistry
from ai4j_sandbox.spi import SandboxProvider, SandboxSession, SupportsConnect, SupportsListing

from .conversation import Conversation, Message, ToolCall
from .errors import AgentConfigError, EventLogTamperedError, SandboxDetachedError, SessionBusyError
from .event import SESSION_TURN, AgentEvent, AgentEventType, AgentSessionEvent, json_data
from .event_log import INTACT, AgentEventLog, ChainFault, ChainVerification
from .permission import AgentExecutionEnvironment
from .redacted import redacted_binding, redacted_data, redacted_message
from .sandbox_source import SandboxSource, environment_of
from .snapshot import AgentSessionMetadata, AgentSessionSnapshot, new_run_id
from .store import AgentSessionStore

AgentListener = Callable[[AgentEvent], None]

_LIVE = (SandboxStatus.CREATED, SandboxStatus.RUNNING)
_SANDBOX_EVENTS = (AgentEventType.SANDBOX_BOUND, AgentEventType.SANDBOX_UPDATED, AgentEventType.SANDBOX_CLEARED)

_log = logging.getLogger(__name__)


class SandboxAttachment(StrEnum):
    """What a session has of a sandbox."""

    NONE = "NONE"
    LIVE = "LIVE"
    DETACHED = "DETACHED"


class AgentSession:
    """A session. A context manager: leaving the block closes the sandbox the session made.

    Args:
        session_id: Names it; a random one by default.
        run_id: Names the run its events belong to; a random one by default.
        store: Where `save` keeps it.
        event_log: The log to use, for a seal key; a plain one by default.
        sandbox_source: Where its sandbox comes from when one is first needed; without it tools run where they are.
    """

    def __init__(
        self,
        *,
        session_id: str | None = None,
        run_id: str | None = None,
        store: AgentSessionStore | None = None,
        event_log: AgentEventLog | None = None,
        sandbox_source: SandboxSource | None = None,
        clock: WallClock = epoch_millis,
    ) -> None:
        self._clock = clock
        self._metadata = AgentSessionMetadata(session_id=session_id or "", created_at_epoch_ms=clock())
        self._run_id = (run_id or "").strip() or new_run_id()
        self._store = store
        self._events = event_log or AgentEventLog(clock=clock)
        self._source = sandbox_source
        self._conversation = Conversation()
        self._compact_result: Mapping[str, Any] | None = None
        self._binding: AgentSessionSandboxBinding | None = None
        self._sandbox: SandboxSession | None = None
        self._owns_sandbox = False
        self._destroy: Callable[[], None] | None = None  # how to end a sandbox of ours that was only re-attached
        self._listeners: list[AgentListener] = []
        self._on_close: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._changing = threading.RLock()  # one change of the sandbox at a time, or one that was just made is lost
        self._running = threading.Lock()
        self._saving = threading.Lock()
        self._closed = False

    # --- identity -------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._metadata.session_id

    @property
    def run_id(self) -> str:
        """The run its events belong to."""
        return self._run_id

    @property
    def metadata(self) -> AgentSessionMetadata:
        """Id, times and the host's attributes."""
        return self._metadata

    @property
    def event_log(self) -> AgentEventLog:
        """The events so far."""
        return self._events

    @property
    def scrubber(self) -> Scrubber:
        """What this session knows to be secret."""
        return self._events.scrubber

    def put_attribute(self, name: str, value: Any) -> Self:
        """Note something of the host's own (JSON data); a blank name is refused."""
        if not name.strip():
            raise AgentConfigError("attribute name must not be blank")
        with self._lock:
            self._touch(attributes={**self._metadata.attributes, name: json_data(value)})
        return self

    def protect(self, *secrets: str) -> Self:
        """Mask these values in events, tool outputs and snapshots from now on."""
        self._events.protect(*secrets)
        return self

    def __repr__(self) -> str:
        return f"AgentSession({self.session_id!r}, sandbox={self.sandbox_attachment})"

    # --- sandbox --------------------------------------------------------------------------------------------------

    @property
    def sandbox_binding(self) -> AgentSessionSandboxBinding | None:
        """The summary of the session's sandbox."""
        return self._binding

    @property
    def live_sandbox(self) -> SandboxSession | None:
        """The live sandbox, if there is one now; none is made."""
        with self._lock:
            return self._sandbox if self.sandbox_attachment is SandboxAttachment.LIVE else None

    @property
    def sandbox_attachment(self) -> SandboxAttachment:
        """Whether the session has a sandbox, and whether it can be used."""
        with self._lock:
            if self._binding is None:
                return SandboxAttachment.NONE
            usable = self._sandbox is not None and self._sandbox.status in _LIVE and self._binding.status in _LIVE
            return SandboxAttachment.LIVE if usable else SandboxAttachment.DETACHED

    @property
    def execution_environment(self) -> AgentExecutionEnvironment:
        """Where a tool that uses the session's sandbox runs.

        Raises:
            SandboxDetachedError: Nowhere, because the sandbox is not live. What is stored of a sandbox does not tell
                where it runs, and need not: a restored session executes nothing before it is re-attached.
            SandboxException: There is none yet, and its provider cannot be asked.
        """
        with self._lock:
            self.require_attached()
            sandbox = self._sandbox
        if sandbox is not None:
            return environment_of(sandbox.location)
        return self._source.environment if self._source else AgentExecutionEnvironment.LOCAL

    def bind_sandbox(self, sandbox: SandboxSession | AgentSessionSandboxBinding) -> Self:
        """Bind a live sandbox, which stays the host's to close, or the summary of one that is not at hand.

        Raises:
            AgentConfigError: It is neither.
        """
        if isinstance(sandbox, AgentSessionSandboxBinding):
            return self._bind(sandbox, None, owned=False)
        if isinstance(sandbox, SandboxSession):
            return self._bind(AgentSessionSandboxBinding.from_session(sandbox, clock=self._clock), sandbox, owned=False)
        raise AgentConfigError(
            f"bind_sandbox needs a SandboxSession or its binding, got {type(sandbox).__name__}",
            hint="use clear_sandbox() to be without one",
        )

    def update_sandbox_status(self, status: SandboxStatus) -> Self:
        """Note a new status; nothing happens without a binding.

        Raises:
            AgentConfigError: It is no `SandboxStatus`.
        """
        if not isinstance(status, SandboxStatus):
            raise AgentConfigError(f"status must be a SandboxStatus, got {type(status).__name__}")
        with self._lock:
            if self._binding is None:
                return self
            self._binding = self._binding.with_status(status, clock=self._clock)
            recorded = self._record(AgentEventType.SANDBOX_UPDATED, "sandbox updated", self._binding.to_dict())
        self._tell(recorded)
        return self

    def clear_sandbox(self) -> Self:
        """Be without a sandbox; nothing happens without a binding. A live one that the session made is destroyed.

        One that is detached is out of reach and stays alive; to be rid of it, `reattach` first.

        Raises:
            SandboxCleanupError: It could not be destroyed; the binding stays.
        """
        with self._changing:
            self._release()
            with self._lock:
                previous = self._binding
                if previous is None:
                    return self
                self._binding = self._sandbox = self._destroy = None
                self._owns_sandbox = False
                recorded = self._record(AgentEventType.SANDBOX_CLEARED, "sandbox cleared", previous.to_dict())
            self._tell(recorded)
            return self

    def open_sandbox(self) -> SandboxSession:
        """Return the live sandbox; the first call makes it, if the session has a source.

        Raises:
            SandboxDetachedError: There is one that is not live.
            AgentConfigError: There is none, and nothing to make one from, or the session was closed.
            SandboxException: It could not be made.
        """
        with self._changing:
            self.require_attached()
            sandbox = self.live_sandbox
            if sandbox is not None:
                return sandbox
            if self._closed:
                hint = "restore its snapshot in a new session to go on"
                raise AgentConfigError(f"session {self.session_id} was closed", hint=hint)
            if self._source is None:
                raise AgentConfigError("this session has no sandbox", hint="bind one, or set a sandbox provider")
            sandbox = self._source.open()
            binding = AgentSessionSandboxBinding.from_session(sandbox, clock=self._clock)
            self._bind(binding, sandbox, owned=not self._source.lends)
            return sandbox

    def require_attached(self) -> None:
        """Raise unless the session may execute.

        Raises:
            SandboxDetachedError: Its sandbox is not live.
        """
        if self.sandbox_attachment is not SandboxAttachment.DETACHED:
            return
        binding = self._binding
        known = f"{binding.provider_id} {binding.sandbox_session_id} ({binding.status})" if binding else "unknown"
        raise SandboxDetachedError(
            f"session {self.session_id} has a sandbox that is not live: {known}; nothing is executed",
            hint="call reattach(registry), or clear_sandbox() to go on without it",
        )

    def reattach(self, registry: SandboxRegistry | SandboxProvider, spec: SandboxSpec | None = None) -> Self:
        """Connect to the sandbox of the binding again.

        Args:
            registry: Where the provider is found, or the provider itself.
            spec: Settings for connecting, if the provider needs any.

        Raises:
            AgentConfigError: The session remembers no sandbox, or one of another provider.
            UnsupportedCapabilityError: The provider cannot attach to an existing sandbox.
            SandboxNotFoundError: The sandbox is gone; the session stays detached.
            SandboxException: It could not be reached.
        """
        with self._changing:
            if self.sandbox_attachment is SandboxAttachment.LIVE:
                return self
            provider, sandbox_id = self._remembered(registry)
            try:
                sandbox = _connector(provider).connect(sandbox_id, spec)
            except SandboxNotFoundError:
                self.update_sandbox_status(SandboxStatus.CLOSED)
                raise
            with self._lock:
                self._sandbox = sandbox
                if self._owns_sandbox and isinstance(provider, SupportsListing):
                    self._destroy = lambda: provider.destroy(sandbox_id)
            return self.update_sandbox_status(sandbox.status)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Let `callback` be called once, when the session is closed, before its sandbox is destroyed."""
        self._on_close.append(callback)

    def close(self) -> None:
        """Destroy the sandbox the session made; one it was given stays the host's. Idempotent; `save` still works.

        Raises:
            SandboxCleanupError: It could not be destroyed and may still exist; a second call tries again.
        """
        with self._changing:  # a sandbox that is being made is waited for, and none is made afterwards
            self._closed = True
            callbacks, self._on_close = self._on_close, []
            with ExitStack() as ending:  # last in, first out; each is called whatever the ones before it raise
                for last in (self._release, *reversed(callbacks)):
                    ending.callback(last)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _bind(self, binding: AgentSessionSandboxBinding, sandbox: SandboxSession | None, *, owned: bool) -> Self:
        with self._changing:
            previous, same = self._binding, _same_sandbox(self._binding, binding)
            if previous is not None and not same:
                self.clear_sandbox()
            with self._lock:
                if same and previous is not None:
                    binding = replace(binding, bound_at=previous.bound_at, updated_at=self._clock())
                if same and sandbox is None:
                    sandbox = self._sandbox  # a summary of the sandbox at hand does not take it away
                # Our own handle bound once more stays ours; another handle, also to the same sandbox, is the host's.
                self._owns_sandbox = owned or (self._owns_sandbox and sandbox is self._sandbox)
                self._binding, self._sandbox = binding, sandbox
                kind = AgentEventType.SANDBOX_UPDATED if same else AgentEventType.SANDBOX_BOUND
                message = "sandbox updated" if same else "sandbox bound"
                recorded = self._record(kind, message, binding.to_dict())
            self._tell(recorded)
            return self

    def _release(self) -> None:
        """Destroy the live sandbox if it is ours, else let go of it; its status is noted either way."""
        with self._lock:
            sandbox, owned, destroy = self._sandbox, self._owns_sandbox, self._destroy
        if sandbox is None or not owned:
            return
        try:
            if destroy is not None:
                destroy()
            sandbox.close()
        except SandboxException:
            self.update_sandbox_status(SandboxStatus.FAILED)
            raise
        with self._lock:
            self._sandbox, self._owns_sandbox, self._destroy = None, False, None
        self.update_sandbox_status(SandboxStatus.CLOSED)

    def _remembered(self, registry: SandboxRegistry | SandboxProvider) -> tuple[SandboxProvider, str]:
        binding = self._binding
        if binding is None or binding.provider_id is None or binding.sandbox_session_id is None:
            raise AgentConfigError(f"session {self.session_id} remembers no sandbox to attach to")
        if not isinstance(registry, SandboxProvider):
            return registry.provider(binding.provider_id), binding.sandbox_session_id
        if registry.provider_id.casefold() != binding.provider_id.casefold():
            raise AgentConfigError(
                f"the sandbox is one of provider {binding.provider_id!r}, not of {registry.provider_id!r}"
            )
        return registry, binding.sandbox_session_id

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the session for one run: calls the model waits for must not run twice.

        Raises:
            SessionBusyError: Another run has not ended.
        """
        if not self._running.acquire(blocking=False):
            raise SessionBusyError(
                f"session {self.session_id} is in use by another run", hint="wait for its end, or use another session"
            )
        try:
            yield
        finally:
            self._running.release()

    # --- conversation ---------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far."""
        with self._lock:
            return self._conversation.messages

    @property
    def summary(self) -> str | None:
        """What stands for messages that were left out."""
        return self._conversation.summary

    def remember(self, message: Message) -> None:
        """Append a message to the conversation."""
        with self._lock:
            self._conversation.add(message)
            self._touch()

    def unanswered_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls the model waits for."""
        with self._lock:
            return self._conversation.unanswered_calls()

    # --- events ---------------------------------------------------------------------------------------------------

    def subscribe(self, listener: AgentListener) -> None:
        """Let `listener` receive every event from now on, masked; what it raises is logged and ignored."""
        self._listeners.append(listener)

    def publish(
        self,
        kind: AgentEventType,
        message: str | None = None,
        payload: Any = None,
        *,
        turn_id: str = SESSION_TURN,
        step: int = 0,
    ) -> None:
        """Record an event and tell the listeners."""
        self._tell(self._record(kind, message, payload, turn_id=turn_id, step=step))

    def _record(
        self, kind: AgentEventType, message: str | None, payload: Any, *, turn_id: str = SESSION_TURN, step: int = 0
    ) -> AgentSessionEvent:
        with self._lock:
            self._touch()
            event = AgentEvent(
                type=kind,
                run_id=self._run_id,
                session_id=self.session_id,
                turn_id=turn_id,
                step=step,
                message=message,
                payload=payload,
            )
            return self._events.append(event)

    def _tell(self, recorded: AgentSessionEvent) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(recorded.event)
            # The one door to foreign listeners: none can break a session.
            except Exception as error:  # noqa: BLE001
                _log.warning("agent listener failed with %s", type(error).__name__)

    # --- keeping --------------------------------------------------------------------------------------------------

    def snapshot(self) -> AgentSessionSnapshot:
        """Return the session as a value, with every known secret and everything that looks like one masked."""
        with self._lock:
            scrubber = self.scrubber
            return AgentSessionSnapshot(
                metadata=replace(self._metadata, attributes=redacted_data(self._metadata.attributes, scrubber)),
                run_id=self._run_id,
                messages=tuple(redacted_message(message, scrubber) for message in self._conversation.messages),
                summary=redacted_data(self._conversation.summary, scrubber),
                events=self._events.entries,
                event_log_head=self._events.head,
                compact_result=self._compact_result,
                sandbox_binding=self._binding and redacted_binding(self._binding, scrubber),
                owns_sandbox=self._owns_sandbox,
            )

    def restore(self, snapshot: AgentSessionSnapshot | None, *, verify: bool = True) -> Self:
        """Become the session of a snapshot; ``None`` changes nothing. Its sandbox, if any, is detached.

        Args:
            snapshot: What to become. The run id stays this session's own.
            verify: Refuse an event log that was changed, and a sandbox other than the one it tells of: a session whose
                sandbox was taken out of the store would run on the host. Events of the Java original have no seal and
                are taken, unless this session's log has a key.

        Raises:
            EventLogTamperedError: It was changed; names the event. This session is as before.
        """
        if snapshot is None:
            return self
        if verify:
            self._require_intact(snapshot)
        with self._changing:
            self._release()
            with self._lock:
                self._events.restore(snapshot.events, snapshot.event_log_head)
                self._metadata = snapshot.metadata
                self._conversation = Conversation(snapshot.messages, snapshot.summary)
                self._compact_result = snapshot.compact_result
                self._binding, self._sandbox = snapshot.sandbox_binding, None
                self._owns_sandbox, self._destroy = snapshot.owns_sandbox, None
            return self

    def save(self) -> Self:
        """Keep a snapshot in the store, if the session has one.

        Raises:
            SessionStoreError: It could not be stored.
        """
        if self._store is not None:
            with self._saving:  # or a slow save of an earlier state could replace a later one
                self._store.save(self.snapshot())
        return self

    def _require_intact(self, snapshot: AgentSessionSnapshot) -> None:
        verification = self._events.check(snapshot.events, snapshot.event_log_head)
        if verification.valid:
            verification = _of_this_session(snapshot)
        if verification.valid:
            verification = _binding_as_told(snapshot)
        unsealed = verification.fault is ChainFault.UNSEALED and not self._events.sealed_with_key
        if verification.valid or unsealed:
            return
        raise EventLogTamperedError(
            f"the stored session was changed ({verification.fault}): {verification.detail}",
            verification=verification,
            hint="restore the snapshot from a backup, or pass verify=False to look at it",
        )

    def _touch(self, **changes: Any) -> None:
        self._metadata = replace(self._metadata, updated_at_epoch_ms=self._clock(), **changes)


def _of_this_session(snapshot: AgentSessionSnapshot) -> ChainVerification:
    """Whether the sealed events are this session's: a whole log of another one verifies too."""
    for index, entry in enumerate(snapshot.events):
        if entry.hash is not None and entry.event.session_id not in (None, snapshot.session_id):
            detail = f"event {entry.sequence} ({entry.event.type}) belongs to session {entry.event.session_id}"
            return ChainVerification(valid=False, first_broken_index=index, fault=ChainFault.EDITED, detail=detail)
    return INTACT


def _binding_as_told(snapshot: AgentSessionSnapshot) -> ChainVerification:
    """Whether the stored sandbox is the one of the last event about it: the log is sealed, the binding is not."""
    about = [index for index, entry in enumerate(snapshot.events) if entry.event.type in _SANDBOX_EVENTS]
    if not about:
        return INTACT
    entry, binding = snapshot.events[about[-1]], snapshot.sandbox_binding
    cleared = entry.event.type == AgentEventType.SANDBOX_CLEARED
    stored = replace(entry.event, payload=binding and binding.to_dict()).redacted(Scrubber())  # as an event has it
    if _sandbox_ids(None if cleared else entry.event.payload) == _sandbox_ids(stored.payload):
        return INTACT
    detail = f"event {entry.sequence} ({entry.event.type}) tells of another sandbox than the one stored"
    return ChainVerification(valid=False, first_broken_index=about[-1], fault=ChainFault.EDITED, detail=detail)


def _sandbox_ids(summary: Any) -> tuple[Any, Any] | None:
    return (summary.get("providerId"), summary.get("sandboxSessionId")) if isinstance(summary, Mapping) else None


def _same_sandbox(one: AgentSessionSandboxBinding | None, other: AgentSessionSandboxBinding) -> bool:
    if one is None or one.sandbox_session_id is None:
        return False
    return (one.provider_id, one.sandbox_session_id) == (other.provider_id, other.sandbox_session_id)


def _connector(provider: SandboxProvider) -> SupportsConnect:
    if isinstance(provider, SupportsConnect):
        return provider
    raise UnsupportedCapabilityError(
        f"provider {provider.provider_id!r} cannot attach to an existing sandbox",
        hint="clear_sandbox(), then go on with a new one",
        provider_id=provider.provider_id,
    )
