"""Message dicts to bytes and back, as proto3 JSON or proto3 binary. Pure; driven by the tables in `messages`.

Rules of proto3 that matter here: what has its default value is not written unless the field knows presence; 64-bit
integers are text in JSON; bytes are base64 of either alphabet, padded or not; unknown fields are ignored.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ai4j_sandbox_emulator.json_text import parse_json

from .messages import Enumeration, Field, Message, Scalar

Document = dict[str, Any]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_DEFAULTS: dict[Scalar, Any] = {
    Scalar.STRING: "",
    Scalar.BYTES: b"",
    Scalar.BOOL: False,
    Scalar.UINT32: 0,
    Scalar.SINT32: 0,
    Scalar.INT64: 0,
    Scalar.TIMESTAMP: None,
}


class CodecError(ValueError):
    """The bytes are no such message; the text says which field is wrong."""


def timestamp(epoch_ms: int) -> str:
    """Return a time as RFC 3339 with milliseconds, ``2026-01-31T12:00:00.250Z``."""
    moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- JSON ---------------------------------------------------------------------------------------------------------


def encode_json(message: Message, document: Document) -> bytes:
    """Return the JSON form of a message."""
    return json.dumps(_to_json(message, document), ensure_ascii=False, separators=(",", ":")).encode()


def decode_json(message: Message, data: bytes) -> Document:
    """Return the message that JSON bytes hold.

    Raises:
        CodecError: They hold none.
    """
    try:
        value = parse_json(data)
    except ValueError as error:
        raise CodecError(f"invalid JSON: {error}") from error
    return _from_json(message, value)


def _to_json(message: Message, document: Document) -> Document:
    written = ((field, document[field.name]) for field in message.fields if document.get(field.name) is not None)
    return {
        field.name: _json_value(field, value) for field, value in written if field.presence or not _empty(field, value)
    }


def _empty(field: Field, value: Any) -> bool:
    if field.repeated or field.string_map:
        return not value
    if isinstance(field.kind, Enumeration):
        return bool(value == field.kind.names[0])
    return isinstance(field.kind, Scalar) and bool(value == _DEFAULTS[field.kind])


def _json_value(field: Field, value: Any) -> Any:
    if field.repeated:
        return [_json_single(field, item) for item in value]
    return dict(value) if field.string_map else _json_single(field, value)


def _json_single(field: Field, value: Any) -> Any:
    if isinstance(field.kind, Message):
        return _to_json(field.kind, value)
    if field.kind is Scalar.BYTES:
        return base64.b64encode(value).decode("ascii")
    if field.kind is Scalar.INT64:
        return str(value)
    if field.kind is Scalar.TIMESTAMP:
        return timestamp(value)
    return value


def _from_json(message: Message, value: Any) -> Document:
    if not isinstance(value, Mapping):
        raise CodecError(f"expected an object, got {type(value).__name__}")
    known = ((message.by_name.get(name), item) for name, item in value.items())
    return {field.name: _parsed(field, item) for field, item in known if field is not None and item is not None}


def _parsed(field: Field, value: Any) -> Any:
    try:
        if field.repeated:
            if not isinstance(value, list):
                raise ValueError(f"expected a list, got {_shown(value)}")
            return [_parsed_single(field, item) for item in value]
        if field.string_map:
            return {str(key): _text(item) for key, item in value.items()}
        return _parsed_single(field, value)
    except (TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"invalid value for {field.name}: {error}") from error


def _parsed_single(field: Field, value: Any) -> Any:
    match field.kind:
        case Message():
            return _from_json(field.kind, value)
        case Enumeration():
            return _enum_name(field.kind, value)
        case Scalar.STRING:
            return _text(value)
        case Scalar.BYTES:
            return _base64(_text(value))
        case Scalar.BOOL:
            if not isinstance(value, bool):
                raise ValueError(f"expected a boolean, got {_shown(value)}")
            return value
        case Scalar.TIMESTAMP:
            return round(datetime.fromisoformat(_text(value)).timestamp() * 1000)
        case _:
            return _integer(field.kind, value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a string, got {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return f"{value!r:.40}"


def _integer(kind: Scalar, value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(f"expected an integer, got {_shown(value)}")
    number = int(value)
    lowest, highest = {Scalar.UINT32: (0, 2**32 - 1), Scalar.SINT32: (-(2**31), 2**31 - 1)}.get(
        kind, (-(2**63), 2**63 - 1)
    )
    if not lowest <= number <= highest:
        raise ValueError(f"{_shown(value)} is out of range")
    return number


def _base64(text: str) -> bytes:
    standard = text.translate(str.maketrans("-_", "+/")).rstrip("=")
    if re.search(r"[^A-Za-z0-9+/]", standard):
        raise ValueError("invalid base64")
    return base64.b64decode(standard + "=" * (-len(standard) % 4))


def _enum_name(kind: Enumeration, value: Any) -> str:
    name = kind.names.get(value) if isinstance(value, int) else value
    if name not in kind.names.values():
        raise ValueError(f"unknown name {_shown(value)}")
    return str(name)


# --- binary -------------------------------------------------------------------------------------------------------


def encode_binary(message: Message, document: Document) -> bytes:
    """Return the binary form of a message."""
    return b"".join(
        _binary_field(field, document[field.name])
        for field in message.fields
        if document.get(field.name) is not None and (field.presence or not _empty(field, document[field.name]))
    )


def decode_binary(message: Message, data: bytes) -> Document:
    """Return the message that binary bytes hold.

    Raises:
        CodecError: They hold none.
    """
    document: Document = {}
    for number, raw in _raw_fields(data):
        field = message.by_number.get(number)
        if field is None:
            continue
        try:
            _store(document, field, raw)
        except (TypeError, ValueError, AttributeError) as error:
            raise CodecError(f"invalid value for {field.name}: {error}") from error
    return document


def _binary_field(field: Field, value: Any) -> bytes:
    if field.string_map:
        return b"".join(_tagged(field, _map_entry(key, item)) for key, item in value.items())
    values = value if field.repeated else [value]
    return b"".join(_binary_single(field, item) for item in values)


def _binary_single(field: Field, value: Any) -> bytes:
    match field.kind:
        case Message():
            return _tagged(field, encode_binary(field.kind, value))
        case Scalar.STRING:
            return _tagged(field, value.encode())
        case Scalar.BYTES:
            return _tagged(field, value)
        case Scalar.TIMESTAMP:
            return _tagged(field, _binary_timestamp(value))
        case Enumeration():
            number = next(number for number, name in field.kind.names.items() if name == value)
            return _varint(field.number << 3 | _VARINT) + _varint(number)
        case _:
            return _varint(field.number << 3 | _VARINT) + _varint(_wire_integer(field.kind, value))


def _tagged(field: Field, payload: bytes) -> bytes:
    return _varint(field.number << 3 | _LENGTH) + _varint(len(payload)) + payload


def _map_entry(key: str, value: str) -> bytes:
    parts = ((0x0A, key.encode()), (0x12, value.encode()))
    return b"".join(bytes([tag]) + _varint(len(payload)) + payload for tag, payload in parts)


def _binary_timestamp(epoch_ms: int) -> bytes:
    seconds, milliseconds = divmod(epoch_ms, 1000)
    parts = ((0x08, seconds), (0x10, milliseconds * 1_000_000))
    return b"".join(bytes([tag]) + _varint(value & 2**64 - 1) for tag, value in parts if value)


def _wire_integer(kind: Scalar, value: int) -> int:
    if kind is Scalar.SINT32:
        return (value << 1) ^ (value >> 31)
    return value & 2**64 - 1


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _raw_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field numbers with their undecoded values: integers, or the bytes of a length-delimited field."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = _read_varint(data, position)
            yield number, value
            continue
        length, position = _payload_length(data, position, wire_type)
        if position + length > len(data):
            raise CodecError("the message ends inside a field")
        yield number, data[position : position + length]
        position += length


def _payload_length(data: bytes, position: int, wire_type: int) -> tuple[int, int]:
    if wire_type == _LENGTH:
        return _read_varint(data, position)
    if wire_type not in (_FIXED64, _FIXED32):
        raise CodecError(f"unknown wire type {wire_type}")
    return (8 if wire_type == _FIXED64 else 4), position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise CodecError("the message ends inside a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 2**64 - 1, position
        shift += 7


def _store(document: Document, field: Field, raw: int | bytes) -> None:
    if field.string_map:
        entry = dict(_raw_fields(_payload(raw)))
        document.setdefault(field.name, {})[_payload(entry.get(1, b"")).decode()] = _payload(entry.get(2, b"")).decode()
    elif field.repeated:
        document.setdefault(field.name, []).append(_decoded(field, raw))
    else:
        document[field.name] = _decoded(field, raw)


def _decoded(field: Field, raw: int | bytes) -> Any:
    match field.kind:
        case Message():
            return decode_binary(field.kind, _payload(raw))
        case Scalar.STRING:
            return _payload(raw).decode()
        case Scalar.BYTES:
            return _payload(raw)
        case Scalar.TIMESTAMP:
            parts = {number: value for number, value in _raw_fields(_payload(raw)) if isinstance(value, int)}
            return _signed(parts.get(1, 0)) * 1000 + parts.get(2, 0) // 1_000_000
        case Enumeration():
            return _enum_name(field.kind, raw)
        case _:
            return _scalar(field.kind, raw)


def _payload(raw: int | bytes) -> bytes:
    if not isinstance(raw, bytes):
        raise ValueError("expected bytes, got a number")
    return raw


def _scalar(kind: Scalar, raw: int | bytes) -> Any:
    if not isinstance(raw, int):
        raise ValueError("expected a number, got bytes")
    if kind is Scalar.BOOL:
        return raw != 0
    if kind is Scalar.SINT32:
        return (raw >> 1) ^ -(raw & 1)
    return _signed(raw) if kind is Scalar.INT64 else raw & 0xFFFFFFFF


def _signed(raw: int) -> int:
    return int(struct.unpack("<q", struct.pack("<Q", raw))[0])
