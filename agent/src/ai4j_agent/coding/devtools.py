"""Chromium's DevTools protocol over its pipe: JSON messages, each ended by NUL. Sans-io."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ai4j_sandbox.errors import SandboxOutputLimitError, SandboxProtocolError

MOST_MESSAGE_BYTES = 64 * 1024 * 1024
"""Longest message; a screenshot of a large page is the largest there is."""


def encode(message_id: int, method: str, parameters: Mapping[str, Any], session_id: str | None = None) -> bytes:
    """Return the bytes of one request."""
    message: dict[str, Any] = {"id": message_id, "method": method, "params": dict(parameters)}
    if session_id is not None:
        message["sessionId"] = session_id
    return json.dumps(message).encode() + b"\0"


class DevToolsDecoder:
    """Turns bytes in any slices into messages."""

    def __init__(self, limit_bytes: int = MOST_MESSAGE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the messages that are complete now.

        Raises:
            SandboxOutputLimitError: One is too long.
            SandboxProtocolError: One is not a JSON object.
        """
        return list(self._messages(data))

    def _messages(self, data: bytes) -> Iterator[dict[str, Any]]:
        *ended, rest = data.split(b"\0")
        for piece in ended:
            yield _message(b"".join((*self._pieces, piece)))
            self._pieces, self._size = [], 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > self._limit_bytes:
            raise SandboxOutputLimitError(f"the browser sent a message of more than {self._limit_bytes} bytes")


def _message(data: bytes) -> dict[str, Any]:
    try:
        message = json.loads(data)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise SandboxProtocolError("the browser sent something that is no DevTools message")
    return message
