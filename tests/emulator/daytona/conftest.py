"""Emulated Daytonas: one that runs commands for real, one whose commands do nothing and whose clock is ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox_emulator import Emulator
from ai4j_sandbox_emulator.daytona.face import DaytonaFace
from ai4j_sandbox_emulator.server import FACES
from support.daytona_calls import DaytonaBox, DaytonaCalls

CHANGE_SECONDS = 10.0


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def change_is_over(self) -> None:
        """Let a change of state come to its end."""
        self.now += CHANGE_SECONDS


@pytest.fixture(scope="module")
def real_emulator() -> Iterator[Emulator]:
    with Emulator(("daytona", "daytona-newer")) as running:
        yield running


@pytest.fixture
def emulator(real_emulator: Emulator) -> Iterator[Emulator]:
    yield real_emulator
    real_emulator.faults.clear()


@pytest.fixture
def box(emulator: Emulator) -> Iterator[DaytonaBox]:
    """A sandbox in which commands really run."""
    made = DaytonaCalls(emulator.url("daytona")).create()
    yield made
    made.control("DELETE")


@pytest.fixture
def newer_box(emulator: Emulator) -> Iterator[DaytonaBox]:
    """The same, with the failures of the newer daemon."""
    made = DaytonaCalls(emulator.url("daytona-newer")).create()
    yield made
    made.control("DELETE")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def calls(clock: Clock) -> Iterator[DaytonaCalls]:
    """A control API whose sandboxes only seem to run."""
    with Emulator(("daytona",), FakeProvider(), clock=clock) as running:
        yield DaytonaCalls(running.url())


@pytest.fixture
def slow(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaytonaCalls]:
    """The same; every change of state takes `CHANGE_SECONDS`."""
    monkeypatch.setitem(FACES, "daytona-slow", lambda fleet, home: DaytonaFace(fleet, change_seconds=CHANGE_SECONDS))
    with Emulator(("daytona-slow",), FakeProvider(), clock=clock) as running:
        yield DaytonaCalls(running.url())
