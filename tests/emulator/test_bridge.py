"""Streams between threads and the loop: complete, in order, and never more than the reader can take."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox_emulator.bridge import Subscription, awaitable, blocking


def test_items_arrive_in_order_and_completely() -> None:
    async def scenario() -> list[int]:
        queue: Subscription[int] = Subscription(asyncio.get_running_loop(), capacity_bytes=10)
        threading.Thread(target=lambda: [queue.put(number, 3) for number in range(1000)], daemon=True).start()
        received: list[int] = []
        while len(received) < 1000:
            received += await queue.take()
        return received

    assert asyncio.run(scenario()) == list(range(1000))


def test_a_full_queue_makes_the_writer_wait() -> None:
    async def scenario() -> tuple[bool, list[int], list[int]]:
        queue: Subscription[int] = Subscription(asyncio.get_running_loop(), capacity_bytes=10)
        queue.put(1, 10)
        writer = asyncio.ensure_future(in_thread(queue.put, 2, 10))
        _, waiting = await asyncio.wait([writer], timeout=0.05)
        return writer in waiting, await queue.take(), await queue.take()

    assert asyncio.run(scenario()) == (True, [1], [2])


def test_closing_lets_a_waiting_writer_go() -> None:
    async def scenario() -> None:
        queue: Subscription[int] = Subscription(asyncio.get_running_loop(), capacity_bytes=10)
        queue.put(1, 10)
        writer = asyncio.ensure_future(in_thread(queue.put, 2, 10))
        queue.close()
        async with asyncio.timeout(5):
            await writer

    asyncio.run(scenario())


def test_an_empty_queue_gives_nothing_after_the_timeout() -> None:
    async def scenario() -> list[int]:
        return await Subscription[int](asyncio.get_running_loop()).take(0.01)

    assert asyncio.run(scenario()) == []


def test_a_stream_is_read_in_a_thread_that_blocks() -> None:
    async def stream() -> AsyncIterator[bytes]:
        for piece in (b"a", b"b", b"c"):
            await asyncio.sleep(0)
            yield piece

    async def scenario() -> list[bytes]:
        return await in_thread(list, blocking(stream(), asyncio.get_running_loop()))

    assert asyncio.run(scenario()) == [b"a", b"b", b"c"]


def test_a_blocking_iterator_is_awaited() -> None:
    async def scenario() -> list[bytes]:
        return [chunk async for chunk in awaitable(iter([b"a", b"b"]))]

    assert asyncio.run(scenario()) == [b"a", b"b"]
