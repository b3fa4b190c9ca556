"""Bounded capture of one output stream: the head and the tail are kept, the middle is counted."""

from __future__ import annotations

from collections import deque
from collections.abc import MutableSequence

from .model import HEAD_ONLY_BELOW_BYTES, CapturedOutput

_MERGED_BYTES = 4096


class OutputCapture:
    """Collects chunks of one stream within a limit.

    Chunks are kept by reference, so whoever consumed them as events is not charged for a second copy.
    Memory stays below the limit plus one chunk, however much flows through.
    """

    __slots__ = ("_head", "_head_room", "_tail", "_tail_limit", "_tail_size", "total_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._tail_limit = 0 if limit_bytes < HEAD_ONLY_BELOW_BYTES else limit_bytes // 2
        self._head_room = limit_bytes - self._tail_limit
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total_bytes = 0

    def feed(self, chunk: bytes, *, skipped_bytes: int = 0) -> None:
        """Take the next chunk of the stream, before which so many bytes were dropped on the way here."""
        if skipped_bytes:
            self._skip(skipped_bytes)
        self.total_bytes += len(chunk)
        if self._head_room:
            if len(chunk) <= self._head_room:
                _append(self._head, chunk)
                self._head_room -= len(chunk)
                return
            self._head.append(chunk[: self._head_room])
            chunk = chunk[self._head_room :]
            self._head_room = 0
        if self._tail_limit:
            self._feed_tail(chunk)

    def _skip(self, count: int) -> None:
        # Nothing from before the gap can be part of the tail, nor anything after it of the head.
        self.total_bytes += count
        self._head_room = 0
        self._tail.clear()
        self._tail_size = 0

    def _feed_tail(self, chunk: bytes) -> None:
        _append(self._tail, chunk)
        self._tail_size += len(chunk)
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())

    @property
    def dropped_bytes(self) -> int:
        """How many bytes are no longer kept."""
        kept = sum(map(len, self._head)) + min(self._tail_size, self._tail_limit)
        return self.total_bytes - kept

    def captured(self) -> CapturedOutput:
        """Return what was kept so far. Called when the stream is over."""
        # What was joined replaces its pieces, so that nothing is held twice for longer than this takes.
        if not self.dropped_bytes:
            self._head = [b"".join((*self._head, *self._tail))]
            self._tail.clear()
            return CapturedOutput(head=self._head[0], total_bytes=self.total_bytes)
        self._head = [b"".join(self._head)]
        self._tail = deque([b"".join(self._tail)])
        excess = len(self._tail[0]) - self._tail_limit
        return CapturedOutput(
            head=self._head[0],
            tail=self._tail[0][excess:] if excess > 0 else self._tail[0],
            total_bytes=self.total_bytes,
        )


def _append(chunks: MutableSequence[bytes], chunk: bytes) -> None:
    # Tiny chunks are merged, so that bookkeeping never outweighs the data.
    if chunks and len(chunks[-1]) + len(chunk) <= _MERGED_BYTES:
        chunks[-1] += chunk
    else:
        chunks.append(chunk)
