"""The control API: what each call does. Both versions of the paths lead to the same code."""

from __future__ import annotations

import hashlib
import json
import secrets
import string
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from aiohttp import web

from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox_emulator.fleet import Fleet
from ai4j_sandbox_emulator.json_text import parse_json
from ai4j_sandbox_emulator.reply import Reply, empty_reply, json_reply
from ai4j_sandbox_emulator.routing import Match, Router
from ai4j_sandbox_emulator.sandbox import NewSandbox, Sandbox
from ai4j_sandbox_emulator.snapshots import Snapshot
from ai4j_sandbox_emulator.state import OnTimeout, Phase, WrongPhaseError

from . import listing, replies, requests
from .errors import ApiError, invalid, unknown_sandbox
from .listing import Key, query_number
from .replies import Record
from .requests import CreateRequest
from .routing import RoutingError, plain_id

AUTO_RESUME_SECONDS = 300
"""Least time to live of a sandbox that traffic woke."""

_ID_LETTERS = string.ascii_lowercase + string.digits
_SNAPSHOT_TEAM = "emulator"


@dataclass(frozen=True, slots=True)
class _Remembered:
    """The answer to a create call with an idempotency key; ``None`` while it is still being made."""

    fingerprint: str
    reply: Reply | None


class ControlApi:
    """The control API over one fleet.

    Args:
        fleet: The sandboxes.
        api_key: The only key accepted; ``None`` for any that looks like one.
    """

    def __init__(self, fleet: Fleet, api_key: str | None) -> None:
        self._fleet = fleet
        self._api_key = api_key
        self._records: WeakKeyDictionary[Sandbox, Record] = WeakKeyDictionary()
        self._remembered: dict[str, _Remembered] = {}
        self._router = self._routes()

    def _routes(self) -> Router:
        router = Router()
        one = "/sandboxes/{sandbox_id}"
        for method, template, handler in (
            ("POST", "/sandboxes", self._create_v1),
            ("POST", "/v2/sandboxes", self._create_v2),
            ("GET", "/sandboxes", self._list_running),
            ("GET", "/v2/sandboxes", self._list),
            ("GET", "/sandboxes/metrics", self._metrics_of_many),
            ("GET", one, self._detail),
            ("DELETE", one, self._kill),
            ("POST", f"{one}/pause", self._pause),
            ("POST", f"{one}/connect", self._connect_v1),
            ("POST", f"/v2{one}/connect", self._connect_v2),
            ("POST", f"{one}/resume", self._resume),
            ("POST", f"{one}/timeout", self._set_timeout),
            ("POST", f"{one}/refreshes", self._refresh),
            ("PUT", f"{one}/network", self._update_network),
            ("POST", f"{one}/fork", self._fork),
            ("POST", f"{one}/snapshots", self._make_snapshot),
            ("GET", "/snapshots", self._list_snapshots),
            ("DELETE", "/templates/{snapshot_id}", self._remove_snapshot),
            ("GET", f"{one}/metrics", self._metrics),
            ("GET", f"{one}/logs", self._logs_v1),
            ("GET", f"/v2{one}/logs", self._logs_v2),
        ):
            router.add(method, template, handler)
        return router

    async def handle(self, request: web.Request) -> Reply:
        """Answer one request."""
        if (request.method, request.path) == ("GET", "/health"):
            return empty_reply(204)
        try:
            self._check_key(request.headers.get("X-API-Key"))
            match = self._router.find(request.method, request.rel_url.raw_path)
            if not isinstance(match, Match):
                raise (
                    ApiError(405, "method not allowed")
                    if match.path_known
                    else ApiError(404, "no matching operation was found")
                )
            return await match.handler(request, match.parameters)
        except ApiError as error:
            return error.reply()
        except SandboxException as error:
            return ApiError(500, error.message, "internal_server_error").reply()

    def _check_key(self, key: str | None) -> None:
        if not key:
            raise ApiError(
                401, "Invalid API key, please visit https://e2b.dev/docs/api-key for more information: missing API key"
            )
        if not key.startswith("e2b_") or self._api_key not in (None, key):
            raise ApiError(401, "Invalid API key format or unknown API key")

    # --- finding --------------------------------------------------------------------------------------------------

    def _known(self, parameters: dict[str, str]) -> Sandbox:
        try:
            sandbox_id = plain_id(parameters["sandbox_id"])
        except RoutingError as error:
            raise ApiError(400, str(error)) from error
        sandbox = self._fleet.find(sandbox_id)
        if sandbox is None:
            raise unknown_sandbox(sandbox_id)
        return sandbox

    def _running(self, parameters: dict[str, str]) -> Sandbox:
        sandbox = self._known(parameters)
        if sandbox.phase in (Phase.PAUSING, Phase.RESUMING):
            raise ApiError(409, f"Sandbox {sandbox.sandbox_id} is in transition")
        if sandbox.phase is not Phase.RUNNING:
            raise unknown_sandbox(sandbox.sandbox_id)
        return sandbox

    # --- create -----------------------------------------------------------------------------------------------------

    async def _create_v1(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        return await self._create(await _json(request), version=1)

    async def _create_v2(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        body = await _json(request)
        key = request.headers.get("Idempotency-Key")
        if key is None:
            return await self._create(body, version=2)
        return await self._once(key, body)

    async def _once(self, key: str, body: Any) -> Reply:
        """Create, or answer what the same call with the same key was answered."""
        fingerprint = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        earlier = self._remembered.get(key)
        if earlier is not None and earlier.fingerprint != fingerprint:
            raise ApiError(422, "Idempotency key was used with another request", "idempotency_request_mismatch")
        if earlier is not None:
            if earlier.reply is None:
                raise ApiError(409, "A request with this idempotency key is in progress", "idempotency_in_progress")
            return earlier.reply
        self._remembered[key] = _Remembered(fingerprint, None)
        try:
            reply = await self._create(body, version=2)
        except BaseException:
            del self._remembered[key]
            raise
        self._remembered[key] = _Remembered(fingerprint, reply)
        return reply

    async def _create(self, body: Any, *, version: int) -> Reply:
        asked = requests.create_request(body, version=version)
        return json_reply(replies.short(await self._make(asked)), 201)

    async def _make(self, asked: CreateRequest) -> Sandbox:
        if asked.template.endswith(":default") and self._fleet.snapshots.find(asked.template) is None:
            raise ApiError(404, f"template '{asked.template}' not found")
        sandbox = await self._fleet.create(_new_sandbox(asked))
        self._records[sandbox] = Record(asked, asked.network, asked.allow_internet_access)
        return sandbox

    # --- life -------------------------------------------------------------------------------------------------------

    async def _detail(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox = self._known(parameters)
        return json_reply(replies.detail(sandbox, self._records[sandbox]))

    async def _kill(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        await self._fleet.kill(self._known(parameters))
        return empty_reply()

    async def _pause(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox = self._known(parameters)
        keep_memory = requests.keeps_memory(await _json(request, {}))
        try:
            await self._fleet.pause(sandbox, keep_memory=keep_memory)
        except WrongPhaseError as error:
            if sandbox.phase is Phase.KILLED:
                raise unknown_sandbox(sandbox.sandbox_id) from error
            raise ApiError(409, f"Error pausing sandbox - sandbox '{sandbox.sandbox_id}' is already paused") from error
        return empty_reply()

    async def _connect_v1(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        return await self._connect(parameters, requests.connect_seconds(await _json(request), version=1))

    async def _connect_v2(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        return await self._connect(parameters, requests.connect_seconds(await _json(request, {}), version=2))

    async def _connect(self, parameters: dict[str, str], seconds: int) -> Reply:
        sandbox = self._known(parameters)
        await self._fleet.settled(sandbox)
        if sandbox.phase is Phase.PAUSED:
            await self.wake(sandbox, seconds)
            return json_reply(replies.short(sandbox), 201)
        sandbox = self._running(parameters)
        sandbox.lifetime = sandbox.lifetime.extended(self._fleet.clock(), seconds)
        return json_reply(replies.short(sandbox))

    async def _resume(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox = self._known(parameters)
        seconds = requests.connect_seconds(await _json(request, {}), version=2)
        if sandbox.phase is not Phase.PAUSED:
            raise ApiError(409, f"Sandbox {sandbox.sandbox_id} is already running")
        await self.wake(sandbox, seconds)
        return json_reply(replies.short(sandbox), 201)

    async def wake(self, sandbox: Sandbox, seconds: int) -> None:
        """Resume a paused sandbox; if another call does so already, wait for that."""
        try:
            await self._fleet.resume(sandbox, seconds)
        except WrongPhaseError:
            await self._fleet.settled(sandbox)

    async def _set_timeout(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        seconds = requests.timeout_seconds(await _json(request))
        sandbox = self._running(parameters)
        sandbox.lifetime = sandbox.lifetime.reset(self._fleet.clock(), seconds)
        return empty_reply()

    async def _refresh(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        seconds = requests.refresh_seconds(await _json(request, {}))
        sandbox = self._running(parameters)
        sandbox.lifetime = sandbox.lifetime.extended(self._fleet.clock(), seconds)
        return empty_reply()

    async def _update_network(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        network, allow_internet_access = requests.network_update(await _json(request))
        record = self._records[self._running(parameters)]
        kept = {key: record.network[key] for key in ("allowPublicTraffic", "maskRequestHost") if key in record.network}
        record.network = {**kept, **network}
        record.allow_internet_access = allow_internet_access
        return empty_reply()

    # --- copies -------------------------------------------------------------------------------------------------------

    async def _fork(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        seconds, count = requests.fork_request(await _json(request, {}))
        sandbox = self._known(parameters)
        if sandbox.phase is not Phase.RUNNING:
            raise ApiError(409, f"Sandbox {sandbox.sandbox_id} is paused")
        snapshot = await self._fleet.snapshot(sandbox, snapshot_id=_random_id(20) + ":fork", names=())
        try:
            return json_reply([await self._copied(sandbox, snapshot, seconds) for _ in range(count)], 201)
        finally:
            self._fleet.snapshots.remove(snapshot.snapshot_id)

    async def _copied(self, source: Sandbox, snapshot: Snapshot, seconds: int) -> dict[str, Any]:
        record = self._records[source]
        asked = record.created
        try:
            copy = await self._fleet.create(_new_sandbox(asked, template=snapshot.snapshot_id, seconds=seconds))
        except SandboxException as error:
            return {"error": ApiError(500, error.message, "sandbox_create_failed").document()}
        self._records[copy] = Record(asked, record.network, record.allow_internet_access)
        return {"sandbox": replies.short(copy)}

    async def _make_snapshot(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        name = requests.snapshot_name(await _json(request, {}))
        sandbox = self._running(parameters)
        snapshot_id = f"{_random_id(20)}:default"
        if name is not None:
            snapshot_id = f"{_SNAPSHOT_TEAM}/{name}" + ("" if ":" in name else ":default")
        names = () if name is None else (snapshot_id,)
        kept = await self._fleet.snapshot(sandbox, snapshot_id=snapshot_id, names=names)
        return json_reply(replies.snapshot(kept), 201)

    async def _list_snapshots(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        source, name = request.query.get("sandboxID"), request.query.get("name")
        wanted = [
            kept
            for kept in self._fleet.snapshots.all()
            if source in (None, "", kept.source_id) and (not name or any(name in known for known in kept.names))
        ]
        page = listing.page(wanted, lambda kept: Key(kept.created_at, kept.snapshot_id), request.query)
        return json_reply([replies.snapshot(kept) for kept in page.items], headers=_next_token(page.next_token))

    async def _remove_snapshot(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        if not self._fleet.snapshots.remove(parameters["snapshot_id"]):
            raise ApiError(404, f"the template '{parameters['snapshot_id']}' doesn't exist")
        return empty_reply()

    # --- lists and records --------------------------------------------------------------------------------------------

    async def _list_running(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        query = {"state": "running", "metadata": request.query.get("metadata", "")}
        found = listing.matching(self._fleet.all(), query)
        return json_reply([replies.listed(sandbox, self._records[sandbox]) for sandbox in found])

    async def _list(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        found = listing.matching(self._fleet.all(), request.query)
        page = listing.page(
            found,
            lambda sandbox: Key(sandbox.lifetime.started_at, sandbox.sandbox_id),
            request.query,
            ascending=listing.is_ascending(request.query),
        )
        headers = _next_token(page.next_token)
        if "running" in listing.states(request.query):
            running = [sandbox for sandbox in found if replies.state(sandbox.phase) == "running"]
            headers["X-Total-Running"] = str(len(running))
        return json_reply([replies.listed(sandbox, self._records[sandbox]) for sandbox in page.items], headers=headers)

    async def _metrics(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox = self._known(parameters)
        start, end = query_number(request.query, "start") or 0, query_number(request.query, "end")
        if sandbox.phase is Phase.RUNNING:
            await sandbox.measure()
        shown = [
            sample
            for sample in sandbox.samples
            if sample.taken_at >= (start or 0) and (end is None or int(sample.taken_at) <= end)
        ]
        return json_reply([replies.metric(sample) for sample in shown])

    async def _metrics_of_many(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        ids = [part for part in request.query.get("sandbox_ids", "").split(",") if part]
        if not 1 <= len(ids) <= 100:
            raise invalid("sandbox_ids must name 1 to 100 sandboxes")
        found = [sandbox for sandbox in map(self._fleet.find, ids) if sandbox is not None]
        measured = {
            sandbox.sandbox_id: replies.metric(await sandbox.measure())
            for sandbox in found
            if sandbox.phase is Phase.RUNNING
        }
        return json_reply({"sandboxes": measured})

    async def _logs_v1(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox = self._known(parameters)
        start, limit = query_number(request.query, "start") or 0, query_number(request.query, "limit") or 1000
        shown = [entry for entry in sandbox.journal if entry.logged_at * 1000 >= start][:limit]
        return json_reply(
            {
                "logs": [replies.log_line(entry) for entry in shown],
                "logEntries": [replies.log_entry(entry) for entry in shown],
            }
        )

    async def _logs_v2(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox = self._known(parameters)
        shown = listing.log_page(list(sandbox.journal), request.query)
        return json_reply({"logs": [replies.log_entry(entry) for entry in shown]})


def _new_sandbox(asked: CreateRequest, *, template: str | None = None, seconds: int | None = None) -> NewSandbox:
    sandbox_id = "i" + _random_id(20)
    template = template or asked.template
    return NewSandbox(
        sandbox_id=sandbox_id,
        template=template,
        seconds=asked.seconds if seconds is None else seconds,
        on_timeout=OnTimeout.PAUSE if asked.auto_pause else OnTimeout.KILL,
        keep_memory=asked.auto_pause_memory,
        auto_resume=asked.auto_resume,
        environment={
            "E2B_SANDBOX": "true",
            "E2B_SANDBOX_ID": sandbox_id,
            "E2B_TEMPLATE_ID": template,
            **asked.environment,
        },
        metadata=asked.metadata,
        access_token=secrets.token_hex(32) if asked.secure else None,
        traffic_token=None if asked.allow_public_traffic else secrets.token_hex(32),
    )


def _random_id(length: int) -> str:
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(length))


async def _json(request: web.Request, default: Any = None) -> Any:
    """Return the body's document; `default` for an empty body.

    Raises:
        ApiError: 400: it is not JSON.
    """
    body = await request.read()
    if not body and default is not None:
        return default
    try:
        return parse_json(body)
    except ValueError as error:
        raise invalid("request body is not valid JSON") from error


def _next_token(token: str | None) -> dict[str, str]:
    return {} if token is None else {"X-Next-Token": token}
