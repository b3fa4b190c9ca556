"""The conformance suite, against the emulator: a container, and a machine, which can be paused."""

from __future__ import annotations

import pytest

from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.testing import SandboxContract
from ai4j_sandbox_daytona import DaytonaSandboxProvider
from ai4j_sandbox_emulator import Emulator


class TestDaytonaContract(SandboxContract):
    spec = SandboxSpec(config={"deleteOnClose": True})
    misspelt_setting = ("deletOnClose", "deleteOnClose")

    @pytest.fixture
    def provider(self, emulator: Emulator) -> DaytonaSandboxProvider:
        return DaytonaSandboxProvider(environ=emulator.environment)


class TestDaytonaMachineContract(TestDaytonaContract):
    """What only a machine can do, and what that must not break."""

    spec = SandboxSpec(image="daytona-vm", config={"deleteOnClose": True})
