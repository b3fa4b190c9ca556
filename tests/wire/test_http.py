from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator

import pytest

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxConfigError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxRateLimitError,
    SandboxTimeoutError,
)
from ai4j_sandbox.redaction import Scrubber
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.errors import StreamCutError
from ai4j_sandbox_wire.http import HttpClient, RetryPolicy
from ai4j_sandbox_wire.message import Body, HttpLimits, HttpReply, HttpRequest
from ai4j_sandbox_wire.requests_sender import RequestsSender
from support.http_stub import Ending, HttpStub, Reply
from support.secrets import assert_no_secret, everything_said

SECRET = "SECRETKEY1234"
JSON = {"content-type": "application/json"}


class FakeService:
    """Answers from a list of replies and errors, and keeps what it was sent. Only pauses make its time pass."""

    def __init__(self, *answers: HttpReply | SandboxException) -> None:
        self.answers = list(answers)
        self.requests: list[HttpRequest] = []
        self.pauses: list[float] = []
        self.now = 0.0

    def send(self, request: HttpRequest, deadline: Deadline) -> HttpReply:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, SandboxException):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def client(self, **options: object) -> HttpClient:
        given = {"send": self.send, "clock": lambda: self.now, "sleep": self.sleep, "jitter": lambda: 0.0, **options}
        return HttpClient(BaseUrl.parse("http://h/base"), **given)  # type: ignore[arg-type]  # a test's shorthand


OK = HttpReply(status=200, headers=JSON, body=b'{"a":1}')


def refusal(status: int, **headers: str) -> HttpReply:
    return HttpReply(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})


def test_call_is_put_together_from_client_and_arguments() -> None:
    service = FakeService(OK)
    client = service.client(headers=lambda: {"X-API-Key": "k", "X-B": "1"})

    client.call("POST", "/sandboxes", query={"a": "b c"}, json={"é": None}, headers={"X-B": "2"})

    (request,) = service.requests
    assert (request.method, request.target, request.body) == ("POST", "/base/sandboxes?a=b%20c", b'{"\\u00e9":null}')
    assert request.headers == {
        "Accept": "application/json",
        "X-API-Key": "k",
        "X-B": "2",
        "Content-Type": "application/json",
    }


def test_credentials_are_asked_for_at_each_call() -> None:
    service = FakeService(OK, OK)
    keys = iter(("first", "second"))
    client = service.client(headers=lambda: {"X-API-Key": next(keys)})

    client.call("GET", "/")
    client.call("GET", "/")

    assert [request.headers["X-API-Key"] for request in service.requests] == ["first", "second"]


def test_json_value_is_returned() -> None:
    assert FakeService(OK).client().json("GET", "/") == {"a": 1}
    assert FakeService(HttpReply(status=204)).client().json("DELETE", "/") is None


def test_html_in_place_of_json_names_type_and_status() -> None:
    page = HttpReply(status=200, headers={"content-type": "text/html"}, body=b"<html>Sign in</html>")

    with pytest.raises(SandboxProtocolError, match=r"status 200.*text/html"):
        FakeService(page).client().json("GET", "/")


def test_success_that_something_else_answers_is_none_also_where_nobody_reads_it() -> None:
    page = HttpReply(status=200, headers={"content-type": "text/html"}, body=b"<html>Sign in</html>")
    service = FakeService(page, HttpReply(status=200, headers=JSON, body=b"[]"))

    for expect in (Body.JSON, Body.ACKNOWLEDGEMENT):
        with pytest.raises(SandboxProtocolError, match="was expected") as caught:
            service.client().call("DELETE", "/a", expect=expect, operation="destroy")
        assert (caught.value.operation, caught.value.retryable) == ("destroy", False)

    assert len(service.requests) == 2


@pytest.mark.parametrize("failure", [SandboxConnectionError("x"), StreamCutError("x"), SandboxTimeoutError("x"),
                                     refusal(408), refusal(502), refusal(503), refusal(504)])  # fmt: skip
def test_what_may_have_run_invites_nobody_to_send_it_again(failure: HttpReply | SandboxException) -> None:
    service = FakeService(failure)

    with pytest.raises(SandboxException) as caught:
        service.client().call("POST", "/")

    assert (caught.value.outcome, caught.value.retryable, len(service.requests)) == (Outcome.UNKNOWN, False, 1)


@pytest.mark.parametrize("status", [409, 423, 425, 429])
def test_what_was_not_begun_may_be_sent_again_by_the_caller(status: int) -> None:
    with pytest.raises(SandboxException) as caught:
        FakeService(refusal(status)).client().call("POST", "/")

    assert (caught.value.outcome, caught.value.retryable) == (Outcome.NOT_STARTED, True)


def test_safe_call_that_failed_for_good_may_be_made_again() -> None:
    service = FakeService(*[refusal(503)] * 4)

    with pytest.raises(SandboxException) as caught:
        service.client().call("GET", "/")

    assert caught.value.retryable


@pytest.mark.parametrize("failure", [SandboxConnectionError("x"), StreamCutError("x"), SandboxTimeoutError("x"),
                                     refusal(429), refusal(502), refusal(503), refusal(504)])  # fmt: skip
def test_safe_call_is_repeated_with_growing_pauses(failure: HttpReply | SandboxException) -> None:
    service = FakeService(failure, failure, failure, OK)

    assert service.client().call("GET", "/") == OK
    assert service.pauses == [0.25, 0.5, 1.0]


def test_safe_call_is_given_up_after_its_attempts() -> None:
    service = FakeService(*[refusal(503)] * 9)

    with pytest.raises(SandboxException):
        service.client(retries=RetryPolicy(attempts=2)).call("DELETE", "/")
    assert len(service.requests) == 2


@pytest.mark.parametrize("failure", [StreamCutError("x"), SandboxTimeoutError("x"), refusal(429, retry_after="1"),
                                     refusal(503)])  # fmt: skip
def test_post_is_sent_at_most_once(failure: HttpReply | SandboxException) -> None:
    service = FakeService(failure, OK)

    with pytest.raises(SandboxException):
        service.client().call("POST", "/sandboxes", json={})
    assert len(service.requests) == 1


def test_post_that_is_declared_idempotent_is_repeated() -> None:
    service = FakeService(refusal(503), OK)

    assert service.client().call("POST", "/list", json={}, idempotent=True) == OK


def test_body_that_can_be_read_once_is_sent_once() -> None:
    service = FakeService(refusal(503), OK)

    with pytest.raises(SandboxException):
        service.client().call("PUT", "/", body=iter([b"x"]), idempotent=True)
    assert len(service.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500])
def test_refusal_that_will_not_pass_is_not_repeated(status: int) -> None:
    service = FakeService(refusal(status), OK)

    with pytest.raises(SandboxException):
        service.client().call("GET", "/")
    assert len(service.requests) == 1


def test_pause_that_the_service_asks_for_is_granted() -> None:
    service = FakeService(refusal(429, retry_after="7"), OK)

    service.client().call("GET", "/")

    assert service.pauses == [7.0]


@pytest.mark.parametrize(("wait", "seconds"), [("7", 5.0), ("3600", None)])
def test_pause_that_is_longer_than_the_deadline_or_our_patience_is_not_waited(wait: str, seconds: float | None) -> None:
    service = FakeService(refusal(429, retry_after=wait), OK)

    with pytest.raises(SandboxRateLimitError) as caught:
        service.client(limits=HttpLimits(call_seconds=seconds)).call("GET", "/")
    assert (service.pauses, caught.value.retry_after) == ([], float(wait))


def test_jitter_takes_at_most_half_of_a_pause() -> None:
    policy = RetryPolicy()

    assert policy.pause(1, SandboxConnectionError("x"), 1.0) == 0.125
    assert policy.pause(3, SandboxConnectionError("x"), 0.0) == 1.0


def test_error_names_the_operation() -> None:
    with pytest.raises(SandboxNotFoundError) as caught:
        FakeService(refusal(404)).client().call("GET", "/", operation="attach")

    assert caught.value.operation == "attach"


def test_header_that_cannot_be_sent_is_refused_before_anything_is() -> None:
    service = FakeService(OK)
    client = service.client(headers=lambda: {"X-API-Key": f"{SECRET}\nX: y"})

    with pytest.raises(SandboxConfigError) as caught:
        client.call("GET", "/")
    assert service.requests == []
    assert_no_secret(everything_said(caught.value), secret=SECRET)


# --- over a real socket, both ways of sending ---------------------------------------------------------------------


@pytest.fixture(params=["requests", "direct"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[[str], HttpClient]]:
    transport = DirectTransport()
    sender = RequestsSender()

    def client(url: str) -> HttpClient:
        return HttpClient(
            BaseUrl.parse(url),
            headers=lambda: {"X-API-Key": SECRET, "Authorization": f"Bearer {SECRET}"},
            send=sender if request.param == "requests" else transport.send,
            open_stream=transport.open,
            limits=HttpLimits(connect_seconds=0.3, read_seconds=0.3, call_seconds=1.0),
            retries=RetryPolicy(attempts=1),
            scrubber=lambda: Scrubber([SECRET]),
        )

    yield client
    transport.close()
    sender.close()


def _closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


ECHO = f'{{"message":"key {SECRET} is wrong"}}'.encode()
FAILING_REPLIES = {
    "silence": Reply(ending=Ending.SILENCE),
    "cut": Reply(body=SECRET.encode(), ending=Ending.CUT),
    "reset": Reply(body=SECRET.encode(), ending=Ending.RESET),
    "no http": Reply(raw=f"SSH-{SECRET}\r\n\r\n".encode(), ending=Ending.CLOSE),
    "refusal that echoes": Reply(status=401, headers={"Content-Type": "application/json"}, body=ECHO),
    "text that echoes": Reply(status=500, body=f"bad key {SECRET}".encode()),
    "html": Reply(status=200, headers={"Content-Type": "text/html"}, body=f"<html>{SECRET}</html>".encode()),
    "redirect": Reply(status=302, headers={"Location": f"http://u:{SECRET}@evil.example/{SECRET}?key={SECRET}"}),
    "gzip": Reply(headers={"Content-Encoding": "gzip"}, body=SECRET.encode()),
    "request id": Reply(status=400, headers={"X-Request-Id": SECRET}),
}


@pytest.mark.parametrize("name", [*FAILING_REPLIES, "refused", "no host", "no tls"])
def test_no_failure_shows_the_key(
    connect: Callable[[str], HttpClient], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Case J05: str, repr, traceback with causes, log records at DEBUG. Case J10: no credential in any request line."""
    caplog.set_level(logging.DEBUG)
    with HttpStub(FAILING_REPLIES.get(name, Reply())) as stub:
        url = {
            "refused": _closed_port(),
            "no host": "http://no.such.host.invalid",
            "no tls": stub.url.replace("http", "https"),
        }.get(name, stub.url)
        with pytest.raises(SandboxException) as caught:
            connect(url).json("GET", "/sandboxes", query={"a": "b"})

    assert_no_secret(everything_said(caught.value), *(record.getMessage() for record in caplog.records), secret=SECRET)
    assert_no_secret(*(recorded.target for recorded in stub.requests), secret=SECRET)


def test_refused_stream_is_an_error_with_the_services_words(connect: Callable[[str], HttpClient]) -> None:
    refused = Reply(status=404, body=b'{"message":"no such thing"}')
    with HttpStub(refused) as stub, pytest.raises(SandboxNotFoundError, match="no such thing"):
        connect(stub.url).stream("POST", "/x", body=b"")


def test_refused_stream_whose_body_does_not_come_is_judged_by_its_status(connect: Callable[[str], HttpClient]) -> None:
    refused = Reply(status=404, body=[b"x"], chunked=True, ending=Ending.STALL)
    with HttpStub(refused) as stub, pytest.raises(SandboxNotFoundError):
        connect(stub.url).stream("POST", "/x", body=b"")


def test_long_refusal_of_a_stream_is_looked_at_as_far_as_the_limit() -> None:
    page = [b"<html><title>Bad Gateway</title>", *[b"x" * 10_000] * 50]
    with HttpStub(Reply(status=502, body=page, chunked=True)) as stub:
        client = HttpClient(BaseUrl.parse(stub.url), limits=HttpLimits(error_bytes=1000))
        with pytest.raises(SandboxConnectionError, match="titled 'Bad Gateway'"):
            client.stream("POST", "/x", body=b"")
        client.close()


def test_client_closes_the_connections_it_opened_itself() -> None:
    with HttpStub(lambda recorded: Reply(body=b"{}")) as stub:
        client = HttpClient(BaseUrl.parse(stub.url))
        client.call("GET", "/a")
        client.stream("GET", "/b").read(100, Deadline(5), 5)
        client.close()
        client.close()

    assert [recorded.target for recorded in stub.requests] == ["/a", "/b"]
