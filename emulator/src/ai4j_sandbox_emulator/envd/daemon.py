"""envd as a whole: a request that was routed to a sandbox's port 49983 gets its answer here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from aiohttp import web

from ai4j_sandbox.deadline import Clock
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox_emulator.envelope import EnvelopeError, EnvelopeReader
from ai4j_sandbox_emulator.reply import Reply, empty_reply, json_reply, text_reply
from ai4j_sandbox_emulator.sandbox import Sandbox
from ai4j_sandbox_emulator.secret_text import same_secret

from .accounts import Accounts
from .call import Call, ClientStream, Method, ServerStream, Unary
from .codec import Document
from .connect import (
    Code,
    ConnectError,
    Format,
    accepted_types,
    as_connect_error,
    check_protocol_headers,
    request_format,
    stream_error,
    unary_error,
    unary_reply,
)
from .filesystem import FilesystemService
from .processes import ProcessService
from .transfers import Transfer, TransferError, admitted, compose, download, upload

PORT = 49983
VERSION = "0.6.13"

Handler = Callable[[web.Request, Sandbox], Awaitable[Reply]]


class EnvdDaemon:
    """Answers for the daemons of all sandboxes.

    Args:
        accounts: The users inside.
        clock: Seconds since 1970, for the expiry of signed URLs.
    """

    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock
        self._methods: dict[str, Method] = {
            **{f"/process.Process/{name}": method for name, method in ProcessService().methods().items()},
            **{f"/filesystem.Filesystem/{name}": method for name, method in FilesystemService().methods().items()},
        }
        self._routes: dict[tuple[str, str], Handler] = {
            ("GET", "/health"): self._health,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/envs"): self._envs,
            ("GET", "/files"): self._download,
            ("POST", "/files"): self._upload,
            ("POST", "/files/compose"): self._compose,
        }

    async def handle(self, request: web.Request, sandbox: Sandbox) -> Reply:
        """Answer one request."""
        method = self._methods.get(request.path)
        route = self._routes.get((request.method, request.path))
        # Health is for everybody, and files check signatures themselves.
        if request.path not in ("/health", "/files") and not _has_token(request, sandbox):
            return _unauthorized()
        if method is not None:
            return await self._call(request, sandbox, method)
        if route is None:
            known = any(path == request.path for _, path in self._routes)
            return empty_reply(405) if known else text_reply("404 page not found\n", 404)
        try:
            return await route(request, sandbox)
        except TransferError as error:
            return error.reply()
        except SandboxException as error:
            return json_reply({"code": 500, "message": error.message}, 500)

    # --- remote procedure calls -----------------------------------------------------------------------------------

    async def _call(self, request: web.Request, sandbox: Sandbox, method: Method) -> Reply:
        if request.method != "POST":
            return Reply(status=405, headers={"Allow": "POST"})
        streaming = not isinstance(method, Unary)
        form = request_format(request.headers, streaming=streaming)
        if form is None:
            return Reply(status=415, headers={"Accept-Post": accepted_types(streaming=streaming)})
        try:
            check_protocol_headers(request.headers)
            return await self._answered(request, sandbox, method, form)
        except (ConnectError, SandboxException) as error:
            failure = as_connect_error(error)
        except web.RequestPayloadError:
            failure = ConnectError(Code.INVALID_ARGUMENT, "read message: it is not compressed as its header says")
        return stream_error(form, failure) if streaming else unary_error(failure)

    async def _answered(self, request: web.Request, sandbox: Sandbox, method: Method, form: Format) -> Reply:
        def call(document: Document) -> Call:
            account = self._accounts.of_request(request.headers)
            return Call(sandbox=sandbox, account=account, headers=request.headers, document=document)

        if isinstance(method, Unary):
            document = form.decode(method.request, await request.read())
            return unary_reply(form, method.response, await method.method(call(document)))
        headers = {"Content-Type": form.content_type}
        if form.gzip:
            headers["Connect-Content-Encoding"] = "gzip"
        if isinstance(method, ServerStream):
            document = form.decode(method.request, await _only_message(request))
            return Reply(headers=headers, body=_stream(method, call(document), form))
        return Reply(headers=headers, body=await _consumed(request, method, call, form))

    # --- plain routes ---------------------------------------------------------------------------------------------

    async def _health(self, request: web.Request, sandbox: Sandbox) -> Reply:
        return empty_reply(204)

    async def _metrics(self, request: web.Request, sandbox: Sandbox) -> Reply:
        sample = await sandbox.measure()
        mebibyte = 1024 * 1024
        return json_reply(
            {
                "ts": int(sample.taken_at),
                "cpu_count": sample.cpu_count,
                "cpu_used_pct": sample.cpu_used_percent,
                "mem_total": sample.memory_total,
                "mem_used": sample.memory_used,
                "mem_cache": sample.memory_cache,
                "mem_total_mib": sample.memory_total // mebibyte,
                "mem_used_mib": sample.memory_used // mebibyte,
                "disk_used": sample.disk_used,
                "disk_total": sample.disk_total,
            }
        )

    async def _envs(self, request: web.Request, sandbox: Sandbox) -> Reply:
        return json_reply(dict(sandbox.request.environment))

    async def _download(self, request: web.Request, sandbox: Sandbox) -> Reply:
        return await download(admitted(request, sandbox, self._accounts, "read", self._clock()))

    async def _upload(self, request: web.Request, sandbox: Sandbox) -> Reply:
        return await upload(admitted(request, sandbox, self._accounts, "write", self._clock()))

    async def _compose(self, request: web.Request, sandbox: Sandbox) -> Reply:
        return await compose(Transfer(request=request, sandbox=sandbox, account=self._accounts.find(None)))


def _has_token(request: web.Request, sandbox: Sandbox) -> bool:
    token = sandbox.request.access_token
    given = request.headers.get("X-Access-Token", "")
    return token is None or same_secret(given, token)


def _unauthorized() -> Reply:
    message = "unauthorized access, please provide a valid access token or method signing if supported"
    return json_reply({"code": 401, "message": message}, 401)


# --- streams --------------------------------------------------------------------------------------------------------


async def _messages(request: web.Request) -> AsyncIterator[bytes]:
    """Yield the messages of a stream of requests as they arrive.

    Raises:
        ConnectError: The body is no sequence of envelopes.
    """
    reader = EnvelopeReader()
    try:
        async for data in request.content.iter_any():
            for envelope in reader.feed(data):
                yield envelope.content()
        reader.finish()
    except EnvelopeError as error:
        raise ConnectError(Code.INVALID_ARGUMENT, f"protocol error: {error}") from error


async def _only_message(request: web.Request) -> bytes:
    messages = [message async for message in _messages(request)]
    if len(messages) != 1:
        raise ConnectError(Code.UNIMPLEMENTED, f"unary request has {len(messages)} messages")
    return messages[0]


async def _stream(method: ServerStream, call: Call, form: Format) -> AsyncGenerator[bytes, None]:
    """Yield the frames of a stream; its last tells how it ended."""
    failure: ConnectError | None = None
    try:
        async with aclosing(method.method(call)) as batches:
            async for batch in batches:
                yield b"".join(form.frame(method.response, document) for document in batch)
    except (ConnectError, SandboxException) as error:
        failure = as_connect_error(error)
    yield form.end_frame(failure)


async def _consumed(
    request: web.Request, method: ClientStream, call: Callable[[Document], Call], form: Format
) -> bytes:
    """Return the frames that answer a stream of requests, once it is over."""
    state: object = None
    async for message in _messages(request):
        state = await method.method(call(form.decode(method.request, message)), state)
    return form.frame(method.response, {}) + form.end_frame()
