"""Bounded capture of one output stream: the head and the tail are kept, the middle is counted."""

from __future__ import annotations

from collections import deque
from io import BytesIO

from .model import HEAD_ONLY_BELOW_BYTES, CapturedOutput

_MERGED_BYTES = 4096


class OutputCapture:
    """Collects chunks of one stream within a limit.

    The head grows in one buffer, which becomes the result without being copied: output that is kept whole is held
    once. Memory stays below the limit plus one chunk, however much flows through; while a cut tail is joined, below
    one and a half times the limit.
    """

    __slots__ = ("_head", "_head_room", "_tail", "_tail_limit", "_tail_size", "total_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._tail_limit = 0 if limit_bytes < HEAD_ONLY_BELOW_BYTES else limit_bytes // 2
        self._head_room = limit_bytes - self._tail_limit
        self._head = BytesIO()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total_bytes = 0

    def feed(self, chunk: bytes, *, skipped_bytes: int = 0) -> None:
        """Take the next chunk of the stream, before which so many bytes were dropped on the way here."""
        if skipped_bytes:
            self._skip(skipped_bytes)
        self.total_bytes += len(chunk)
        if self._head_room:
            taken = self._head.write(chunk[: self._head_room])
            self._head_room -= taken
            chunk = chunk[taken:]
        if chunk and self._tail_limit:
            self._feed_tail(chunk)

    def _skip(self, count: int) -> None:
        # Nothing from before the gap can be part of the tail, nor anything after it of the head.
        self.total_bytes += count
        self._head_room = 0
        self._tail.clear()
        self._tail_size = 0

    def _feed_tail(self, chunk: bytes) -> None:
        # Tiny chunks are merged, so that bookkeeping never outweighs the data.
        if self._tail and len(self._tail[-1]) + len(chunk) <= _MERGED_BYTES:
            self._tail[-1] += chunk
        else:
            self._tail.append(chunk)
        self._tail_size += len(chunk)
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())

    @property
    def dropped_bytes(self) -> int:
        """How many bytes are no longer kept."""
        return self.total_bytes - self._head.tell() - min(self._tail_size, self._tail_limit)

    def captured(self) -> CapturedOutput:
        """Return what was kept so far. Called when the stream is over."""
        if not self.dropped_bytes:
            while self._tail:
                self._head.write(self._tail.popleft())
            self._tail_limit -= self._tail_size  # what is in the head now takes no more room behind it
            self._tail_size = 0
            return CapturedOutput(head=self._head.getvalue(), total_bytes=self.total_bytes)
        tail = b"".join(self._tail)
        self._tail = deque([tail])  # what was joined replaces its pieces, so that it is not held twice from now on
        excess = len(tail) - self._tail_limit
        return CapturedOutput(
            head=self._head.getvalue(), tail=tail[excess:] if excess > 0 else tail, total_bytes=self.total_bytes
        )
