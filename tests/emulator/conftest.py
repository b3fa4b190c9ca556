"""One emulator for a whole run of tests; each test that changes something makes its own sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ai4j_sandbox_emulator import Emulator
from support.emulator_client import Box, EmulatorClient


@pytest.fixture(scope="session")
def shared_emulator() -> Iterator[Emulator]:
    with Emulator() as running:
        yield running


@pytest.fixture
def emulator(shared_emulator: Emulator) -> Iterator[Emulator]:
    yield shared_emulator
    shared_emulator.faults.clear()


@pytest.fixture
def client(emulator: Emulator) -> EmulatorClient:
    return EmulatorClient(emulator.url())


@pytest.fixture(scope="session")
def shared_box(shared_emulator: Emulator) -> Box:
    """A sandbox for tests that leave it running."""
    return EmulatorClient(shared_emulator.url()).create(timeout=3600)


@pytest.fixture
def box(client: EmulatorClient) -> Iterator[Box]:
    """A sandbox for tests that end it."""
    made = client.create(timeout=3600)
    yield made
    made.control("DELETE")
