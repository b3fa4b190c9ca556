"""JSON in and out: camelCase, round trips, documents of the Java original, errors with paths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ai4j_sandbox import (
    AgentSessionSandboxBinding,
    CapturedOutput,
    OutputStream,
    SandboxArtifact,
    SandboxCommand,
    SandboxConfigError,
    SandboxEvent,
    SandboxEventType,
    SandboxResult,
    SandboxSpec,
    SandboxStatus,
    SandboxSummary,
    TerminalSize,
    dump,
    load_command,
    load_event,
    load_result,
    load_spec,
)
from ai4j_sandbox.schema import _SCHEMAS, load

EXAMPLES: list[Any] = [
    SandboxSpec(),
    SandboxSpec(
        provider_id="x",
        profile="p",
        image="i",
        workspace_id="w",
        labels={"a": "b", "n": None},
        config={"l": [1, {"x": 2}]},
    ),
    SandboxCommand(command="echo  x "),
    SandboxCommand(command="cat", stdin=""),
    SandboxCommand(
        command=["a", "b c"],
        stdin=b"\xff\0",
        keep_stdin_open=True,
        timeout_millis=5,
        environment={"A": "1"},
        metadata={"tool": {"name": "x"}},
        artifacts=["*.xml"],
        output_limit_bytes=0,
        terminal=TerminalSize(rows=2, columns=3),
    ),
    SandboxArtifact(artifact_id="a", name="r.xml", path="/w/r.xml", mime_type="text/xml", size_bytes=0, sha256="00"),
    SandboxEvent(type=SandboxEventType.COMMAND_OUTPUT, stream=OutputStream.STDERR, data=b"\xc3", offset=3, sequence=2),
    SandboxEvent(type=SandboxEventType.COMMAND_FINISHED, exit_code=0, timed_out=False),
    SandboxResult(),
    SandboxResult(
        command_id="c",
        exit_code=137,
        signal="SIGKILL",
        stdout="é\0",
        stderr=b"\xff",
        timed_out=True,
        duration_millis=12,
        artifacts=[SandboxArtifact(path="/x")],
        artifacts_error="no find",
        events=[SandboxEvent(type=SandboxEventType.ERROR, message="m")],
        status_text="signal: killed",
    ),
    SandboxResult(captured_stdout=CapturedOutput(head=b"a" * 600, tail=b"b" * 600, total_bytes=5000)),
    SandboxSummary(session_id="s", provider_id="p", status=SandboxStatus.RUNNING, labels={"a": "b"}),
    AgentSessionSandboxBinding(provider_id="x", status=SandboxStatus.CLOSED, labels={"task": "t"}),
]


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_every_type_survives_a_round_trip_through_json_text(value: Any) -> None:
    document = json.loads(json.dumps(dump(value)))

    assert load(_SCHEMAS[type(value)], document, type(value)) == value


def test_every_type_has_an_example_here() -> None:
    assert {type(value) for value in EXAMPLES} | {TerminalSize, CapturedOutput} == set(_SCHEMAS)


def test_keys_are_the_seeds_camel_case_and_absent_fields_are_left_out() -> None:
    assert dump(SandboxSpec(provider_id="p", workspace_id="w", labels={"a": "b"})) == {
        "providerId": "p",
        "workspaceId": "w",
        "labels": {"a": "b"},
    }


def test_result_carries_plain_text_output_once() -> None:
    assert dump(SandboxResult(command_id="c", exit_code=0, stdout="hi\n")) == {
        "commandId": "c",
        "exitCode": 0,
        "stdout": "hi\n",
        "stderr": "",
        "timedOut": False,
        "canceled": False,
        "artifacts": [],
        "events": [],
        "streams": "separate",
    }


def test_nul_in_output_and_events_survives_json_text() -> None:
    """Case A07: nothing is cut at the NUL."""
    event = SandboxEvent(type=SandboxEventType.COMMAND_OUTPUT, stream=OutputStream.STDOUT, data=b"a\0b\n")
    result = SandboxResult(command_id="c", exit_code=0, stdout="a\0b\n", events=[event])

    loaded = load_result(json.loads(json.dumps(dump(result))))

    assert (loaded.stdout, [kept.data for kept in loaded.events]) == ("a\0b\n", [b"a\0b\n"])


def test_documents_of_the_java_original_load() -> None:
    command = load_command(
        {"commandId": " c1 ", "command": "mvn test", "workingDirectory": None, "timeoutMillis": 0, "stdin": None}
    )
    result = load_result(
        {
            "commandId": "c1",
            "exitCode": None,
            "stdout": None,
            "timedOut": False,
            "artifacts": [None],
            "events": [{"type": "ERROR"}],
        }
    )
    binding = AgentSessionSandboxBinding.from_dict(
        {"providerId": "e2b", "status": "RUNNING", "labels": {"task": "x"}, "boundAtEpochMs": 5, "updatedAtEpochMs": 7}
    )

    assert (command.command_id, command.timeout_millis) == ("c1", None)
    assert (result.exit_code, result.stdout, len(result.artifacts), len(result.events)) == (None, "", 0, 1)
    assert (binding.bound_at, binding.updated_at) == (5, 7)


@pytest.mark.parametrize(
    ("loader", "document", "message"),
    [
        (load_spec, {"providerID": "x"}, "providerID: unknown key; did you mean 'providerId'?"),
        (load_spec, {"labels": ["a"]}, "labels: must be a mapping"),
        (load_spec, ["x"], "SandboxSpec must be a JSON object, got list"),
        (load_command, {}, "command: Missing data for required field."),
        (load_command, {"command": " "}, "command must not be blank"),
        (load_command, {"command": "x", "timeoutMillis": "30"}, "timeoutMillis: Not a valid integer."),
        (load_command, {"command": "x", "timeoutMillis": True}, "timeoutMillis: Not a valid integer."),
        (load_command, {"command": "x", "timeoutMillis": 1.5}, "timeoutMillis: Not a valid integer."),
        (load_command, {"command": "x", "stdinBase64": "*"}, "must be base64 text"),
        (load_event, {"type": "SOMETHING"}, "type: Must be one of"),
        (load_result, {"events": [3]}, "must be a JSON object, got int"),
        (load_result, {"artifacts": "x"}, "artifacts: Not a valid list."),
        (load_result, {"events": [{"type": "ERROR", "data": "*"}]}, "events.0.data: must be base64 text"),
    ],
)
def test_wrong_documents_are_refused_with_the_path(loader: Any, document: Any, message: str) -> None:
    with pytest.raises(SandboxConfigError) as caught:
        loader(document)

    assert message in str(caught.value)


def test_all_wrong_fields_are_listed_at_once() -> None:
    with pytest.raises(SandboxConfigError) as caught:
        load_command({"command": "x", "timeoutMillis": "1", "environment": []})

    assert sorted(caught.value.fields) == ["environment", "timeoutMillis"]
