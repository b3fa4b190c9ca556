"""A secret is put wherever secrets live; then everything that is kept, logged or said is searched for it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from ai4j_agent import (
    AgentEvent,
    AgentSessionStore,
    ChatCompletionsClient,
    FileSessionStore,
    ModelClientError,
    SandboxDetachedError,
    SqlSessionStore,
    ToolContext,
    ToolPlacement,
    allow_all,
    react_agent,
    tool,
)
from ai4j_sandbox import (
    AgentSessionSandboxBinding,
    SandboxCommand,
    SandboxEvent,
    SandboxException,
    SandboxSpec,
)
from ai4j_sandbox.observers import register_observer
from ai4j_sandbox.spi import SandboxSession, SessionDescription
from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox.testing.fake import FAKE_INFO, FakeSandbox, FakeSession
from support.chat_server import base_url, chat_server, error_answer, text_answer, tool_answer
from support.secrets import CANARY, assert_no_secret, everything_said

URL_WITH_SECRET = f"https://user:{CANARY}@registry.example/image"


class LeakyProvider(FakeProvider):
    """A provider whose service quotes the secret wherever it can, as real ones do."""

    def _create(self, spec: SandboxSpec) -> SandboxSession:  # type: ignore[override]  # any session will do
        sandbox = FakeSandbox("leaky-1", spec)
        self.sandboxes[sandbox.session_id] = sandbox
        description = SessionDescription(
            session_id=sandbox.session_id, info=FAKE_INFO, spec=spec, secrets=(CANARY, spec.config.get("apiKey"))
        )
        return FakeSession(description, self, sandbox, keep=False)

    def check(self, spec: SandboxSpec | None) -> object:  # type: ignore[override]  # the fake knows no apiKey
        from ai4j_sandbox import Admission

        return Admission(provider_id="fake")


SPEC = SandboxSpec(
    provider_id="fake",
    profile="p",
    image=URL_WITH_SECRET,
    workspace_id=f"{URL_WITH_SECRET}?token={CANARY}",
    labels={
        "apiKey": CANARY,
        "ｔｏｋｅｎ": CANARY,
        "dsn": URL_WITH_SECRET,
        "header": f"Bearer {CANARY}",
        "team": "core",
    },
    config={"apiKey": CANARY, "env": {"A": CANARY}},
)


@tool(placement=ToolPlacement.SESSION)
def deploy(context: ToolContext) -> str:
    """Run a command that needs a secret and prints it."""
    command = SandboxCommand(
        command="deploy",
        environment={"DEPLOY_TOKEN": CANARY},
        stdin=f"{CANARY}\n",
        metadata={"note": CANARY},
    )
    return context.execute(command).stdout


@tool(placement=ToolPlacement.SESSION)
def broken(context: ToolContext) -> str:
    """Run a command the service fails on, quoting the secret."""
    return context.execute(SandboxCommand(command="broken", environment={"DEPLOY_TOKEN": CANARY})).stdout


@tool
def leak() -> str:
    """Fail with the secret in the text."""
    raise RuntimeError(f"cannot use {CANARY} with {URL_WITH_SECRET}")


def script(command: SandboxCommand) -> FakeResult:
    if command.command == "broken":
        return FakeResult(raises=SandboxException(f"500: key {CANARY} at {URL_WITH_SECRET}", hint=f"rotate {CANARY}"))
    return FakeResult(stdout=f"deployed with {CANARY}\n", stderr=f"warning: {CANARY}")


@dataclass
class Sinks:
    """Everything that is kept, logged or said."""

    agent_events: list[AgentEvent] = field(default_factory=list)
    sandbox_events: list[tuple[SandboxEvent, AgentSessionSandboxBinding]] = field(default_factory=list)

    def observe(self, event: SandboxEvent, binding: AgentSessionSandboxBinding) -> None:
        self.sandbox_events.append((event, binding))


@pytest.fixture
def sinks() -> Iterator[Sinks]:
    collected = Sinks()
    remove = register_observer(collected.observe)
    yield collected
    remove()


def stored_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", ["file", "sql"])
def test_a_secret_turns_up_nowhere(
    kind: str, sinks: Sinks, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    caplog.set_level(logging.DEBUG)
    database = create_engine(f"sqlite:///{tmp_path}/sessions.db", poolclass=NullPool)
    store: AgentSessionStore = FileSessionStore(tmp_path) if kind == "file" else SqlSessionStore(database)
    answers = (
        tool_answer(("deploy", {}), ("broken", {}), ("leak", {}), text="working"),
        error_answer(429, f"slow down, {CANARY}", **{"Retry-After": "0"}),
        text_answer("done"),
    )
    with chat_server(*answers) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", base_url(server))
        client = ChatCompletionsClient.from_environment(headers={"X-Team": f"t-{CANARY}"})
        agent = react_agent(
            model_client=client,
            model="m",
            tools=[deploy, broken, leak],
            sandbox_provider=LeakyProvider(script),
            sandbox_spec=replace(SPEC, labels={**SPEC.labels, "plain": CANARY}),  # known to be the key
            permission_policy=allow_all(),
            session_store=store,
        )
        session = agent.new_session("s")
        session.subscribe(sinks.agent_events.append)
        result = agent.run("deploy it", session=session)
        session.close()
        session.save()
        sent = [request.body.decode() for request in server.requests]

    assert result.output == "done"
    assert {str(event.type) for event in sinks.agent_events} >= {"SANDBOX_BOUND", "TOOL_RESULT", "MODEL_RETRY"}
    assert len(sinks.sandbox_events) > 5
    assert_no_secret(
        repr((agent, client, session, result, SPEC, agent.sandbox_source)),
        repr([(event, event.payload) for event in sinks.agent_events]),
        repr([(event, binding) for event, binding in sinks.sandbox_events]),
        b"".join(event.data or b"" for event, _ in sinks.sandbox_events).decode(),
        session.snapshot().to_json(),
        repr(session.snapshot()),
        stored_bytes(tmp_path).decode("latin-1"),
        caplog.text,
        *sent,
    )
    if kind == "sql":
        with database.connect() as connection:
            rows = [list(row) for row in connection.execute(text("select * from ai4j_agent_session"))]
        assert_no_secret(json.dumps(rows))


def test_no_exception_holds_a_secret(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    with chat_server(error_answer(401, f"unknown key {CANARY}")) as server:
        client = ChatCompletionsClient(base_url=base_url(server), api_key=CANARY)
        agent = react_agent(model_client=client, model="m", session_store=FileSessionStore(tmp_path))
        session = agent.new_session("s").bind_sandbox(LeakyProvider(script).create_session(SPEC))
        with pytest.raises(ModelClientError) as failed:
            agent.run("go", session=session)
        errors.append(failed.value)
        restored = agent.resume_session("s")
        with pytest.raises(SandboxDetachedError) as detached:
            agent.run("go", session=restored)
        errors.append(detached.value)

    for error in errors:
        assert_no_secret(everything_said(error), repr(error.__cause__))
    assert_no_secret(stored_bytes(tmp_path).decode("latin-1"))


def test_the_search_would_find_a_leak(tmp_path: Path) -> None:
    (tmp_path / "leak").write_text(CANARY)

    with pytest.raises(AssertionError):
        assert_no_secret(stored_bytes(tmp_path).decode("latin-1"))
