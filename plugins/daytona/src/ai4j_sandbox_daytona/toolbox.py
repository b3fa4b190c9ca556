"""The toolbox of one sandbox: the calls that run texts, move files and open terminals. Thread-safe.

Nothing that runs a command is ever sent twice. Texts that only ask may be (`Toolbox.ask`).
"""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    SandboxCapacityError,
    SandboxConnectionError,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxSessionLostError,
    SandboxTimeoutError,
)
from ai4j_sandbox_wire.base_url import BaseUrl, QueryValue
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.http import HttpClient, PendingReply
from ai4j_sandbox_wire.message import Body, HttpLimits, media_type

BACKSTOP_SECONDS = 10
"""How much longer than a command's own limit the service is told: its kill loses the output, ours does not."""

ASK_SECONDS = 15.0
"""How long a text that only asks may take, besides the time it waits."""

READ_CHUNK_SECONDS = 60.0
"""How long the next piece of a file may be awaited."""

_NO_LIMIT_SECONDS = 7 * 24 * 3600.0

Diagnose = Callable[[SandboxException], SandboxException]
"""Finds out why a call to a sandbox failed; returns the error to raise, its argument when nothing better is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What the service says about a text: its exit code (-1 when the shell itself failed) and all it wrote, merged."""

    exit_code: int | None
    output: str


class Execution:
    """A text that runs. `receive` is for one thread at a time, `close` for any."""

    def __init__(
        self, pending: PendingReply, explaining: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> None:
        self._pending = pending
        self._explaining = explaining

    def receive(self, timeout: float | None) -> Executed | None:
        """Return its end; ``None`` after `timeout` seconds without.

        Raises:
            SandboxTimeoutError: The service stopped it, or did not answer.
            SandboxException: As `HttpClient.call`; `outcome` tells whether it may have run.
        """
        with self._explaining():
            reply = self._pending.receive(timeout)
            return None if reply is None else _executed(reply.json())

    def close(self) -> None:
        """Stop waiting; the text runs on."""
        self._pending.close()


class Toolbox:
    """Calls the toolbox of one sandbox.

    Args:
        http: Client whose base address is the sandbox's own (``<proxy>/<id>``).
        transport: What it sends with; closed with the toolbox.
        diagnose: Asked when a failure may mean that the sandbox is gone, stopped or paused.
    """

    def __init__(self, http: HttpClient, transport: DirectTransport, diagnose: Diagnose) -> None:
        self._http = http
        self._transport = transport
        self._diagnose = diagnose

    @property
    def address(self) -> BaseUrl:
        """Where it is."""
        return self._http.base_url

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    # --- texts --------------------------------------------------------------------------------------------------

    def begin(self, text: str, *, environment: Mapping[str, str], seconds: float | None, body_bytes: int) -> Execution:
        """Run a text, once, and return at once.

        Args:
            seconds: The limit that the text itself keeps; ``None`` for none.
            body_bytes: How long the answer may be.

        Raises:
            SandboxException: It could not be sent; `outcome` tells whether it may run.
        """
        body: dict[str, Any] = {"command": text}
        if environment:
            body["envs"] = dict(environment)
        if seconds is not None:
            body["timeout"] = math.ceil(seconds) + BACKSTOP_SECONDS
        patience = None if seconds is None else math.ceil(seconds) + 2 * BACKSTOP_SECONDS
        limits = HttpLimits(
            connect_seconds=self._http.limits.connect_seconds,
            read_seconds=patience or _NO_LIMIT_SECONDS,
            call_seconds=patience,
            body_bytes=body_bytes,
        )
        with self._explaining():
            pending = self._http.begin(
                "POST", "/process/execute", json=body, limits=limits, deadline=Deadline(patience), operation="execute"
            )
        return Execution(pending, self._explaining)

    def ask(self, text: str, *, wait_seconds: float = 0.0, seconds: float = ASK_SECONDS, repeat: bool = True) -> str:
        """Run a small text of ours and return what it wrote.

        Args:
            wait_seconds: How long it waits on purpose.
            repeat: Whether it may run twice.

        Raises:
            SandboxException: As `HttpClient.call`.
        """
        body = {"command": text, "timeout": math.ceil(wait_seconds + seconds)}
        deadline = Deadline(wait_seconds + seconds)
        with self._explaining():
            reply = self._http.json(
                "POST", "/process/execute", json=body, deadline=deadline, idempotent=repeat, operation="execute"
            )
            return _executed(reply).output

    # --- files --------------------------------------------------------------------------------------------------

    def read_file(self, path: str, first: int | None = None, count: int | None = None) -> Generator[bytes, None, None]:
        """Yield a file's content, or `count` bytes of it from byte `first` on, as it arrives.

        Raises:
            SandboxNotFoundError, SandboxFileError: There is no such file, or it cannot be read.
        """
        headers = {"Accept": "application/octet-stream"}
        if first is not None and count is not None:
            headers["Range"] = f"bytes={first}-{first + count - 1}"
        with self._explaining():
            response = self._http.stream(
                "GET", "/files/download", query={"path": path}, headers=headers, operation="read"
            )
            with response:
                # A file may well be HTML; but the daemon never says so, and sign-in pages always do.
                if media_type(response.headers) == "text/html" and "content-disposition" not in response.headers:
                    raise SandboxProtocolError(
                        f"a file was expected, but the answer (status {response.status}) is an HTML page",
                        hint="check the service's URL; a proxy or a sign-in page may have answered",
                        http_status=response.status,
                    )
                yield from response.pieces(Deadline(None), READ_CHUNK_SECONDS)

    def write_file(self, path: str, chunks: Iterable[bytes]) -> None:
        """Create or overwrite a file, with its parent directories, in one stream.

        Raises:
            SandboxFileError: It cannot be written.
        """
        boundary = uuid.uuid4().hex
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        with self._explaining():
            answer = self._http.json(
                "POST",
                "/files/bulk-upload",
                body=_multipart(boundary, path, chunks),
                headers=headers,
                deadline=Deadline(None),
                expect=Body.OBJECT,
                operation="write",
            )
        if answer.get("errors"):
            raise SandboxFileError(f"{path!r} could not be written: {str(answer['errors'])[:200]}", path=path)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, QueryValue] | None = None,
        json: object = None,
        expect: Body = Body.ACKNOWLEDGEMENT,
        deadline: Deadline | None = None,
    ) -> Any:
        """Make any other call of the toolbox and return its answer.

        Raises:
            SandboxProtocolError: The answer is something else than `expect`.
            SandboxException: As `HttpClient.call`.
        """
        with self._explaining():
            return self._http.json(
                method, path, query=query, json=json, expect=expect, deadline=deadline, operation=path.split("/")[1]
            )

    def headers(self) -> Mapping[str, str]:
        """Return what a call carries, for a connection that is not HTTP."""
        return self._http.request("GET", "/").headers

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn what only a sandbox that is gone or at rest answers into the error that says so."""
        try:
            yield
        except SandboxException as error:
            reason = self._diagnose(error) if _may_be_gone(error) else error
            if reason is error:
                raise
            raise reason from None


def _may_be_gone(error: SandboxException) -> bool:
    kinds = (
        SandboxCapacityError,
        SandboxConnectionError,
        SandboxNotFoundError,
        SandboxSessionLostError,
        SandboxTimeoutError,
    )
    return error.http_status != 408 and (isinstance(error, kinds) or (error.http_status or 0) >= 500)


def _executed(document: Any) -> Executed:
    if not isinstance(document, dict):
        raise SandboxProtocolError(f"an object was expected from the toolbox, got {type(document).__name__}")
    code = document.get("exitCode")
    output = next((document[name] for name in ("result", "output", "stdout") if document.get(name) is not None), "")
    if not isinstance(code, int | None) or isinstance(code, bool) or not isinstance(output, str):
        raise SandboxProtocolError("the toolbox answered something else than an exit code and a text")
    return Executed(exit_code=code, output=output)


def _multipart(boundary: str, path: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the body of an upload; the daemon needs the path before the content."""
    yield f'--{boundary}\r\nContent-Disposition: form-data; name="files[0].path"\r\n\r\n'.encode()
    yield path.encode("utf-8", "surrogateescape")
    yield (
        f'\r\n--{boundary}\r\nContent-Disposition: form-data; name="files[0].file"; filename="content"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    yield from chunks
    yield f"\r\n--{boundary}--\r\n".encode()
