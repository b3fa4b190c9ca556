"""JSON for events, in the Java original's spelling."""

from __future__ import annotations

from typing import Any

from marshmallow import fields

from ai4j_sandbox.frozen import thaw
from ai4j_sandbox.schema import ModelSchema, WholeNumber

from .event import AgentEvent, AgentEventType, AgentSessionEvent, LogHead


class StoredSchema(ModelSchema):
    """A document that another version may have written: what is not known is left out, not refused."""

    def _accept(self, data: dict[str, Any]) -> dict[str, Any]:
        known = {field.data_key or name for name, field in self.load_fields.items()}
        return {key: value for key, value in data.items() if key in known}


class JsonValue(fields.Field[Any]):
    """Any JSON value."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **options: Any) -> Any:
        return thaw(value)


class EventSchema(StoredSchema):
    """`AgentEvent`."""

    model = AgentEvent
    event_id = fields.String(data_key="eventId", allow_none=True)
    run_id = fields.String(data_key="runId", allow_none=True)
    session_id = fields.String(data_key="sessionId", allow_none=True)
    turn_id = fields.String(data_key="turnId", allow_none=True)
    type = fields.String(required=True)
    step = WholeNumber()
    message = fields.String(allow_none=True)
    payload = JsonValue(allow_none=True)

    def _arguments(self, data: dict[str, Any]) -> dict[str, Any]:
        kind = data["type"]
        data["type"] = AgentEventType(kind) if kind in AgentEventType.__members__ else kind
        data.setdefault("turn_id", None)
        return data


class SessionEventSchema(StoredSchema):
    """`AgentSessionEvent`."""

    model = AgentSessionEvent
    sequence = WholeNumber(required=True)
    recorded_at_epoch_ms = WholeNumber(data_key="recordedAtEpochMs", required=True)
    event = fields.Nested(EventSchema, required=True)
    previous_hash = fields.String(data_key="previousHash", allow_none=True)
    hash = fields.String(allow_none=True)


class HeadSchema(StoredSchema):
    """`LogHead`."""

    model = LogHead
    sequence = WholeNumber(required=True)
    hash = fields.String(required=True)


_EVENT = EventSchema()


def event_document(event: AgentEvent) -> dict[str, Any]:
    """Return an event as JSON-ready data; what is not given is left out."""
    return _EVENT.dump(event)  # type: ignore[no-any-return]  # marshmallow types dump as Any
