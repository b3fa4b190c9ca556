"""One span for each session, one below it for each command; ids and figures only.

Rules:

* Nothing of an event's text or data becomes an attribute, however it was masked: only its kind and its figures.
* Ids and profiles may be the host's own words: what looks like a secret in them is masked.
* Sessions whose end is never seen are bounded in number, and ended when the process exits.
* An error of a command may be its end, or be followed by it (artifacts that could not be collected). Its span is
  ended with the command's end or, at the time of the error, with its session.
"""

from __future__ import annotations

import atexit
import functools
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from opentelemetry import trace
from opentelemetry.trace import Span, StatusCode, Tracer

from ai4j_sandbox import AgentSessionSandboxBinding, OutputStream, SandboxEvent, SandboxEventType
from ai4j_sandbox.redaction import mask_text

MOST_OPEN_SESSIONS = 10_000

_PREFIX = "ai4j.sandbox"
_ENDS = (SandboxEventType.COMMAND_FINISHED, SandboxEventType.COMMAND_CANCELED)


@dataclass(slots=True)
class _OpenCommand:
    """A command that runs, as far as is known.

    Attributes:
        error: What may have been its end.
    """

    span: Span
    started_at_epoch_ms: int
    error: SandboxEvent | None = None
    written: dict[OutputStream, int] = field(default_factory=lambda: dict.fromkeys(OutputStream, 0))


@dataclass(slots=True)
class _OpenSession:
    """A session that lives, and its commands by id."""

    span: Span
    commands: dict[str, _OpenCommand] = field(default_factory=dict)


class SandboxSpans:
    """Makes the spans. Safe to use from several threads.

    Args:
        tracer: Who starts them; the process's own by default.
        most_open: How many sessions may be open; beyond that the oldest counts as ended.
    """

    def __init__(self, tracer: Tracer | None = None, *, most_open: int = MOST_OPEN_SESSIONS) -> None:
        self._most_open = most_open
        self._tracer = tracer or trace.get_tracer("ai4j_sandbox_otel")
        self._lock = threading.Lock()
        self._sessions: OrderedDict[tuple[str | None, str | None], _OpenSession] = OrderedDict()

    def observe(self, event: SandboxEvent, binding: AgentSessionSandboxBinding) -> None:
        """Take the next event of a session."""
        with self._lock:
            if event.type is SandboxEventType.SESSION_CREATED:
                self._start_session(event, binding)
            elif event.type is SandboxEventType.SESSION_CLOSED:
                self._end_session(event, binding)
            elif event.command_id is not None:
                self._command(event, event.command_id, binding)
            elif event.type is SandboxEventType.ERROR:
                self._session(event, binding).span.set_status(StatusCode.ERROR)

    def end_all(self) -> None:
        """End what is still open; what is known so far gets exported."""
        with self._lock:
            while self._sessions:
                _end(self._sessions.popitem(last=False)[1])

    # --- sessions -------------------------------------------------------------------------------------------------

    def _start_session(self, event: SandboxEvent, binding: AgentSessionSandboxBinding) -> _OpenSession:
        span = self._tracer.start_span("sandbox.session", start_time=_nanoseconds(event))
        _set(span, provider=binding.provider_id, profile=binding.profile, **{"session.id": event.session_id})
        opened = _OpenSession(span)
        replaced = self._sessions.pop(_key(event, binding), None)
        if replaced is not None:  # attached to a second time: the first handle's spans end here
            _end(replaced)
        self._sessions[_key(event, binding)] = opened
        if len(self._sessions) > self._most_open:
            _end(self._sessions.popitem(last=False)[1])
        return opened

    def _end_session(self, event: SandboxEvent, binding: AgentSessionSandboxBinding) -> None:
        session = self._sessions.pop(_key(event, binding), None)
        if session is not None:
            _set(session.span, status=None if binding.status is None else str(binding.status))
            _end(session, _nanoseconds(event))

    def _session(self, event: SandboxEvent, binding: AgentSessionSandboxBinding) -> _OpenSession:
        """Return the session's spans, begun late when the beginning was not seen."""
        return self._sessions.get(_key(event, binding)) or self._start_session(event, binding)

    # --- commands -------------------------------------------------------------------------------------------------

    def _command(self, event: SandboxEvent, command_id: str, binding: AgentSessionSandboxBinding) -> None:
        session = self._session(event, binding)
        command = session.commands.get(command_id)
        if command is None:
            command = session.commands[command_id] = self._start_command(session, event, binding)
        if event.type is SandboxEventType.COMMAND_OUTPUT and event.stream is not None:
            command.written[event.stream] += len(event.data or b"")
        elif event.type is SandboxEventType.ERROR:
            command.error = event
            command.span.set_status(StatusCode.ERROR)
        elif event.type in _ENDS:
            del session.commands[command_id]
            _end_command(command, event)

    def _start_command(
        self, session: _OpenSession, event: SandboxEvent, binding: AgentSessionSandboxBinding
    ) -> _OpenCommand:
        span = self._tracer.start_span(
            "sandbox.command", context=trace.set_span_in_context(session.span), start_time=_nanoseconds(event)
        )
        ids = {"session.id": event.session_id, "command.id": event.command_id}
        _set(span, provider=binding.provider_id, **ids)
        return _OpenCommand(span, event.timestamp_epoch_ms)


@functools.cache
def process_spans() -> SandboxSpans:
    """Return the spans of this process, made with the first event."""
    spans = SandboxSpans()
    atexit.register(spans.end_all)
    return spans


def _end_command(command: _OpenCommand, event: SandboxEvent) -> None:
    facts: dict[str, str | int | bool | None] = {
        "command.stdout_bytes": command.written[OutputStream.STDOUT],
        "command.stderr_bytes": command.written[OutputStream.STDERR],
        "command.duration_ms": max(0, event.timestamp_epoch_ms - command.started_at_epoch_ms),
    }
    if event.type in _ENDS:
        facts |= _ending(event)
    _set(command.span, **facts)
    command.span.end(_nanoseconds(event))


def _ending(event: SandboxEvent) -> dict[str, str | int | bool | None]:
    return {
        "command.exit_code": event.exit_code,
        "command.timed_out": bool(event.timed_out),
        "command.canceled": event.type is SandboxEventType.COMMAND_CANCELED,
    }


def _end(session: _OpenSession, at: int | None = None) -> None:
    for command in session.commands.values():
        if command.error is not None:
            _end_command(command, command.error)
        else:
            command.span.end(at)
    session.span.end(at)


def _set(span: Span, **facts: str | int | bool | None) -> None:
    for name, value in facts.items():
        if value is not None:
            span.set_attribute(f"{_PREFIX}.{name}", mask_text(value) if isinstance(value, str) else value)


def _key(event: SandboxEvent, binding: AgentSessionSandboxBinding) -> tuple[str | None, str | None]:
    return binding.provider_id, event.session_id


def _nanoseconds(event: SandboxEvent) -> int:
    return event.timestamp_epoch_ms * 1_000_000
