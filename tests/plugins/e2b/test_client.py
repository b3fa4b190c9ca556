"""The control API, against a server whose every answer the test decides."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxCapacityError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxRateLimitError,
    SandboxTimeoutError,
)
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox_e2b.client import E2BSandboxClient
from ai4j_sandbox_e2b.config import SETTINGS, e2b_config
from ai4j_sandbox_wire.requests_sender import RequestsSender
from support.http_stub import Ending, HttpStub, Recorded, Reply
from support.secrets import CANARY, assert_no_secret, everything_said

JSON = {"Content-Type": "application/json"}
CREATED = {"sandboxID": "sid123", "templateID": "base", "clientID": "c", "envdVersion": "0.6.13"}
BODY = {"templateID": "base", "timeout": 300, "metadata": {"ai4jCreate": "tag-1"}}


def answer(document: Any = None, status: int = 200, **headers: str) -> Reply:
    body = b"" if document is None else json.dumps(document).encode()
    return Reply(status=status, headers=JSON | headers, body=body)


NO_CONTENT = Reply(status=204)
NO_SUCH_PATH = Reply(status=405)


class Waits:
    """How long was waited; nobody really does."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def sender() -> Iterator[RequestsSender]:
    sender = RequestsSender()
    yield sender
    sender.close()


@pytest.fixture
def client_of(sender: RequestsSender) -> Callable[..., E2BSandboxClient]:
    def make(stub: HttpStub, waits: Waits | None = None, **options: Any) -> E2BSandboxClient:
        environ = {"E2B_API_KEY": CANARY, "E2B_API_URL": stub.url}
        settings = SETTINGS.resolve(SandboxSpec(config={"readTimeoutMillis": 500} | options), environ=environ)
        return E2BSandboxClient(e2b_config(settings), send=sender, sleep=waits or Waits())

    return make


ClientOf = Callable[..., E2BSandboxClient]


def asked(stub: HttpStub) -> list[tuple[str, str]]:
    return [(request.method, request.target) for request in stub.requests]


# --- requests -----------------------------------------------------------------------------------------------------


def test_create_is_one_request_with_the_key_and_an_idempotency_key(client_of: ClientOf) -> None:
    with HttpStub(answer(CREATED, 201)) as stub:
        sandbox = client_of(stub).create(BODY)

    (request,) = stub.requests
    assert sandbox.sandbox_id == "sid123"
    assert (request.method, request.target, json.loads(request.body)) == ("POST", "/sandboxes", BODY)
    assert request.headers["x-api-key"] == CANARY
    assert request.headers["idempotency-key"] == "tag-1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == "ai4j-sandbox-e2b/0.1.0"
    assert "authorization" not in request.headers


@pytest.mark.parametrize("status", [404, 405, 410])
def test_create_goes_the_other_generations_way_when_the_first_is_not_there(client_of: ClientOf, status: int) -> None:
    def handler(request: Recorded) -> Reply:
        return answer(CREATED, 201) if request.path == "/v2/sandboxes" else Reply(status=status)

    with HttpStub(handler) as stub:
        client = client_of(stub)
        client.create(BODY)
        client.create(BODY)

    assert asked(stub) == [("POST", "/sandboxes"), ("POST", "/v2/sandboxes"), ("POST", "/v2/sandboxes")]


def test_unknown_template_is_told_in_the_services_words(client_of: ClientOf) -> None:
    def handler(request: Recorded) -> Reply:
        if request.path == "/sandboxes":
            return answer({"code": 404, "message": "template 'nope' not found"}, 404)
        return Reply(status=404, body=b"404 page not found")

    with HttpStub(handler) as stub, pytest.raises(SandboxNotFoundError, match="template 'nope' not found") as caught:
        client_of(stub).create(BODY)

    assert caught.value.outcome is Outcome.NOT_STARTED


def test_calls_on_one_sandbox(client_of: ClientOf) -> None:
    def handler(request: Recorded) -> Reply:
        if request.path.endswith("/snapshots"):
            return answer({"snapshotID": "snap:default"}, 201)
        if request.method == "GET" or request.path.endswith("/connect"):
            return answer(CREATED)
        return NO_CONTENT

    with HttpStub(handler) as stub:
        client = client_of(stub)
        client.describe("sid123")
        client.connect("sid123", 60)
        client.pause("sid123")
        assert client.snapshot("sid123", "mine") == "snap:default"
        client.destroy("sid123")

    assert [(*pair, request.body) for pair, request in zip(asked(stub), stub.requests, strict=True)] == [
        ("GET", "/sandboxes/sid123", b""),
        ("POST", "/sandboxes/sid123/connect", b'{"timeout":60}'),
        ("POST", "/sandboxes/sid123/pause", b"{}"),
        ("POST", "/sandboxes/sid123/snapshots", b'{"name":"mine"}'),
        ("DELETE", "/sandboxes/sid123", b""),
    ]


def test_id_is_one_path_segment(client_of: ClientOf) -> None:
    with HttpStub(answer({"code": 400, "message": "Invalid sandbox ID"}, 400)) as stub:
        client = client_of(stub)
        with pytest.raises(SandboxNotFoundError):
            client.describe("../admin?x=1")
        with pytest.raises(SandboxConfigError):
            client.describe("..")

    assert asked(stub) == [("GET", "/sandboxes/..%2Fadmin%3Fx%3D1")]


def test_base_path_is_kept(client_of: ClientOf, sender: RequestsSender) -> None:  # K04
    with HttpStub(answer(CREATED)) as stub:
        environ = {"E2B_API_KEY": "k", "E2B_API_URL": f"{stub.url}/base/"}
        E2BSandboxClient(e2b_config(SETTINGS.resolve(environ=environ)), send=sender).describe("s")

    assert asked(stub) == [("GET", "/base/sandboxes/s")]


def test_list_follows_the_pages(client_of: ClientOf) -> None:
    def handler(request: Recorded) -> Reply:
        if "nextToken" in request.target:
            return answer([{"sandboxID": "s2", "metadata": {"task": "a b"}}])
        mine, foreign = {"sandboxID": "s1", "metadata": {"task": "a b"}}, {"sandboxID": "s0", "metadata": {}}
        return answer([mine, foreign], **{"X-Next-Token": "t=1"})

    with HttpStub(handler) as stub:
        found = client_of(stub).find({"task": "a b"})

    assert [summary.session_id for summary in found] == ["s1", "s2"]
    assert [request.target for request in stub.requests] == [
        "/v2/sandboxes?metadata=task%3Da%2520b&limit=100",
        "/v2/sandboxes?metadata=task%3Da%2520b&limit=100&nextToken=t%3D1",
    ]


def test_what_a_creation_left_is_found_by_its_tag_though_the_service_ignores_the_filter(client_of: ClientOf) -> None:
    left = answer([{"sandboxID": "s1", "metadata": {"ai4jCreate": "tag-1"}}, {"sandboxID": "other"}])
    with HttpStub.playing(left, NO_CONTENT) as stub:
        assert client_of(stub).remove_created("tag-1")

    assert [(request.method, request.path) for request in stub.requests][1:] == [("DELETE", "/sandboxes/s1")]


def test_list_that_goes_round_in_circles_ends(client_of: ClientOf) -> None:
    with (
        HttpStub(answer([], **{"X-Next-Token": "again"})) as stub,
        pytest.raises(SandboxProtocolError, match="circles"),
    ):
        client_of(stub).find({})

    assert len(stub.requests) == 2


def test_list_of_an_old_service(client_of: ClientOf) -> None:
    with HttpStub.playing(NO_SUCH_PATH, answer([{"sandboxID": "s1"}])) as stub:
        assert [summary.session_id for summary in client_of(stub).find({})] == ["s1"]

    assert [request.path for request in stub.requests] == ["/v2/sandboxes", "/sandboxes"]


# --- refusals, repetition -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "kind", "outcome"),
    [
        (answer({"code": 401, "message": "no"}, 401), SandboxAuthError, Outcome.NOT_STARTED),
        (answer({"code": 400, "message": "validation error: timeout"}, 400), SandboxConfigError, Outcome.NOT_STARTED),
        (answer({"code": 429, "message": "Rate limit exceeded"}, 429), SandboxRateLimitError, Outcome.NOT_STARTED),
        (answer({"code": 503, "message": "busy"}, 503), SandboxCapacityError, Outcome.UNKNOWN),
        (answer({"code": 504, "message": "late"}, 504), SandboxTimeoutError, Outcome.UNKNOWN),
        (answer({"code": 500, "message": "oops"}, 500), SandboxException, Outcome.UNKNOWN),
        (Reply(status=302, headers={"Location": "http://localhost:1/"}), SandboxProtocolError, Outcome.NOT_STARTED),
        (Reply(ending=Ending.SILENCE), SandboxTimeoutError, Outcome.UNKNOWN),
        (Reply(body=b"x", ending=Ending.RESET), SandboxConnectionError, Outcome.UNKNOWN),
    ],
)
def test_create_that_fails_is_one_request_and_one_error(
    client_of: ClientOf, reply: Reply, kind: type[SandboxException], outcome: Outcome
) -> None:  # N03, K12
    with HttpStub(reply) as stub, pytest.raises(kind) as caught:
        client_of(stub).create(BODY)

    assert len(stub.requests) == 1
    assert (caught.value.outcome, caught.value.operation) == (outcome, "create")
    assert_no_secret(everything_said(caught.value))


@pytest.mark.parametrize(
    "reply",
    [
        Reply(headers=JSON),
        answer({}),
        answer({"id": ""}),
        answer({"sandboxID": None}, 201),
        Reply(headers={"Content-Type": "text/html"}, body=b"<html><title>Sign in</title></html>"),
    ],
)
def test_create_that_tells_no_id_is_an_error(client_of: ClientOf, reply: Reply) -> None:  # I05, I-61
    with HttpStub(reply) as stub, pytest.raises(SandboxProtocolError) as caught:
        client_of(stub).create(BODY)

    assert caught.value.outcome is Outcome.UNKNOWN


def test_answer_compressed_unasked_is_read(client_of: ClientOf) -> None:  # D27
    reply = Reply(headers=JSON | {"Content-Encoding": "gzip"}, body=gzip.compress(json.dumps(CREATED).encode()))
    with HttpStub(reply) as stub:
        assert client_of(stub).create(BODY).sandbox_id == "sid123"

    assert stub.requests[0].headers["accept-encoding"] == "identity"


def test_safe_call_is_repeated_as_the_service_asks(client_of: ClientOf) -> None:  # K12
    waits = Waits()
    busy = answer({"code": 429, "message": "Rate limit exceeded"}, 429, **{"Retry-After": "1"})
    with HttpStub.playing(busy, answer({"code": 503}, 503), answer(CREATED)) as stub:
        assert client_of(stub, waits, readTimeoutMillis=20_000).describe("s").sandbox_id == "sid123"

    assert len(stub.requests) == 3
    assert waits.seconds[0] == 1.0


def test_connecting_may_be_repeated_because_it_only_prolongs(client_of: ClientOf) -> None:
    with HttpStub.playing(answer({"code": 503}, 503), answer(CREATED, 201)) as stub:
        client_of(stub).connect("s", 60)

    assert len(stub.requests) == 2


def test_pausing_what_is_paused_is_fine(client_of: ClientOf) -> None:
    with HttpStub.playing(
        answer({"code": 409, "message": "already"}, 409), answer(CREATED | {"state": "paused"})
    ) as stub:
        client_of(stub).pause("s")

    assert asked(stub) == [("POST", "/sandboxes/s/pause"), ("GET", "/sandboxes/s")]


def test_pausing_what_is_being_killed_is_a_conflict(client_of: ClientOf) -> None:
    conflict = answer({"code": 409, "message": "in transition"}, 409)
    with (
        HttpStub.playing(conflict, answer(CREATED | {"state": "running"})) as stub,
        pytest.raises(SandboxConflictError, match="in transition"),
    ):
        client_of(stub).pause("s")


def test_destroying_waits_for_a_change_to_end(client_of: ClientOf) -> None:  # I03
    waits = Waits()
    with HttpStub.playing(answer({"code": 409, "message": "state change in progress"}, 409), NO_CONTENT) as stub:
        client_of(stub, waits, readTimeoutMillis=20_000).destroy("s")

    assert (len(stub.requests), waits.seconds) == (2, [0.2])


def test_destroying_gives_up_on_a_change_that_does_not_end(client_of: ClientOf) -> None:
    waits = Waits()
    with HttpStub(answer({"code": 409}, 409)) as stub, pytest.raises(SandboxConflictError):
        client_of(stub, waits, readTimeoutMillis=20_000).destroy("s")

    assert (len(stub.requests), waits.seconds) == (5, [0.2, 0.5, 1.0, 2.0])


def test_environment_of_the_machine_changes_nothing(
    client_of: ClientOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:  # J03
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login u password p\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with HttpStub(answer(CREATED)) as stub:
        client_of(stub).describe("s")

    assert "authorization" not in stub.requests[0].headers


def test_redirect_is_not_followed(client_of: ClientOf) -> None:  # J01
    with HttpStub(answer(CREATED)) as other:
        redirect = Reply(status=302, headers={"Location": f"http://localhost:{other.port}/sandboxes"})
        with HttpStub(redirect) as stub, pytest.raises(SandboxProtocolError, match="redirect"):
            client_of(stub).create(BODY)

    assert other.requests == []


def test_no_credential_is_in_an_address(client_of: ClientOf) -> None:  # J10
    with HttpStub(answer([])) as stub:
        client_of(stub).find({"a": "b"})

    assert_no_secret(*(request.target for request in stub.requests))


def test_client_hides_its_key(client_of: ClientOf) -> None:  # J07
    with HttpStub(answer()) as stub:
        assert_no_secret(repr(client_of(stub)), str(client_of(stub)))
