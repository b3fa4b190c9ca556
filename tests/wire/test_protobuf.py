from __future__ import annotations

import pytest

from ai4j_sandbox.errors import SandboxProtocolError
from ai4j_sandbox_wire.protobuf import (
    bytes_field,
    fields,
    map_field,
    number_field,
    read_varint,
    unzigzag,
    varint,
    zigzag,
)


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, b"\0"), (1, b"\1"), (127, b"\x7f"), (128, b"\x80\1"), (300, b"\xac\2"), (2**63, b"\x80" * 9 + b"\1")],
)  # fmt: skip
def test_varint_is_written_and_read(value: int, data: bytes) -> None:
    assert varint(value) == data
    assert read_varint(data + b"x", 0) == (value, len(data))


@pytest.mark.parametrize(("signed", "unsigned"), [(0, 0), (-1, 1), (1, 2), (-2, 3), (2147483647, 4294967294)])
def test_zigzag_both_ways(signed: int, unsigned: int) -> None:
    assert zigzag(signed) == unsigned
    assert unzigzag(unsigned) == signed


def test_fields_are_read_back_and_fixed_ones_skipped_over() -> None:
    message = (
        number_field(1, 42) + bytes_field(2, "é") + b"\x1d\1\2\3\4" + b"\x21" + b"\0" * 8 + map_field(5, {"a": "b"})
    )

    assert list(fields(message)) == [
        (1, 42),
        (2, "é".encode()),
        (3, b"\1\2\3\4"),
        (4, b"\0" * 8),
        (5, b"\n\1a\x12\1b"),
    ]


@pytest.mark.parametrize("data", [b"\x80", b"\x0a", b"\x0a\5abc", b"\x0b", b"\x08" + b"\xff" * 11, b"\x0d\0"])
def test_broken_message_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(SandboxProtocolError):
        list(fields(data))
