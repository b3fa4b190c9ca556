"""Talks to the agent inside a sandbox. Every request carries a reply socket of its own, so any thread may ask.

A message is JSON; an empty one means that the JSON is in the first descriptor that came along, because it was too long.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ai4j_sandbox.errors import (
    Outcome,
    SandboxCapacityError,
    SandboxException,
    SandboxProtocolError,
    SandboxTimeoutError,
)

from .payloads import AgentRefusal, Payload

ANSWER_SECONDS = 60.0
"""How long the agent may take for anything but running a command."""

_LONGEST_INLINE = 32 * 1024
_LONGEST_MESSAGE = 2 * _LONGEST_INLINE
_LONGEST_CARRIED = 64 * 1024 * 1024
_MOST_DESCRIPTORS = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent said, and the descriptors it handed over; they are the receiver's to close."""

    payload: Payload
    descriptors: tuple[int, ...] = ()

    def discard(self) -> None:
        """Close what came along."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class AgentClient:
    """Sends requests over the control socket.

    Args:
        control: Our end of it.
        explain_loss: Called when the agent is gone; returns the error that says why.
    """

    def __init__(self, control: socket.socket, explain_loss: Callable[[], SandboxException]) -> None:
        self._control = control
        self._explain_loss = explain_loss

    def send(self, request: Payload, descriptors: Sequence[int] = ()) -> Conversation:
        """Send a request, at most once, and return where its answers arrive.

        Raises:
            SandboxSessionLostError: The sandbox is gone.
            SandboxCapacityError: This process can open no more files.
        """
        ours, theirs = _reply_sockets()
        message, carriers = _pack(request)
        try:
            with theirs:
                socket.send_fds(self._control, [message], [*carriers, theirs.fileno(), *descriptors])
        except OSError:
            ours.close()
            raise self.lost(Outcome.NOT_STARTED) from None
        except BaseException:
            ours.close()
            raise
        finally:
            for carrier in carriers:
                os.close(carrier)
        return Conversation(ours, self)

    def call(self, request: Payload, descriptors: Sequence[int] = ()) -> Answer:
        """Send a request and return its one answer.

        Raises:
            AgentRefusal: The operating system refused inside the sandbox.
            SandboxSessionLostError: The sandbox is gone.
            SandboxTimeoutError: The agent did not answer.
        """
        with contextlib.closing(self.send(request, descriptors)) as conversation:
            return conversation.next_answer(ANSWER_SECONDS)

    def lost(self, outcome: Outcome) -> SandboxException:
        """Return the error that says that, and why, the sandbox is gone."""
        error = self._explain_loss()
        error.outcome = outcome
        return error


class Conversation:
    """The answers to one request."""

    def __init__(self, ours: socket.socket, client: AgentClient) -> None:
        self._socket = ours
        self._client = client

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def next_answer(self, seconds: float | None) -> Answer:
        """Wait for the next answer and return it.

        Raises:
            AgentRefusal, SandboxSessionLostError, SandboxTimeoutError: As `AgentClient.call`.
        """
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(None if seconds is None else seconds * 1000):
            raise SandboxTimeoutError("the sandbox did not answer", outcome=Outcome.UNKNOWN)
        answer = self.receive()
        if "error" in answer.payload:
            answer.discard()
            raise AgentRefusal(str(answer.payload["error"]), str(answer.payload.get("message")))
        return answer

    def receive(self) -> Answer:
        """Return an answer that is there.

        Raises:
            SandboxSessionLostError: The sandbox is gone.
        """
        try:
            message, descriptors, flags, _ = socket.recv_fds(
                self._socket, _LONGEST_MESSAGE, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            raise self._client.lost(Outcome.UNKNOWN) from None
        if not message and not descriptors:
            raise self._client.lost(Outcome.UNKNOWN)
        try:
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise SandboxProtocolError("an answer of the agent is too long")
            payload = _unpack(message, descriptors)
        except BaseException:
            Answer({}, tuple(descriptors)).discard()
            raise
        return Answer(payload, tuple(descriptors))

    def wake(self) -> None:
        """End the conversation, also for a thread that waits on it; `close` must follow."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of it. Idempotent."""
        self._socket.close()


def _reply_sockets() -> tuple[socket.socket, socket.socket]:
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise SandboxCapacityError(
            f"no connection to the sandbox: {error.strerror}",
            hint="close sessions or files",
            outcome=Outcome.NOT_STARTED,
        ) from error


def _pack(payload: Payload) -> tuple[bytes, list[int]]:
    data = json.dumps(payload).encode()
    if len(data) <= _LONGEST_INLINE:
        return data, []
    carrier = os.memfd_create("message")
    with open(carrier, "wb", closefd=False) as file:
        file.write(data)
    return b"", [carrier]


def _unpack(message: bytes, descriptors: list[int]) -> dict[str, Any]:
    """Return the payload of a message; takes its carrier out of `descriptors`."""
    if not message:
        with open(descriptors.pop(0), "rb") as carrier:
            carrier.seek(0)
            message = carrier.read(_LONGEST_CARRIED)
    try:
        payload = json.loads(message)
    except ValueError:
        payload = None
    if not isinstance(payload, dict):
        raise SandboxProtocolError("an answer of the agent is not a JSON object")
    return payload
