"""A command and its listeners, with a provider that plays a script."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from ai4j_sandbox import OutputChunk, OutputStream, SandboxCommand, SandboxProcess
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox_emulator.process import EmulatedProcess, Ended, Failed, Listener, ProcessEvent, Started

OUTPUT = [OutputChunk(OutputStream.STDOUT, b"%d" % number) for number in range(300)]


def made(result: FakeResult, **options: bool) -> EmulatedProcess:
    session = FakeProvider(lambda command: result).create_session()
    return EmulatedProcess(
        SandboxCommand(command="scripted", **options),
        session.start,
        tag=None,
        next_pid=itertools.count(7).__next__,
        clock=lambda: 1.0,
    )


async def heard(listener: Listener) -> list[ProcessEvent]:
    """Everything until the end."""
    events: list[ProcessEvent] = []
    while not events or not isinstance(events[-1], Ended | Failed):
        events += await listener.take()
    return events


def run(scenario: Callable[[], Awaitable[list[ProcessEvent]]]) -> list[ProcessEvent]:
    async def bounded() -> list[ProcessEvent]:
        async with asyncio.timeout(20):
            return await scenario()

    return asyncio.run(bounded())


def test_a_listener_hears_the_start_the_output_and_the_end_in_order() -> None:
    async def scenario() -> list[ProcessEvent]:
        process = made(FakeResult(output=OUTPUT))
        listener = process.listen()
        process.run()
        return await heard(listener)

    first, *output, last = run(scenario)

    assert (first, output) == (Started(4242), OUTPUT)
    assert isinstance(last, Ended)


def test_who_comes_after_the_end_hears_how_it_began_and_ended() -> None:
    async def scenario() -> list[ProcessEvent]:
        process = made(FakeResult(stdout="gone", exit_code=3))
        process.run()
        await process.wait_over(10)
        return await heard(process.listen())

    first, last = run(scenario)

    assert first == Started(4242)
    assert isinstance(last, Ended)
    assert last.result.exit_code == 3


def test_a_listener_that_leaves_without_reading_does_not_hold_up_the_others() -> None:
    async def scenario() -> list[ProcessEvent]:
        big = [OutputChunk(OutputStream.STDOUT, b"x" * 1_000_000)] * 5
        process = made(FakeResult(output=big))
        idle, listener = process.listen(), process.listen()
        process.run()
        events = await listener.take()
        process.leave(idle)
        return events + await heard(listener)

    events = run(scenario)

    assert sum(len(event.data) for event in events if isinstance(event, OutputChunk)) == 5_000_000


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (SandboxException("not now"), "not now"),
        (RuntimeError("a bug"), "the provider failed: RuntimeError: a bug"),
    ],
)
def test_whatever_the_provider_raises_is_told(raised: Exception, message: str) -> None:
    def start(command: SandboxCommand) -> SandboxProcess:
        raise raised

    async def scenario() -> list[ProcessEvent]:
        process = EmulatedProcess(SandboxCommand(command="x"), start, tag=None, next_pid=lambda: 1, clock=lambda: 1.0)
        listener = process.listen()
        process.run()
        return await heard(listener)

    (event,) = run(scenario)

    assert isinstance(event, Failed)
    assert event.error.message == message


def test_input_after_the_end_is_refused() -> None:
    async def scenario() -> list[ProcessEvent]:
        process = made(FakeResult(), keep_stdin_open=True)
        process.run()
        await process.wait_over(10)
        with pytest.raises(SandboxException, match="has ended"):
            await process.write_stdin(b"late")
        return []

    run(scenario)
