"""Ranges, upload events and metadata headers, without a server."""

from __future__ import annotations

import gzip

import pytest

from ai4j_sandbox_emulator.envd.transfers import (
    TransferError,
    byte_range,
    file_metadata,
    gzipped,
    part_of,
    upload_events,
)


@pytest.mark.parametrize(
    ("header", "span"),
    [
        (None, None),
        ("bytes=0-4", (0, 4)),
        ("bytes=3-", (3, 9)),
        ("bytes=-4", (6, 9)),
        ("bytes=-40", (0, 9)),
        ("bytes=8-100", (8, 9)),
        ("bytes=10-", "unsatisfiable"),
        ("bytes=5-2", "unsatisfiable"),
        ("bytes=-0", "unsatisfiable"),
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-4", None),
    ],
)
def test_a_range_is_read(header: str | None, span: object) -> None:
    assert byte_range(header, 10) == span


@pytest.mark.parametrize("size", [1, 3, 10])
def test_a_part_is_the_same_however_the_file_is_chunked(size: int) -> None:
    content = b"0123456789"
    chunks = [content[start : start + size] for start in range(0, 10, size)]

    assert b"".join(part_of(chunks, 2, 6)) == b"23456"


def test_compressed_chunks_are_one_gzip_file() -> None:
    assert gzip.decompress(b"".join(gzipped([b"again ", b"", b"and again"]))) == b"again and again"


@pytest.mark.parametrize(
    ("existed", "empty", "changes"),
    [
        (False, False, ["create", "chmod", "write"]),
        (False, True, ["create", "chmod"]),
        (True, False, ["write", "chmod", "write"]),
    ],
)
def test_an_upload_is_told_as_the_kernel_does(existed: bool, empty: bool, changes: list[str]) -> None:
    assert [event.change for event in upload_events("/w/a", [], existed=existed, empty=empty)] == changes


def test_new_parent_directories_are_told_first() -> None:
    events = [(event.path, event.change) for event in upload_events("/w/d/a", ["/w/d"], existed=False, empty=True)]

    assert events == [("/w/d", "create"), ("/w/d", "chmod"), ("/w/d/a", "create"), ("/w/d/a", "chmod")]


def test_metadata_keys_are_lower_case_and_other_headers_none() -> None:
    assert file_metadata({"X-Metadata-Author": "Me", "Content-Type": "x"}) == {"author": "Me"}


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"X-Metadata-": "x"}, "invalid metadata key"),
        ({"X-Metadata-" + "k" * 247: "x"}, "invalid metadata key"),
        ({"X-Metadata-K": "é"}, "must be printable ASCII"),
        ({"X-Metadata-K": "x" * 5000}, "exceeds 4096 bytes"),
    ],
)
def test_metadata_beyond_the_limits_is_refused(headers: dict[str, str], reason: str) -> None:
    with pytest.raises(TransferError, match=reason) as caught:
        file_metadata(headers)

    assert caught.value.status == 400
