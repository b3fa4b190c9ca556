"""Our own way to send a request: a pooled socket, a sans-io reader, one wall-clock deadline. For the data plane.

It costs a fraction of what a general client costs per call, and it can do what those cannot: wait for a stream with
a limit that does not break it, and be woken from another thread.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    SandboxException,
    SandboxOutputLimitError,
    SandboxProtocolError,
    SandboxTimeoutError,
)

from .connection import Connection, ConnectionPool, Dialer
from .errors import StreamCutError
from .http1 import ResponseHead, ResponseReader, encode_chunk, encode_request_head
from .message import HttpReply, HttpRequest

_FEW_PIECES = 16  # of one read: so few are large, and cheaper to hand on one by one than to copy together


class StreamingResponse:
    """An answer whose body is taken as it arrives.

    `receive` is called by one thread at a time; `close` may be called from any thread and wakes it. Taken to its end
    or closed, it gives the connection back or drops it.
    """

    def __init__(
        self,
        connection: Connection,
        reader: ResponseReader,
        head: ResponseHead,
        pool: ConnectionPool,
        ready: list[bytes],
    ) -> None:
        self.status = head.status
        self.headers: Mapping[str, str] = head.headers
        self._connection = connection
        self._reader = reader
        self._pool = pool
        self._ready = ready
        self._keep_alive = head.keep_alive
        self._message_over = False
        self._using = threading.Lock()
        self._closed = False
        self._released = False

    def receive(self, timeout: float | None) -> bytes | None:
        """Return the next bytes of the body; ``b""`` at its clean end; ``None`` after `timeout` seconds without any.

        Raises:
            StreamCutError: The connection ended before the body did, or `close` was called meanwhile.
            SandboxProtocolError: What arrived is not HTTP.
        """
        with self._using:
            try:
                return self._receive(timeout)
            except SandboxException:
                self._release()
                raise

    def read(self, limit: int, deadline: Deadline, read_seconds: float) -> bytes:
        """Return the whole body, and close.

        Raises:
            SandboxOutputLimitError: It is longer than `limit`.
            SandboxTimeoutError: It did not arrive in time.
            StreamCutError, SandboxProtocolError: As `receive`.
        """
        with self:
            parts: list[bytes] = []
            total = 0
            for piece in self.pieces(deadline, read_seconds):
                total += len(piece)
                if total > limit:
                    raise SandboxOutputLimitError(f"the answer is longer than {limit} bytes", http_status=self.status)
                parts.append(piece)
            return _decoded(b"".join(parts), self.headers.get("content-encoding", "identity"), limit)

    def pieces(self, deadline: Deadline, read_seconds: float) -> Iterator[bytes]:
        """Yield the body as it arrives.

        Raises:
            SandboxTimeoutError: Nothing came for `read_seconds`, or the deadline passed.
            StreamCutError, SandboxProtocolError: As `receive`.
        """
        while (piece := self.receive(deadline.bound(read_seconds))) != b"":
            if piece is None or deadline.expired:
                raise SandboxTimeoutError("the answer began but did not end in time", http_status=self.status)
            yield piece

    def finish(self) -> None:
        """Let go of an answer whose message is over, though the last bytes of its body may still be under way.

        The connection is kept: whoever takes it next looks whether the rest has come by then.
        """
        self._message_over = True
        self.close()

    def close(self) -> None:
        """Let go of the answer; one that is not whole costs its connection. Idempotent, prompt, from any thread."""
        self._closed = True
        if not self._using.acquire(blocking=False):
            self._connection.wake()
            self._using.acquire()  # whoever receives leaves at once, and only then may the socket be closed
        try:
            self._release()
        finally:
            self._using.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _receive(self, timeout: float | None) -> bytes | None:
        deadline: Deadline | None = None
        while not self._ready:
            if self._reader.complete:
                self._release()
                return b""
            if self._closed:
                raise StreamCutError("the answer was closed here before its end")
            deadline = deadline or Deadline(timeout)
            data = self._connection.receive(deadline.remaining())
            if data is None:
                return None
            if data:
                self._ready = self._reader.feed(data)
            else:
                self._reader.end()
        if len(self._ready) <= _FEW_PIECES:
            return self._ready.pop(0)
        ready, self._ready = self._ready, []
        return b"".join(ready)

    def _release(self) -> None:
        if self._released:
            return
        self._released = True
        if self._reader.reusable or (self._message_over and self._keep_alive):
            self._pool.give_back(self._connection)
        else:
            self._connection.close()


class PendingResponse:
    """A request that was sent and whose answer has not begun.

    `receive` is called by one thread at a time; `close` may be called from any thread and wakes it.
    """

    def __init__(self, connection: Connection, reader: ResponseReader, pool: ConnectionPool) -> None:
        self._connection = connection
        self._reader = reader
        self._pool = pool
        self._receiving = threading.Lock()
        self._closed = False

    def receive(self, timeout: float | None) -> StreamingResponse | None:
        """Return the answer once it has begun, whatever its status; ``None`` after `timeout` seconds without.

        Not called again after it returned an answer.

        Raises:
            StreamCutError: The connection broke, or `close` was called meanwhile.
            SandboxProtocolError: The answer is not HTTP.
        """
        deadline = Deadline(timeout)
        with self._receiving:
            try:
                while (pieces := self._pieces(deadline)) is not None:
                    if self._reader.head is not None:
                        return StreamingResponse(self._connection, self._reader, self._reader.head, self._pool, pieces)
                return None
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Give up waiting. Idempotent; not for an answer that has begun."""
        self._closed = True
        if self._receiving.acquire(blocking=False):
            try:
                self._connection.close()
            finally:
                self._receiving.release()
        else:
            self._connection.wake()

    def _pieces(self, deadline: Deadline) -> list[bytes] | None:
        if self._closed:
            raise StreamCutError("the answer was given up here before it began")
        data = self._connection.receive(deadline.remaining())
        if data is None:
            return None
        if not data:
            self._reader.end()
        return self._reader.feed(data)


class DirectTransport:
    """Sends requests over pooled sockets. Thread-safe and fork-safe; `close` when done."""

    def __init__(self, dialer: Dialer | None = None, pool: ConnectionPool | None = None) -> None:
        self._pool = pool or ConnectionPool((dialer or Dialer()).connect)

    def send(self, request: HttpRequest, deadline: Deadline) -> HttpReply:
        """Send a request, once, and return the whole answer, whatever its status (a `message.Send`).

        Raises:
            SandboxConnectionError, SandboxTimeoutError, SandboxProtocolError: As `open`.
            SandboxOutputLimitError: The answer is longer than ``request.limits.body_bytes``.
        """
        response = self.open(request, deadline)
        body = response.read(request.limits.body_bytes, deadline, request.limits.read_seconds)
        return HttpReply(status=response.status, headers=response.headers, body=body)

    def open(self, request: HttpRequest, deadline: Deadline) -> StreamingResponse:
        """Send a request, once, and return its answer as a stream, whatever its status.

        Raises:
            SandboxConnectionError: No connection (``outcome`` not started), or it broke (unknown).
            SandboxTimeoutError: No connection, or no answer, in time.
            SandboxProtocolError: The answer is not HTTP.
        """
        pending = self.begin(request, deadline)
        response = pending.receive(deadline.bound(request.limits.read_seconds))
        if response is None:
            pending.close()
            raise SandboxTimeoutError(f"{request.place} was sent and not answered in time")
        return response

    def begin(self, request: HttpRequest, deadline: Deadline) -> PendingResponse:
        """Send a request, once, and return at once, for an answer that may take long to begin.

        Raises:
            SandboxConnectionError, SandboxTimeoutError: As `open`.
        """
        connection = self._pool.take(request.origin, Deadline(deadline.bound(request.limits.connect_seconds)))
        reader = connection.reader = ResponseReader(request.method)
        try:
            self._send(connection, reader, request, deadline)
        except BaseException:
            connection.close()
            raise
        return PendingResponse(connection, reader, self._pool)

    def close(self) -> None:
        """Close the idle connections; those in use close when their answers end."""
        self._pool.close()

    def drop_idle(self) -> None:
        """Close the idle connections, for a machine that was paused or put back and no longer knows them."""
        self._pool.drop_idle()

    def _send(self, connection: Connection, reader: ResponseReader, request: HttpRequest, deadline: Deadline) -> None:
        headers = {"Host": request.origin.authority, "Accept-Encoding": "identity", **request.headers}
        body = request.body
        patience = request.limits.read_seconds
        try:
            if body is None or isinstance(body, bytes):
                if body is not None or request.method in ("POST", "PUT", "PATCH"):
                    headers["Content-Length"] = str(len(body or b""))
                head = encode_request_head(request.method, request.target, headers)
                connection.send(head + (body or b""), deadline, patience)
            else:
                headers["Transfer-Encoding"] = "chunked"
                head = encode_request_head(request.method, request.target, headers)
                connection.send(head, deadline, patience)
                _send_chunks(connection, body, deadline, patience)
        except StreamCutError:
            # A service that refuses a body may answer and close before it has read all; the answer is what counts.
            if not connection.answers_already():
                raise
            reader.spoiled = True


def _send_chunks(connection: Connection, chunks: Iterable[bytes], deadline: Deadline, patience: float) -> None:
    for chunk in chunks:
        if connection.answers_already():
            raise StreamCutError("the service answered before it had the whole request")
        if chunk:
            connection.send(encode_chunk(chunk), deadline, patience)
    connection.send(encode_chunk(b""), deadline, patience)


def _decoded(body: bytes, coding: str, limit: int) -> bytes:
    """Undo a compression that was not asked for but came all the same."""
    if coding.lower() in ("", "identity"):
        return body
    if coding.lower() not in ("gzip", "x-gzip"):
        raise SandboxProtocolError(f"the answer is encoded as {coding[:40]!r}, which was not asked for")
    decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        plain = decoder.decompress(body, limit + 1)
    except zlib.error:
        raise SandboxProtocolError("the answer claims to be gzip and is not") from None
    if len(plain) > limit:
        raise SandboxOutputLimitError(f"the answer is longer than {limit} bytes")
    if not decoder.eof:
        raise StreamCutError("the compressed answer was cut short")
    return plain
