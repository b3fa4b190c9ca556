"""The conformance suite, against the emulator: today's servers and older ones."""

from __future__ import annotations

import pytest

from ai4j_sandbox.testing import SandboxContract
from ai4j_sandbox_cubesandbox import CubeSandboxProvider
from ai4j_sandbox_emulator import Emulator


class TestCubeSandboxContract(SandboxContract):
    misspelt_setting = ("closeDestroySandbox", "closeDestroysSandbox")

    @pytest.fixture
    def provider(self, emulator: Emulator) -> CubeSandboxProvider:
        return CubeSandboxProvider(environ=emulator.environment)


class TestCubeSandboxContractOfOlderServers(SandboxContract):
    @pytest.fixture
    def provider(self, older_emulator: Emulator) -> CubeSandboxProvider:
        return CubeSandboxProvider(environ=older_emulator.environment)
