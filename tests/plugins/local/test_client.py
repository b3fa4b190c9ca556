"""The conversation with the agent, against one that is not to be trusted."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from ai4j_sandbox.errors import Outcome, SandboxProtocolError, SandboxSessionLostError
from ai4j_sandbox_local.client import AgentClient
from ai4j_sandbox_local.payloads import AgentRefusal
from support.waiting import eventually

Reply = Callable[[socket.socket, bytes], None]


def lost() -> SandboxSessionLostError:
    return SandboxSessionLostError("the sandbox is gone")


@pytest.fixture
def answering() -> Iterator[Callable[[Reply], AgentClient]]:
    """Return a function that makes a client of an agent that gives one reply."""
    threads: list[threading.Thread] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def start(reply: Reply) -> AgentClient:
        def serve() -> None:
            message, descriptors, _, _ = socket.recv_fds(theirs, 65536, 4)
            request = message or os.pread(descriptors.pop(0), 10_000_000, 0)
            with socket.socket(fileno=descriptors[0]) as channel:
                reply(channel, request)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return AgentClient(ours, lost)

    yield start
    for thread in threads:
        thread.join()
    ours.close()
    theirs.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_answer_comes_with_its_descriptors(answering: Callable[[Reply], AgentClient]) -> None:
    def reply(channel: socket.socket, request: bytes) -> None:
        reading, writing = os.pipe()
        os.write(writing, request)
        socket.send_fds(channel, [b'{"a": 1}'], [reading])
        os.close(reading)
        os.close(writing)

    answer = answering(reply).call({"do": "this"})

    assert answer.payload == {"a": 1}
    assert json.loads(os.read(answer.descriptors[0], 100)) == {"do": "this"}
    answer.discard()


def test_long_messages_travel_in_a_file(answering: Callable[[Reply], AgentClient]) -> None:
    def reply(channel: socket.socket, request: bytes) -> None:
        carrier = os.memfd_create("answer")
        os.write(carrier, request)
        socket.send_fds(channel, [b""], [carrier])
        os.close(carrier)

    text = "x" * 1_000_000

    assert answering(reply).call({"do": text}).payload == {"do": text}


def test_refusal_is_raised_with_the_error_s_name(answering: Callable[[Reply], AgentClient]) -> None:
    client = answering(lambda channel, _: channel.sendall(b'{"error": "ENOENT", "message": "No such file"}'))

    with pytest.raises(AgentRefusal, match="No such file") as caught:
        client.call({"do": "this"})
    assert caught.value.code == "ENOENT"


@pytest.mark.parametrize("garbage", [b"not json", b"[1]", b"\xff\xfe", b"{" * 100])
def test_garbage_is_a_protocol_error_and_leaks_nothing(
    answering: Callable[[Reply], AgentClient], garbage: bytes
) -> None:
    client = answering(lambda channel, _: socket.send_fds(channel, [garbage], [0, 1, 2]))
    before = descriptors()

    with pytest.raises(SandboxProtocolError):
        client.call({"do": "this"})

    assert eventually(lambda: descriptors() <= before)  # the agent's end is closed by its thread


def test_more_descriptors_than_expected_are_a_protocol_error(answering: Callable[[Reply], AgentClient]) -> None:
    client = answering(lambda channel, _: socket.send_fds(channel, [b"{}"], [0] * 50))

    with pytest.raises(SandboxProtocolError, match="too long"):
        client.call({"do": "this"})


def test_agent_that_ends_without_an_answer_is_a_lost_sandbox(answering: Callable[[Reply], AgentClient]) -> None:
    client = answering(lambda channel, _: None)

    with pytest.raises(SandboxSessionLostError) as caught:
        client.call({"do": "this"})
    assert caught.value.outcome is Outcome.UNKNOWN


def test_request_that_could_not_be_sent_did_not_start() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    before = descriptors()

    with ours, pytest.raises(SandboxSessionLostError) as caught:
        AgentClient(ours, lost).call({"do": "this"})

    assert caught.value.outcome is Outcome.NOT_STARTED
    assert descriptors() == before - 1
