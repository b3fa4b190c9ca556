"""One port that answers for CubeAPI, CubeProxy and the daemon in every sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from urllib.parse import urlsplit

from aiohttp import web
from yarl import URL

from ai4j_sandbox_emulator.envd.accounts import Account, Accounts
from ai4j_sandbox_emulator.envd.daemon import PORT, EnvdDaemon
from ai4j_sandbox_emulator.fleet import Fleet
from ai4j_sandbox_emulator.forwarding import PortClosedError, forwarded, while_connected
from ai4j_sandbox_emulator.reply import Reply, json_reply
from ai4j_sandbox_emulator.sandbox import Sandbox
from ai4j_sandbox_emulator.state import Phase

from .control import ControlApi
from .routing import Target, target_of
from .servers import CURRENT, ServerKind

EXAMPLE_TEMPLATE = "tpl-emulator"
"""A template for clients that insist on one; every other name does as well."""

_TRAFFIC_HEADERS = ("e2b-traffic-access-token", "cube-traffic-access-token")
_BAD_GATEWAY = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n"
    b"<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>openresty</center>\r\n</body>\r\n</html>\r\n"
)


class CubeFace:
    """CubeSandbox as clients see it.

    Args:
        fleet: Its sandboxes.
        home: Workspace and home of the default user.
        server: Which kind of server to be.
        api_key: The only key accepted; ``None`` for any, and for none.
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        home: str,
        name: str = "cubesandbox",
        server: ServerKind = CURRENT,
        api_key: str | None = None,
    ) -> None:
        self.name = name
        self._fleet = fleet
        self._api_key = api_key
        self._control = ControlApi(fleet, server, api_key)
        self._daemon = EnvdDaemon(Accounts((Account("root", home), Account("user", home))), fleet.clock)

    def environment(self, url: str) -> dict[str, str]:
        """Return the variables that make a client use this face at `url`."""
        address = urlsplit(url)
        key = {} if self._api_key is None else {"CUBE_API_KEY": self._api_key}
        return {
            "CUBE_API_URL": url,
            "CUBE_PROXY_NODE_IP": str(address.hostname),
            "CUBE_PROXY_PORT_HTTP": str(address.port),
            "CUBE_TEMPLATE_ID": EXAMPLE_TEMPLATE,
            **key,
        }

    async def handle(self, request: web.Request) -> Reply:
        """Answer one request."""
        target = target_of(request.host, request.rel_url.raw_path)
        if target is None:
            return await self._control.handle(request)
        if target.path is not None:
            inside = URL.build(path=target.path, query_string=request.rel_url.raw_query_string, encoded=True)
            request = request.clone(rel_url=inside)
        return await self._proxied(request, target)

    # --- CubeProxy ------------------------------------------------------------------------------------------------

    async def _proxied(self, request: web.Request, target: Target) -> Reply:
        sandbox = self._fleet.find(target.sandbox_id)
        if sandbox is None:
            known = self._control.was_made(target.sandbox_id)
            return _refusal(410, "gone") if known else _refusal(404, "not found")
        token = sandbox.request.traffic_token
        if token is not None and token not in (request.headers.get(name) for name in _TRAFFIC_HEADERS):
            return _refusal(403, "forbidden")
        if sandbox.phase is not Phase.RUNNING and not await self._woken(sandbox):
            return _refusal(503, "service unavailable", {"Retry-After": "2"})
        with sandbox.connected(request.transport):
            reply = await self._inside(request, sandbox, target)
        if isinstance(reply.body, bytes):
            self._control.used(sandbox)
            return reply
        return replace(reply, body=self._whole(sandbox, while_connected(request, sandbox, reply.body)))

    async def _inside(self, request: web.Request, sandbox: Sandbox, target: Target) -> Reply:
        if target.port == PORT:
            return await self._daemon.handle(request, sandbox)
        try:
            return await forwarded(request, sandbox, target.port)
        except PortClosedError:
            return Reply(status=502, headers={"Content-Type": "text/html"}, body=_BAD_GATEWAY)

    async def _woken(self, sandbox: Sandbox) -> bool:
        """Let traffic wake a paused sandbox, if it may; whether it runs now."""
        await self._fleet.settled(sandbox)
        if sandbox.phase is Phase.PAUSED and sandbox.request.auto_resume:
            await self._control.wake(sandbox)
        return sandbox.phase is Phase.RUNNING

    async def _whole(self, sandbox: Sandbox, body: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """Yield a body; a stream counts as use of the sandbox only when it is over."""
        try:
            async with aclosing(body):
                async for piece in body:
                    yield piece
        finally:
            self._control.used(sandbox)


def _refusal(status: int, word: str, headers: dict[str, str] | None = None) -> Reply:
    return json_reply({"error": word}, status, headers=headers or {})
