"""The conformance suite, against the emulator."""

from __future__ import annotations

import pytest

from ai4j_sandbox.testing import SandboxContract
from ai4j_sandbox_e2b import E2BSandboxProvider
from ai4j_sandbox_emulator import Emulator


class TestE2BContract(SandboxContract):
    misspelt_setting = ("deletOnClose", "deleteOnClose")

    @pytest.fixture
    def provider(self, emulator: Emulator) -> E2BSandboxProvider:
        return E2BSandboxProvider(environ=emulator.environment)
