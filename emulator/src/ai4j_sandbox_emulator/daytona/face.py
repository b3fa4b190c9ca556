"""One port that answers for Daytona's control API, its toolbox proxy and its previews."""

from __future__ import annotations

from urllib.parse import unquote

from aiohttp import web

from ai4j_sandbox_emulator.fleet import Fleet
from ai4j_sandbox_emulator.forwarding import PortClosedError, forwarded
from ai4j_sandbox_emulator.reply import Reply, json_reply
from ai4j_sandbox_emulator.sandbox import Sandbox

from .control import ControlApi
from .daemon import Daemon
from .errors import ApiError, Envelopes, ToolboxError
from .records import Record

EXAMPLE_KEY = "dtn_" + "0" * 40
"""A key of the right form, for clients that insist on one."""

_TOKEN_HEADER, _TOKEN_QUERY = "x-daytona-preview-token", "DAYTONA_SANDBOX_AUTH_KEY"


class DaytonaFace:
    """Daytona as official clients see it.

    Args:
        fleet: Its sandboxes.
        api_key: The only key accepted; ``None`` for any.
        newer: Failures of the toolbox are worded as the clients of 0.226 expect.
        change_seconds: How long a sandbox shows that it is on its way to another state.
    """

    def __init__(
        self, fleet: Fleet, *, api_key: str | None = None, newer: bool = False, change_seconds: float = 0.0
    ) -> None:
        self.name = "daytona-newer" if newer else "daytona"
        self._api_key = api_key
        self._envelopes = Envelopes(newer)
        self._daemon = Daemon(self._envelopes)
        self._control = ControlApi(fleet, api_key, change_seconds, let_go=self._daemon.let_go)

    def environment(self, url: str) -> dict[str, str]:
        """Return the variables that make a client use this face at `url`."""
        return {
            "DAYTONA_API_KEY": self._api_key or EXAMPLE_KEY,
            "DAYTONA_API_URL": f"{url}/api",
            # Clients of 0.226 would otherwise try a Socket.IO connection, which there is none of.
            "DAYTONA_USE_DEPRECATED_POLLING": "true",
        }

    async def handle(self, request: web.Request) -> Reply:
        """Answer one request."""
        _, area, *rest = request.rel_url.raw_path.split("/", 3)
        if area == "toolbox" and len(rest) == 2:
            return await self._toolbox(request, unquote(rest[0]), f"/{rest[1]}")
        if area == "preview" and rest:
            return await self._preview(request, rest[0], rest[1] if len(rest) > 1 else "")
        return await self._control.handle(request)

    # --- the proxy in front of every sandbox ----------------------------------------------------------------------

    async def _toolbox(self, request: web.Request, sandbox_id: str, path: str) -> Reply:
        found = self._control.running(sandbox_id)
        if path.startswith("/proxy/") and found is not None and self._may_look(request, found[0]):
            port, _, rest = path.removeprefix("/proxy/").partition("/")
            return await _forwarded(request, found[1], port, rest)
        try:
            self._control.check_key(request)
        except ApiError as error:
            return self._envelopes.reply(ToolboxError(401, f"unauthorized: {error.message}"), request)
        if found is None:
            return self._envelopes.reply(ToolboxError(404, "Sandbox not found"), request)
        if not self._control.is_started(found[0]):
            message = "no IP address found. Is the Sandbox started?"
            return self._envelopes.reply(ToolboxError(400, message), request)
        with found[1].connected(request.transport):
            return await self._daemon.handle(request, found[1], found[0], path)

    def _may_look(self, request: web.Request, record: Record) -> bool:
        token = request.headers.get(_TOKEN_HEADER) or request.query.get(_TOKEN_QUERY)
        if record.public or token == record.preview_token:
            return True
        try:
            self._control.check_key(request)
        except ApiError:
            return False
        return True

    async def _preview(self, request: web.Request, label: str, rest: str) -> Reply:
        port, _, token = label.partition("-")
        signed = self._control.signed_port(token)
        if signed is None or str(signed[1]) != port:
            return json_reply({"error": "invalid or expired token"}, 403)
        found = self._control.running(signed[0].sandbox_id)
        return Reply(status=502) if found is None else await _forwarded(request, found[1], port, rest)


async def _forwarded(request: web.Request, sandbox: Sandbox, port: str, rest: str) -> Reply:
    query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
    try:
        return await forwarded(request, sandbox, int(port), f"/{rest}{query}")
    except (PortClosedError, ValueError):
        return Reply(status=502)
