"""Passing a request on to a port inside a sandbox, and tying an answer's body to the sandbox's life."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.spi import PortUrl, SupportsPorts

from .reply import Reply
from .sandbox import Sandbox

_FORWARD_SECONDS = 60
_HOP_BY_HOP = frozenset(
    (
        "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length",
        "content-encoding", "host",
    )
)  # fmt: skip


class PortClosedError(Exception):
    """Nothing listens on the port, or the provider cannot reach it."""


async def forwarded(request: web.Request, sandbox: Sandbox, port: int, target: str | None = None) -> Reply:
    """Return what a port inside the sandbox answers to a request.

    Args:
        target: Path and query to ask for; the request's own by default.

    Raises:
        PortClosedError: Nothing does.
    """
    if not isinstance(sandbox.session, SupportsPorts):
        raise PortClosedError
    try:
        inside = await in_thread(sandbox.session.port_url, port)
        return await _fetched(request, inside, target or str(request.rel_url))
    except (SandboxException, ClientError, TimeoutError) as error:
        raise PortClosedError from error


async def _fetched(request: web.Request, inside: PortUrl, target: str) -> Reply:
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
    url = inside.url.rstrip("/") + target
    body = await request.read()
    async with (
        ClientSession(timeout=ClientTimeout(total=_FORWARD_SECONDS), auto_decompress=False) as client,
        client.request(
            request.method, url, headers={**headers, **inside.headers}, data=body, allow_redirects=False
        ) as answer,
    ):
        kept = {
            name: value
            for name, value in answer.headers.items()
            if name.lower() not in _HOP_BY_HOP - {"content-encoding"}
        }
        return Reply(status=answer.status, headers=kept, body=await answer.read())


async def while_connected(
    request: web.Request, sandbox: Sandbox, body: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Yield a body whose connection ends with the sandbox."""
    with sandbox.connected(request.transport):
        async with aclosing(body):
            async for piece in body:
                yield piece
