"""Calls that are answered late: sent once, awaited in pieces, given up from another thread."""

from __future__ import annotations

import threading
import time

import pytest

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import SandboxNotFoundError, SandboxTimeoutError
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.errors import StreamCutError
from ai4j_sandbox_wire.http import HttpClient
from support.http_stub import Ending, HttpStub, Recorded, Reply


def client(stub: HttpStub) -> HttpClient:
    return HttpClient(BaseUrl.parse(stub.url))


def test_answer_is_awaited_in_pieces_and_the_call_is_sent_once() -> None:
    go = threading.Event()

    def late(request: Recorded) -> Reply:
        go.wait(10)
        return Reply(body=b'"done"')

    with HttpStub(late) as stub:
        http = client(stub)
        pending = http.begin("POST", "/run", json={"a": 1})
        assert pending.receive(0.05) is None
        assert pending.receive(0) is None
        go.set()
        reply = pending.receive(10)
        http.close()

    assert reply is not None
    assert reply.body == b'"done"'
    assert [request.body for request in stub.requests] == [b'{"a":1}']


def test_refusal_is_the_error_of_its_status() -> None:
    with HttpStub(Reply(status=404)) as stub:
        http = client(stub)
        with pytest.raises(SandboxNotFoundError):
            http.begin("POST", "/run").receive(10)
        http.close()


def test_deadline_ends_the_wait() -> None:
    with HttpStub(Reply(ending=Ending.SILENCE)) as stub:
        pending = client(stub).begin("POST", "/run", deadline=Deadline(0.1))
        with pytest.raises(SandboxTimeoutError):
            pending.receive(None)


def test_giving_up_wakes_the_thread_that_waits() -> None:
    with HttpStub(Reply(ending=Ending.SILENCE)) as stub:
        pending = client(stub).begin("POST", "/run")
        threading.Timer(0.1, pending.close).start()
        started = time.monotonic()
        with pytest.raises(StreamCutError):
            pending.receive(20)
        pending.close()

    assert time.monotonic() - started < 10
