"""The asyncio wrappers: the same methods, and a cancelled task cancels what it waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from ai4j_sandbox import (
    SandboxCommand,
    SandboxConfigError,
    SandboxEvent,
    SandboxEventType,
    SandboxFiles,
    SandboxLocation,
    SandboxProcess,
    SandboxSession,
    SandboxSpec,
    SandboxStatus,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.aio import AsyncFiles, AsyncProcess, AsyncProvider, AsyncSession, in_thread
from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox.testing.fake import FAKE_INFO

SCRIPT = {
    "echo": FakeResult(stdout="hello\n"),
    "cat": FakeResult(echoes_stdin=True),
    "sleep": FakeResult(stdout="partial", blocks=True),
}


@pytest.fixture
def provider() -> AsyncProvider[FakeProvider]:
    return AsyncProvider(FakeProvider(SCRIPT))


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


def public_names(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("wrapper", "wrapped", "not_wrapped"),
    [
        (AsyncProcess, SandboxProcess, {"session_closing", "helped_by"}),
        (AsyncFiles, SandboxFiles, set()),
        (AsyncSession, SandboxSession, {"require"}),
    ],
)
def test_every_public_method_has_an_asynchronous_twin(wrapper: type, wrapped: type, not_wrapped: set[str]) -> None:
    assert public_names(wrapped) - not_wrapped <= public_names(wrapper)


def test_a_session_tells_where_it_runs_as_its_provider_declares_it(provider: AsyncProvider[FakeProvider]) -> None:
    here = replace(FAKE_INFO, location=SandboxLocation.THIS_MACHINE)

    async def locations() -> list[SandboxLocation]:
        sessions = [await one.create_session() for one in (provider, AsyncProvider(FakeProvider(info=here)))]
        assert [session.location for session in sessions] == [session.sync.location for session in sessions]
        return [session.location for session in sessions]

    assert asyncio.run(locations()) == [SandboxLocation.REMOTE, SandboxLocation.THIS_MACHINE]


def test_execute_returns_the_result_inside_a_running_loop(provider: AsyncProvider[FakeProvider]) -> None:
    async def run() -> tuple[str, SandboxStatus]:
        async with await provider.create_session() as session:
            result = await session.execute(SandboxCommand(command="echo"))
        return result.stdout, session.status

    assert asyncio.run(run()) == ("hello\n", SandboxStatus.CLOSED)


def test_events_arrive_in_order_and_on_event_runs_in_the_loop(provider: AsyncProvider[FakeProvider]) -> None:
    async def run() -> tuple[list[SandboxEventType], set[int]]:
        seen: list[SandboxEvent] = []
        threads: set[int] = set()

        def on_event(event: SandboxEvent) -> None:
            seen.append(event)
            threads.add(threading.get_ident())

        async with await provider.create_session() as session:
            await session.execute(SandboxCommand(command="echo"), on_event)
        return [event.type for event in seen], threads

    assert asyncio.run(run()) == (
        [SandboxEventType.COMMAND_STARTED, SandboxEventType.COMMAND_OUTPUT, SandboxEventType.COMMAND_FINISHED],
        {threading.get_ident()},
    )


def test_cancelling_the_task_cancels_the_command(provider: AsyncProvider[FakeProvider]) -> None:
    async def run() -> bool:
        async with await provider.create_session() as session:
            process = await session.start(SandboxCommand(command="sleep"))
            waiting = asyncio.create_task(process.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            return process.sync.wait().canceled

    assert asyncio.run(run())


def test_cancelling_execute_leaves_nothing_running(provider: AsyncProvider[FakeProvider]) -> None:
    async def run() -> list[str]:
        async with await provider.create_session() as session:
            running = asyncio.create_task(session.execute(SandboxCommand(command="sleep", command_id="c")))
            await eventually(lambda: bool(session.sync._processes))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await eventually(lambda: not session.sync._processes)
            return list(session.sync._processes)

    assert asyncio.run(run()) == []


def test_another_task_can_cancel_while_one_waits(provider: AsyncProvider[FakeProvider]) -> None:
    async def run() -> tuple[bool, bool]:
        async with await provider.create_session() as session:
            running = asyncio.create_task(session.execute(SandboxCommand(command="sleep", command_id="c")))
            await eventually(lambda: bool(session.sync._processes))
            stopped = await session.cancel("c")
            return stopped, (await running).canceled

    assert asyncio.run(run()) == (True, True)


def test_stdin_can_be_written_while_output_is_read(provider: AsyncProvider[FakeProvider]) -> None:
    async def run() -> bytes:
        async with await provider.create_session() as session:
            process = await session.start(SandboxCommand(command="cat", keep_stdin_open=True))
            await process.write_stdin("ab")
            await process.close_stdin()
            return b"".join([chunk.data async for chunk in process.output()])

    assert asyncio.run(run()) == b"ab"


def test_files_go_both_ways(provider: AsyncProvider[FakeProvider]) -> None:
    async def run() -> tuple[bytes, list[bytes], bool]:
        async with await provider.create_session() as session:
            await session.files.write("/a.txt", b"content")
            chunks = [chunk async for chunk in session.files.read_chunks("/a.txt")]
            return await session.files.read("/a.txt"), chunks, await session.files.exists("/b")

    assert asyncio.run(run()) == (b"content", [b"content"], False)


def test_a_sandbox_made_for_a_cancelled_task_is_closed_again() -> None:
    entered, may_finish = threading.Event(), threading.Event()
    made: list[SandboxSession] = []

    class SlowProvider(FakeProvider):
        def _create(self, spec: SandboxSpec) -> SandboxSession:
            entered.set()
            may_finish.wait(5)
            made.append(super()._create(spec))
            return made[0]

    async def run() -> None:
        creating = asyncio.create_task(AsyncProvider(SlowProvider()).create_session())
        await eventually(entered.is_set)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        may_finish.set()
        await eventually(lambda: bool(made) and made[0].status is SandboxStatus.CLOSED)

    asyncio.run(run())


def test_errors_arrive_unchanged(provider: AsyncProvider[FakeProvider]) -> None:
    async def run() -> None:
        async with await provider.create_session() as session:
            await session.start("not a command")  # type: ignore[arg-type]  # the error is the subject

    with pytest.raises(SandboxConfigError, match="a SandboxCommand is needed, got str"):
        asyncio.run(run())


def test_an_optional_method_that_is_missing_says_what_can_be_done(provider: AsyncProvider[FakeProvider]) -> None:
    async def run() -> None:
        async with await provider.create_session() as session:
            await session.call("pause")

    with pytest.raises(UnsupportedCapabilityError, match="'fake' does not support pause"):
        asyncio.run(run())


def test_more_blocking_commands_than_any_pool_has_threads_do_not_block_cancel(
    provider: AsyncProvider[FakeProvider],
) -> None:
    async def run() -> int:
        async with await provider.create_session() as session:
            running = [
                asyncio.create_task(session.execute(SandboxCommand(command="sleep", command_id=str(number))))
                for number in range(64)
            ]
            await eventually(lambda: len(session.sync._processes) == 64)
            await asyncio.gather(*(session.cancel(str(number)) for number in range(64)))
            return sum(result.canceled for result in await asyncio.gather(*running))

    assert asyncio.run(run()) == 64


def test_in_thread_hands_back_values_and_errors() -> None:
    async def run() -> int:
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0)
        return await in_thread(max, 1, 2)

    assert asyncio.run(run()) == 2
