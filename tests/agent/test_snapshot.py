from __future__ import annotations

import json
from typing import Any

import pytest

from ai4j_agent import (
    AgentSession,
    AgentSessionMetadata,
    AgentSessionSnapshot,
    ChainFault,
    Message,
    Role,
    SandboxAttachment,
    SessionStoreError,
    ToolCall,
)
from ai4j_sandbox import AgentSessionSandboxBinding, SandboxStatus
from ai4j_sandbox.testing import FakeProvider

JAVA_SNAPSHOT: dict[str, Any] = {
    "sessionId": "session_0a1b",
    "runId": "run_77",
    "metadata": {
        "sessionId": "session_0a1b",
        "createdAtEpochMs": 1700000000000,
        "updatedAtEpochMs": 1700000009000,
        "attributes": {"team": "core"},
    },
    "memory": {
        "items": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list files"}]},
            {
                "type": "message",
                "role": "assistant",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
                ],
            },
            {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "and this?"},
                    {"type": "input_image", "image_url": {"url": "https://img.example/1.png"}},
                ],
            },
        ],
        "summary": "earlier talk",
    },
    "events": [
        {
            "sequence": 1,
            "recordedAtEpochMs": 1700000001000,
            "event": {
                "eventId": "e1",
                "runId": "run_77",
                "sessionId": "session_0a1b",
                "turnId": "session",
                "type": "SANDBOX_BOUND",
                "step": 0,
                "message": "sandbox bound",
                "payload": {"providerId": "e2b", "sandboxSessionId": "sb-1", "boundAtEpochMs": 1700000001000},
            },
        }
    ],
    "compactResult": {"summary": "s", "sandboxState": []},
    "sandboxBinding": {
        "providerId": "e2b",
        "sandboxSessionId": "sb-1",
        "status": "RUNNING",
        "workspaceId": "w",
        "labels": {"task": "t", "apiToken": "never-stored-by-us"},
        "boundAtEpochMs": 1700000001000,
        "updatedAtEpochMs": 1700000002000,
    },
}


def test_a_snapshot_of_the_java_original_loads() -> None:
    snapshot = AgentSessionSnapshot.from_json(json.dumps(JAVA_SNAPSHOT))

    assert snapshot.metadata == AgentSessionMetadata(
        session_id="session_0a1b",
        created_at_epoch_ms=1700000000000,
        updated_at_epoch_ms=1700000009000,
        attributes={"team": "core"},
    )
    assert snapshot.messages == (
        Message.user("list files"),
        Message(role=Role.ASSISTANT, tool_calls=(ToolCall(name="bash", arguments='{"command":"ls"}', call_id="c1"),)),
        Message.tool_output("c1", "a.txt"),
        Message(
            role=Role.USER,
            text="and this?",
            attachments=({"type": "input_image", "image_url": {"url": "https://img.example/1.png"}},),
        ),
    )
    assert (snapshot.summary, snapshot.run_id) == ("earlier talk", "run_77")
    assert snapshot.sandbox_binding == AgentSessionSandboxBinding(
        provider_id="e2b",
        sandbox_session_id="sb-1",
        status=SandboxStatus.RUNNING,
        workspace_id="w",
        labels={"task": "t"},
        bound_at=1700000001000,
        updated_at=1700000002000,
    )
    assert snapshot.compact_result == {"summary": "s", "sandboxState": ()}


def test_a_session_of_the_java_original_restores_detached_and_unsealed() -> None:
    session = AgentSession().restore(AgentSessionSnapshot.from_dict(JAVA_SNAPSHOT))

    assert session.sandbox_attachment is SandboxAttachment.DETACHED
    assert session.event_log.verify().fault is ChainFault.UNSEALED


def test_what_we_write_has_everything_the_java_original_reads() -> None:
    written = AgentSessionSnapshot.from_dict(JAVA_SNAPSHOT).to_dict()

    assert written["memory"]["items"][0] == JAVA_SNAPSHOT["memory"]["items"][0]
    assert written["memory"]["items"][1] == {**JAVA_SNAPSHOT["memory"]["items"][1], "content": []}
    assert written["memory"]["items"][2:] == JAVA_SNAPSHOT["memory"]["items"][2:]
    assert {key: written[key] for key in ("sessionId", "runId", "metadata", "compactResult")} == {
        key: JAVA_SNAPSHOT[key] for key in ("sessionId", "runId", "metadata", "compactResult")
    }
    assert written["events"] == JAVA_SNAPSHOT["events"]


def test_a_snapshot_survives_json_unchanged() -> None:
    """Case A07."""
    session = AgentSession().bind_sandbox(FakeProvider().create_session())
    session.put_attribute("n", [1, {"a": None}])
    session.remember(Message.user("é \x00 \U0001f600"))
    snapshot = session.snapshot()

    assert AgentSessionSnapshot.from_json(snapshot.to_json()) == snapshot


def test_the_id_is_known_without_metadata_and_that_of_the_metadata_counts() -> None:
    documents = [
        {"sessionId": "a"},
        {"sessionId": "a", "metadata": {}},
        {"sessionId": "b", "metadata": {"sessionId": "a"}},
    ]

    assert [AgentSessionSnapshot.from_dict(document).session_id for document in documents] == ["a", "a", "a"]


def test_what_a_later_version_adds_is_left_out() -> None:
    document = {**JAVA_SNAPSHOT, "newThing": 1, "metadata": {**JAVA_SNAPSHOT["metadata"], "alsoNew": 2}}

    assert AgentSessionSnapshot.from_dict(document) == AgentSessionSnapshot.from_dict(JAVA_SNAPSHOT)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call_output", "call_id": 5, "output": "x"},
        {"type": "function_call_output", "call_id": "c", "output": {"a": 1}},
        {"type": "message", "role": "user", "content": [{"type": "text", "text": 5}]},
        {
            "type": "message",
            "role": "assistant",
            "tool_calls": [{"id": "c", "function": {"name": "t", "arguments": {"a": 1}}}],
        },
    ],
)
def test_a_memory_item_whose_texts_are_no_texts_is_refused(item: dict[str, Any]) -> None:
    with pytest.raises(SessionStoreError, match=r"memory\.items\.0: not a memory item"):
        AgentSessionSnapshot.from_json(json.dumps({"memory": {"items": [item]}}))


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', '{"events": 3}', '{"memory": {"items": [{"type": "odd"}]}}'])
def test_what_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(SessionStoreError, match="not a session snapshot"):
        AgentSessionSnapshot.from_json(text)


def test_an_error_names_the_wrong_field() -> None:
    with pytest.raises(SessionStoreError, match=r"events\.0\.sequence"):
        AgentSessionSnapshot.from_json(
            '{"events": [{"sequence": "x", "recordedAtEpochMs": 1, "event": {"type": "E"}}]}'
        )


def test_a_repr_shows_no_conversation() -> None:
    snapshot = AgentSessionSnapshot(messages=(Message.user("private words"),), summary="private words")

    assert "private words" not in repr(snapshot)
