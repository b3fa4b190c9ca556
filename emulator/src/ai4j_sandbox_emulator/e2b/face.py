"""One port that answers for E2B's control API, its shared sandbox host and the daemon in every sandbox."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from ai4j_sandbox_emulator.envd.accounts import Accounts
from ai4j_sandbox_emulator.envd.daemon import PORT, EnvdDaemon
from ai4j_sandbox_emulator.envd.signature import Operation, is_signed
from ai4j_sandbox_emulator.fleet import Fleet
from ai4j_sandbox_emulator.forwarding import PortClosedError, forwarded, while_connected
from ai4j_sandbox_emulator.reply import Reply, json_reply, text_reply
from ai4j_sandbox_emulator.sandbox import Sandbox
from ai4j_sandbox_emulator.state import Phase

from .control import AUTO_RESUME_SECONDS, ControlApi
from .routing import RoutingError, Target, target_of

EXAMPLE_KEY = "e2b_" + "0" * 40
"""A key of the right form, for clients that insist on one."""

_INTERNAL_ROUTES = frozenset(("/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"))
_TRAFFIC_HEADER = "e2b-traffic-access-token"


class E2BFace:
    """E2B as official clients see it.

    Args:
        fleet: Its sandboxes.
        home: Workspace and home of the default user.
        api_key: The only key accepted; ``None`` for any of the right form.
    """

    name = "e2b"

    def __init__(self, fleet: Fleet, *, home: str, api_key: str | None = None) -> None:
        self._fleet = fleet
        self._api_key = api_key
        self._control = ControlApi(fleet, api_key)
        self._daemon = EnvdDaemon(Accounts.usual(home), fleet.clock)

    def environment(self, url: str) -> dict[str, str]:
        """Return the variables that make a client use this face at `url`."""
        return {"E2B_API_KEY": self._api_key or EXAMPLE_KEY, "E2B_API_URL": url, "E2B_SANDBOX_URL": url}

    async def handle(self, request: web.Request) -> Reply:
        """Answer one request."""
        try:
            target = target_of(request.host, request.headers) or self._signed_target(request)
        except RoutingError as error:
            return text_reply(str(error), 400)
        if target is None:
            return await self._control.handle(request)
        return await self._proxied(request, target)

    def _signed_target(self, request: web.Request) -> Target | None:
        """Return whose file a signed URL means; such a URL has nothing else that tells."""
        if request.path != "/files":
            return None
        operation: Operation = "read" if request.method == "GET" else "write"
        for sandbox in self._fleet.all():
            token = sandbox.request.access_token
            if token is None or is_signed(token, operation, request.query):
                return Target(sandbox.sandbox_id, PORT)
        return None

    # --- the proxy in front of every sandbox ----------------------------------------------------------------------

    async def _proxied(self, request: web.Request, target: Target) -> Reply:
        sandbox = self._fleet.find(target.sandbox_id)
        if sandbox is None:
            return _not_found(target)
        if sandbox.phase is not Phase.RUNNING:
            refusal = await self._wake(request, sandbox, target)
            if refusal is not None:
                return refusal
        if target.port == PORT and request.path in _INTERNAL_ROUTES:
            message = "This endpoint is available to the control plane only"
            return json_reply({"message": message, "path": request.path, "code": 404}, 404)
        with sandbox.connected(request.transport):
            reply = await self._inside(request, sandbox, target)
        if isinstance(reply.body, bytes):
            return reply
        return replace(reply, body=while_connected(request, sandbox, reply.body))

    async def _inside(self, request: web.Request, sandbox: Sandbox, target: Target) -> Reply:
        if target.port == PORT:
            return await self._daemon.handle(request, sandbox)
        return await _forwarded(request, sandbox, target)

    async def _wake(self, request: web.Request, sandbox: Sandbox, target: Target) -> Reply | None:
        """Let traffic wake a paused sandbox; return an answer when it must not."""
        await self._fleet.settled(sandbox)
        if sandbox.phase is Phase.RUNNING:
            return None
        if sandbox.phase is not Phase.PAUSED or not sandbox.request.auto_resume:
            return _not_found(target)
        if not _may_wake(request, sandbox, target):
            return _refused(target, "The sandbox cannot be resumed with these credentials")
        await self._control.wake(sandbox, max(AUTO_RESUME_SECONDS, int(sandbox.request.seconds or 0)))
        return None


def _may_wake(request: web.Request, sandbox: Sandbox, target: Target) -> bool:
    if target.port == PORT:
        return sandbox.request.access_token in (None, request.headers.get("X-Access-Token"))
    return sandbox.request.traffic_token in (None, request.headers.get(_TRAFFIC_HEADER))


def _not_found(target: Target) -> Reply:
    document = {"sandboxId": target.sandbox_id, "message": "The sandbox was not found", "code": 502}
    return json_reply(document, 502)


def _refused(target: Target, message: str) -> Reply:
    return json_reply({"sandboxId": target.sandbox_id, "message": message, "code": 403}, 403)


def _port_closed(target: Target) -> Reply:
    message = "The sandbox is running but port is not open"
    return json_reply({"sandboxId": target.sandbox_id, "message": message, "port": target.port, "code": 502}, 502)


async def _forwarded(request: web.Request, sandbox: Sandbox, target: Target) -> Reply:
    """Pass a request on to a port inside the sandbox, where the provider can reach it."""
    token = sandbox.request.traffic_token
    if token is not None and request.headers.get(_TRAFFIC_HEADER) != token:
        return _refused(target, f"Sandbox traffic access token is missing or invalid, send it as '{_TRAFFIC_HEADER}'")
    try:
        return await forwarded(request, sandbox, target.port)
    except PortClosedError:
        return _port_closed(target)
