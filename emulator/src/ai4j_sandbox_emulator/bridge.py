"""Streams across the border between the event loop and the threads in which the SPI blocks."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Generic, TypeVar

from ai4j_sandbox.aio import in_thread

T = TypeVar("T")

CAPACITY_BYTES = 64 * 32 * 1024
"""What a `Subscription` holds before whoever produces it has to wait: as much as envd, 64 chunks of 32 KiB."""


class Subscription(Generic[T]):
    """A bounded queue from one thread to one task. A slow reader makes the writer wait: that is the backpressure."""

    def __init__(self, loop: asyncio.AbstractEventLoop, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._loop = loop
        self._capacity = capacity_bytes
        self._size = 0
        self._items: deque[T] = deque()
        self._room = threading.Condition()
        self._filled = asyncio.Event()
        self._closed = False

    def put(self, item: T, size: int) -> None:
        """Hand over an item of so many bytes from another thread; waits while the queue is full.

        Dropped when nobody reads any more.
        """
        with self._room:
            while self._size >= self._capacity and not self._closed:
                self._room.wait()
            self._size += size
            self._append(item)

    def put_now(self, item: T) -> None:
        """Hand over an item without waiting for room, from any thread."""
        with self._room:
            self._append(item)

    async def take(self, timeout: float | None = None) -> list[T]:
        """Return everything that waits, as soon as there is something; nothing after `timeout` seconds."""
        end = None if timeout is None else self._loop.time() + timeout
        while not (items := self._drained()):
            self._filled.clear()  # only the loop sets it, so that nothing put meanwhile is missed
            try:
                async with asyncio.timeout_at(end):
                    await self._filled.wait()
            except TimeoutError:
                return []
        return items

    def close(self) -> None:
        """Take nothing more, and let the writer go on."""
        with self._room:
            self._closed = True
            self._items.clear()
            self._room.notify_all()

    def _drained(self) -> list[T]:
        with self._room:
            items = list(self._items)
            self._items.clear()
            self._size = 0
            self._room.notify_all()
        return items

    def _append(self, item: T) -> None:
        if self._closed:
            return
        self._items.append(item)
        if len(self._items) == 1 and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._filled.set)


def blocking(stream: AsyncIterator[T], loop: asyncio.AbstractEventLoop) -> Iterator[T]:
    """Yield an asynchronous stream's items in a thread that may block. The loop must run in another thread."""
    while True:
        try:
            yield asyncio.run_coroutine_threadsafe(_next(stream), loop).result()
        except StopAsyncIteration:
            return


async def _next(stream: AsyncIterator[T]) -> T:
    return await anext(stream)


async def awaitable(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a blocking iterator's chunks without blocking the loop."""
    while (chunk := await in_thread(next, chunks, None)) is not None:
        yield chunk
