"""CubeAPI: what each call does."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from aiohttp import web

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox_emulator.fleet import Fleet
from ai4j_sandbox_emulator.json_text import parse_json, whole_number
from ai4j_sandbox_emulator.reply import Reply, empty_reply, json_reply
from ai4j_sandbox_emulator.routing import Match, Router
from ai4j_sandbox_emulator.sandbox import NewSandbox, Sandbox
from ai4j_sandbox_emulator.secret_text import same_secret
from ai4j_sandbox_emulator.snapshots import Snapshot, restore_workspace
from ai4j_sandbox_emulator.state import OnTimeout, Phase, WrongPhaseError

from . import replies, requests
from .errors import ApiError, in_transition, unknown_sandbox, wrong_state
from .replies import Record
from .requests import NEVER, CreateRequest
from .servers import ServerKind

SNAPSHOT_PREFIX = "snap-"

_NO_END_SECONDS = 365 * 24 * 3600.0  # until the end is taken away
_MOST_LISTED = 200
_USUAL_PAGE = 100
_SNAPSHOT_PAGE = 100


class ControlApi:
    """CubeAPI over one fleet.

    Args:
        fleet: The sandboxes.
        server: Which kind of server to be.
        api_key: The only key accepted; ``None`` for any, and for none.
    """

    def __init__(self, fleet: Fleet, server: ServerKind, api_key: str | None) -> None:
        self._fleet = fleet
        self._server = server
        self._api_key = api_key
        self._records: WeakKeyDictionary[Sandbox, Record] = WeakKeyDictionary()
        self._made: set[str] = set()
        self._router = self._routes()

    def _routes(self) -> Router:
        router = Router()
        one = "/sandboxes/{sandbox_id}"
        routes = [
            ("GET", "/health", self._health),
            ("POST", "/sandboxes", self._create),
            ("GET", "/sandboxes", self._list_running),
            ("GET", one, self._detail),
            ("DELETE", one, self._kill),
            ("POST", f"{one}/pause", self._pause),
            ("POST", f"{one}/resume", self._resume),
            ("POST", f"{one}/connect", self._connect),
            ("POST", f"{one}/timeout", self._set_timeout),
            ("POST", f"{one}/refreshes", self._refresh),
            ("PUT", f"{one}/network", self._update_network),
            ("GET", f"{one}/network", self._network),
            ("POST", f"{one}/snapshots", self._make_snapshot),
            ("POST", f"{one}/rollback", self._rollback),
            ("POST", f"{one}/fork", self._fork),
            ("GET", "/snapshots", self._list_snapshots),
            ("DELETE", "/templates/{snapshot_id}", self._remove_snapshot),
        ]
        if self._server.lists_by_state:
            routes.append(("GET", "/v2/sandboxes", self._list))
        for method, template, handler in routes:
            router.add(method, template, handler)
        return router

    async def handle(self, request: web.Request) -> Reply:
        """Answer one request."""
        reply = await self._answered(request)
        return replace(reply, headers={**reply.headers, "x-request-id": uuid.uuid4().hex})

    async def _answered(self, request: web.Request) -> Reply:
        match = self._router.find(request.method, request.rel_url.raw_path)
        try:
            if request.path != "/health":
                self._check_key(request)
            if not isinstance(match, Match):
                return empty_reply(405 if match.path_known else 404)
            return await match.handler(request, match.parameters)
        except ApiError as error:
            return error.reply()
        except SandboxException as error:
            return ApiError(500, error.message).reply()

    def _check_key(self, request: web.Request) -> None:
        if self._api_key is None:
            return
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        given = bearer if scheme.lower() == "bearer" else request.headers.get("X-API-Key", "")
        if not same_secret(given, self._api_key):
            raise ApiError(401, "invalid credentials" if given else "missing credentials")

    # --- what the face asks -----------------------------------------------------------------------------------------

    def was_made(self, sandbox_id: str) -> bool:
        """Whether there ever was such a sandbox."""
        return sandbox_id in self._made

    def used(self, sandbox: Sandbox) -> None:
        """A request to the sandbox has finished: its idle window begins anew."""
        record = self._records.get(sandbox)
        if record is not None and record.window is not None and sandbox.phase is Phase.RUNNING:
            sandbox.lifetime = sandbox.lifetime.extended(self._fleet.clock(), record.window)

    async def wake(self, sandbox: Sandbox) -> None:
        """Resume a paused sandbox; if another call does so already, wait for that."""
        record = self._records[sandbox]
        try:
            await self._fleet.resume(sandbox, _NO_END_SECONDS if record.window is None else record.window)
        except WrongPhaseError:
            await self._fleet.settled(sandbox)
        if record.window is None:
            sandbox.lifetime = replace(sandbox.lifetime, ends_at=None)

    # --- finding ----------------------------------------------------------------------------------------------------

    def _known(self, parameters: dict[str, str]) -> Sandbox:
        sandbox = self._fleet.find(parameters["sandbox_id"])
        if sandbox is None:
            raise unknown_sandbox(parameters["sandbox_id"])
        return sandbox

    def _running(self, parameters: dict[str, str]) -> Sandbox:
        sandbox = self._known(parameters)
        if sandbox.phase is not Phase.RUNNING:
            raise wrong_state(sandbox.sandbox_id, sandbox.phase)
        return sandbox

    # --- create -----------------------------------------------------------------------------------------------------

    async def _health(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        return json_reply({"status": "ok", "sandboxes": len(self._fleet.all())})

    async def _create(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        asked = requests.create_request(await _json(request), self._server)
        return json_reply(replies.created(await self._make(asked), self._server), 201)

    async def _make(self, asked: CreateRequest) -> Sandbox:
        if asked.template.startswith(SNAPSHOT_PREFIX) and self._fleet.snapshots.find(asked.template) is None:
            raise ApiError(404, f"template {asked.template} not found")
        new = self._new_sandbox(asked)
        self._made.add(new.sandbox_id)
        sandbox = await self._fleet.create(new)
        self._records[sandbox] = Record(asked, asked.seconds, asked.network, asked.allow_internet_access)
        return sandbox

    def _new_sandbox(self, asked: CreateRequest) -> NewSandbox:
        return NewSandbox(
            sandbox_id=uuid.uuid4().hex,
            template=asked.template,
            seconds=asked.seconds,
            on_timeout=OnTimeout.PAUSE if asked.auto_pause else OnTimeout.KILL,
            auto_resume=asked.auto_resume,
            environment=asked.environment if self._server.applies_environment else {},
            metadata=asked.metadata,
            traffic_token=None if asked.allow_public_traffic else secrets.token_hex(32),
        )

    # --- life -------------------------------------------------------------------------------------------------------

    async def _detail(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox = self._known(parameters)
        return json_reply(replies.detail(sandbox, self._records[sandbox], self._server))

    async def _kill(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox = self._known(parameters)
        if sandbox.phase in (Phase.PAUSING, Phase.RESUMING):
            raise in_transition(sandbox.sandbox_id)
        if sandbox.phase is Phase.PAUSED and not self._server.destroys_paused:
            raise ApiError(500, f"failed to delete sandbox {sandbox.sandbox_id}: it does not run")
        await self._fleet.kill(sandbox)
        return empty_reply()

    async def _pause(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox = self._known(parameters)
        try:
            await self._fleet.pause(sandbox)
        except WrongPhaseError as error:
            raise wrong_state(sandbox.sandbox_id, sandbox.phase) from error
        return empty_reply()

    async def _resume(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox = self._known(parameters)
        self._widen(
            sandbox, requests.connect_window(await _json(request), replace(self._server, connect_demands_timeout=False))
        )
        if sandbox.phase is not Phase.PAUSED:
            raise wrong_state(sandbox.sandbox_id, "running")
        await self.wake(sandbox)
        return json_reply(replies.short(sandbox, self._server), 201)

    async def _connect(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        seconds = requests.connect_window(await _json(request), self._server)
        sandbox = self._known(parameters)
        await self._fleet.settled(sandbox)
        self._widen(sandbox, seconds)
        if sandbox.phase is Phase.PAUSED:
            await self.wake(sandbox)
        return json_reply(replies.short(self._running(parameters), self._server))

    async def _set_timeout(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        seconds = requests.timeout_window(await _json(request), self._server)
        sandbox = self._running(parameters)
        if seconds == NEVER:
            self._widen(sandbox, NEVER)
        else:
            self._records[sandbox].window = seconds
            sandbox.lifetime = sandbox.lifetime.reset(self._fleet.clock(), seconds)
        return empty_reply()

    async def _refresh(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        seconds = requests.refresh_seconds(await _json(request, {}))
        self._widen(self._running(parameters), seconds)
        return empty_reply()

    def _widen(self, sandbox: Sandbox, seconds: int | None) -> None:
        """Let a sandbox live at least so long from now; never shorter than it would have."""
        record = self._records[sandbox]
        if seconds is None or record.window is None:
            return
        if seconds == NEVER:
            record.window = None
            sandbox.lifetime = replace(sandbox.lifetime, ends_at=None)
            return
        record.window = max(record.window, seconds)
        if sandbox.phase is Phase.RUNNING:
            sandbox.lifetime = sandbox.lifetime.extended(self._fleet.clock(), seconds)

    # --- network ----------------------------------------------------------------------------------------------------

    async def _update_network(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        network, allow_internet_access = requests.network_update(await _json(request))
        record = self._records[self._running(parameters)]
        record.network, record.allow_internet_access = network, allow_internet_access
        record.generation += 1
        return empty_reply()

    async def _network(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        return json_reply(replies.policy(self._records[self._known(parameters)]))

    # --- copies -----------------------------------------------------------------------------------------------------

    async def _make_snapshot(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        name = requests.snapshot_name(await _json(request, {}))
        kept = await self._kept(self._running(parameters), () if name is None else (name,))
        return json_reply(replies.snapshot(kept), 201)

    async def _kept(self, sandbox: Sandbox, names: tuple[str, ...]) -> Snapshot:
        snapshot_id = SNAPSHOT_PREFIX + uuid.uuid4().hex
        return await self._fleet.snapshot(sandbox, snapshot_id=snapshot_id, names=names)

    async def _rollback(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        snapshot_id = requests.rollback_target(await _json(request))
        sandbox = self._running(parameters)
        kept = self._fleet.snapshots.find(snapshot_id)
        if kept is None:
            raise ApiError(404, f"snapshot {snapshot_id} not found")
        await sandbox.end_processes()
        await in_thread(_put_back, sandbox, kept)
        sandbox.reset_connections()
        operation = {"operationID": uuid.uuid4().hex, "status": "READY"}
        return json_reply({"sandboxID": sandbox.sandbox_id, "snapshotID": snapshot_id, **operation})

    async def _fork(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        count, seconds = requests.fork_request(await _json(request, {}))
        sandbox = self._running(parameters)
        kept = await self._kept(sandbox, ())
        asked = replace(self._records[sandbox].created, template=kept.snapshot_id)
        try:
            copies = [
                await self._make(asked if seconds is None else replace(asked, seconds=seconds)) for _ in range(count)
            ]
        finally:
            self._fleet.snapshots.remove(kept.snapshot_id)
        return json_reply([replies.created(copy, self._server) for copy in copies], 201)

    async def _list_snapshots(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        source = request.query.get("sandboxID")
        wanted = [kept for kept in self._fleet.snapshots.all() if source in (None, "", kept.source_id)]
        start = _number(request, "nextToken", 0)
        end = start + _number(request, "limit", _SNAPSHOT_PAGE)
        headers = {"x-next-token": str(end)} if end < len(wanted) else {}
        return json_reply([replies.snapshot(kept) for kept in wanted[start:end]], headers=headers)

    async def _remove_snapshot(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        snapshot_id = parameters["snapshot_id"]
        if any(sandbox.request.template == snapshot_id for sandbox in self._fleet.all()):
            raise ApiError(409, f"template {snapshot_id} is in use (130409)")
        if not self._fleet.snapshots.remove(snapshot_id):
            raise ApiError(404, f"template {snapshot_id} not found")
        return empty_reply()

    # --- lists ------------------------------------------------------------------------------------------------------

    async def _list_running(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        return self._listed(request, {"running"}, _MOST_LISTED)

    async def _list(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        states = set((request.query.get("state") or "running,paused").split(","))
        return self._listed(request, states, _number(request, "limit", _USUAL_PAGE))

    def _listed(self, request: web.Request, states: set[str], limit: int) -> Reply:
        metadata = _metadata_filter(request)
        found = [
            replies.listed(sandbox, self._records[sandbox], self._server)
            for sandbox in self._fleet.all()
            if replies.state(sandbox.phase) in states and metadata.items() <= sandbox.request.metadata.items()
        ]
        return json_reply(found[:limit])


def _put_back(sandbox: Sandbox, kept: Snapshot) -> None:
    clean = SandboxCommand(command=("find", sandbox.home, "-mindepth", "1", "-delete"), output_limit_bytes=4096)
    sandbox.session.execute(clean)
    restore_workspace(sandbox.session, sandbox.home, kept.archive)


def _metadata_filter(request: web.Request) -> dict[str, str]:
    """Return the metadata asked for: pairs that are compared as they stand, with nothing decoded in them."""
    pairs = (pair.partition("=") for pair in request.query.get("metadata", "").split("&") if pair)
    return {name: value for name, _, value in pairs}


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name)
    if not text:
        return default
    number = whole_number(text)
    if number is None:
        raise ApiError(400, f"{name} must be a number")
    return number


async def _json(request: web.Request, default: Any = None) -> Any:
    """Return the body's document; `default` for an empty body.

    Raises:
        ApiError: 400 or 415: it is not JSON, or not called so.
    """
    body = await request.read()
    if not body and default is not None:
        return default
    if request.content_type != "application/json":
        raise ApiError(415, "Expected request with `Content-Type: application/json`", plain=True)
    try:
        return parse_json(body)
    except ValueError as error:
        raise ApiError(400, "Failed to parse the request body as JSON", plain=True) from error
