from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxConfigError,
    SandboxConnectionError,
    SandboxOutputLimitError,
    SandboxTimeoutError,
)
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.errors import StreamCutError
from ai4j_sandbox_wire.message import HttpLimits, HttpReply, HttpRequest
from ai4j_sandbox_wire.requests_sender import RequestsSender
from support.authority import Authority
from support.http_stub import Ending, HttpStub, Recorded, Reply
from support.plain_listener import plain_listener

SOON = 5.0


@pytest.fixture
def send() -> Iterator[RequestsSender]:
    sender = RequestsSender(setting="E2B_API_URL")
    yield sender
    sender.close()


def request(url: str, target: str = "/x", **fields: object) -> HttpRequest:
    given = {"method": "GET", "origin": BaseUrl.parse(url).origin, "target": target, **fields}
    return HttpRequest(**given)  # type: ignore[arg-type]  # a test's shorthand


def tag(recorded: Recorded) -> Reply:
    return Reply(body=recorded.target.encode())


def test_reply_is_whole_with_lower_case_headers(send: RequestsSender) -> None:
    with HttpStub(Reply(status=201, headers={"X-Request-Id": "r"}, body=b"ok")) as stub:
        reply = send(request(stub.url, method="POST", body=b"{}"), Deadline(SOON))

    assert reply == HttpReply(status=201, headers={"x-request-id": "r", "content-length": "2"}, body=b"ok")
    assert reply.request_id == "r"


def test_authorization_is_ours_though_a_netrc_names_the_host(
    send: RequestsSender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case J03."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login u password p\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with HttpStub(Reply()) as stub:
        send(request(stub.url, headers={"Authorization": "Bearer REAL"}), Deadline(SOON))
        send(request(stub.url), Deadline(SOON))

    assert [recorded.headers.get("authorization") for recorded in stub.requests] == ["Bearer REAL", None]


def test_proxy_variables_are_not_followed(send: RequestsSender, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with HttpStub(Reply(body=b"ok")) as stub:
        assert send(request(stub.url), Deadline(SOON)).body == b"ok"


def test_redirect_is_returned_and_not_followed(send: RequestsSender) -> None:
    """Case J01: the other server sees no request at all."""
    with HttpStub(Reply()) as other:
        redirect = Reply(status=302, headers={"Location": f"{other.url}/"})
        with HttpStub(redirect) as stub:
            reply = send(request(stub.url, headers={"X-API-Key": "k"}), Deadline(SOON))

    assert reply.status == 302
    assert other.requests == []


def test_cookies_are_not_kept(send: RequestsSender) -> None:
    with HttpStub(Reply(headers={"Set-Cookie": "a=b"})) as stub:
        send(request(stub.url), Deadline(SOON))
        send(request(stub.url), Deadline(SOON))

    assert "cookie" not in stub.requests[1].headers


def test_gzip_is_undone(send: RequestsSender) -> None:
    """Case D27."""
    with HttpStub(Reply(headers={"Content-Encoding": "gzip"}, body=gzip.compress(b'{"a":1}'))) as stub:
        assert send(request(stub.url, method="POST"), Deadline(SOON)).body == b'{"a":1}'

    assert stub.requests[0].headers["accept-encoding"] == "identity"


def test_connection_that_the_server_closed_meanwhile_is_not_used_again(send: RequestsSender) -> None:
    """Case N04."""
    with HttpStub(lambda recorded: Reply(body=b"ok", ending=Ending.CLOSE)) as stub:
        for method in ("GET", "POST", "GET", "POST"):
            assert send(request(stub.url, method=method), Deadline(SOON)).body == b"ok"
            assert stub.closings.acquire(timeout=SOON)

    assert [recorded.method for recorded in stub.requests] == ["GET", "POST", "GET", "POST"]


def test_post_is_sent_once_when_the_server_never_answers(send: RequestsSender) -> None:
    """Case N03."""
    with HttpStub(Reply(ending=Ending.SILENCE)) as stub:
        with pytest.raises(SandboxTimeoutError, match="sent and not answered in time") as caught:
            send(request(stub.url, method="POST", body=b"x"), Deadline(0.2))

        assert len(stub.requests) == 1
    assert caught.value.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET])
@pytest.mark.parametrize("chunked", [False, True])
def test_cut_answer_is_a_typed_error(send: RequestsSender, ending: Ending, chunked: bool) -> None:
    body = [b"hello"] if chunked else b"hello"
    with HttpStub(Reply(body=body, chunked=chunked, ending=ending)) as stub, pytest.raises(StreamCutError):
        send(request(stub.url), Deadline(SOON))


def test_stalled_body_is_a_timeout(send: RequestsSender) -> None:
    with HttpStub(Reply(body=[b"x"], chunked=True, ending=Ending.STALL)) as stub, pytest.raises(SandboxTimeoutError):
        send(request(stub.url, limits=HttpLimits(read_seconds=0.1)), Deadline(SOON))


def test_answer_over_the_limit_is_refused(send: RequestsSender) -> None:
    with HttpStub(Reply(body=b"x" * 100)) as stub, pytest.raises(SandboxOutputLimitError):
        send(request(stub.url, limits=HttpLimits(body_bytes=99)), Deadline(SOON))


def test_refused_connection_was_never_started(send: RequestsSender) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    with pytest.raises(SandboxConnectionError, match=f"could not connect to http://127.0.0.1:{port}") as caught:
        send(request(f"http://127.0.0.1:{port}"), Deadline(SOON))

    assert caught.value.outcome is Outcome.NOT_STARTED
    assert "check E2B_API_URL" in (caught.value.hint or "")


def test_unknown_host_is_named(send: RequestsSender) -> None:
    with pytest.raises(SandboxConnectionError, match=r"'no\.such\.host\.invalid' could not be resolved") as caught:
        send(request("http://no.such.host.invalid"), Deadline(SOON))

    assert caught.value.outcome is Outcome.NOT_STARTED


def test_plain_service_behind_an_https_url_is_a_connection_error(send: RequestsSender) -> None:
    with plain_listener() as port, pytest.raises(SandboxConnectionError, match="TLS"):
        send(request(f"https://127.0.0.1:{port}"), Deadline(SOON))


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_forked_child_and_parent_only_see_their_own_answers(send: RequestsSender) -> None:
    """Case H01."""
    with HttpStub(tag) as stub:
        send(request(stub.url), Deadline(SOON))
        child = os.fork()
        who = "parent" if child else "child"
        try:
            wrong = sum(
                send(request(stub.url, f"/{who}/{index}"), Deadline(SOON)).body != f"/{who}/{index}".encode()
                for index in range(50)
            )
        finally:
            if child == 0:
                os._exit(min(wrong, 1))
        _, status = os.waitpid(child, 0)

    assert (wrong, os.waitstatus_to_exitcode(status)) == (0, 0)
    assert len(stub.requests) == 101


# --- certificates -------------------------------------------------------------------------------------------------


def test_server_of_a_private_authority_is_trusted_by_its_bundle_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with HttpStub(Reply(body=b"ok"), tls=authority.server) as stub:
        told, untold = (RequestsSender(ca_bundle=bundle, ca_setting="X_CA") for bundle in (authority.bundle, None))
        assert told(request(stub.url), Deadline(SOON)).body == b"ok"
        with pytest.raises(SandboxConnectionError, match="set X_CA to its CA bundle") as caught:
            untold(request(stub.url), Deadline(SOON))
        told.close()
        untold.close()

    assert (caught.value.outcome, caught.value.retryable) == (Outcome.NOT_STARTED, False)
    assert len(stub.requests) == 1


@pytest.mark.parametrize("content", [None, b"", b"no certificate"], ids=["missing", "empty", "nonsense"])
def test_bundle_that_cannot_be_read_is_a_wrong_setting(tmp_path: Path, content: bytes | None) -> None:
    bundle = tmp_path / "ca.pem"
    if content is not None:
        bundle.write_bytes(content)
    sender = RequestsSender(ca_bundle=str(bundle), ca_setting="X_CA")

    with pytest.raises(SandboxConfigError, match=r"X_CA: '.*ca\.pem' cannot be read") as caught:
        sender(request("https://127.0.0.1:9"), Deadline(SOON))

    assert caught.value.outcome is Outcome.NOT_STARTED
