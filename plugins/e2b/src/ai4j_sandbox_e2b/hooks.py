"""The entry point ``e2b``: what the provider is, without importing it."""

from __future__ import annotations

from typing import Any

from ai4j_sandbox.capability import (
    NATIVE,
    Capabilities,
    Capability,
    IsolationLevel,
    ProviderInfo,
    Requirement,
    emulated,
    unsupported,
)
from ai4j_sandbox.hookspecs import ProviderRegistration, hookimpl
from ai4j_sandbox.spi import SandboxProvider

INFO = ProviderInfo(
    provider_id="e2b",
    display_name="E2B",
    distribution="ai4j-sandbox-e2b",
    version="0.1.0",
    requirements=(Requirement(any_of=("E2B_API_KEY",), hint="set E2B_API_KEY to an API key of your E2B account"),),
    capabilities=Capabilities(
        {
            Capability.STREAMING: NATIVE,
            Capability.STDIN: NATIVE,
            Capability.SEPARATE_STREAMS: NATIVE,
            Capability.TIMEOUT: NATIVE,
            Capability.CANCEL: emulated("a second, small command signals the whole process tree"),
            Capability.FILES: NATIVE,
            Capability.ARTIFACTS: emulated("found by a shell script in the sandbox"),
            Capability.TERMINAL: NATIVE,
            Capability.BACKGROUND: NATIVE,
            Capability.PORTS: NATIVE,
            Capability.PAUSE: NATIVE,
            Capability.EXTEND: NATIVE,
            Capability.SNAPSHOT: NATIVE,
            Capability.METRICS: NATIVE,
            Capability.WATCH: NATIVE,
            Capability.CONNECT: NATIVE,
            Capability.HEALTH: NATIVE,
            Capability.LISTING: NATIVE,
            Capability.NETWORK_POLICY: NATIVE,
            Capability.BROWSER: unsupported("E2B has no browser API; run one from a template that holds it"),
        }
    ),
    isolation=IsolationLevel.VIRTUAL_MACHINE,
)


def _provider(**arguments: Any) -> SandboxProvider:
    from .provider import E2BSandboxProvider

    return E2BSandboxProvider(**arguments)


@hookimpl
def ai4j_sandbox_providers() -> tuple[ProviderRegistration, ...]:
    """Contribute the E2B provider."""
    return (ProviderRegistration(info=INFO, factory=_provider),)
