"""Sandboxes over a provider that can be made to fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ai4j_sandbox import SandboxCommand
from ai4j_sandbox.errors import SandboxConnectionError, SandboxException
from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox_emulator.fleet import Fleet
from ai4j_sandbox_emulator.sandbox import NewSandbox, Sandbox
from ai4j_sandbox_emulator.state import OnTimeout, Phase, WrongPhaseError

T = TypeVar("T")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def wanted(**options: object) -> NewSandbox:
    return NewSandbox(sandbox_id="i1", template="base", seconds=10, **options)  # type: ignore[arg-type]


def with_fleet(
    scenario: Callable[[Fleet, FakeProvider, Clock], Awaitable[T]], provider: FakeProvider | None = None
) -> T:
    """Run a scenario with a fleet of its own, and close that afterwards."""
    provider = provider or FakeProvider(lambda command: FakeResult(blocks=True))
    clock = Clock()

    async def bounded() -> T:
        async with asyncio.timeout(20):
            fleet = Fleet(provider.create_session, home="/home/user", clock=clock)
            try:
                return await scenario(fleet, provider, clock)
            finally:
                await fleet.close()

    return asyncio.run(bounded())


def break_freezing(sandbox: Sandbox) -> None:
    async def freeze() -> None:
        raise SandboxConnectionError("the engine does not answer")

    sandbox.freeze = freeze  # type: ignore[method-assign]


def test_closing_destroys_what_is_being_made() -> None:
    provider = FakeProvider()

    async def scenario(fleet: Fleet, provider: FakeProvider, clock: Clock) -> None:
        making = asyncio.ensure_future(fleet.create(wanted()))
        await asyncio.sleep(0)
        making.cancel()

    with_fleet(scenario, provider)

    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_a_session_that_could_not_be_closed_is_closed_again_at_the_end() -> None:
    closings = []

    async def scenario(fleet: Fleet, provider: FakeProvider, clock: Clock) -> None:
        sandbox = await fleet.create(wanted())
        close = sandbox.session.close

        def close_badly() -> None:
            closings.append("close")
            if len(closings) == 1:
                raise SandboxException("not now")
            close()

        sandbox.session.close = close_badly  # type: ignore[method-assign]
        await fleet.kill(sandbox)

    provider = FakeProvider()
    with_fleet(scenario, provider)

    assert closings == ["close", "close"]
    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_a_pause_that_fails_leaves_the_sandbox_running() -> None:
    async def scenario(fleet: Fleet, provider: FakeProvider, clock: Clock) -> Phase:
        sandbox = await fleet.create(wanted())
        break_freezing(sandbox)
        with pytest.raises(SandboxConnectionError):
            await fleet.pause(sandbox)
        return sandbox.phase

    assert with_fleet(scenario) is Phase.RUNNING


def test_a_sandbox_that_cannot_be_paused_at_its_end_is_killed_and_its_log_says_why() -> None:
    async def scenario(fleet: Fleet, provider: FakeProvider, clock: Clock) -> tuple[Phase, list[str]]:
        sandbox = await fleet.create(wanted(on_timeout=OnTimeout.PAUSE))
        break_freezing(sandbox)
        clock.now += 10
        fleet.end_due()
        while sandbox.phase is not Phase.KILLED:
            await asyncio.sleep(0)
        return sandbox.phase, [entry.message for entry in sandbox.journal if entry.level == "error"]

    phase, errors = with_fleet(scenario)

    assert (phase, errors) == (
        Phase.KILLED,
        ["it cannot be paused and is killed: the engine does not answer"],
    )


def test_a_provider_without_pause_gets_signals_instead() -> None:
    signals: list[str] = []

    async def scenario(fleet: Fleet, provider: FakeProvider, clock: Clock) -> None:
        sandbox = await fleet.create(wanted())
        process = sandbox.prepare(SandboxCommand(command="run"))
        listener = process.listen()
        process.run()
        await listener.take()
        (channel,) = next(iter(provider.sandboxes.values())).channels
        kill = channel.kill

        def note(signal: str) -> bool:
            signals.append(signal)
            return signal in ("SIGSTOP", "SIGCONT") or kill(signal)

        channel.kill = note  # type: ignore[method-assign]
        await fleet.pause(sandbox)
        await fleet.resume(sandbox, 5)

    with_fleet(scenario)

    assert signals[:2] == ["SIGSTOP", "SIGCONT"]


def test_a_command_that_ended_is_known_for_half_a_minute() -> None:
    async def scenario(fleet: Fleet, provider: FakeProvider, clock: Clock) -> list[int]:
        sandbox = await fleet.create(wanted())
        process = sandbox.prepare(SandboxCommand(command="run"))
        process.run()
        await process.wait_over(10)
        known = []
        for _ in range(2):
            known.append(len(sandbox.known_processes()))
            clock.now += 31
        return [*known, len(sandbox.known_processes())]

    assert with_fleet(scenario, FakeProvider(lambda command: FakeResult())) == [1, 0, 0]


def test_a_sandbox_is_killed_once() -> None:
    async def scenario(fleet: Fleet, provider: FakeProvider, clock: Clock) -> None:
        sandbox = await fleet.create(wanted())
        await fleet.kill(sandbox)
        with pytest.raises(WrongPhaseError):
            await fleet.kill(sandbox)

    with_fleet(scenario)
