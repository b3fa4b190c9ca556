"""The plain HTTP routes of envd: ``/files`` for whole files, and ``/files/compose``."""

from __future__ import annotations

import asyncio
import mimetypes
import posixpath
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from itertools import chain
from typing import Literal, TypeVar
from urllib.parse import quote

from aiohttp import BodyPartReader, MultipartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.files import CHUNK_BYTES, FileInfo, FileKind, SandboxFiles
from ai4j_sandbox_emulator.bridge import awaitable, blocking
from ai4j_sandbox_emulator.json_text import parse_json
from ai4j_sandbox_emulator.reply import Gone, Reply, json_reply
from ai4j_sandbox_emulator.sandbox import Sandbox
from ai4j_sandbox_emulator.watching import Change, ChangeEvent

from .accounts import Account, Accounts, PathError, UnknownUserError, resolve
from .codec import Document, encode_json
from .connect import HTTP_STATUS, ConnectError
from .entries import describe, find, look, missing_parents
from .filesystem import changing
from .messages import ENTRY
from .signature import Operation, SignatureError, check_access

T = TypeVar("T")

_UNREADABLE = (ValueError, AssertionError, HttpProcessingError, web.RequestPayloadError)
"""What aiohttp's readers complain with about a body."""

METADATA_PREFIX = "x-metadata-"
_KEY_LIMIT = 246
_METADATA_LIMIT = 4096


class TransferError(Exception):
    """The request fails with an HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    def reply(self) -> Reply:
        """Return it as envd writes it."""
        return json_reply({"code": self.status, "message": self.message}, self.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A request to ``/files`` that was let in."""

    request: web.Request
    sandbox: Sandbox
    account: Account

    def path(self, given: str) -> str:
        """Return the absolute path that the client means.

        Raises:
            TransferError: It cannot be meant.
        """
        try:
            return resolve(given, self.account)
        except PathError as error:
            raise TransferError(400, str(error)) from error


def admitted(request: web.Request, sandbox: Sandbox, accounts: Accounts, operation: Operation, now: float) -> Transfer:
    """Return the request if it may touch the file.

    Raises:
        TransferError: 401, and why.
    """
    try:
        check_access(sandbox.request.access_token, operation, request.headers, request.query, now)
        return Transfer(request=request, sandbox=sandbox, account=accounts.find(request.query.get("username")))
    except (SignatureError, UnknownUserError) as error:
        raise TransferError(401, str(error)) from error


# --- download -----------------------------------------------------------------------------------------------------


async def download(transfer: Transfer) -> Reply:
    """Return a file, or the part of it that was asked for.

    Raises:
        TransferError: There is no such file, or it is none.
    """
    request = transfer.request
    path = transfer.path(request.query.get("path", ""))
    entry = await in_thread(_found, transfer.sandbox.session.files, path)
    headers = _file_headers(entry)
    if _unchanged(entry, request.headers):
        return Reply(status=304, headers=headers)
    chunks = await in_thread(_begun, transfer.sandbox.session.files.read_chunks(entry.path))
    if _accepts_gzip(request.headers):
        return Reply(headers={**headers, "Content-Encoding": "gzip"}, body=_streamed(gzipped(chunks)))
    span = byte_range(request.headers.get("Range"), entry.size_bytes)
    if span is None:
        return Reply(headers={**headers, "Accept-Ranges": "bytes"}, body=_streamed(chunks))
    if span == "unsatisfiable":
        return Reply(status=416, headers={"Content-Range": f"bytes */{entry.size_bytes}"})
    first, last = span
    headers |= {"Content-Range": f"bytes {first}-{last}/{entry.size_bytes}"}
    return Reply(status=206, headers=headers, body=_streamed(part_of(chunks, first, last)))


def _found(files: SandboxFiles, path: str) -> FileInfo:
    entry = find(files, path)
    if entry is None:
        raise TransferError(404, f"path '{path}' does not exist")
    if entry.kind is FileKind.DIRECTORY:
        raise TransferError(400, f"path '{path}' is a directory")
    return entry


def _begun(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Return the chunks with the first already read: what cannot be read at all is still an error with a status."""
    return chain([first] if (first := next(chunks, b"")) else [], chunks)


def _file_headers(entry: FileInfo) -> dict[str, str]:
    return {
        "Content-Type": mimetypes.guess_type(entry.name)[0] or "application/octet-stream",
        "Content-Disposition": f"inline; filename*=utf-8''{quote(entry.name, safe='')}",
        "Last-Modified": formatdate((entry.modified_at_epoch_ms or 0) / 1000, usegmt=True),
        "Vary": "Accept-Encoding",
    }


def _unchanged(entry: FileInfo, headers: Mapping[str, str]) -> bool:
    try:
        since = parsedate_to_datetime(headers["If-Modified-Since"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return False
    return (entry.modified_at_epoch_ms or 0) // 1000 <= since


def _accepts_gzip(headers: Mapping[str, str]) -> bool:
    """Whether gzip is accepted; a range is always answered as it is."""
    offered = (part.partition(";")[0].strip() for part in headers.get("Accept-Encoding", "").split(","))
    return "Range" not in headers and "gzip" in offered


def byte_range(header: str | None, size: int) -> tuple[int, int] | Literal["unsatisfiable"] | None:
    """Return the first and last byte that a ``Range`` header asks for; ``None`` for the whole file."""
    found = re.fullmatch(r"bytes=([0-9]{0,18})-([0-9]{0,18})", header or "")
    if found is None or found[0] == "bytes=-":
        return None
    if not found[1]:
        length = min(int(found[2]), size)
        return (size - length, size - 1) if length else "unsatisfiable"
    first = int(found[1])
    last = min(int(found[2] or size), size - 1)
    return (first, last) if first <= last else "unsatisfiable"


def part_of(chunks: Iterable[bytes], first: int, last: int) -> Iterator[bytes]:
    """Yield the bytes from `first` to `last`."""
    position = 0
    for chunk in chunks:
        piece = chunk[max(0, first - position) : max(0, last + 1 - position)]
        position += len(chunk)
        if piece:
            yield piece
        if position > last:
            return


def gzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks compressed."""
    compressor = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    for chunk in chunks:
        if piece := compressor.compress(chunk):
            yield piece
    yield compressor.flush()


async def _streamed(chunks: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in awaitable(chunks):
            yield chunk
    except SandboxException as error:
        raise Gone from error  # too late for a status: a body that stops short is all that can be said


# --- upload -------------------------------------------------------------------------------------------------------


async def upload(transfer: Transfer) -> Reply:
    """Write the files in the request and return what was written.

    Raises:
        TransferError: It cannot be written.
    """
    metadata = file_metadata(transfer.request.headers)
    content_type = transfer.request.content_type
    encoding = transfer.request.headers.get("Content-Encoding", "identity")
    if encoding not in ("identity", "gzip"):
        raise TransferError(400, f"unsupported Content-Encoding: {encoding}")
    if content_type == "multipart/form-data":
        written = await _upload_parts(transfer, metadata)
    elif content_type == "application/octet-stream":
        given = transfer.request.query.get("path")
        if not given:
            raise TransferError(400, "path is required for octet-stream uploads")
        body = _readable(transfer.request.content.iter_chunked(CHUNK_BYTES))
        written = [await _write(transfer, transfer.path(given), body, metadata)]
    else:
        raise TransferError(400, f"unsupported content type: {content_type}")
    # No content type of its own: the real server's is guessed from the content, and comes out as text.
    return Reply(headers={"Content-Type": "text/plain; charset=utf-8"}, body=json_reply(written).body)


async def _upload_parts(transfer: Transfer, metadata: dict[str, str]) -> list[Document]:
    written: list[Document] = []
    async for part in _parts(transfer.request):
        if not isinstance(part, BodyPartReader) or part.name != "file":
            continue
        path = transfer.path(transfer.request.query.get("path") or part.filename or "")
        if any(path == earlier["path"] for earlier in written):
            raise TransferError(
                400, f"you cannot upload multiple files to the same path '{path}' in one upload request"
            )
        written.append(await _write(transfer, path, _readable(_part_chunks(part)), metadata))
    return written


def _parts(request: web.Request) -> AsyncIterator[MultipartReader | BodyPartReader]:
    async def parts() -> AsyncIterator[MultipartReader | BodyPartReader]:
        async for part in await request.multipart():
            if part is not None:
                yield part

    return _readable(parts())


async def _readable(body: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield what a body consists of; what cannot be read is the client's mistake.

    Raises:
        TransferError: 400: it is not what its headers say.
    """
    while True:
        try:
            piece = await anext(body)
        except StopAsyncIteration:
            return
        except _UNREADABLE as error:
            raise TransferError(400, f"error parsing the body: {error}") from error
        yield piece


async def _part_chunks(part: BodyPartReader) -> AsyncIterator[bytes]:
    while chunk := await part.read_chunk(CHUNK_BYTES):
        yield chunk


async def _write(transfer: Transfer, path: str, body: AsyncIterator[bytes], metadata: dict[str, str]) -> Document:
    sandbox = transfer.sandbox
    files = sandbox.session.files
    before = await in_thread(look, files, path)
    if before is not None and before.kind is FileKind.DIRECTORY:
        raise TransferError(400, f"path is a directory: {path}")
    parents = await in_thread(missing_parents, files, path)
    loop = asyncio.get_running_loop()
    first = await anext(body, b"")
    events = list(upload_events(path, parents, existed=before is not None, empty=not first))
    chunks = chain([first] if first else [], blocking(body, loop))
    try:
        await changing(sandbox, lambda files: files.write_chunks(path, chunks), events)
    except ConnectError as error:
        status = 507 if "No space left" in error.message else HTTP_STATUS[error.code]
        raise TransferError(status, error.message) from error
    sandbox.file_metadata.pop(path, None)
    if metadata:
        sandbox.file_metadata[path] = metadata
    written = {"name": posixpath.basename(path), "path": path, "type": "file"}
    return {**written, "metadata": metadata} if metadata else written


def upload_events(path: str, parents: list[str], *, existed: bool, empty: bool) -> Iterator[ChangeEvent]:
    """Yield what the kernel reports of an upload: made or truncated, given to the user, then written."""
    for parent in parents:
        yield from (ChangeEvent(parent, Change.CREATE), ChangeEvent(parent, Change.CHMOD))
    yield ChangeEvent(path, Change.WRITE if existed else Change.CREATE)
    yield ChangeEvent(path, Change.CHMOD)
    if not empty:
        yield ChangeEvent(path, Change.WRITE)


def file_metadata(headers: Mapping[str, str]) -> dict[str, str]:
    """Return what ``X-Metadata-…`` headers attach to a file.

    Raises:
        TransferError: It is too long, or not printable ASCII.
    """
    given = {
        name.lower().removeprefix(METADATA_PREFIX): value
        for name, value in headers.items()
        if name.lower().startswith(METADATA_PREFIX)
    }
    for key, value in given.items():
        if not key or len(key) > _KEY_LIMIT:
            raise TransferError(400, f"invalid metadata key '{key[:32]}'")
        if not value.isascii() or not value.isprintable():
            raise TransferError(400, f"metadata value of '{key}' must be printable ASCII")
    if sum(len(key) + len(value) for key, value in given.items()) > _METADATA_LIMIT:
        raise TransferError(400, f"metadata exceeds {_METADATA_LIMIT} bytes")
    return given


# --- compose ------------------------------------------------------------------------------------------------------


async def compose(transfer: Transfer) -> Reply:
    """Join files into one, delete them, and describe the result.

    Raises:
        TransferError: A source is missing, or the request makes no sense.
    """
    try:
        document = parse_json(await transfer.request.read())
    except ValueError as error:
        raise TransferError(400, f"error parsing request: {error}") from error
    given = document if isinstance(document, dict) else {}
    source_paths, target = given.get("source_paths"), given.get("destination")
    if not isinstance(source_paths, list) or not all(isinstance(path, str) for path in [*source_paths, target]):
        raise TransferError(400, "source_paths and destination are required")
    sources, destination = [transfer.path(path) for path in source_paths], transfer.path(str(target))
    try:
        entry = await in_thread(_compose, transfer.sandbox.session.files, sources, destination)
    except SandboxException as error:
        raise TransferError(500, error.message) from error
    return Reply(headers={"Content-Type": "application/json"}, body=encode_json(ENTRY, entry))


def _compose(files: SandboxFiles, sources: list[str], destination: str) -> Document:
    for source in sources:
        if look(files, source) is None:
            raise TransferError(404, f"source file not found: {source}")
    files.write_chunks(destination, chain.from_iterable(files.read_chunks(source) for source in sources))
    for source in sources:
        if source != destination:
            files.remove(source)
    return describe(files, files.stat(destination), {})
