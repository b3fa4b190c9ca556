"""A key wherever it is sent, a service that repeats whatever it was sent, and every sink looked at."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ai4j_sandbox.binding import AgentSessionSandboxBinding
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import SandboxCommand, SandboxEvent, SandboxSpec, TerminalSize
from ai4j_sandbox.schema import dump
from ai4j_sandbox_daytona import DaytonaSandboxProvider
from support.daytona_stub import DaytonaStub, answer, executed
from support.http_stub import Recorded, Reply
from support.secrets import CANARY, assert_no_secret, everything_said

KEY = f"{CANARY}-key"
GET, CREATE, EXECUTE = "GET /sandbox/id-1", "POST /sandbox", "POST /id-1/process/execute"


def echo(status: int) -> Callable[[Recorded], Reply]:
    """An answer that repeats what it was sent, as careless services do."""
    return lambda request: answer({"message": f"you sent {request.headers['authorization']}"}, status)


def repeated(request: Recorded) -> Reply:
    """What a sandbox without a shell might say, if it said too much."""
    return executed(f"no shell; {request.headers['authorization']}", -1)


@pytest.fixture
def stub() -> Iterator[DaytonaStub]:
    with DaytonaStub({}) as playing:
        playing.play(GET, answer(playing.sandbox(sandboxClass="linux-vm")))
        yield playing


@pytest.fixture
def provider(stub: DaytonaStub) -> DaytonaSandboxProvider:
    return stub.provider(api_key=KEY)


@pytest.mark.parametrize("status", [400, 401, 403, 422, 500])
@pytest.mark.parametrize(
    "act",
    [
        lambda provider: provider.create_session(),
        lambda provider: provider.create_session(SandboxSpec(workspace_id="work")),
        lambda provider: provider.create_session(SandboxSpec(config={"sandboxId": "id-1"})),
        lambda provider: provider.connect("id-1"),
        lambda provider: provider.list_sessions(),
        lambda provider: provider.destroy("id-1"),
    ],
)
def test_error_of_the_control_api_shows_no_key(
    stub: DaytonaStub, provider: DaytonaSandboxProvider, status: int, act: Callable[[DaytonaSandboxProvider], Any]
) -> None:
    stub.play(GET, echo(status))
    stub.answer_all_else(echo(status))

    with pytest.raises(SandboxException) as caught:
        act(provider)

    assert_no_secret(everything_said(caught.value))


def test_health_shows_no_key(stub: DaytonaStub, provider: DaytonaSandboxProvider) -> None:
    stub.answer_all_else(echo(401))

    assert_no_secret(repr(provider.health()))


WORK: list[Callable[[Any], Any]] = [
    lambda session: session.execute(SandboxCommand(command="true")),
    lambda session: session.execute(SandboxCommand(command="cat", stdin=b"x" * 100_000)),
    lambda session: session.start(SandboxCommand(command="true")),
    lambda session: session.execute(SandboxCommand(command="true", terminal=TerminalSize())),
    lambda session: session.list_processes(),
    lambda session: session.attach("c"),
    lambda session: session.files.read("x"),
    lambda session: session.files.write("x", b"1"),
    lambda session: session.files.stat("x"),
    lambda session: session.files.search("x", "*"),
    lambda session: session.git.status("x"),
    lambda session: session.port_url(80),
    lambda session: session.signed_port_url(80),
    lambda session: session.snapshot(),
    lambda session: session.extend(60),
    lambda session: session.stop(),
    lambda session: session.archive(),
    lambda session: session.pause(),
]


@pytest.mark.parametrize("said", [echo(400), echo(401), echo(404), echo(500), repeated])
@pytest.mark.parametrize("work", WORK)
def test_error_of_a_session_shows_no_key(
    stub: DaytonaStub,
    provider: DaytonaSandboxProvider,
    caplog: pytest.LogCaptureFixture,
    said: Callable[[Recorded], Reply],
    work: Callable[[Any], Any],
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[SandboxEvent] = []
    with provider.connect("id-1", SandboxSpec(config={"startTimeoutMillis": 300})) as session:
        session.subscribe(told.append)
        stub.answer_all_else(said)
        try:
            work(session)
        except SandboxException as error:
            assert_no_secret(everything_said(error))

    assert_no_secret(repr(told), caplog.text)


def test_nothing_that_is_kept_or_shown_holds_the_key(stub: DaytonaStub, provider: DaytonaSandboxProvider) -> None:
    stub.play(EXECUTE, executed("ok"))
    spec = SandboxSpec(labels={"apiToken": CANARY, "task": "t"}, config={"apiKey": KEY, "sandboxId": "id-1"})
    with stub.provider().create_session(spec) as session:
        binding = AgentSessionSandboxBinding.from_session(session)
        result = session.execute(SandboxCommand(command="true"))

        assert_no_secret(repr(session), repr(session.spec), dump(session.spec), repr(binding), dump(binding))
        assert_no_secret(repr(result), dump(result), repr(provider), repr(vars(session)["_config"]))


def test_key_goes_into_one_header_and_nowhere_else(stub: DaytonaStub, provider: DaytonaSandboxProvider) -> None:
    stub.play(EXECUTE, executed())
    with provider.connect("id-1") as session:
        session.execute(SandboxCommand(command="true"))

    for request in stub.http.requests:
        assert_no_secret(request.target, request.body.decode("latin-1"))
        assert [name for name, value in request.headers.items() if KEY in value] == ["authorization"]


def test_output_that_holds_the_key_is_masked_in_events_and_not_in_the_result(
    stub: DaytonaStub, provider: DaytonaSandboxProvider
) -> None:
    stub.play(EXECUTE, executed(KEY))
    told: list[SandboxEvent] = []
    with provider.connect("id-1") as session:
        session.subscribe(told.append)
        result = session.execute(SandboxCommand(command="true"))

    assert result.stdout == KEY
    assert_no_secret(repr(told), *(dump(event) for event in told))
