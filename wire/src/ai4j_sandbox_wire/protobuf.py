"""Just enough of the protobuf wire format: varints and length-delimited fields.

(Format: protobuf.dev/programming-guides/encoding.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ai4j_sandbox.errors import SandboxProtocolError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    """Return an unsigned number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(field: int, value: int) -> bytes:
    """Return an unsigned number field; also a ``bool``."""
    return varint(field << 3 | VARINT) + varint(value)


def bytes_field(field: int, value: bytes | str) -> bytes:
    """Return a field of bytes, text or an encoded message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | BYTES) + varint(len(data)) + data


def map_field(field: int, entries: Mapping[str, str]) -> bytes:
    """Return a field that maps text to text."""
    return b"".join(bytes_field(field, bytes_field(1, key) + bytes_field(2, value)) for key, value in entries.items())


def repeated_field(field: int, values: Iterable[str]) -> bytes:
    """Return a repeated field of texts."""
    return b"".join(bytes_field(field, value) for value in values)


def zigzag(value: int) -> int:
    """Return the unsigned form of a signed number (``sint32``)."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def unzigzag(value: int) -> int:
    """Return the signed number of its unsigned form."""
    return value >> 1 ^ -(value & 1)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number and the position behind it.

    Raises:
        SandboxProtocolError: There is no varint at `position`.
    """
    result = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result, position
            shift += 7
            if shift > 63:
                raise SandboxProtocolError("a number in a binary message is too long")
    except IndexError:
        raise SandboxProtocolError("a binary message ends inside a number") from None


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield each field's number and value: an unsigned number, or bytes.

    Raises:
        SandboxProtocolError: `data` is no message.
    """
    position = 0
    while position < len(data):
        key, position = read_varint(data, position)
        kind = key & 7
        if kind == VARINT:
            value, position = read_varint(data, position)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, position = read_varint(data, position)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise SandboxProtocolError(f"a binary message has a field of the unknown wire type {kind}")
        end = position + size
        if end > len(data):
            raise SandboxProtocolError("a binary message ends inside a field")
        yield key >> 3, data[position:end]
        position = end
