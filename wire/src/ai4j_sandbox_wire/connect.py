"""The Connect protocol as bytes: envelopes, end-of-stream messages, error codes. No socket, no clock.

An envelope is one byte of flags, four bytes of length (big-endian) and the payload. A stream is any number of
envelopes and ends with one whose flags say so; that one carries an error or nothing. A stream without it was cut.
(Protocol: connectrpc.com/docs/protocol.)
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxOutputLimitError,
    SandboxPermissionError,
    SandboxProtocolError,
    SandboxRateLimitError,
    SandboxTimeoutError,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.frozen import empty_mapping

from .errors import StreamCutError
from .faults import Fault
from .message import HttpReply, excerpt

DEFAULT_ENVELOPE_LIMIT_BYTES = 64 * 1024 * 1024

_PREFIX_BYTES = 5
_COMPRESSED, _END_OF_STREAM = 0x01, 0x02
_LONGEST_TIMEOUT_MILLIS = 9_999_999_999  # the protocol allows ten digits


class Codec(Enum):
    """How messages are written. The value names the content types."""

    JSON = "json"
    BINARY = "proto"

    @property
    def stream_type(self) -> str:
        """Content type of a streaming call."""
        return _STREAM_TYPES[self]


_STREAM_TYPES = {codec: f"application/connect+{codec.value}" for codec in Codec}


def stream_headers(codec: Codec, *, timeout_millis: int | None = None) -> dict[str, str]:
    """Return the headers of a streaming call. Envelopes are asked for uncompressed.

    Args:
        timeout_millis: The server's deadline for the call. It is never sent as 0, which would mean "already over".
    """
    headers = {
        "Content-Type": codec.stream_type,
        "Accept": codec.stream_type,
        "Connect-Protocol-Version": "1",
        "Connect-Content-Encoding": "identity",
        "Connect-Accept-Encoding": "identity",
    }
    return headers | timeout_header(timeout_millis)


def unary_headers(*, timeout_millis: int | None = None) -> dict[str, str]:
    """Return the headers of a unary call in JSON."""
    return {"Content-Type": "application/json", "Connect-Protocol-Version": "1"} | timeout_header(timeout_millis)


def timeout_header(millis: float | None) -> dict[str, str]:
    """Return the header for a server-side deadline, empty for no limit; what is left of a deadline is at least 1 ms."""
    if millis is None:
        return {}
    return {"Connect-Timeout-Ms": str(min(max(1, math.ceil(millis)), _LONGEST_TIMEOUT_MILLIS))}


# --- envelopes --------------------------------------------------------------------------------------------------


class Envelope(NamedTuple):
    """One message of a stream. A tuple, because there may be a hundred thousand of them in a second."""

    payload: bytes
    end_of_stream: bool = False


def encode_envelope(payload: bytes, *, end_of_stream: bool = False, compressed: bool = False) -> bytes:
    """Return a payload with its prefix, compressing it with gzip when told."""
    flags = (_END_OF_STREAM if end_of_stream else 0) | (_COMPRESSED if compressed else 0)
    if compressed:
        packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        payload = packer.compress(payload) + packer.flush()
    return flags.to_bytes(1) + len(payload).to_bytes(4) + payload


class EnvelopeDecoder:
    """Takes a stream apart, in whatever slices it arrives.

    Args:
        limit_bytes: Longest payload that is accepted, compressed or not. Checked before anything is held for it.
        limit_setting: The knob for it, for the error.
        compression: What ``Connect-Content-Encoding`` of the answer says.
    """

    def __init__(
        self,
        *,
        limit_bytes: int = DEFAULT_ENVELOPE_LIMIT_BYTES,
        limit_setting: str = "connectEnvelopeLimitBytes",
        compression: str = "identity",
    ) -> None:
        if compression not in ("", "identity", "gzip"):
            raise SandboxProtocolError(f"the stream is compressed with {compression[:40]!r}, which was not asked for")
        self._limit = limit_bytes
        self._limit_setting = limit_setting
        self._gzip = compression == "gzip"
        self._held = bytearray()  # the beginning of an envelope that is not whole yet
        self._needed = _PREFIX_BYTES
        self._failure: SandboxException | None = None
        self.ended = False

    def feed(self, data: bytes) -> list[Envelope]:
        """Take the next bytes and return the envelopes they complete. Bytes after the end of the stream are ignored.

        Raises:
            SandboxProtocolError: They are no envelopes.
            SandboxOutputLimitError: A payload is longer than the limit.
        """
        self.raise_pending()
        if self.ended:
            return []
        envelopes: list[Envelope] = []
        try:
            position = self._complete_held(data, envelopes)
            if not self._held and not self.ended:
                position = self._take_whole(data, envelopes, position)
        except SandboxException as failure:
            if not envelopes:
                raise
            self._failure = failure  # what came before it is good and goes out first
            return envelopes
        if not self.ended:
            self._held += data[position:]
        return envelopes

    def raise_pending(self) -> None:
        """Raise the failure that the last `feed` found behind good envelopes, if it found one."""
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        """Tell that nothing more will come.

        Raises:
            StreamCutError: The stream stopped inside an envelope, or without its end-of-stream message.
        """
        self.raise_pending()
        if self.ended:
            return
        held = len(self._held)
        if not held:
            raise StreamCutError("the stream ended without an end-of-stream message")
        if held < _PREFIX_BYTES:
            raise StreamCutError(f"the stream was cut inside an envelope's header: 5 bytes promised, {held} received")
        promised, received = self._needed - _PREFIX_BYTES, held - _PREFIX_BYTES
        raise StreamCutError(f"the stream was cut inside an envelope: {promised} bytes promised, {received} received")

    def _complete_held(self, data: bytes, envelopes: list[Envelope]) -> int:
        """Take what the held envelope misses, and no more, so that nothing is copied twice; return where it ends."""
        position = 0
        while self._held and position < len(data):
            piece = data[position : position + self._needed - len(self._held)]
            self._held += piece
            position += len(piece)
            if len(self._held) == self._needed and self._take_whole(bytes(self._held), envelopes, 0):
                self._held.clear()
        return position

    def _take_whole(self, data: bytes, envelopes: list[Envelope], position: int) -> int:
        """Append the whole envelopes in `data` from a position; return where the first that is not whole begins."""
        size = len(data)
        while size - position >= _PREFIX_BYTES:
            flags = data[position]
            length = int.from_bytes(data[position + 1 : position + _PREFIX_BYTES])
            if flags or length > self._limit:
                self._check_prefix(flags, length)
            start = position + _PREFIX_BYTES
            if size - start < length:
                self._needed = _PREFIX_BYTES + length
                return position
            position = start + length
            payload = data[start:position]
            if flags:
                payload = self._unpacked(payload) if flags & _COMPRESSED else payload
                self.ended = bool(flags & _END_OF_STREAM)
            envelopes.append(Envelope(payload, self.ended))
            if self.ended:
                return size
        self._needed = _PREFIX_BYTES
        return position

    def _check_prefix(self, flags: int, length: int) -> None:
        if flags & ~(_COMPRESSED | _END_OF_STREAM):
            raise SandboxProtocolError(
                f"the stream does not consist of envelopes: flags 0x{flags:02x}, length {length}",
                hint=_FIRST_BYTE_HINTS.get(flags),
            )
        if flags & _COMPRESSED and not self._gzip:
            raise SandboxProtocolError("an envelope says it is compressed, but no compression was negotiated")
        if length > self._limit:
            raise self._too_long(length)

    def _unpacked(self, payload: bytes) -> bytes:
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            plain = unpacker.decompress(payload, self._limit + 1)
        except zlib.error:
            raise SandboxProtocolError("an envelope says it is gzip and is not") from None
        if len(plain) > self._limit:
            raise self._too_long(len(plain))
        if not unpacker.eof:
            raise SandboxProtocolError("the gzip data of an envelope is not whole")
        return plain

    def _too_long(self, length: int) -> SandboxOutputLimitError:
        return SandboxOutputLimitError(
            f"an envelope of {length} bytes is longer than {self._limit_setting}={self._limit}",
            hint=f"raise {self._limit_setting} if the service really sends messages of this size",
        )


_FIRST_BYTE_HINTS = {
    0x7B: "the answer begins with '{': bare JSON, so an envelope is missing; is something between us and the service?",
    0x3C: "the answer begins with '<': HTML, so something else than the service answered",
    0x1F: "the answer begins like gzip: something between us and the service compressed it",
}


# --- errors -----------------------------------------------------------------------------------------------------

ERROR_BY_CODE: Mapping[str, type[SandboxException]] = {
    "canceled": SandboxConnectionError,
    "unknown": SandboxException,
    "invalid_argument": SandboxConfigError,
    "deadline_exceeded": SandboxTimeoutError,
    "not_found": SandboxNotFoundError,
    "already_exists": SandboxConflictError,
    "permission_denied": SandboxPermissionError,
    "resource_exhausted": SandboxRateLimitError,
    "failed_precondition": SandboxConflictError,
    "aborted": SandboxConflictError,
    "out_of_range": SandboxConfigError,
    "unimplemented": UnsupportedCapabilityError,
    "internal": SandboxException,
    "unavailable": SandboxConnectionError,
    "data_loss": SandboxException,
    "unauthenticated": SandboxAuthError,
}
"""Every code of the protocol, and what it is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectError:
    """An error as the protocol writes it."""

    code: str
    message: str = ""

    def exception(self, what: str, *, outcome: Outcome = Outcome.UNKNOWN) -> SandboxException:
        """Return the core's error for it; `what` says which call failed."""
        kind = ERROR_BY_CODE.get(self.code, SandboxException)
        said = f": {excerpt(self.message, 500)}" if self.message else ""
        return kind(f"{what} failed [{self.code}]{said}", outcome=outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfStream:
    """The last message of a stream.

    Attributes:
        error: Why the call failed, or ``None`` when it succeeded.
        metadata: Trailers; names in lower case.
    """

    error: ConnectError | None = None
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=empty_mapping)


def parse_end_of_stream(payload: bytes) -> EndOfStream:
    """Return what an end-of-stream payload says.

    Raises:
        SandboxProtocolError: It is not the JSON object that the protocol asks for, in whichever codec.
    """
    try:
        document = json.loads(payload or b"{}")
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise SandboxProtocolError(f"the end-of-stream message is not a JSON object: {excerpt(_text(payload), 80)!r}")
    error = document.get("error")
    metadata = document.get("metadata")
    return EndOfStream(
        error=None if error is None else _parse_error(error),
        metadata=_parse_metadata(metadata) if isinstance(metadata, dict) else {},
    )


def unary_error(reply: HttpReply, fault: Fault) -> SandboxException | None:
    """Return the error of a unary answer that carries one of the protocol's codes (a `faults.Explain`).

    Any other body - ``null``, a number as code, HTML, nothing - is left to the HTTP status.
    """
    if fault.code is None or fault.code not in ERROR_BY_CODE:
        return None
    return ConnectError(code=fault.code, message=fault.message).exception(
        fault.place, outcome=Outcome.UNKNOWN if reply.status >= 500 else Outcome.NOT_STARTED
    )


def _parse_error(error: Any) -> ConnectError:
    if not isinstance(error, dict):
        return ConnectError(code="unknown", message=excerpt(str(error)))
    code, message = error.get("code"), error.get("message")
    return ConnectError(
        code=code if isinstance(code, str) and code in ERROR_BY_CODE else "unknown",
        message=message if isinstance(message, str) else "",
    )


def _parse_metadata(metadata: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {
        name.lower(): tuple(value for value in values if isinstance(value, str))
        for name, values in metadata.items()
        if isinstance(values, list)
    }


def _text(payload: bytes) -> str:
    return payload.decode("utf-8", "replace")
