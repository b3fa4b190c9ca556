"""What a handler answers, and how it gets onto the wire, faults included."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from ai4j_sandbox.frozen import EMPTY

from .faults import Answer, Effect, End, Fail, Hang, Reset, Send, Step, Wait
from .json_text import json_bytes

JSON_TYPE = "application/json; charset=utf-8"

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # struct linger: on, zero seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One HTTP answer.

    Attributes:
        body: The whole body, or its pieces as they come; closed when the client goes away.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | AsyncGenerator[bytes, None] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded(Reply):
    """A connection that its handler took over (a websocket); nothing is left to send."""

    response: web.StreamResponse


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] = EMPTY) -> Reply:
    """Return a JSON answer."""
    return Reply(status=status, headers={"Content-Type": JSON_TYPE, **headers}, body=json_bytes(document))


def text_reply(text: str, status: int) -> Reply:
    """Return a plain text answer."""
    body = text.encode("utf-8", "replace")  # as in `json_bytes`
    return Reply(status=status, headers={"Content-Type": "text/plain; charset=utf-8"}, body=body)


def empty_reply(status: int = 204) -> Reply:
    """Return an answer without a body."""
    return Reply(status=status)


class Gone(ConnectionError):
    """The connection was ended on purpose; aiohttp takes it for a client that left."""


def reset_connection(transport: asyncio.BaseTransport | None) -> None:
    """Reset a connection, as a killed machine does: the peer gets RST and no orderly end."""
    if not isinstance(transport, asyncio.Transport):
        return
    connection = transport.get_extra_info("socket")
    if connection is not None and not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def drop_connection(transport: asyncio.BaseTransport | None) -> None:
    """Reset a connection unless it is ending already."""
    if transport is not None and not transport.is_closing():
        reset_connection(transport)


def answered_instead(effect: Effect | None) -> Reply | None:
    """Return the answer that a fault puts in the place of the real one, if it does."""
    if not isinstance(effect, Answer):
        return None
    headers = {"Content-Type": effect.content_type, **effect.headers}
    return Reply(status=effect.status, headers=headers, body=effect.body.encode())


async def before_handling(request: web.Request, effect: Effect | None) -> None:
    """Do what a fault does before the request is handled.

    Raises:
        Gone: There will be no answer.
    """
    if isinstance(effect, Hang):
        await _wait(request, effect.seconds)
    if isinstance(effect, Reset) and not effect.handled:
        reset_connection(request.transport)
        raise Gone


async def deliver(request: web.Request, reply: Reply, effect: Effect | None = None) -> web.StreamResponse:
    """Send an answer, spoiled by a fault's effect if there is one.

    Raises:
        ConnectionError: The client left, or the fault ended the connection.
    """
    if isinstance(effect, Reset):
        reset_connection(request.transport)
        raise Gone
    if isinstance(reply, Upgraded):
        return reply.response
    body_filter = None if effect is None or isinstance(effect, Answer | Hang | Fail) else effect.body_filter()
    if isinstance(reply.body, bytes) and body_filter is None:
        return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
    response = await _begin(request, reply)
    async with aclosing(_whole(reply.body) if isinstance(reply.body, bytes) else reply.body) as pieces:
        async for piece in pieces:
            await _perform(request, response, [Send(piece)] if body_filter is None else body_filter.feed(piece))
    if body_filter is not None:
        await _perform(request, response, body_filter.finish())
    await response.write_eof()
    return response


async def _begin(request: web.Request, reply: Reply) -> web.StreamResponse:
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    if isinstance(reply.body, bytes):
        response.content_length = len(reply.body)
    await response.prepare(request)
    return response


async def _whole(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def _perform(request: web.Request, response: web.StreamResponse, steps: Iterable[Step]) -> None:
    for step in steps:
        if isinstance(step, Send):
            if step.data:
                await response.write(step.data)
        elif isinstance(step, Wait):
            await _wait(request, step.seconds)
        else:
            await _end(request, step)


async def _end(request: web.Request, step: End) -> None:
    transport = request.transport
    if transport is None:
        raise Gone
    while transport.get_write_buffer_size() > 0:  # what was promised before the cut must arrive
        await asyncio.sleep(0.001)
    if step.how == "rst":
        reset_connection(transport)
    else:
        transport.close()
    raise Gone


async def _wait(request: web.Request, seconds: float | None) -> None:
    """Wait, but not for a client that has left."""
    loop = asyncio.get_running_loop()
    end = None if seconds is None else loop.time() + seconds
    while end is None or loop.time() < end:
        if request.transport is None or request.transport.is_closing():
            raise Gone
        left = 0.05 if end is None else min(0.05, end - loop.time())
        await asyncio.sleep(max(left, 0))
