"""Envelopes: any slicing gives the same frames, and nothing is believed before it is checked."""

from __future__ import annotations

import pytest

from ai4j_sandbox_emulator.envelope import Envelope, EnvelopeError, EnvelopeReader

FRAMES = [Envelope(b'{"a":1}'), Envelope(b""), Envelope(b"x" * 300), Envelope(b"{}", 2)]
STREAM = b"".join(frame.encoded() for frame in FRAMES)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, len(STREAM)])
def test_frames_come_out_whole_however_the_stream_is_sliced(size: int) -> None:
    reader = EnvelopeReader()

    found = [frame for start in range(0, len(STREAM), size) for frame in reader.feed(STREAM[start : start + size])]

    reader.finish()
    assert found == FRAMES


def test_an_oversize_length_is_refused_before_its_payload_arrives() -> None:
    with pytest.raises(EnvelopeError, match="4294967295 bytes is larger than the limit of 100"):
        EnvelopeReader(limit_bytes=100).feed(b"\x00\xff\xff\xff\xff")


@pytest.mark.parametrize("length", range(1, len(FRAMES[0].encoded())))
def test_a_stream_that_stops_inside_a_frame_is_told(length: int) -> None:
    reader = EnvelopeReader()
    reader.feed(STREAM[:length])

    with pytest.raises(EnvelopeError, match="inside an envelope"):
        reader.finish()


def test_a_compressed_frame_has_its_content_back() -> None:
    frame = Envelope(b"again " * 100, 2).compressed()

    assert (frame.flags, frame.content()) == (3, b"again " * 100)


def test_a_payload_that_only_claims_to_be_gzip_is_refused() -> None:
    with pytest.raises(EnvelopeError, match="no gzip"):
        Envelope(b"plain", 1).content()
