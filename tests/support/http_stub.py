"""One loopback HTTP server that records requests and plays replies in chosen slices; it can stall, cut and reset.

Raw sockets, so that a test decides every byte the client sees.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import BinaryIO, Self


class Ending(Enum):
    """What happens after a reply."""

    KEEP = "the connection serves the next request"
    CLOSE = "the connection is closed in good order"
    CUT = "the connection is closed before the body is whole"
    RESET = "the connection is reset before the body is whole"
    STALL = "nothing more is sent, the connection stays open"
    SILENCE = "not even a status line is sent, the connection stays open"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A request as it arrived; header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What is sent back. `body` is written slice by slice; `chunked` makes one chunk of each. `raw` is all there is."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Iterable[bytes] = b""
    chunked: bool = False
    raw: bytes | Iterable[bytes] | None = None
    ending: Ending = Ending.KEEP


Handler = Callable[[Recorded], Reply]


class HttpStub:
    """A server on a free port of 127.0.0.1, for the length of a ``with`` block.

    Args:
        tls: Speak TLS, with the certificate in this context.
    """

    def __init__(self, handler: Handler | Reply, *, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._handler = handler if callable(handler) else lambda request: handler
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stopping = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.requests: list[Recorded] = []
        self.closings = threading.Semaphore(0)  # one for each connection that the server has closed
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"

    @classmethod
    def playing(cls, *replies: Reply) -> Self:
        """Return a server that plays these replies one after the other, and then the last one again."""
        waiting = list(replies)
        lock = threading.Lock()

        def handler(request: Recorded) -> Reply:
            with lock:
                return waiting.pop(0) if len(waiting) > 1 else waiting[0]

        return cls(handler)

    @property
    def connections(self) -> int:
        """How many connections were accepted so far."""
        return len(self._sockets)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        with self._lock:
            everything = [self._listener, *self._sockets]
        for sock in everything:
            _shut(sock)
        for thread in self._threads:
            thread.join(5)
        self._listener.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets.append(sock)
            self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self._tls is not None:
                sock = self._secured(sock, self._tls)
            with sock.makefile("rb") as incoming:
                while (request := _read_request(incoming)) is not None:
                    self.requests.append(request)
                    if not self._answer(sock, self._handler(request)):
                        break
        except (OSError, ValueError):
            pass  # the client left
        finally:
            sock.close()
            self.closings.release()

    def _secured(self, plain: socket.socket, tls: ssl.SSLContext) -> socket.socket:
        secured = tls.wrap_socket(plain, server_side=True)
        with self._lock:
            self._sockets[self._sockets.index(plain)] = secured
        return secured

    def _answer(self, sock: socket.socket, reply: Reply) -> bool:
        if reply.ending is not Ending.SILENCE:
            for piece in _encode(reply):
                if self._stopping.is_set():
                    return False
                sock.sendall(piece)
        if reply.ending in (Ending.STALL, Ending.SILENCE):
            self._stopping.wait(30)
        elif reply.ending is Ending.RESET:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif reply.ending in (Ending.CLOSE, Ending.CUT):
            _shut(sock)
        return reply.ending is Ending.KEEP


def _encode(reply: Reply) -> Iterable[bytes]:
    if reply.raw is not None:
        yield from [reply.raw] if isinstance(reply.raw, bytes) else reply.raw
        return
    whole = reply.body if isinstance(reply.body, bytes) else None
    pieces: Iterable[bytes] = [reply.body] if isinstance(reply.body, bytes) else reply.body
    headers = dict(reply.headers)
    if reply.chunked:
        headers["Transfer-Encoding"] = "chunked"
    elif whole is not None and reply.status not in (204, 304):
        missing = 1 if reply.ending in (Ending.CUT, Ending.RESET) else 0
        headers.setdefault("Content-Length", str(len(whole) + missing))
    lines = [f"HTTP/1.1 {reply.status} Stub", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    yield "\r\n".join(lines).encode("latin-1")
    for piece in pieces:
        if piece:
            yield b"%x\r\n%b\r\n" % (len(piece), piece) if reply.chunked else piece
    if reply.chunked and reply.ending in (Ending.KEEP, Ending.CLOSE):
        yield b"0\r\n\r\n"


def _read_request(incoming: BinaryIO) -> Recorded | None:
    line = incoming.readline()
    if not line:
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := incoming.readline().strip()) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return Recorded(method=method, target=target, headers=headers, body=_read_body(incoming, headers))


def _read_body(incoming: BinaryIO, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return incoming.read(int(headers.get("content-length", "0")))
    parts: list[bytes] = []
    while size := int(incoming.readline(), 16):
        parts.append(incoming.read(size))
        incoming.readline()
    incoming.readline()
    return b"".join(parts)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
