"""Connect envelopes on the server side, sans-io: a flag byte, a length, a payload.

Written here and not shared with the client's codec: the emulator checks that one, so it must not be the same code.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass

COMPRESSED = 0x01
END_OF_STREAM = 0x02
LIMIT_BYTES = 16 * 1024 * 1024

_PREFIX = struct.Struct(">BI")


class EnvelopeError(ValueError):
    """The bytes are no sequence of envelopes, or one is larger than allowed."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One frame of a stream."""

    payload: bytes
    flags: int = 0

    def encoded(self) -> bytes:
        """Return the frame's bytes."""
        return _PREFIX.pack(self.flags, len(self.payload)) + self.payload

    def compressed(self) -> Envelope:
        """Return the frame with a gzip payload."""
        return Envelope(gzip.compress(self.payload, 1), self.flags | COMPRESSED)

    def content(self) -> bytes:
        """Return the payload as it was before compression.

        Raises:
            EnvelopeError: It claims to be compressed and is not gzip, or holds more than is allowed.
        """
        if not self.flags & COMPRESSED:
            return self.payload
        inflating = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            content = inflating.decompress(self.payload, LIMIT_BYTES + 1)
        except zlib.error as error:
            raise EnvelopeError(f"payload is no gzip: {error}") from error
        if len(content) > LIMIT_BYTES:
            raise EnvelopeError(f"message is larger than the limit of {LIMIT_BYTES}")
        if not inflating.eof:
            raise EnvelopeError("payload is no gzip: it ends too early")
        return content


class EnvelopeReader:
    """Takes a stream's bytes in any slices and returns whole envelopes."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Envelope]:
        """Return the envelopes that are complete now.

        Raises:
            EnvelopeError: One announces more than the limit.
        """
        self._pending += data
        found: list[Envelope] = []
        start = 0
        while len(self._pending) - start >= _PREFIX.size:
            flags, length = _PREFIX.unpack_from(self._pending, start)
            if length > self._limit:
                raise EnvelopeError(f"message of {length} bytes is larger than the limit of {self._limit}")
            end = start + _PREFIX.size + length
            if len(self._pending) < end:
                break
            found.append(Envelope(bytes(self._pending[start + _PREFIX.size : end]), flags))
            start = end
        del self._pending[:start]
        return found

    def finish(self) -> None:
        """The stream is over.

        Raises:
            EnvelopeError: It stopped inside an envelope.
        """
        if self._pending:
            raise EnvelopeError("the stream ends inside an envelope")
