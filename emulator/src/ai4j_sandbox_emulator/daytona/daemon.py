"""The toolbox of a sandbox: the calls below ``/toolbox/{id}``."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote

from aiohttp import BodyPartReader, web

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.files import FileKind, SandboxFiles
from ai4j_sandbox_emulator.bridge import awaitable, blocking
from ai4j_sandbox_emulator.json_text import parse_json, whole_number
from ai4j_sandbox_emulator.reply import Reply, Upgraded, empty_reply, json_reply
from ai4j_sandbox_emulator.routing import Handler, Match, Router
from ai4j_sandbox_emulator.sandbox import Sandbox

from . import filesystem, repositories
from .commands import parse_code_run, parse_execute, run, whole
from .errors import Envelopes, ToolboxError
from .records import Record
from .shells import ShellCommand, Shells, merged, split
from .terminals import Terminal, Terminals

P = ParamSpec("P")
T = TypeVar("T")

_BOUNDARY = "DAYTONA-FILE-BOUNDARY"
_CONTEXT = web.RequestKey("daytona_context", tuple)  # under which a request carries its sandbox to the handler
_RAW_SINCE, _SPLIT_SINCE = (0, 27, 0), (0, 167, 0)
_UPLOAD_BYTES = 256 * 1024


class Call:
    """One request to the daemon of one sandbox."""

    def __init__(self, request: web.Request, sandbox: Sandbox, record: Record, parameters: dict[str, str]) -> None:
        self.request = request
        self.sandbox = sandbox
        self.record = record
        self.parameters = parameters

    @property
    def files(self) -> SandboxFiles:
        """The sandbox's files."""
        return self.sandbox.session.files

    async def body(self) -> dict[str, Any]:
        """Return the JSON object that was sent.

        Raises:
            ToolboxError: 400: it is none.
        """
        try:
            document = parse_json(await self.request.read() or b"{}")
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ToolboxError(400, "invalid body request")
        return document

    def path(self, name: str = "path") -> str:
        """Return a path from the query, made absolute.

        Raises:
            ToolboxError: 400: it is missing.
        """
        return filesystem.absolute(self.request.query.get(name), self.sandbox.home)


Method = Callable[[Call], Awaitable[Reply]]


class Daemon:
    """The daemons of all sandboxes of a face.

    Args:
        envelopes: How failures are worded.
    """

    def __init__(self, envelopes: Envelopes) -> None:
        self._envelopes = envelopes
        self._shells = Shells()
        self._terminals = Terminals()
        self._router = self._routes()

    def _routes(self) -> Router:
        router = Router()
        session = "/process/session/{session}"
        command = f"{session}/command/{{command}}"
        for method, template, handler in (
            ("GET", "/version", self._version),
            ("GET", "/work-dir", self._home),
            ("GET", "/user-home-dir", self._home),
            ("GET", "/project-dir", self._home),
            ("POST", "/process/execute", self._execute),
            ("POST", "/process/code-run", self._code_run),
            ("POST", "/process/session", self._create_session),
            ("GET", "/process/session", self._list_sessions),
            ("GET", session, self._session),
            ("DELETE", session, self._delete_session),
            ("POST", f"{session}/exec", self._session_execute),
            ("GET", command, self._session_command),
            ("POST", f"{command}/input", self._session_input),
            ("GET", f"{command}/logs", self._session_logs),
            ("POST", "/process/pty", self._create_terminal),
            ("GET", "/process/pty", self._list_terminals),
            ("GET", "/process/pty/create-connect", self._create_and_connect_terminal),
            ("GET", "/process/pty/{pty}", self._terminal),
            ("DELETE", "/process/pty/{pty}", self._delete_terminal),
            ("POST", "/process/pty/{pty}/resize", self._resize_terminal),
            ("GET", "/process/pty/{pty}/connect", self._connect_terminal),
            ("GET", "/files", self._list_files),
            ("DELETE", "/files", self._delete_file),
            ("GET", "/files/info", self._file_info),
            ("GET", "/files/download", self._download),
            ("POST", "/files/bulk-download", self._bulk_download),
            ("POST", "/files/upload", self._upload),
            ("POST", "/files/bulk-upload", self._bulk_upload),
            ("POST", "/files/folder", self._make_folder),
            ("POST", "/files/move", self._move),
            ("POST", "/files/permissions", self._set_permissions),
            ("POST", "/files/replace", self._replace),
            ("GET", "/files/find", self._find_text),
            ("GET", "/files/search", self._search),
            ("POST", "/git/clone", _git(repositories.clone)),
            ("GET", "/git/status", _git_query(repositories.status)),
            ("GET", "/git/branches", _git_query(repositories.branches)),
            ("POST", "/git/branches", _git(repositories.create_branch, 201)),
            ("DELETE", "/git/branches", _git(repositories.delete_branch, 204)),
            ("POST", "/git/checkout", _git(repositories.checkout)),
            ("POST", "/git/add", _git(repositories.add)),
            ("POST", "/git/commit", _git(repositories.commit)),
            ("POST", "/git/push", _git(repositories.push)),
            ("POST", "/git/pull", _git(repositories.pull)),
            ("GET", "/git/history", _git_query(repositories.history)),
        ):
            router.add(method, template, _routed(handler))
        return router

    async def handle(self, request: web.Request, sandbox: Sandbox, record: Record, path: str) -> Reply:
        """Answer one request; `path` is what follows the sandbox's id, still encoded."""
        try:
            match = self._router.find(request.method, path)
            if not isinstance(match, Match):
                return Reply(status=404, body=b"404 page not found")
            request[_CONTEXT] = (sandbox, record)
            return await match.handler(request, match.parameters)
        except ToolboxError as error:
            return self._envelopes.reply(error, request)
        except SandboxException as error:
            return self._envelopes.reply(ToolboxError(500, error.message), request)

    async def let_go(self, sandbox_id: str) -> None:
        """End the sessions and terminals of a sandbox that stops or goes."""
        await self._shells.delete_all(sandbox_id)
        await self._terminals.delete_all(sandbox_id)

    # --- facts ------------------------------------------------------------------------------------------------------

    async def _version(self, call: Call) -> Reply:
        return json_reply({"version": "0.190.0"})

    async def _home(self, call: Call) -> Reply:
        return json_reply({"dir": call.sandbox.home})

    # --- commands ---------------------------------------------------------------------------------------------------

    async def _execute(self, call: Call) -> Reply:
        return json_reply(await run(call.sandbox, parse_execute(await call.body(), call.record.shell)))

    async def _code_run(self, call: Call) -> Reply:
        return json_reply(await run(call.sandbox, parse_code_run(await call.body())))

    async def _create_session(self, call: Call) -> Reply:
        session_id = (await call.body()).get("sessionId")
        if not isinstance(session_id, str) or not session_id:
            raise ToolboxError(400, "sessionId is required")
        await self._shells.create(call.sandbox, session_id, call.record.shell)
        return empty_reply(201)

    async def _list_sessions(self, call: Call) -> Reply:
        return json_reply([session.described() for session in self._shells.all(call.sandbox)])

    async def _session(self, call: Call) -> Reply:
        return json_reply(self._shells.find(call.sandbox, call.parameters["session"]).described())

    async def _delete_session(self, call: Call) -> Reply:
        await self._shells.delete(call.sandbox, call.parameters["session"])
        return empty_reply(204)

    async def _session_execute(self, call: Call) -> Reply:
        body = await call.body()
        text = body.get("command")
        if not isinstance(text, str) or not text.strip():
            raise ToolboxError(400, "command is required", wordless=True)
        try:
            session = self._shells.find(call.sandbox, call.parameters["session"])
        except ToolboxError as error:  # the daemon wraps it, and its type is lost
            raise ToolboxError(500, f"failed to execute command: not found: {error.message}") from None
        is_async = bool(body.get("runAsync") or body.get("async"))
        command = session.add(text, is_async=is_async, echo=not body.get("suppressInputEcho"))
        document: dict[str, Any] = {"cmdId": command.command_id, "output": None, "stdout": None, "stderr": None}
        if is_async:
            return json_reply({**document, "exitCode": None}, 202)
        await session.finished(command)
        return json_reply({**document, **_shown(call.request, bytes(command.log)), "exitCode": command.exit_code})

    async def _session_command(self, call: Call) -> Reply:
        return json_reply(self._command(call).described())

    async def _session_input(self, call: Call) -> Reply:
        data = (await call.body()).get("data")
        if not isinstance(data, str) or not data:
            raise ToolboxError(400, "data is required")
        session = self._shells.find(call.sandbox, call.parameters["session"])
        await session.send(self._command(call), data)
        return empty_reply(204)

    async def _session_logs(self, call: Call) -> Reply:
        command = self._command(call)
        if call.request.headers.get("Upgrade", "").lower() != "websocket":
            shown = _shown(call.request, bytes(command.log))
            if "stdout" in shown:
                return json_reply(shown)
            return Reply(headers={"Content-Type": "text/plain; charset=utf-8"}, body=shown["output"].encode())
        socket = web.WebSocketResponse()
        await socket.prepare(call.request)
        async for frame in command.followed():
            await socket.send_bytes(frame)
        await socket.close(code=1000)
        return Upgraded(response=socket)

    def _command(self, call: Call) -> ShellCommand:
        commands = self._shells.find(call.sandbox, call.parameters["session"]).commands
        if call.parameters["command"] not in commands:
            raise ToolboxError(404, "command not found", code="PROCESS_NOT_FOUND")
        return commands[call.parameters["command"]]

    # --- terminals --------------------------------------------------------------------------------------------------

    async def _create_terminal(self, call: Call) -> Reply:
        terminal = self._terminals.create(call.sandbox, await call.body(), call.record.shell, _now())
        return json_reply({"sessionId": terminal.terminal_id}, 201)

    async def _create_and_connect_terminal(self, call: Call) -> Reply:
        query = call.request.query
        body = {
            "id": query.get("id"),
            "cols": query.get("cols"),
            "rows": query.get("rows"),
            "cwd": query.get("cwd"),
            "envs": _offered_variables(call.request),
        }
        return await self._connected(call, self._terminals.create(call.sandbox, body, call.record.shell, _now()))

    async def _list_terminals(self, call: Call) -> Reply:
        return json_reply({"sessions": [terminal.described() for terminal in self._terminals.all(call.sandbox)]})

    async def _terminal(self, call: Call) -> Reply:
        return json_reply(self._terminals.find(call.sandbox, call.parameters["pty"]).described())

    async def _delete_terminal(self, call: Call) -> Reply:
        await self._terminals.delete(call.sandbox, call.parameters["pty"])
        return json_reply({"message": "PTY session deleted"})

    async def _resize_terminal(self, call: Call) -> Reply:
        body, terminal = await call.body(), self._terminals.find(call.sandbox, call.parameters["pty"])
        size = (whole(body.get("cols"), "cols", 80), whole(body.get("rows"), "rows", 24))
        await self._terminals.resize(terminal, *size)
        return json_reply(terminal.described())

    async def _connect_terminal(self, call: Call) -> Reply:
        return await self._connected(call, self._terminals.find(call.sandbox, call.parameters["pty"]))

    async def _connected(self, call: Call, terminal: Terminal) -> Reply:
        return Upgraded(response=await self._terminals.serve(call.request, call.sandbox, terminal))

    # --- files ------------------------------------------------------------------------------------------------------

    async def _list_files(self, call: Call) -> Reply:
        path = call.path() if call.request.query.get("path") else call.sandbox.home
        depth = whole(call.request.query.get("depth"), "depth", 1)
        return json_reply(await _in_files(filesystem.listing, call.files, path, depth))

    async def _delete_file(self, call: Call) -> Reply:
        recursive = call.request.query.get("recursive") == "true"
        await _in_files(filesystem.delete, call.files, call.path(), recursive)
        return empty_reply(204)

    async def _file_info(self, call: Call) -> Reply:
        return json_reply(await _in_files(filesystem.describe, call.files, call.path()))

    async def _download(self, call: Call) -> Reply:
        path = call.path()
        info = await _in_files(filesystem.resolved, call.files, path)
        if info.kind is FileKind.DIRECTORY:
            raise ToolboxError(400, "path is a directory", wordless=True, code="INVALID_FILE_PATH")
        asked = call.request.headers.get("Range")
        first, count = _range(asked, info.size_bytes)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(count)}
        if asked is not None:
            headers["Content-Range"] = f"bytes {first}-{first + count - 1}/{info.size_bytes}"
        body = _part(call.files, path, first, count)
        return Reply(status=200 if asked is None else 206, headers=headers, body=body)

    async def _bulk_download(self, call: Call) -> Reply:
        paths = (await call.body()).get("paths")
        if not isinstance(paths, list) or not paths:
            return json_reply({"error": "request body must be {paths: [...]} and non-empty"}, 400)
        headers = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}
        return Reply(headers=headers, body=_parts(call, [str(path) for path in paths]))

    async def _upload(self, call: Call) -> Reply:
        path, reader = call.path(), await call.request.multipart()
        while (part := await reader.next()) is not None:
            if isinstance(part, BodyPartReader) and part.name == "file":
                await _store(call, path, part)
                return empty_reply(200)
        raise ToolboxError(400, "file is required", wordless=True)

    async def _bulk_upload(self, call: Call) -> Reply:
        reader = await call.request.multipart()
        stored: list[dict[str, Any]] = []
        errors: list[str] = []
        paths: dict[str, str] = {}
        while (part := await reader.next()) is not None:
            if not isinstance(part, BodyPartReader):
                continue
            index, _, kind = (part.name or "").partition("].")
            if kind == "path":
                paths[index] = await part.text()
            elif kind == "file":
                path = filesystem.absolute(paths.get(index), call.sandbox.home)
                try:
                    stored.append({"path": path, "bytes": await _store(call, path, part)})
                except ToolboxError as error:
                    errors.append(f"{path}: {error.message}")
                    await part.release()
        return json_reply({"errors": errors, "files": stored}, 400) if errors else json_reply({"files": stored})

    async def _make_folder(self, call: Call) -> Reply:
        mode = call.request.query.get("mode", "")
        await _in_files(filesystem.make_folder, call.sandbox.session, call.path(), mode)
        return empty_reply(201)

    async def _move(self, call: Call) -> Reply:
        await _in_files(filesystem.move, call.files, call.path("source"), call.path("destination"))
        return empty_reply(200)

    async def _set_permissions(self, call: Call) -> Reply:
        query = call.request.query
        wanted = (query.get("mode"), query.get("owner"), query.get("group"))
        await _in_files(filesystem.set_permissions, call.sandbox.session, call.path(), *wanted)
        return empty_reply(200)

    async def _replace(self, call: Call) -> Reply:
        body = await call.body()
        paths = [filesystem.absolute(str(path), call.sandbox.home) for path in body.get("files") or ()]
        pattern, value = str(body.get("pattern", "")), str(body.get("newValue", ""))
        return json_reply([await _in_files(filesystem.replace, call.files, path, pattern, value) for path in paths])

    async def _find_text(self, call: Call) -> Reply:
        pattern = call.request.query.get("pattern", "")
        return json_reply(await _in_files(filesystem.find_text, call.files, call.path(), pattern))

    async def _search(self, call: Call) -> Reply:
        pattern = call.request.query.get("pattern", "")
        return json_reply({"files": await _in_files(filesystem.search, call.files, call.path(), pattern)})


def _routed(method: Method) -> Handler:
    async def handle(request: web.Request, parameters: dict[str, str]) -> Reply:
        sandbox, record = request[_CONTEXT]
        return await method(Call(request, sandbox, record, parameters))

    return handle


def _git(work: repositories.GitCall, status: int = 200) -> Method:
    async def handle(call: Call) -> Reply:
        body = await call.body()
        done = await in_thread(work, call.sandbox.session, _at_home(body, call.sandbox.home))
        return empty_reply(status) if done is None else json_reply(done, status)

    return handle


def _git_query(work: repositories.GitCall) -> Method:
    async def handle(call: Call) -> Reply:
        query = _at_home(dict(call.request.query), call.sandbox.home)
        return json_reply(await in_thread(work, call.sandbox.session, query))

    return handle


def _at_home(source: dict[str, Any], home: str) -> dict[str, Any]:
    return {**source, "path": filesystem.absolute(source.get("path"), home)}


async def _in_files(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Return what `work` makes of the sandbox's files, in a thread; its failures are the daemon's."""
    try:
        return await in_thread(work, *arguments, **options)
    except SandboxException as error:
        raise filesystem.wrong(error) from None


def _shown(request: web.Request, log: bytes) -> dict[str, str]:
    """Return a session's log in the form that the client's version is used to."""
    version = _client_version(request)
    raw = log.decode("utf-8", "replace")
    if version is None:
        return {"output": raw if request.headers.get("X-Daytona-Split-Output") == "true" else merged(log)}
    if version < _RAW_SINCE:
        return {"output": merged(log)}
    if version < _SPLIT_SINCE:
        return {"output": raw}
    stdout, stderr = split(log)
    return {"output": raw, "stdout": stdout, "stderr": stderr}


def _client_version(request: web.Request) -> tuple[int, ...] | None:
    text = request.headers.get("X-Daytona-SDK-Version", "")
    if not text:
        return None
    if "dev" in text:
        return _SPLIT_SINCE
    return tuple(whole_number(part) or 0 for part in text.split("-")[0].split(".")[:3])


def _offered_variables(request: web.Request) -> dict[str, str]:
    """Return the variables that the newer client offers as a sub-protocol."""
    for offer in request.headers.get("Sec-WebSocket-Protocol", "").split(","):
        name, _, encoded = offer.strip().partition("~")
        if name == "X-Daytona-Pty-Envs" and encoded:
            padded = encoded + "=" * (-len(encoded) % 4)
            try:
                variables = parse_json(base64.urlsafe_b64decode(padded))
            except ValueError as error:
                raise ToolboxError(400, "the variables cannot be read") from error
            if not isinstance(variables, dict):
                raise ToolboxError(400, "the variables cannot be read")
            return variables
    return {}


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _range(header: str | None, size: int) -> tuple[int, int]:
    """Return first byte and length of what a Range header means; everything without one.

    Raises:
        ToolboxError: 416: nothing of the file.
    """
    if header is None:
        return 0, size
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", header)
    first, last = asked.groups() if asked else ("", "")
    start = int(first) if first else size - int(last or 0)
    start, end = max(0, start), min(size, int(last) + 1) if first and last else size
    if start >= end:
        raise ToolboxError(416, "invalid range", wordless=True)
    return start, end - start


async def _part(files: SandboxFiles, path: str, first: int, count: int) -> AsyncGenerator[bytes, None]:
    position, end = 0, first + count
    async for chunk in awaitable(files.read_chunks(path)):
        wanted = chunk[max(0, first - position) : max(0, end - position)]
        position += len(chunk)
        if wanted:
            yield wanted
        if position >= end:
            return


async def _parts(call: Call, paths: list[str]) -> AsyncGenerator[bytes, None]:
    """Yield a multipart answer: each file, or what is wrong with it."""
    for given in paths:
        path = filesystem.absolute(given, call.sandbox.home)
        try:
            info = await _in_files(filesystem.resolved, call.files, path)
            if info.kind is FileKind.DIRECTORY:
                raise ToolboxError(400, "path is a directory", code="INVALID_FILE_PATH")
        except ToolboxError as error:
            document = {"statusCode": error.status, "message": error.message, "code": error.code}
            yield _part_head("error", given, "application/json")
            yield json.dumps(document).encode() + b"\r\n"
            continue
        yield _part_head("file", given, f"application/octet-stream\r\nContent-Length: {info.size_bytes}")
        async for chunk in awaitable(call.files.read_chunks(path)):
            yield chunk
        yield b"\r\n"
    yield f"--{_BOUNDARY}--\r\n".encode()


def _part_head(name: str, path: str, content_type: str) -> bytes:
    disposition = f'form-data; name="{name}"; filename="{path}"; filename*=UTF-8\'\'{quote(path)}'
    return f"--{_BOUNDARY}\r\nContent-Disposition: {disposition}\r\nContent-Type: {content_type}\r\n\r\n".encode()


async def _store(call: Call, path: str, part: BodyPartReader) -> int:
    """Write what is uploaded to a file; return its length."""
    size = 0

    async def chunks() -> AsyncGenerator[bytes, None]:
        nonlocal size
        while chunk := await part.read_chunk(_UPLOAD_BYTES):
            size += len(chunk)
            yield chunk

    await _in_files(call.files.write_chunks, path, blocking(chunks(), asyncio.get_running_loop()))
    return size
