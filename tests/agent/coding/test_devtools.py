"""The DevTools codec: bytes in any slices."""

from __future__ import annotations

import json

import pytest

from ai4j_agent.coding.devtools import DevToolsDecoder, encode
from ai4j_sandbox import SandboxOutputLimitError, SandboxProtocolError

MESSAGES = [{"id": 1, "result": {"title": "Größe"}}, {"method": "Page.loadEventFired", "params": {}}, {}]
STREAM = b"".join(json.dumps(message, ensure_ascii=False).encode() + b"\0" for message in MESSAGES)


@pytest.mark.parametrize("size", [1, 2, 7, len(STREAM)])
def test_messages_come_out_whole_however_they_are_cut(size: int) -> None:
    decoder = DevToolsDecoder()

    assert [m for at in range(0, len(STREAM), size) for m in decoder.feed(STREAM[at : at + size])] == MESSAGES


def test_a_request_ends_with_nul() -> None:
    assert encode(3, "Page.navigate", {"url": "about:blank"}, "S") == (
        b'{"id": 3, "method": "Page.navigate", "params": {"url": "about:blank"}, "sessionId": "S"}\0'
    )


def test_a_message_without_end_is_refused_before_it_fills_the_memory() -> None:
    decoder = DevToolsDecoder(limit_bytes=10)
    decoder.feed(b"x" * 10)

    with pytest.raises(SandboxOutputLimitError):
        decoder.feed(b"x")


@pytest.mark.parametrize("data", [b"no json\0", b"[]\0", b"\0", b"\xff\0"])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(SandboxProtocolError):
        DevToolsDecoder().feed(data)
