"""Fixtures for your own tests: ``from ai4j_sandbox_emulator.testing import emulator`` in a conftest.

def test_my_agent(emulator, monkeypatch):
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    ...  # the official e2b SDK, or provider_id="e2b", now runs on this machine
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .server import Emulator


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """A running emulator with the E2B face and real commands in ``local`` sandboxes; everything ends with the test."""
    with Emulator() as running:
        yield running
