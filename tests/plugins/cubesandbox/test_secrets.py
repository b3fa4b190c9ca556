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
from ai4j_sandbox_cubesandbox import CubeSandboxProvider, CubeSandboxSession
from support.cube_stub import CREATED, CubeStub
from support.e2b_stub import answer, stream
from support.envd_stub import END_OF_STREAM, EXITED, START, failure, output
from support.http_stub import Recorded, Reply
from support.secrets import CANARY, assert_no_secret, everything_said

KEY, ENVD_TOKEN, TRAFFIC_TOKEN = f"{CANARY}-key", f"{CANARY}-envd", f"{CANARY}-traffic"


def echo(status: int) -> Callable[[Recorded], Reply]:
    """An answer that repeats the request's headers, as careless services do."""
    return lambda request: answer({"code": status, "message": f"you sent {dict(request.headers)}"}, status)


@pytest.fixture
def stub() -> Iterator[CubeStub]:
    created = {**CREATED, "envdAccessToken": ENVD_TOKEN, "trafficAccessToken": TRAFFIC_TOKEN}
    with CubeStub({"POST /sandboxes": answer(created, 201)}) as stub:
        yield stub


@pytest.fixture
def provider(stub: CubeStub) -> CubeSandboxProvider:
    return CubeSandboxProvider(environ=stub.environ(CUBE_API_KEY=KEY))


CONTROL_FAILURES: list[tuple[str, Callable[[CubeSandboxProvider], Any]]] = [
    ("POST /sandboxes", lambda provider: provider.create_session()),
    ("POST /sandboxes/sb1/connect", lambda provider: provider.connect("sb1")),
    ("GET /v2/sandboxes", lambda provider: provider.list_sessions()),
    ("DELETE /sandboxes/sb1", lambda provider: provider.destroy("sb1")),
]


@pytest.mark.parametrize("status", [400, 401, 403, 500])
@pytest.mark.parametrize(("call", "act"), CONTROL_FAILURES)
def test_error_of_the_control_plane_shows_no_key(
    stub: CubeStub, provider: CubeSandboxProvider, status: int, call: str, act: Callable[[CubeSandboxProvider], Any]
) -> None:
    stub.answers[call] = echo(status)

    with pytest.raises(SandboxException) as caught:
        act(provider)

    assert_no_secret(everything_said(caught.value))


def test_health_shows_no_key(stub: CubeStub, provider: CubeSandboxProvider) -> None:
    stub.answers["GET /v2/sandboxes"] = echo(401)

    assert_no_secret(repr(provider.health()))


SESSION_FAILURES: list[tuple[str, Callable[[CubeSandboxSession], Any]]] = [
    ("POST /process.Process/Start", lambda session: session.execute(SandboxCommand(command="true"))),
    ("POST /process.Process/List", lambda session: session.list_processes()),
    ("GET /files", lambda session: session.files.read("/x")),
    ("POST /files", lambda session: session.files.write("/x", b"1")),
    ("POST /filesystem.Filesystem/Stat", lambda session: session.files.stat("/x")),
    ("POST /filesystem.Filesystem/WatchDir", lambda session: session.watch("/x")),
    ("GET /metrics", lambda session: session.metrics()),
    ("POST /sandboxes/sb1/pause", lambda session: session.pause()),
    ("POST /sandboxes/sb1/connect", lambda session: session.extend(60)),
    ("POST /sandboxes/sb1/snapshots", lambda session: session.snapshot()),
    ("POST /sandboxes/sb1/rollback", lambda session: session.rollback("snap-1")),
    ("DELETE /sandboxes/sb1", lambda session: session.close()),
]


@pytest.mark.parametrize("status", [400, 401, 500])
@pytest.mark.parametrize(("call", "act"), SESSION_FAILURES)
def test_error_of_a_session_shows_no_token(
    stub: CubeStub,
    provider: CubeSandboxProvider,
    caplog: pytest.LogCaptureFixture,
    status: int,
    call: str,
    act: Callable[[CubeSandboxSession], Any],
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[SandboxEvent] = []
    session = provider.create_session()
    assert isinstance(session, CubeSandboxSession)
    session.subscribe(told.append)
    stub.answers[call] = echo(status)

    with pytest.raises(SandboxException) as caught:
        act(session)

    assert_no_secret(everything_said(caught.value), repr(told), caplog.text)
    assert caught.value.session_id == "sb1"
    stub.answers.pop(call)
    session.close()


def test_what_a_stream_says_of_its_failure_is_masked(stub: CubeStub, provider: CubeSandboxProvider) -> None:
    told: list[SandboxEvent] = []
    with provider.create_session() as session:
        session.subscribe(told.append)
        for frames in ((START, failure("internal", f"t {ENVD_TOKEN}")), (failure("internal", f"t {TRAFFIC_TOKEN}"),)):
            stub.answers["POST /process.Process/Start"] = stream(*frames)
            with pytest.raises(SandboxException) as caught:
                session.execute(SandboxCommand(command="true"))
            assert_no_secret(everything_said(caught.value))

    assert_no_secret(repr(told), *(dump(event) for event in told))


def test_nothing_that_is_kept_or_shown_holds_a_secret(stub: CubeStub, provider: CubeSandboxProvider) -> None:
    spec = SandboxSpec(labels={"apiToken": CANARY, "task": "t"}, config={"metadata": {"password": CANARY}})
    with provider.create_session(spec) as session:
        assert isinstance(session, CubeSandboxSession)
        binding = AgentSessionSandboxBinding.from_session(session)
        result = session.execute(SandboxCommand(command="true"))
        port = session.port_url(80)

        assert_no_secret(repr(session), repr(session.spec), dump(session.spec), repr(binding), dump(binding))
        assert_no_secret(repr(result), dump(result), repr(port), repr(provider), repr(session.sandbox))
        assert_no_secret(repr(vars(session)["_config"]), repr(vars(session)["_setup"]))


def test_secrets_go_where_they_belong_and_nowhere_else(stub: CubeStub, provider: CubeSandboxProvider) -> None:  # J10
    spec = SandboxSpec(labels={"sessionCookie": CANARY}, config={"metadata": {"Authorization": CANARY}})
    with provider.create_session(spec) as session:
        session.execute(SandboxCommand(command="true"))

    for request in stub.http.requests:
        assert_no_secret(request.target, request.body.decode("latin-1"))
        on_control_plane = request.path.startswith("/sandboxes")
        assert (KEY in str(request.headers)) == on_control_plane
        assert (ENVD_TOKEN in str(request.headers)) != on_control_plane
        assert (TRAFFIC_TOKEN in str(request.headers)) != on_control_plane


def test_redirect_takes_no_secret_elsewhere(stub: CubeStub, provider: CubeSandboxProvider) -> None:  # J01
    with CubeStub() as elsewhere, provider.create_session() as session:
        moved = Reply(status=307, headers={"Location": elsewhere.http.url})
        stub.answers["POST /process.Process/Start"] = moved
        with pytest.raises(SandboxException, match="redirect"):
            session.execute(SandboxCommand(command="true"))

    assert elsewhere.asked == []


def test_output_that_holds_a_key_is_masked_in_events_and_not_in_the_result(
    stub: CubeStub, provider: CubeSandboxProvider
) -> None:
    stub.answers["POST /process.Process/Start"] = stream(
        START, output(KEY[:9].encode()), output(KEY[9:].encode()), EXITED, END_OF_STREAM
    )
    told: list[SandboxEvent] = []
    with provider.create_session() as session:
        result = session.execute(SandboxCommand(command="true"), on_event=told.append)

    assert result.stdout == KEY
    assert_no_secret(b"".join(event.data for event in told if event.data).decode())
