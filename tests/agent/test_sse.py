from __future__ import annotations

import pytest

from ai4j_agent import ModelProtocolError
from ai4j_agent.sse import SseDecoder

CASES = [
    (b"data: one\n\ndata: two\n\n", ["one", "two"]),
    (b"data: one\r\n\r\ndata: two\r\n\r\n", ["one", "two"]),
    (b"data: one\r\rdata: two\r\r", ["one", "two"]),
    (b"data:none-stripped\n\n", ["none-stripped"]),
    (b"data:  two spaces\n\n", [" two spaces"]),
    (b": comment\nevent: x\nid: 1\ndata: a\nretry: 5\n\n", ["a"]),
    (b"data: a\ndata: b\n\n", ["a\nb"]),
    ("data: é\U0001f600\n\n".encode(), ["é\U0001f600"]),
    (b"\n\n\ndata: a\n\n\n", ["a"]),
    (b"data: no end", ["no end"]),
    (b"data: \xff\n\n", ["\ufffd"]),
    (b"\xef\xbb\xbfdata: after a byte order mark\n\n", ["after a byte order mark"]),
    (b"", []),
]


@pytest.mark.parametrize(("stream", "events"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_events_come_out_however_the_bytes_are_cut(stream: bytes, events: list[str], size: int) -> None:
    decoder = SseDecoder()

    got = [event for start in range(0, len(stream), size) for event in decoder.feed(stream[start : start + size])]

    assert got + decoder.finish() == events


def test_a_line_without_end_is_refused() -> None:
    decoder = SseDecoder(longest_line=100)

    with pytest.raises(ModelProtocolError, match="longer than 100 bytes"):
        decoder.feed(b"data: " + b"x" * 200)
