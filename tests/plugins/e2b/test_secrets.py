"""Canaries wherever a secret lives, a service that repeats whatever it was sent, and every sink looked at."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ai4j_sandbox.binding import AgentSessionSandboxBinding
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import SandboxCommand, SandboxEvent, SandboxSpec
from ai4j_sandbox.schema import dump
from ai4j_sandbox_e2b import E2BSandboxProvider, E2BSandboxSession
from support.e2b_stub import CREATED, E2BStub, answer, stream
from support.envd_stub import END_OF_STREAM, EXITED, START, failure, output
from support.http_stub import Recorded, Reply
from support.secrets import CANARY, assert_no_secret, everything_said

KEY, ENVD_TOKEN, TRAFFIC_TOKEN = f"{CANARY}-key", f"{CANARY}-envd", f"{CANARY}-traffic"


def echo(status: int) -> Callable[[Recorded], Reply]:
    """An answer that repeats the request's headers, as careless services do."""
    return lambda request: answer({"code": status, "message": f"you sent {dict(request.headers)}"}, status)


@pytest.fixture
def stub() -> Iterator[E2BStub]:
    created = {**CREATED, "envdAccessToken": ENVD_TOKEN, "trafficAccessToken": TRAFFIC_TOKEN}
    with E2BStub({"POST /sandboxes": answer(created, 201)}) as stub:
        yield stub


@pytest.fixture
def provider(stub: E2BStub) -> E2BSandboxProvider:
    environ = {"E2B_API_KEY": KEY, "E2B_API_URL": stub.http.url, "E2B_SANDBOX_URL": stub.http.url}
    return E2BSandboxProvider(environ=environ)


CONTROL_FAILURES: list[tuple[str, Callable[[E2BSandboxProvider], Any]]] = [
    ("POST /sandboxes", lambda provider: provider.create_session()),
    ("GET /sandboxes/sid123", lambda provider: provider.connect("sid123")),
    ("GET /v2/sandboxes", lambda provider: provider.list_sessions()),
    ("DELETE /sandboxes/sid123", lambda provider: provider.destroy("sid123")),
]


@pytest.mark.parametrize("status", [400, 401, 403, 500])
@pytest.mark.parametrize(("call", "act"), CONTROL_FAILURES)
def test_error_of_the_control_api_shows_no_key(
    stub: E2BStub, provider: E2BSandboxProvider, status: int, call: str, act: Callable[[E2BSandboxProvider], Any]
) -> None:
    stub.answers[call] = echo(status)

    with pytest.raises(SandboxException) as caught:
        act(provider)

    assert_no_secret(everything_said(caught.value))


def test_health_shows_no_key(stub: E2BStub, provider: E2BSandboxProvider) -> None:
    stub.answers["GET /v2/sandboxes"] = echo(401)

    assert_no_secret(repr(provider.health()))


SESSION_FAILURES: list[tuple[str, Callable[[E2BSandboxSession], Any]]] = [
    ("POST /process.Process/Start", lambda session: session.execute(SandboxCommand(command="true"))),
    ("POST /process.Process/List", lambda session: session.list_processes()),
    ("GET /files", lambda session: session.files.read("/x")),
    ("POST /files", lambda session: session.files.write("/x", b"1")),
    ("POST /filesystem.Filesystem/Stat", lambda session: session.files.stat("/x")),
    ("POST /filesystem.Filesystem/WatchDir", lambda session: session.watch("/x")),
    ("GET /metrics", lambda session: session.metrics()),
    ("POST /sandboxes/sid123/pause", lambda session: session.pause()),
    ("POST /sandboxes/sid123/connect", lambda session: session.extend(60)),
    ("POST /sandboxes/sid123/snapshots", lambda session: session.snapshot()),
    ("DELETE /sandboxes/sid123", lambda session: session.close()),
]


@pytest.mark.parametrize("status", [400, 401, 500])
@pytest.mark.parametrize(("call", "act"), SESSION_FAILURES)
def test_error_of_a_session_shows_no_token(
    stub: E2BStub,
    provider: E2BSandboxProvider,
    caplog: pytest.LogCaptureFixture,
    status: int,
    call: str,
    act: Callable[[E2BSandboxSession], Any],
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[SandboxEvent] = []
    session = provider.create_session()
    assert isinstance(session, E2BSandboxSession)
    session.subscribe(told.append)
    stub.answers[call] = echo(status)

    with pytest.raises(SandboxException) as caught:
        act(session)

    assert_no_secret(everything_said(caught.value), repr(told), caplog.text)
    assert caught.value.session_id == "sid123"
    stub.answers.pop(call)
    session.close()


def test_what_a_stream_says_of_its_failure_is_masked(stub: E2BStub, provider: E2BSandboxProvider) -> None:
    told: list[SandboxEvent] = []
    with provider.create_session() as session:
        session.subscribe(told.append)
        for frames in (
            (START, failure("internal", f"token {ENVD_TOKEN}")),
            (failure("internal", f"token {ENVD_TOKEN}"),),
        ):
            stub.answers["POST /process.Process/Start"] = stream(*frames)
            with pytest.raises(SandboxException) as caught:
                session.execute(SandboxCommand(command="true"))
            assert_no_secret(everything_said(caught.value))

    assert_no_secret(repr(told), *(dump(event) for event in told))


def test_nothing_that_is_kept_or_shown_holds_a_secret(stub: E2BStub, provider: E2BSandboxProvider) -> None:
    spec = SandboxSpec(labels={"apiToken": CANARY, "task": "t"}, config={"envdAccessToken": CANARY})
    with provider.create_session(spec) as session:
        assert isinstance(session, E2BSandboxSession)
        binding = AgentSessionSandboxBinding.from_session(session)
        result = session.execute(SandboxCommand(command="true"))
        port = session.port_url(80)

        assert_no_secret(repr(session), repr(session.spec), dump(session.spec), repr(binding), dump(binding))
        assert_no_secret(repr(result), dump(result), repr(port), repr(provider), repr(vars(session)["_sandbox"]))
        assert_no_secret(repr(vars(session)["_config"]), repr(vars(session)["_setup"]))


def test_secrets_go_where_they_belong_and_nowhere_else(stub: E2BStub, provider: E2BSandboxProvider) -> None:
    with provider.create_session() as session:
        session.execute(SandboxCommand(command="true"))
        session.close()

    for request in stub.http.requests:
        assert_no_secret(request.target, request.body.decode("latin-1"))
        on_control_plane = request.path.startswith("/sandboxes")
        assert (KEY in str(request.headers)) == on_control_plane
        assert (ENVD_TOKEN in str(request.headers)) != on_control_plane


def test_output_that_holds_a_key_is_masked_in_events_and_not_in_the_result(
    stub: E2BStub, provider: E2BSandboxProvider
) -> None:
    stub.answers["POST /process.Process/Start"] = stream(
        START, output(KEY[:9].encode()), output(KEY[9:].encode()), EXITED, END_OF_STREAM
    )
    told: list[SandboxEvent] = []
    with provider.create_session() as session:
        result = session.execute(SandboxCommand(command="true"), on_event=told.append)

    assert result.stdout == KEY
    assert_no_secret(b"".join(event.data for event in told if event.data).decode())
