"""One emulator for each test module; every test finds it without faults and ends without sandboxes of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ai4j_sandbox_daytona import DaytonaSandboxProvider
from ai4j_sandbox_emulator import Emulator


@pytest.fixture(scope="module")
def running_emulator() -> Iterator[Emulator]:
    """Serve the Daytona protocol on a loopback port."""
    with Emulator(("daytona",)) as emulator:
        yield emulator


@pytest.fixture
def emulator(running_emulator: Emulator) -> Iterator[Emulator]:
    """Give the emulator with a clean board of faults and an empty record of requests."""
    running_emulator.faults.clear()
    running_emulator.requests.clear()
    yield running_emulator
    running_emulator.faults.clear()


@pytest.fixture
def provider(emulator: Emulator) -> DaytonaSandboxProvider:
    """Give a provider that uses the emulator."""
    return DaytonaSandboxProvider(environ=emulator.environment)
