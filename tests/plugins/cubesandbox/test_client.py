"""CubeAPI, against a server whose every answer the test decides."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxTimeoutError,
)
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox_cubesandbox.client import CubeSandboxClient
from ai4j_sandbox_cubesandbox.config import SETTINGS, cube_config
from ai4j_sandbox_wire.direct import DirectTransport
from support.cube_stub import CREATED
from support.e2b_stub import answer
from support.http_stub import Ending, HttpStub, Recorded, Reply
from support.secrets import CANARY, assert_no_secret, everything_said

BODY = {"templateID": "tpl-1", "timeout": 300, "metadata": {"ai4jCreate": "tag-1"}}
NO_CONTENT = Reply(status=204)
RUNNING, PAUSING, PAUSED = (answer({**CREATED, "state": state}) for state in ("running", "pausing", "paused"))
BUSY = answer({"code": 409, "message": "busy"}, 409)
IN_TRANSITION = answer({"code": 503, "message": "changing (130490)"}, 503, **{"Retry-After": "2"})


class Waits:
    """How long was waited; nobody really does."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def transport() -> Iterator[DirectTransport]:
    transport = DirectTransport()
    yield transport
    transport.close()


@pytest.fixture
def client_of(transport: DirectTransport) -> Callable[..., CubeSandboxClient]:
    def make(stub: HttpStub, waits: Waits | None = None, **options: Any) -> CubeSandboxClient:
        environ = {"CUBE_API_KEY": CANARY, "CUBE_API_URL": stub.url}
        settings = SETTINGS.resolve(SandboxSpec(config={"requestTimeoutMillis": 500} | options), environ=environ)
        return CubeSandboxClient(cube_config(settings), send=transport.send, sleep=waits or Waits())

    return make


ClientOf = Callable[..., CubeSandboxClient]


def asked(stub: HttpStub) -> list[tuple[str, str]]:
    return [(request.method, request.target) for request in stub.requests]


# --- requests -----------------------------------------------------------------------------------------------------


def test_creation_is_sent_as_json_with_the_key_as_bearer(client_of: ClientOf) -> None:
    with HttpStub(answer(CREATED, 201)) as stub:
        sandbox = client_of(stub).create(BODY)

    (request,) = stub.requests
    assert (request.method, request.target, json.loads(request.body)) == ("POST", "/sandboxes", BODY)
    assert request.headers["authorization"] == f"Bearer {CANARY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("ai4j-sandbox-cubesandbox/")
    assert "x-api-key" not in request.headers
    assert (sandbox.sandbox_id, sandbox.client_id) == ("sb1", "node-1")


def test_key_goes_into_both_headers_when_told(client_of: ClientOf) -> None:
    with HttpStub(answer(CREATED, 201)) as stub:
        client_of(stub, sendXApiKey=True).create(BODY)

    headers = stub.requests[0].headers
    assert (headers["authorization"], headers["x-api-key"]) == (f"Bearer {CANARY}", CANARY)


def test_key_of_netrc_does_not_replace_ours(  # J03
    client_of: ClientOf, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login u password p")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with HttpStub(answer(CREATED, 201)) as stub:
        client_of(stub).create(BODY)

    assert stub.requests[0].headers["authorization"] == f"Bearer {CANARY}"


def test_no_credential_is_in_any_address(client_of: ClientOf) -> None:  # J10
    with HttpStub(answer(CREATED)) as stub:
        client = client_of(stub)
        client.create(BODY)
        client.describe("sb1")
        client.connect("sb1", 60)
        client.destroy("sb1")

    assert_no_secret(*(request.target for request in stub.requests))


def test_compressed_answer_is_read(client_of: ClientOf) -> None:  # D27
    body = gzip.compress(json.dumps(CREATED).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    with HttpStub(Reply(status=201, headers=headers, body=body)) as stub:
        assert client_of(stub).create(BODY).sandbox_id == "sb1"

    assert stub.requests[0].headers["accept-encoding"] == "identity"


def test_redirect_is_refused_and_the_key_stays(client_of: ClientOf) -> None:  # J01, I-49
    with HttpStub(answer(CREATED)) as elsewhere:
        moved = Reply(status=302, headers={"Location": f"{elsewhere.url}/sandboxes"})
        with HttpStub(moved) as stub, pytest.raises(SandboxProtocolError, match="redirect"):
            client_of(stub).create(BODY)

    assert elsewhere.requests == []


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=200),
        answer({}),
        answer({"id": ""}),
        answer({"sandboxID": None}, 201),
        Reply(status=200, headers={"Content-Type": "text/html"}, body=b"<html>"),
    ],
)
def test_creation_without_a_sandbox_is_an_error(client_of: ClientOf, reply: Reply) -> None:  # I05, I-61
    with HttpStub(reply) as stub, pytest.raises(SandboxProtocolError):
        client_of(stub).create(BODY)


@pytest.mark.parametrize("ending", [Ending.SILENCE, Ending.RESET, Ending.CUT])
def test_creation_is_sent_once_whatever_happens(client_of: ClientOf, ending: Ending) -> None:  # N03
    with HttpStub(Reply(status=201, body=b"x" * 20, ending=ending)) as stub, pytest.raises(SandboxException) as caught:
        client_of(stub).create(BODY)

    assert len(stub.requests) == 1
    assert caught.value.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_refused_creation_is_not_repeated(client_of: ClientOf, status: int) -> None:
    with HttpStub(Reply(status=status)) as stub, pytest.raises(SandboxException):
        client_of(stub).create(BODY)

    assert len(stub.requests) == 1


def test_empty_408_is_a_timeout_that_may_have_left_something(client_of: ClientOf) -> None:
    with HttpStub(Reply(status=408)) as stub, pytest.raises(SandboxTimeoutError) as caught:
        client_of(stub).create(BODY)

    assert caught.value.outcome is Outcome.UNKNOWN


def test_request_id_of_the_service_is_told(client_of: ClientOf) -> None:
    refused = answer({"code": 400}, 400, **{"x-request-id": "r-1"})
    with HttpStub(refused) as stub, pytest.raises(SandboxConfigError) as caught:
        client_of(stub).create(BODY)

    assert caught.value.request_id == "r-1"


def test_get_on_a_connection_that_was_closed_works(client_of: ClientOf) -> None:  # N04
    with HttpStub.playing(Reply(**{**vars(RUNNING), "ending": Ending.CLOSE}), RUNNING) as stub:
        client = client_of(stub)
        client.describe("sb1")
        assert client.describe("sb1").state == "running"


# --- connecting ---------------------------------------------------------------------------------------------------


def test_connecting_asks_for_no_window_of_its_own(client_of: ClientOf) -> None:  # I01
    with HttpStub(answer(CREATED)) as stub:
        client_of(stub).connect("sb1")

    assert [(request.target, request.body) for request in stub.requests] == [("/sandboxes/sb1/connect", b"{}")]


def test_server_that_demands_a_timeout_gets_the_configured_one_once(client_of: ClientOf) -> None:
    missing = Reply(status=422, headers={"Content-Type": "text/plain"}, body=b"missing field `timeout`")
    with HttpStub.playing(missing, answer(CREATED)) as stub:
        client_of(stub, timeoutSeconds=120).connect("sb1")

    assert [json.loads(request.body) for request in stub.requests] == [{}, {"timeout": 120}]


def test_refusal_of_a_timeout_that_was_given_is_final(client_of: ClientOf) -> None:
    with HttpStub(Reply(status=422)) as stub, pytest.raises(SandboxConfigError):
        client_of(stub).connect("sb1", 60)

    assert len(stub.requests) == 1


@pytest.mark.parametrize("status", [200, 201])
def test_both_successes_of_connecting_count(client_of: ClientOf, status: int) -> None:
    with HttpStub(answer(CREATED, status)) as stub:
        assert client_of(stub).connect("sb1", -1).sandbox_id == "sb1"


def test_connecting_in_the_middle_of_a_change_waits(client_of: ClientOf) -> None:
    waits = Waits()
    with HttpStub.playing(BUSY, BUSY, answer(CREATED)) as stub:
        client_of(stub, waits).connect("sb1")

    assert waits.seconds == [0.2, 0.5]


@pytest.mark.parametrize("sandbox_id", ["", ".", ".."])
def test_id_that_is_none_is_refused(client_of: ClientOf, sandbox_id: str) -> None:
    with HttpStub(NO_CONTENT) as stub, pytest.raises(SandboxConfigError, match="sandbox id"):
        client_of(stub).connect(sandbox_id)

    assert stub.requests == []


# --- pausing and copies -------------------------------------------------------------------------------------------


def test_pause_returns_when_the_sandbox_is_paused(client_of: ClientOf) -> None:
    waits = Waits()
    with HttpStub.playing(NO_CONTENT, PAUSING, PAUSING, PAUSED) as stub:
        client_of(stub, waits).pause("sb1")

    assert [method for method, _ in asked(stub)] == ["POST", "GET", "GET", "GET"]
    assert waits.seconds == [0.05, 0.1]


def test_pausing_what_is_paused_is_fine(client_of: ClientOf) -> None:
    with HttpStub.playing(BUSY, PAUSED, PAUSED) as stub:
        client_of(stub).pause("sb1")


def test_pause_that_stays_refused_is_told(client_of: ClientOf) -> None:
    def handler(request: Recorded) -> Reply:
        return RUNNING if request.method == "GET" else BUSY

    with HttpStub(handler) as stub, pytest.raises(SandboxConflictError) as caught:
        client_of(stub).pause("sb1")

    assert caught.value.session_id == "sb1"


def test_snapshot_rollback_and_removal(client_of: ClientOf) -> None:
    replies = (answer({"snapshotID": "snap-1"}, 201), answer({"status": "READY"}), NO_CONTENT)
    with HttpStub.playing(*replies) as stub:
        client = client_of(stub)
        assert client.snapshot("sb1", "n") == "snap-1"
        client.rollback("sb1", "snap-1")
        client.remove_snapshot("snap-1")

    assert [(item.method, item.target, item.body) for item in stub.requests] == [
        ("POST", "/sandboxes/sb1/snapshots", b'{"name":"n"}'),
        ("POST", "/sandboxes/sb1/rollback", b'{"snapshotID":"snap-1"}'),
        ("DELETE", "/templates/snap-1", b""),
    ]


# --- destroying ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 202, 204])
def test_every_success_of_destroying_counts(client_of: ClientOf, status: int) -> None:
    with HttpStub(Reply(status=status)) as stub:
        client_of(stub).destroy("sb1")

    assert asked(stub) == [("DELETE", "/sandboxes/sb1")]


@pytest.mark.parametrize("status", [404, 410])
def test_destroying_what_is_gone_is_not_found(client_of: ClientOf, status: int) -> None:
    with HttpStub(answer({"code": status}, status)) as stub, pytest.raises(SandboxNotFoundError):
        client_of(stub).destroy("sb1")


def test_destroying_waits_as_long_as_the_service_asks(client_of: ClientOf) -> None:  # I-34
    waits = Waits()
    with HttpStub.playing(IN_TRANSITION, IN_TRANSITION, NO_CONTENT) as stub:
        client_of(stub, waits, requestTimeoutMillis=30_000).destroy("sb1")

    assert waits.seconds == [2, 2]


def test_destroying_gives_up_within_its_deadline(client_of: ClientOf) -> None:
    waits = Waits()
    with HttpStub(IN_TRANSITION) as stub, pytest.raises(SandboxConflictError):
        client_of(stub, waits, requestTimeoutMillis=30_000).destroy("sb1", Deadline(1.0))

    assert waits.seconds == []


def test_paused_sandbox_of_an_older_server_is_woken_and_destroyed(client_of: ClientOf) -> None:
    broken = answer({"code": 500, "message": "cannot delete"}, 500)
    with HttpStub.playing(broken, answer(CREATED), NO_CONTENT) as stub:
        client_of(stub).destroy("sb1")

    assert [target for _, target in asked(stub)] == ["/sandboxes/sb1", "/sandboxes/sb1/connect", "/sandboxes/sb1"]


def test_sandbox_that_can_be_neither_destroyed_nor_woken_is_told_with_the_first_reason(client_of: ClientOf) -> None:
    replies = answer({"message": "first"}, 500), answer({"message": "second"}, 500)
    with HttpStub.playing(*replies) as stub, pytest.raises(SandboxException, match="first"):
        client_of(stub).destroy("sb1")


def test_500_that_means_not_found_is_not_found(client_of: ClientOf) -> None:
    with HttpStub(answer({"message": "ret 130404"}, 500)) as stub, pytest.raises(SandboxNotFoundError):
        client_of(stub).destroy("sb1")

    assert len(stub.requests) == 1


# --- lists --------------------------------------------------------------------------------------------------------


def test_list_asks_for_running_and_paused(client_of: ClientOf) -> None:
    with HttpStub(answer([{**CREATED, "metadata": {"a": "b"}}])) as stub:
        (found,) = client_of(stub).find({"a": "b"})

    assert asked(stub) == [("GET", "/v2/sandboxes?metadata=a%3Db&state=running%2Cpaused")]
    assert found.session_id == "sb1"


def test_older_server_is_asked_on_its_own_path(client_of: ClientOf) -> None:
    with HttpStub.playing(Reply(status=404), answer([])) as stub:
        assert client_of(stub).find({}) == []

    assert [target.partition("?")[0] for _, target in asked(stub)] == ["/v2/sandboxes", "/sandboxes"]


def test_what_a_creation_left_is_found_by_its_tag_and_removed(client_of: ClientOf) -> None:
    left = answer([{**CREATED, "metadata": {"ai4jCreate": "tag-1"}}, {**CREATED, "sandboxID": "other"}])
    with HttpStub.playing(left, NO_CONTENT) as stub:
        assert client_of(stub).remove_created("tag-1")

    assert asked(stub)[1:] == [("DELETE", "/sandboxes/sb1")]


def test_nothing_left_by_a_creation_is_looked_for_more_than_once(client_of: ClientOf) -> None:
    waits = Waits()
    with HttpStub(answer([])) as stub:
        assert not client_of(stub, waits).remove_created("tag-1")

    assert waits.seconds == [0.3, 1.0]


def test_health_needs_no_key_and_is_told(client_of: ClientOf) -> None:
    with HttpStub(answer({"status": "ok", "sandboxes": 3})) as stub:
        assert client_of(stub).health() == {"status": "ok", "sandboxes": 3}


def test_error_shows_no_key(client_of: ClientOf) -> None:
    def echo(request: Recorded) -> Reply:
        return answer({"code": 401, "message": f"you sent {dict(request.headers)}"}, 401)

    with HttpStub(echo) as stub, pytest.raises(SandboxAuthError) as caught:
        client_of(stub).create(BODY)

    assert_no_secret(everything_said(caught.value), repr(client_of(stub)))
