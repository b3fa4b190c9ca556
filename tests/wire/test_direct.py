from __future__ import annotations

import gzip
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator

import pytest

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxConnectionError,
    SandboxOutputLimitError,
    SandboxProtocolError,
    SandboxTimeoutError,
)
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.connection import Connection, ConnectionPool, Dialer
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.errors import StreamCutError
from ai4j_sandbox_wire.http1 import ResponseReader
from ai4j_sandbox_wire.message import HttpLimits, HttpReply, HttpRequest
from support.http_stub import Ending, HttpStub, Recorded, Reply
from support.plain_listener import plain_listener

SOON = 5.0


@pytest.fixture
def transport() -> Iterator[DirectTransport]:
    transport = DirectTransport()
    yield transport
    transport.close()


def request(url: str, target: str = "/x", **fields: object) -> HttpRequest:
    given = {"method": "GET", "origin": BaseUrl.parse(url).origin, "target": target, **fields}
    return HttpRequest(**given)  # type: ignore[arg-type]  # a test's shorthand


def tag(recorded: Recorded) -> Reply:
    return Reply(body=recorded.target.encode())


def test_calls_share_one_connection(transport: DirectTransport) -> None:
    with HttpStub(tag) as stub:
        bodies = [transport.send(request(stub.url, f"/{index}"), Deadline(SOON)).body for index in range(3)]

    assert bodies == [b"/0", b"/1", b"/2"]
    assert stub.connections == 1


def test_request_arrives_as_it_was_made(transport: DirectTransport) -> None:
    with HttpStub(Reply()) as stub:
        transport.send(request(stub.url, "/a?b=c", method="POST", headers={"X-A": "é"}, body=b"hi"), Deadline(SOON))

    assert stub.requests == [
        Recorded(
            method="POST",
            target="/a?b=c",
            headers={
                "host": f"127.0.0.1:{stub.port}",
                "accept-encoding": "identity",
                "x-a": "é",
                "content-length": "2",
            },
            body=b"hi",
        )
    ]


def test_body_in_chunks_is_sent_as_it_comes(transport: DirectTransport) -> None:
    with HttpStub(Reply()) as stub:
        chunks = iter([b"a" * 100_000, b"", b"b"])
        transport.send(request(stub.url, method="POST", body=chunks), Deadline(SOON))

    assert stub.requests[0].body == b"a" * 100_000 + b"b"


def test_connection_that_the_server_closed_meanwhile_is_not_used_again(transport: DirectTransport) -> None:
    """Case N04: answers with keep-alive, closes, and expects the next request."""
    with HttpStub(lambda recorded: Reply(body=b"ok", ending=Ending.CLOSE)) as stub:
        for method in ("GET", "POST", "GET", "POST"):
            reply = transport.send(request(stub.url, method=method, body=None), Deadline(SOON))
            assert reply.body == b"ok"
            assert stub.closings.acquire(timeout=SOON)

    assert [recorded.method for recorded in stub.requests] == ["GET", "POST", "GET", "POST"]


def _until_readable(transport: DirectTransport) -> None:
    """Wait until something has arrived at the idle connection, without taking it."""
    for connection in transport._pool._idle:
        connection._poll(1, 2.0)


def test_post_is_sent_once_when_the_server_never_answers(transport: DirectTransport) -> None:
    """Case N03."""
    with HttpStub(Reply(ending=Ending.SILENCE)) as stub:
        with pytest.raises(SandboxTimeoutError, match="sent and not answered in time") as caught:
            transport.send(request(stub.url, method="POST", body=b"x"), Deadline(0.2))

        assert len(stub.requests) == 1
    assert caught.value.outcome is Outcome.UNKNOWN


def test_deadline_is_wall_clock_however_the_answer_drips(transport: DirectTransport) -> None:
    def drip() -> Iterator[bytes]:
        while True:
            yield b"x"
            time.sleep(0.02)

    with HttpStub(lambda recorded: Reply(body=drip(), chunked=True)) as stub:
        began = time.monotonic()
        with pytest.raises(SandboxTimeoutError):
            transport.send(request(stub.url), Deadline(0.3))

        assert time.monotonic() - began < 2.0


def test_read_limit_applies_between_pieces(transport: DirectTransport) -> None:
    with HttpStub(Reply(body=[b"x"], chunked=True, ending=Ending.STALL)) as stub:
        limits = HttpLimits(read_seconds=0.1)
        with pytest.raises(SandboxTimeoutError, match="began but did not end"):
            transport.send(request(stub.url, limits=limits), Deadline(SOON))


def test_answer_over_the_limit_is_refused(transport: DirectTransport) -> None:
    with HttpStub(Reply(body=b"x" * 100)) as stub, pytest.raises(SandboxOutputLimitError, match="longer than 99 bytes"):
        transport.send(request(stub.url, limits=HttpLimits(body_bytes=99)), Deadline(SOON))


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET])
@pytest.mark.parametrize("chunked", [False, True])
def test_cut_answer_is_a_typed_error(transport: DirectTransport, ending: Ending, chunked: bool) -> None:
    body = [b"hello"] if chunked else b"hello"
    reply = Reply(body=body, chunked=chunked, ending=ending)
    with HttpStub(reply) as stub, pytest.raises(StreamCutError) as caught:
        transport.send(request(stub.url), Deadline(SOON))

    assert caught.value.outcome is Outcome.UNKNOWN


def test_stream_survives_a_receive_that_timed_out(transport: DirectTransport) -> None:
    go_on = threading.Event()

    def body() -> Iterator[bytes]:
        yield b"one"
        go_on.wait(SOON)
        yield b"two"

    with HttpStub(lambda recorded: Reply(body=body(), chunked=True)) as stub:
        response = transport.open(request(stub.url), Deadline(SOON))
        first = response.receive(SOON)
        silence = response.receive(0.05)
        go_on.set()
        rest = [response.receive(SOON), response.receive(SOON)]

    assert (first, silence, rest) == (b"one", None, [b"two", b""])


def test_close_in_another_thread_wakes_the_receiver(transport: DirectTransport) -> None:
    with HttpStub(Reply(body=[b"x"], chunked=True, ending=Ending.STALL)) as stub:
        response = transport.open(request(stub.url), Deadline(SOON))
        assert response.receive(SOON) == b"x"
        closer = threading.Timer(0.05, response.close)
        closer.start()
        began = time.monotonic()

        with pytest.raises(StreamCutError):
            response.receive(SOON)

        assert time.monotonic() - began < 2.0
        closer.join()


def test_unfinished_stream_that_is_closed_costs_its_connection(transport: DirectTransport) -> None:
    with HttpStub(lambda recorded: Reply(body=[b"x" * 10], chunked=True, ending=Ending.STALL)) as stub:
        transport.open(request(stub.url), Deadline(SOON)).close()

        assert transport._pool._idle == []


def test_finished_message_keeps_the_connection_though_its_last_bytes_come_later(transport: DirectTransport) -> None:
    go_on = threading.Event()

    def body() -> Iterator[bytes]:
        yield b"message"
        go_on.wait(SOON)

    with HttpStub(
        lambda recorded: Reply(body=body() if recorded.target == "/slow" else b"ok", chunked=recorded.target == "/slow")
    ) as stub:
        response = transport.open(request(stub.url, "/slow"), Deadline(SOON))
        assert response.receive(SOON) == b"message"
        response.finish()
        go_on.set()
        _until_readable(transport)
        assert transport.send(request(stub.url), Deadline(SOON)).body == b"ok"

    assert stub.connections == 1


def test_finished_message_whose_rest_never_comes_costs_its_connection(transport: DirectTransport) -> None:
    stalling = Reply(body=[b"message"], chunked=True, ending=Ending.STALL)
    with HttpStub.playing(stalling, Reply(body=b"ok")) as stub:
        response = transport.open(request(stub.url), Deadline(SOON))
        assert response.receive(SOON) == b"message"
        response.finish()
        assert transport.send(request(stub.url), Deadline(SOON)).body == b"ok"

    assert stub.connections == 2


def test_gzip_that_was_not_asked_for_is_undone(transport: DirectTransport) -> None:
    """Case D27."""
    reply = Reply(headers={"Content-Encoding": "gzip"}, body=gzip.compress(b'{"a":1}'))
    with HttpStub(reply) as stub:
        assert transport.send(request(stub.url), Deadline(SOON)).body == b'{"a":1}'


@pytest.mark.parametrize(
    ("headers", "body", "error"),
    [
        ({"Content-Encoding": "br"}, b"x", SandboxProtocolError),
        ({"Content-Encoding": "gzip"}, b"junk", SandboxProtocolError),
        ({"Content-Encoding": "gzip"}, gzip.compress(b"x" * 500, mtime=0)[:-9], StreamCutError),
        ({"Content-Encoding": "gzip"}, gzip.compress(b"\0" * 100_000, mtime=0), SandboxOutputLimitError),
    ],
)
def test_encoding_that_cannot_be_undone_is_refused(
    transport: DirectTransport, headers: dict[str, str], body: bytes, error: type[Exception]
) -> None:
    with HttpStub(Reply(headers=headers, body=body)) as stub, pytest.raises(error):
        transport.send(request(stub.url, limits=HttpLimits(body_bytes=50_000)), Deadline(SOON))


def test_refusal_that_comes_while_the_body_is_still_sent_is_read(transport: DirectTransport) -> None:
    answered = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(65536)
            sock.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
            answered.set()
            sock.recv(65536)

    def endless() -> Iterator[bytes]:
        yield b"x"
        assert answered.wait(SOON)
        while True:
            yield b"x" * 1000

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    reply = transport.send(request(url, method="POST", body=endless()), Deadline(SOON))
    thread.join(SOON)
    listener.close()

    assert (reply.status, reply.body) == (413, b"big")
    assert transport._pool._idle == []


def test_refused_connection_was_never_started(transport: DirectTransport) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    with pytest.raises(
        SandboxConnectionError, match=f"could not connect to 127.0.0.1:{port}: connection refused"
    ) as caught:
        transport.send(request(f"http://127.0.0.1:{port}"), Deadline(SOON))

    assert (caught.value.outcome, caught.value.retryable) == (Outcome.NOT_STARTED, True)


def test_unknown_host_is_named_with_the_providers_hint() -> None:
    transport = DirectTransport(Dialer(hint="set CUBE_ENVD_BASE_URL"))

    with pytest.raises(SandboxConnectionError, match=r"'no\.such\.host\.invalid' could not be resolved") as caught:
        transport.send(request("http://no.such.host.invalid"), Deadline(SOON))

    assert (caught.value.hint, caught.value.outcome) == ("set CUBE_ENVD_BASE_URL", Outcome.NOT_STARTED)


def test_plain_service_behind_an_https_url_is_told_apart(transport: DirectTransport) -> None:
    with plain_listener() as port, pytest.raises(SandboxConnectionError, match="no TLS connection") as caught:
        transport.send(request(f"https://127.0.0.1:{port}"), Deadline(SOON))

    assert "plain http" in (caught.value.hint or "")


def test_address_override_keeps_the_hosts_name() -> None:
    with HttpStub(Reply(body=b"ok")) as stub:
        transport = DirectTransport(Dialer(address=("127.0.0.1", stub.port)))
        assert transport.send(request("http://49983-abc.cube.app"), Deadline(SOON)).body == b"ok"
        transport.close()

    assert stub.requests[0].headers["host"] == "49983-abc.cube.app"


def test_idle_connection_is_not_used_after_its_time() -> None:
    now = 0.0
    pool = ConnectionPool(Dialer().connect, idle_seconds=60, clock=lambda: now)
    transport = DirectTransport(pool=pool)
    with HttpStub(tag) as stub:
        transport.send(request(stub.url), Deadline(SOON))
        now = 61.0
        transport.send(request(stub.url), Deadline(SOON))
        transport.close()

    assert stub.connections == 2


def test_no_more_idle_connections_are_kept_than_allowed() -> None:
    pool = ConnectionPool(Dialer().connect, most_idle=1)
    transport = DirectTransport(pool=pool)
    with HttpStub(tag) as stub:
        responses = [transport.open(request(stub.url), Deadline(SOON)) for _ in range(3)]
        for response in responses:
            response.read(100, Deadline(SOON), SOON)

        assert len(pool._idle) == 1
        transport.close()


def test_threads_never_see_each_others_answers(transport: DirectTransport) -> None:
    wrong: list[tuple[int, HttpReply]] = []

    def work(number: int) -> None:
        for index in range(30):
            target = f"/{number}/{index}"
            reply = transport.send(request(stub.url, target), Deadline(SOON))
            if reply.body != target.encode():
                wrong.append((number, reply))

    with HttpStub(tag) as stub:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)

    assert wrong == []
    assert len(stub.requests) == 240


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_forked_child_and_parent_only_see_their_own_answers(transport: DirectTransport) -> None:
    """Case H01: one keep-alive request, fork, then tagged GETs in both together."""
    with HttpStub(tag) as stub:
        transport.send(request(stub.url), Deadline(SOON))
        child = os.fork()
        who = "parent" if child else "child"
        try:
            wrong = 0
            for index in range(50):
                target = f"/{who}/{index}"
                wrong += transport.send(request(stub.url, target), Deadline(SOON)).body != target.encode()
        finally:
            if child == 0:
                os._exit(min(wrong, 1))
        _, status = os.waitpid(child, 0)

    assert (wrong, os.waitstatus_to_exitcode(status)) == (0, 0)
    assert len(stub.requests) == 101


def test_tls_holds_back_no_bytes(tmp_path: object) -> None:
    """What TLS has decrypted and not handed out must be received without waiting for the socket."""
    ours, theirs = socket.socketpair()
    client, server = _tls_pair(ours, theirs)
    connection = Connection(client, BaseUrl.parse("https://localhost").origin)
    payload = b"x" * 50_000
    sender = threading.Thread(target=server.sendall, args=(payload,), daemon=True)
    sender.start()

    received = b""
    while len(received) < len(payload):
        data = connection.receive(SOON)
        assert data
        received += data

    assert received == payload
    assert connection.receive(0.01) is None
    connection.reader = ResponseReader()
    connection.reader.feed(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert connection.usable()
    sender.join(SOON)
    connection.close()
    server.close()


def _tls_pair(ours: socket.socket, theirs: socket.socket) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """Join two sockets by TLS without certificates, which anonymous cipher suites allow."""
    contexts = [ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)]
    for context in contexts:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("aNULL:@SECLEVEL=0")
    contexts[0].check_hostname = False
    contexts[0].verify_mode = ssl.CERT_NONE
    accepted: list[ssl.SSLSocket] = []
    thread = threading.Thread(target=lambda: accepted.append(contexts[1].wrap_socket(theirs, server_side=True)))
    thread.start()
    client = contexts[0].wrap_socket(ours)
    thread.join(SOON)
    return client, accepted[0]
