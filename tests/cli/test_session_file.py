"""`ai4j session show` and `verify`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ai4j_agent import AgentEventLog, AgentEventType, AgentSession, Message
from ai4j_sandbox.testing import FakeProvider
from support.command_line import document_of, invoke, registry_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A stored session with a sandbox, two messages and some events."""
    session = AgentSession(session_id="s1")
    session.remember(Message.user("what I said \x1b[31m"))
    session.publish(AgentEventType.STEP_START, "step 1")
    session.bind_sandbox(FakeProvider().create_session())
    return written(tmp_path, session)


def written(tmp_path: Path, session: AgentSession) -> Path:
    path = tmp_path / "session.json"
    path.write_text(session.snapshot().to_json())
    return path


def run(command: str, *arguments: object):
    return invoke("session", command, *map(str, arguments), registry=registry_of())


def test_show_tells_what_is_in_it_but_not_what_was_said(file):
    result = run("show", file)

    assert result.exit_code == 0
    assert "session: s1\n" in result.stdout
    assert "sandbox: fake/fake-" in result.stdout
    assert "SANDBOX_BOUND" in result.stdout
    assert "what I said" not in result.stdout


def test_show_with_messages_is_safe_for_a_terminal(file):
    assert "user: what I said \\x1b[31m\n" in run("show", "--messages", file).stdout


@pytest.mark.parametrize(("options", "there"), [((), False), (("--messages",), True)])
def test_json_holds_the_conversation_only_when_asked_for(file, options, there):
    document = document_of(run("show", "--json", *options, file))

    assert (document["sessionId"], "memory" in document) == ("s1", there)


def test_an_intact_log_verifies(file):
    assert (run("verify", file).exit_code, run("verify", file).stdout) == (0, "s1: 2 events, intact\n")


def test_an_edited_event_is_named(file):
    document = json.loads(file.read_text())
    document["events"][0]["event"]["message"] = "step 2"
    file.write_text(json.dumps(document))

    result = run("verify", "--json", file)

    verdict = document_of(result)
    assert (result.exit_code, verdict["valid"], verdict["fault"], verdict["firstBrokenIndex"]) == (
        1,
        False,
        "edited",
        0,
    )


def test_a_log_sealed_with_a_key_needs_it(tmp_path, monkeypatch):
    session = AgentSession(event_log=AgentEventLog(seal_key=b"key"))
    session.publish(AgentEventType.STEP_START, "step 1")
    path = written(tmp_path, session)

    without = run("verify", path).exit_code
    monkeypatch.setenv("AI4J_SEAL_KEY", "key")

    assert (without, run("verify", path).exit_code) == (1, 0)


@pytest.mark.parametrize("content", [b"", b"{}x", b"[]", b"\xff\xfe"])
@pytest.mark.parametrize("command", ["show", "verify"])
def test_what_is_no_session_is_told(tmp_path, content, command):
    (tmp_path / "x").write_bytes(content)

    result = run(command, tmp_path / "x")

    assert result.exit_code == 2
    assert "unexpected" not in result.stderr


def test_a_file_that_is_not_there_is_told(tmp_path):
    assert run("show", tmp_path / "x").stderr == f"ai4j: {tmp_path}/x cannot be read: No such file or directory\n"
