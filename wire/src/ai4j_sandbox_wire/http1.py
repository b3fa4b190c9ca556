"""HTTP/1.1 as bytes: writes a request head, reads a response that arrives in any slices. No socket, no clock.

`ResponseReader.feed` takes what arrived and returns what of it is body. The head is there once `head` is set, the
response is whole once `complete` is true, and `end` must be told when the peer closes: it raises unless the closing
is how this response ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from ai4j_sandbox.errors import SandboxProtocolError

from .errors import StreamCutError

_HEAD_LIMIT = 64 * 1024
_LINE_LIMIT = 8 * 1024  # of a chunk's size line or a trailer line
_MOST_ANNOUNCEMENTS = 100
_LARGEST_SIZE = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """Status and headers of a response.

    Attributes:
        headers: Names in lower case; values of a repeated name joined by a comma.
        keep_alive: Whether the connection can serve another request afterwards.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    keep_alive: bool = True


def encode_request_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """Return the bytes of a request up to its body. `headers` were checked and include ``Host``."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def encode_chunk(data: bytes) -> bytes:
    """Return `data` as one piece of a chunked body; empty data is the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class ResponseReader:
    """Reads one response to a request made with `method`.

    Attributes:
        head: Status and headers, once they are there.
        spoiled: The connection must not be used again: bytes arrived that no response can explain, or the request
            was not sent whole.
    """

    def __init__(self, method: str = "GET") -> None:
        self._method = method
        self._head_bytes = bytearray()
        self._announcements = 0
        self._body: _Body | None = None
        self.head: ResponseHead | None = None
        self.spoiled = False

    @property
    def complete(self) -> bool:
        """Whether the whole response has arrived."""
        return self._body is not None and self._body.complete

    @property
    def reusable(self) -> bool:
        """Whether the connection may serve another request."""
        return self.complete and not self.spoiled and self.head is not None and self.head.keep_alive

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return those of them that are body.

        Raises:
            SandboxProtocolError: They are not HTTP/1.1.
        """
        while self._body is None:
            rest = self._feed_head(data)
            if rest is None:
                return []
            data = rest
        return self._feed_body(self._body, data)

    def end(self) -> None:
        """Tell that the peer closed the connection.

        Raises:
            StreamCutError: The response is not whole.
        """
        if self._body is None:
            what = "inside the answer's head" if self._head_bytes else "before any answer"
            raise StreamCutError(f"the connection was closed {what}")
        self._body.end()

    def _feed_body(self, body: _Body, data: bytes) -> list[bytes]:
        pieces: list[bytes] = []
        used = body.feed(data, pieces)
        self.spoiled = self.spoiled or used < len(data)
        return pieces

    def _feed_head(self, data: bytes) -> bytes | None:
        """Collect the head; once it is there, return what follows it."""
        searched = max(0, len(self._head_bytes) - 3)
        self._head_bytes += data
        end = self._head_bytes.find(b"\r\n\r\n", searched)
        if end < 0:
            self._refuse_endless_head()
            return None
        head = _parse_head(bytes(self._head_bytes[:end]))
        rest = bytes(self._head_bytes[end + 4 :])
        self._head_bytes.clear()
        if head.status < 200 and head.status != 101:  # "100 Continue" and its like announce the real answer
            self._announcements += 1
            if self._announcements > _MOST_ANNOUNCEMENTS:
                raise SandboxProtocolError("the answer is announced again and again and never comes")
            return rest
        self.head = head
        self._body = _body_of(self._method, head)
        return rest

    def _refuse_endless_head(self) -> None:
        start = bytes(self._head_bytes[:5])
        if not b"HTTP/".startswith(start):
            raise SandboxProtocolError(
                f"the answer does not begin with HTTP/ but with {start!r}",
                hint="check that the URL's scheme and port are an HTTP service's",
            )
        if len(self._head_bytes) > _HEAD_LIMIT:
            raise SandboxProtocolError(f"the answer's head is longer than {_HEAD_LIMIT} bytes")


# --- head -------------------------------------------------------------------------------------------------------


def _parse_head(data: bytes) -> ResponseHead:
    status_line, *lines = data.decode("latin-1").split("\r\n")
    version, _, rest = status_line.partition(" ")
    code = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (len(code) == 3 and code.isascii() and code.isdigit()):
        raise SandboxProtocolError(f"the answer's status line is not HTTP/1.1: {status_line[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise SandboxProtocolError("the answer has a malformed header line")
        name = name.lower()
        value = value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    connection = headers.get("connection", "").lower()
    keep_alive = "close" not in connection and (version == "HTTP/1.1" or "keep-alive" in connection)
    return ResponseHead(status=int(code), headers=headers, keep_alive=keep_alive)


def _body_of(method: str, head: ResponseHead) -> _Body:
    if method == "HEAD" or head.status in (204, 304):
        return _SizedBody(0)
    coding = head.headers.get("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise SandboxProtocolError(f"the answer's transfer encoding {coding[:40]!r} was not asked for")
        return _ChunkedBody()
    length = head.headers.get("content-length")
    if length is None:
        return _OpenBody()
    return _SizedBody(_parse_length(length))


def _parse_length(text: str) -> int:
    values = {part.strip() for part in text.split(",")}
    value = values.pop()
    if values or not (value.isascii() and value.isdigit()) or len(value) > 19:
        raise SandboxProtocolError(f"the answer's Content-Length is not one number: {text[:40]!r}")
    return int(value)


# --- bodies -----------------------------------------------------------------------------------------------------


class _Body(ABC):
    """One way of telling where a body ends."""

    complete = False

    @abstractmethod
    def feed(self, data: bytes, pieces: list[bytes]) -> int:
        """Append the body bytes of `data` to `pieces`; return how many bytes belonged to this response."""

    @abstractmethod
    def end(self) -> None:
        """The peer closed; raise unless the body is whole."""


class _SizedBody(_Body):
    """Ends after a promised number of bytes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._missing = size
        self.complete = size == 0

    def feed(self, data: bytes, pieces: list[bytes]) -> int:
        piece = data[: self._missing]
        if piece:
            pieces.append(piece)
            self._missing -= len(piece)
            self.complete = self._missing == 0
        return len(piece)

    def end(self) -> None:
        if self._missing:
            received = self._size - self._missing
            raise StreamCutError(f"the connection was cut: {self._size} bytes were promised and {received} received")


class _OpenBody(_Body):
    """Ends when the connection does (HTTP/1.0 style)."""

    def feed(self, data: bytes, pieces: list[bytes]) -> int:
        if data:
            pieces.append(data)
        return len(data)

    def end(self) -> None:
        self.complete = True


class _ChunkedBody(_Body):
    """Ends with a chunk of size zero. Three kinds of lines stand between the data: sizes, chunk ends and trailers."""

    def __init__(self) -> None:
        self._missing = 0  # of the current chunk
        self._line = b""  # the beginning of an unfinished line
        self._after_data = False  # the line to come closes a chunk, and is empty
        self._in_trailers = False

    def feed(self, data: bytes, pieces: list[bytes]) -> int:
        position = 0
        size = len(data)
        while position < size and not self.complete:
            if self._missing:
                piece = data[position : position + self._missing]
                pieces.append(piece)
                position += len(piece)
                self._missing -= len(piece)
                self._after_data = not self._missing
                continue
            end = data.find(b"\n", position)
            if end < 0:
                self._line += data[position:]
                if len(self._line) > _LINE_LIMIT:
                    raise SandboxProtocolError("a chunk of the answer has no size")
                return size
            self._take_line((self._line + data[position:end]).removesuffix(b"\r"))
            self._line = b""
            position = end + 1
        return position

    def _take_line(self, line: bytes) -> None:
        if self._in_trailers:
            self.complete = not line
        elif self._after_data:
            if line:
                raise SandboxProtocolError("a chunk of the answer is longer than its size says")
            self._after_data = False
        else:
            self._missing = _chunk_size(line)
            self._in_trailers = self._missing == 0

    def end(self) -> None:
        if self._missing:
            raise StreamCutError(f"the connection was cut inside a chunk, {self._missing} bytes before its end")
        if not self.complete:
            raise StreamCutError("the connection was cut before the last chunk of the answer")


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    try:
        if not digits.isalnum():  # int() would take signs and underscores
            raise ValueError
        size = int(digits, 16)
    except ValueError:
        raise SandboxProtocolError(f"a chunk of the answer has no valid size: {line[:40]!r}") from None
    if size > _LARGEST_SIZE:
        raise SandboxProtocolError("a chunk of the answer claims an impossible size")
    return size
