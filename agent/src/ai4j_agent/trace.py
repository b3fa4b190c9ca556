"""The sandbox's part of a session's event log as trace spans, for hosts that keep traces of their own.

For OpenTelemetry install ``ai4j-sandbox-otel``, which observes the sandboxes themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ai4j_sandbox.frozen import empty_mapping, freeze

from .event import AgentEventType, AgentSessionEvent

SANDBOX_SPAN = "SANDBOX"

_NAMES = {
    AgentEventType.SANDBOX_BOUND: "sandbox.bound",
    AgentEventType.SANDBOX_UPDATED: "sandbox.updated",
    AgentEventType.SANDBOX_CLEARED: "sandbox.cleared",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """Something that happened to a session's sandbox.

    Attributes:
        trace_id: The run's id.
        attributes: The binding's summary, and which event told of it.
    """

    name: str
    trace_id: str | None
    at_epoch_ms: int
    type: str = SANDBOX_SPAN
    status: str = "OK"
    attributes: Mapping[str, Any] = field(default_factory=empty_mapping)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", freeze(self.attributes))


def sandbox_spans(entries: Iterable[AgentSessionEvent]) -> list[TraceSpan]:
    """Return a span for each event about the sandbox, in order."""
    return [_span(entry) for entry in entries if entry.event.type in _NAMES]


def _span(entry: AgentSessionEvent) -> TraceSpan:
    event = entry.event
    summary = event.payload if isinstance(event.payload, Mapping) else {}
    about = {"eventId": event.event_id, "runId": event.run_id, "sessionId": event.session_id, "turnId": event.turn_id}
    return TraceSpan(
        name=_NAMES[AgentEventType(event.type)],
        trace_id=event.run_id,
        at_epoch_ms=entry.recorded_at_epoch_ms,
        attributes={**summary, **about, "message": event.message, "step": event.step},
    )
