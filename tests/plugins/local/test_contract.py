"""The promises of the SPI, kept in both tiers."""

from __future__ import annotations

import pytest

from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.testing import SandboxContract
from ai4j_sandbox_local import LocalProvider


class TestNamespaceTier(SandboxContract):
    """The default on a machine that allows user namespaces."""

    spec = SandboxSpec(config={"isolation": "namespace"})
    misspelt_setting = ("netwrok", "network")

    @pytest.fixture
    def provider(self) -> LocalProvider:
        return LocalProvider()


class TestSyscallFilterTier(TestNamespaceTier):
    """The fallback for machines that do not."""

    spec = SandboxSpec(config={"isolation": "syscall-filter"})
