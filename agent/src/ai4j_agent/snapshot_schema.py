"""JSON for snapshots: the Java original's document, plus the seals of our events.

The conversation is its ``memory``: a list of items in the style of the Responses API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import marshmallow as ma
from marshmallow import fields

from ai4j_sandbox.frozen import thaw
from ai4j_sandbox.schema import AnyMap, BindingSchema, WholeNumber

from .conversation import Message, Role, ToolCall
from .event_schema import HeadSchema, JsonValue, SessionEventSchema, StoredSchema
from .snapshot import AgentSessionMetadata, AgentSessionSnapshot

_TEXT_PARTS = ("input_text", "output_text", "text")


class MetadataSchema(StoredSchema):
    """`AgentSessionMetadata`."""

    model = AgentSessionMetadata
    session_id = fields.String(data_key="sessionId", allow_none=True)
    created_at_epoch_ms = WholeNumber(data_key="createdAtEpochMs")
    updated_at_epoch_ms = WholeNumber(data_key="updatedAtEpochMs")
    attributes = AnyMap(allow_none=True)


class MessageItem(fields.Field[Message]):
    """One memory item."""

    def _serialize(self, value: Message | None, attr: str | None, obj: Any, **options: Any) -> dict[str, Any] | None:
        return None if value is None else message_item(value)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Message:
        try:
            return item_message(value)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ma.ValidationError("not a memory item") from None


class MemorySchema(ma.Schema):
    """The conversation within a snapshot."""

    class Meta:
        unknown = ma.EXCLUDE

    items = fields.List(MessageItem(), attribute="messages", allow_none=True)
    summary = fields.String(allow_none=True)


class SnapshotSchema(StoredSchema):
    """`AgentSessionSnapshot`."""

    model = AgentSessionSnapshot
    metadata = fields.Nested(MetadataSchema, allow_none=True)
    run_id = fields.String(data_key="runId", allow_none=True)
    memory = fields.Nested(MemorySchema, allow_none=True)
    events = fields.List(fields.Nested(SessionEventSchema), allow_none=True)
    event_log_head = fields.Nested(HeadSchema, data_key="eventLogHead", allow_none=True)
    compact_result = JsonValue(data_key="compactResult", allow_none=True)
    sandbox_binding = fields.Nested(BindingSchema, data_key="sandboxBinding", allow_none=True)
    owns_sandbox = fields.Boolean(data_key="ownsSandbox")

    def _accept(self, data: dict[str, Any]) -> dict[str, Any]:
        """The id stands in two places; that of the metadata counts."""
        metadata = data.get("metadata") or {}
        if data.get("sessionId") and isinstance(metadata, Mapping):
            data = {**data, "metadata": {"sessionId": data["sessionId"], **metadata}}
        return super()._accept(data)

    def _arguments(self, data: dict[str, Any]) -> dict[str, Any]:
        memory = data.pop("memory", {})
        return {**data, "messages": memory.get("messages") or (), "summary": memory.get("summary")}


def snapshot_document(snapshot: AgentSessionSnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON-ready data."""
    document: dict[str, Any] = SnapshotSchema(exclude=("memory",)).dump(snapshot)
    memory: Any = MemorySchema().dump(snapshot)
    return {"sessionId": snapshot.session_id, **document, "memory": memory}


def message_item(message: Message) -> dict[str, Any]:
    """Return a message as a memory item."""
    if message.role is Role.TOOL:
        return {"type": "function_call_output", "call_id": message.call_id, "output": message.text}
    text = [{"type": "input_text", "text": message.text}] if message.text else []
    item: dict[str, Any] = {
        "type": "message",
        "role": str(message.role),
        "content": [*text, *thaw(message.attachments)],
    }
    if message.tool_calls:
        item["tool_calls"] = [_call_item(call) for call in message.tool_calls]
    return item


def item_message(item: Mapping[str, Any]) -> Message:
    """Return the message of a memory item. Raises a lookup or value error for anything else."""
    if item["type"] == "function_call_output":
        return Message.tool_output(_text(item["call_id"]), _text(item.get("output") or ""))
    if item["type"] != "message":
        raise ValueError(item["type"])
    content = item.get("content") or []
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return Message(
        role=Role(item["role"]),
        text="".join(part.get("text") or "" for part in parts if part["type"] in _TEXT_PARTS),
        attachments=tuple(part for part in parts if part["type"] not in _TEXT_PARTS),
        tool_calls=tuple(_item_call(call) for call in item.get("tool_calls") or ()),
    )


def _call_item(call: ToolCall) -> dict[str, Any]:
    return {"id": call.call_id, "type": call.type, "function": {"name": call.name, "arguments": call.arguments}}


def _item_call(item: Mapping[str, Any]) -> ToolCall:
    function = item["function"]
    return ToolCall(
        name=_text(function["name"]),
        arguments=_text(function.get("arguments") or "{}"),
        call_id=_text(item["id"]),
        type=_text(item.get("type") or "function"),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text is needed")
    return value
