"""The control API below ``/api``: sandboxes, snapshots, volumes."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox_emulator.failing import take_failure
from ai4j_sandbox_emulator.fleet import Fleet
from ai4j_sandbox_emulator.json_text import parse_json
from ai4j_sandbox_emulator.process import Ended
from ai4j_sandbox_emulator.reply import Reply, empty_reply, json_reply
from ai4j_sandbox_emulator.routing import Handler, Match, Router
from ai4j_sandbox_emulator.sandbox import NewSandbox, Sandbox
from ai4j_sandbox_emulator.state import Phase

from . import replies
from .errors import ApiError, invalid, unknown_sandbox
from .records import Record
from .requests import DEFAULT_SNAPSHOT, MACHINE_SNAPSHOT, ListQuery, parse_create, parse_list, query_number

_FOREVER_SECONDS = 10 * 365 * 86400.0  # sandboxes here end by rest, which the emulator does not count
_BUILD_STEP_SECONDS = 0.2
_FAILED = ("error", "build_failed")
_SIGNED_TOKEN_LETTERS = 8
_FIND_SHELL = 'for shell in zsh bash; do grep -q "/$shell$" /etc/shells && command -v $shell && exit; done; echo sh'


class ControlApi:
    """The control API over one fleet.

    Args:
        fleet: The sandboxes.
        api_key: The only key accepted; ``None`` for any.
        change_seconds: How long a sandbox shows that it is on its way to another state.
        let_go: Ends what the daemon of a sandbox keeps running, before the sandbox stops or goes.
    """

    def __init__(
        self,
        fleet: Fleet,
        api_key: str | None,
        change_seconds: float = 0.0,
        *,
        let_go: Callable[[str], Awaitable[None]],
    ) -> None:
        self._fleet = fleet
        self._let_go = let_go
        self._api_key = api_key
        self._change_seconds = change_seconds
        self._records: dict[str, Record] = {}
        self._volumes: dict[str, dict[str, Any]] = {}
        self._router = self._routes()

    def _routes(self) -> Router:
        router = Router()
        one = "/api/sandbox/{sandbox}"
        routes: tuple[tuple[str, str, Handler], ...] = (
            ("GET", "/api/config", self._config),
            ("POST", "/api/sandbox", self._create),
            ("GET", "/api/sandbox", self._list),
            ("GET", "/api/sandbox/paginated", self._list_pages),
            ("GET", one, self._detail),
            ("DELETE", one, self._delete),
            ("POST", f"{one}/start", self._start),
            ("POST", f"{one}/stop", self._stop),
            ("POST", f"{one}/archive", self._archive),
            ("POST", f"{one}/pause", self._pause),
            ("POST", f"{one}/recover", self._recover),
            ("PUT", f"{one}/labels", self._set_labels),
            ("POST", f"{one}/autostop/{{minutes}}", self._set_auto_stop),
            ("POST", f"{one}/autoarchive/{{minutes}}", self._set_auto_archive),
            ("POST", f"{one}/autodelete/{{minutes}}", self._set_auto_delete),
            ("POST", f"{one}/public/{{public}}", self._set_public),
            ("POST", f"{one}/last-activity", self._touch),
            ("POST", f"{one}/snapshot", self._make_snapshot),
            ("GET", f"{one}/toolbox-proxy-url", self._toolbox_url),
            ("GET", f"{one}/ports/{{port}}/preview-url", self._preview_url),
            ("GET", f"{one}/ports/{{port}}/signed-preview-url", self._signed_url),
            ("POST", f"{one}/ports/{{port}}/signed-preview-url/{{token}}/expire", self._expire_signed),
            ("GET", f"{one}/build-logs-url", self._build_logs_url),
            ("GET", f"{one}/build-logs", self._build_logs),
            ("GET", "/api/snapshots", self._list_snapshots),
            ("GET", "/api/snapshots/{snapshot}", self._snapshot),
            ("DELETE", "/api/snapshots/{snapshot}", self._remove_snapshot),
            ("GET", "/api/volumes", self._list_volumes),
            ("POST", "/api/volumes", self._create_volume),
            ("GET", "/api/volumes/{volume}", self._volume),
            ("GET", "/api/volumes/by-name/{name}", self._volume_by_name),
            ("DELETE", "/api/volumes/{volume}", self._remove_volume),
        )
        for method, template, handler in routes:
            router.add(method, template, handler)
        return router

    async def handle(self, request: web.Request) -> Reply:
        """Answer one request."""
        try:
            match = self._router.find(request.method, request.rel_url.raw_path)
            if not isinstance(match, Match):
                raise ApiError(404, f"Cannot {request.method} {request.path}")
            if request.path != "/api/config":
                self.check_key(request)
            return await match.handler(request, match.parameters)
        except ApiError as error:
            return error.reply(request)
        except SandboxException as error:
            return ApiError(500, error.message).reply(request)

    def check_key(self, request: web.Request) -> None:
        """Refuse a request without a valid key.

        Raises:
            ApiError: 401.
        """
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not key or self._api_key not in (None, key):
            raise ApiError(401, "Invalid credentials")

    # --- finding --------------------------------------------------------------------------------------------------

    def record(self, name_or_id: str) -> Record | None:
        """Return what is known of a sandbox, by id or name."""
        found = self._records.get(name_or_id)
        return found or next((record for record in self._records.values() if record.name == name_or_id), None)

    def running(self, sandbox_id: str) -> tuple[Record, Sandbox] | None:
        """Return a sandbox whose toolbox answers, by its id only."""
        record, sandbox = self._records.get(sandbox_id), self._fleet.find(sandbox_id)
        if record is None or sandbox is None:
            return None
        record.last_activity_at = self._fleet.clock()
        return record, sandbox

    def is_started(self, record: Record) -> bool:
        """Whether a sandbox's toolbox answers now."""
        return record.shown(self._fleet.clock()) == "started"

    def signed_port(self, token: str) -> tuple[Record, int] | None:
        """Return what a signed address opens, if it is valid."""
        now = self._fleet.clock()
        for record in self._records.values():
            port, until = record.signed_tokens.get(token, (0, 0.0))
            if until > now:
                return record, port
        return None

    def _known(self, parameters: dict[str, str]) -> Record:
        record = self.record(parameters["sandbox"])
        if record is None:
            raise unknown_sandbox(parameters["sandbox"])
        return record

    def _settled(self, parameters: dict[str, str], also: str | None = None) -> tuple[Record, Sandbox]:
        """Return a sandbox that is not on its way to another state, but for one that is allowed."""
        record = self._known(parameters)
        sandbox = self._fleet.find(record.sandbox_id)
        if sandbox is None:
            raise unknown_sandbox(parameters["sandbox"])
        now = self._fleet.clock()
        if record.is_changing(now) and record.shown(now) != also:
            raise ApiError(409, "Sandbox state change in progress")
        return record, sandbox

    def _answer(self, request: web.Request, record: Record, status: int = 200) -> Reply:
        return json_reply(replies.detail(record, self._fleet.clock(), _toolbox_url(request)), status)

    # --- life -------------------------------------------------------------------------------------------------------

    async def _config(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        return json_reply(
            {"version": "0.190.0", "proxyToolboxUrl": _toolbox_url(request), "defaultSnapshot": DEFAULT_SNAPSHOT}
        )

    async def _create(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        asked = parse_create(await _object(request))
        if asked.name is not None and self.record(asked.name) is not None:
            raise ApiError(409, f"Sandbox with name {asked.name} already exists")
        if asked.dockerfile is None and asked.snapshot not in self._snapshot_names():
            raise ApiError(400, f"Snapshot {asked.snapshot} not found. Did you add it through the Daytona Dashboard?")
        sandbox_id = str(uuid.uuid4())
        now = self._fleet.clock()
        record = Record(
            sandbox_id=sandbox_id,
            name=asked.name or sandbox_id,
            asked=asked,
            created_at=now,
            updated_at=now,
            last_activity_at=now,
            labels=dict(asked.labels),
            public=asked.public,
            auto_stop=asked.auto_stop,
            auto_archive=asked.auto_archive,
            auto_delete=asked.auto_delete,
        )
        self._records[sandbox_id] = record  # the name is taken from now on
        try:
            sandbox = await self._fleet.create(
                NewSandbox(
                    sandbox_id=sandbox_id,
                    template=asked.snapshot,
                    seconds=None,
                    environment={"DAYTONA_SANDBOX_ID": sandbox_id, "DAYTONA_SANDBOX_USER": asked.user, **asked.env},
                )
            )
            record.shell = await _find_shell(sandbox)
        except BaseException:
            del self._records[sandbox_id]
            raise
        if asked.dockerfile is not None:
            self._change(record, "started", "pending_build", "building_snapshot", "creating", each=_BUILD_STEP_SECONDS)
        else:
            self._change(record, "started", "creating", each=self._change_seconds)
        return self._answer(request, record)

    def _change(self, record: Record, state: str, *passing: str, each: float) -> None:
        """Let a sandbox become something else, after so many seconds of each state it passes through.

        Raises:
            ApiError: 400: it was to start, and failed while the call waited for it.
        """
        failure = take_failure()
        record.error_reason = None if failure is None else failure.reason or None
        record.recoverable = failure is not None and failure.recoverable
        record.become(state if failure is None else failure.state, self._fleet.clock(), passing, each)
        if failure is not None and state == "started" and not each:
            raise invalid(f"Sandbox failed to start: {failure.reason}")

    async def _detail(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        return self._answer(request, self._known(parameters))

    async def _delete(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record, sandbox = self._settled(parameters)
        await self._remove(record, sandbox)
        return self._answer(request, record)

    async def _remove(self, record: Record, sandbox: Sandbox) -> None:
        now = self._fleet.clock()
        del self._records[record.sandbox_id]
        record.name = f"DESTROYED_{record.name}_{int(now * 1000)}"
        record.become("destroying", now)
        await self._let_go(record.sandbox_id)
        await self._fleet.kill(sandbox)

    async def _start(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record, sandbox = self._settled(parameters, also="archiving")
        if record.state in _FAILED:
            raise invalid("Sandbox is in an errored state")
        if record.state != "started":
            passing = {"archived": "restoring", "paused": "resuming"}.get(record.state, "starting")
            await self._wake(record, sandbox, passing)
        return self._answer(request, record)

    async def _wake(self, record: Record, sandbox: Sandbox, passing: str) -> None:
        if sandbox.phase is Phase.PAUSED:
            await self._fleet.resume(sandbox, _FOREVER_SECONDS)
        record.preview_token = secrets.token_hex(16)
        self._change(record, "started", passing, each=self._change_seconds)

    async def _stop(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record, sandbox = self._settled(parameters)
        if record.state not in ("started", "paused"):
            raise invalid("Sandbox is not in a stoppable state")
        if record.auto_delete == 0:
            await self._remove(record, sandbox)
            return self._answer(request, record)
        if record.state == "paused":
            await self._fleet.resume(sandbox, _FOREVER_SECONDS)
        await self._let_go(record.sandbox_id)
        await self._fleet.pause(sandbox, keep_memory=False)
        self._change(record, "stopped", "stopping", each=self._change_seconds)
        return self._answer(request, record)

    async def _archive(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record, _ = self._settled(parameters)
        if record.state != "stopped":
            raise invalid("Sandbox is not stopped")
        self._change(record, "archived", "archiving", each=self._change_seconds)
        return self._answer(request, record)

    async def _pause(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record, sandbox = self._settled(parameters)
        if not record.is_machine:
            raise ApiError(422, "Sandbox class does not support pausing")
        if record.state != "started":
            raise invalid("Sandbox is not started")
        await self._fleet.pause(sandbox)
        self._change(record, "paused", "pausing", each=self._change_seconds)
        return self._answer(request, record)

    async def _recover(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record, sandbox = self._settled(parameters)
        if not record.recoverable:
            raise invalid("Sandbox is not recoverable")
        await self._wake(record, sandbox, "starting")
        return self._answer(request, record)

    # --- what can be changed --------------------------------------------------------------------------------------

    async def _set_labels(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record = self._known(parameters)
        body = await _object(request)
        labels = body.get("labels")
        if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
            raise invalid("labels must be an object")
        record.labels = dict(labels)
        return self._answer(request, record)

    async def _set_auto_stop(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record = self._known(parameters)
        record.auto_stop = query_number(parameters["minutes"], "interval", 0)
        return self._answer(request, record, 201)

    async def _set_auto_archive(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record = self._known(parameters)
        record.auto_archive = query_number(parameters["minutes"], "interval", 0)
        return self._answer(request, record, 201)

    async def _set_auto_delete(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record = self._known(parameters)
        record.auto_delete = query_number(parameters["minutes"], "interval")
        return self._answer(request, record, 201)

    async def _set_public(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record = self._known(parameters)
        record.public = parameters["public"] == "true"
        return self._answer(request, record, 201)

    async def _touch(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        self._known(parameters).last_activity_at = self._fleet.clock()
        return empty_reply(201)

    # --- addresses ------------------------------------------------------------------------------------------------

    async def _toolbox_url(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        self._known(parameters)
        return json_reply({"url": _toolbox_url(request)})

    async def _preview_url(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record, port = self._known(parameters), query_number(parameters["port"], "port", 1)
        url = f"{_toolbox_url(request)}/{record.sandbox_id}/proxy/{port}"
        return json_reply({"sandboxId": record.sandbox_id, "url": url, "token": record.preview_token})

    async def _signed_url(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record, port = self._known(parameters), query_number(parameters["port"], "port", 1)
        seconds = query_number(request.query.get("expiresInSeconds", "60"), "expiresInSeconds", 1)
        if seconds > 86400:
            raise invalid("expiresInSeconds must not be greater than 86400")
        token = secrets.token_hex(_SIGNED_TOKEN_LETTERS)
        record.signed_tokens[token] = (port, self._fleet.clock() + seconds)
        url = f"{_base(request)}/preview/{port}-{token}"
        return json_reply({"sandboxId": record.sandbox_id, "port": port, "token": token, "url": url})

    async def _expire_signed(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        self._known(parameters).signed_tokens.pop(parameters["token"], None)
        return empty_reply(201)

    async def _build_logs_url(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record = self._known(parameters)
        return json_reply({"url": f"{_base(request)}/api/sandbox/{record.sandbox_id}/build-logs"})

    async def _build_logs(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record = self._known(parameters)
        lines = (record.asked.dockerfile or "").strip().splitlines()
        text = "".join(f"Step {number}: {line}\n" for number, line in enumerate(lines, 1)) + "Successfully built\n"
        return Reply(headers={"Content-Type": "text/plain; charset=utf-8"}, body=text.encode())

    # --- lists ------------------------------------------------------------------------------------------------------

    async def _list(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        query = _list_query(request)
        found = [record for record in self._newest_first() if self._fits(record, query)]
        start = 0 if query.cursor is None else query_number(query.cursor, "cursor", 0)
        page, end = found[start : start + query.limit], start + query.limit
        items = [replies.listed(record, self._fleet.clock(), _toolbox_url(request)) for record in page]
        return json_reply({"items": items, "nextCursor": str(end) if end < len(found) else None})

    async def _list_pages(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        query = _list_query(request)
        number = query_number(request.query.get("page", "1"), "page", 1)
        found = [record for record in self._newest_first() if self._fits(record, query)]
        page = found[(number - 1) * query.limit : number * query.limit]
        items = [replies.detail(record, self._fleet.clock(), _toolbox_url(request)) for record in page]
        pages = -(-len(found) // query.limit)
        return json_reply({"items": items, "total": len(found), "page": number, "totalPages": pages})

    def _newest_first(self) -> list[Record]:
        return sorted(self._records.values(), key=lambda record: record.last_activity_at, reverse=True)

    def _fits(self, record: Record, query: ListQuery) -> bool:
        return (
            query.labels.items() <= record.labels.items()
            and (not query.states or record.shown(self._fleet.clock()) in query.states)
            and record.name.startswith(query.name)
            and record.sandbox_id.startswith(query.sandbox_id)
        )

    # --- snapshots and volumes ------------------------------------------------------------------------------------

    def _snapshot_names(self) -> list[str]:
        return [DEFAULT_SNAPSHOT, MACHINE_SNAPSHOT, *(item.snapshot_id for item in self._fleet.snapshots.all())]

    async def _make_snapshot(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        record, sandbox = self._settled(parameters)
        body = await _object(request)
        name = body.get("name")
        if not isinstance(name, str) or not name:
            raise invalid("name should not be empty")
        if name in self._snapshot_names():
            raise ApiError(409, f"Snapshot with name {name} already exists")
        await self._fleet.snapshot(sandbox, snapshot_id=name, names=(name,))
        return self._answer(request, record)

    async def _list_snapshots(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        items = [
            replies.snapshot(DEFAULT_SNAPSHOT, 0.0),
            replies.snapshot(MACHINE_SNAPSHOT, 0.0),
            *(replies.kept(item) for item in self._fleet.snapshots.all()),
        ]
        return json_reply({"items": items, "total": len(items), "page": 1, "totalPages": 1})

    async def _snapshot(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        name = parameters["snapshot"].removeprefix("snapshot-")
        if name not in self._snapshot_names():
            raise ApiError(404, f"Snapshot {name} not found")
        kept = self._fleet.snapshots.find(name)
        return json_reply(replies.snapshot(name, 0.0) if kept is None else replies.kept(kept))

    async def _remove_snapshot(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        name = parameters["snapshot"].removeprefix("snapshot-")
        if not self._fleet.snapshots.remove(name):
            raise ApiError(404, f"Snapshot {name} not found")
        return empty_reply(200)

    async def _list_volumes(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        return json_reply(list(self._volumes.values()))

    async def _create_volume(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        body = await _object(request)
        volume_id = str(uuid.uuid4())
        name = str(body.get("name") or volume_id)
        if any(volume["name"] == name for volume in self._volumes.values()):
            raise ApiError(409, f"Volume with name {name} already exists")
        self._volumes[volume_id] = replies.volume(volume_id, name, self._fleet.clock())
        return json_reply(self._volumes[volume_id])

    async def _volume(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        if parameters["volume"] not in self._volumes:
            raise ApiError(404, f"Volume with ID {parameters['volume']} not found")
        return json_reply(self._volumes[parameters["volume"]])

    async def _volume_by_name(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        for volume in self._volumes.values():
            if volume["name"] == parameters["name"]:
                return json_reply(volume)
        raise ApiError(404, f"Volume with name {parameters['name']} not found")

    async def _remove_volume(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        if self._volumes.pop(parameters["volume"], None) is None:
            raise ApiError(404, f"Volume with ID {parameters['volume']} not found")
        return empty_reply(200)


def _base(request: web.Request) -> str:
    return f"{request.scheme}://{request.host}"


def _toolbox_url(request: web.Request) -> str:
    return f"{_base(request)}/toolbox"


async def _find_shell(sandbox: Sandbox) -> str:
    """Return the shell that the daemon would start, as found in the sandbox."""
    process = sandbox.prepare(SandboxCommand(command=_FIND_SHELL, output_limit_bytes=4096))
    process.run()
    await process.wait_over(10)
    words = process.end.result.stdout.split() if isinstance(process.end, Ended) else []
    return words[0] if words else "sh"


async def _object(request: web.Request) -> dict[str, Any]:
    """Return the JSON object that the body is; an empty body is an empty one.

    Raises:
        ApiError: 400: it is none.
    """
    body = await request.read()
    try:
        document = parse_json(body) if body else {}
    except ValueError as error:
        raise invalid("Unexpected token in JSON") from error
    if not isinstance(document, dict):
        raise invalid("body must be an object")
    return document


def _list_query(request: web.Request) -> ListQuery:
    query = request.query
    return parse_list(query, [*query.getall("states", ()), *query.getall("states[]", ())])
