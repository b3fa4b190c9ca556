"""The entry point ``cubesandbox``: what the provider is, without importing it."""

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
    provider_id="cubesandbox",
    display_name="CubeSandbox",
    distribution="ai4j-sandbox-cubesandbox",
    version="0.1.0",
    requirements=(
        Requirement(any_of=("CUBE_TEMPLATE_ID",), hint="set CUBE_TEMPLATE_ID to a template of your cluster"),
    ),
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
            Capability.BROWSER: unsupported("CubeSandbox has no browser API; run one from a template that holds it"),
        }
    ),
    isolation=IsolationLevel.VIRTUAL_MACHINE,
)


def _provider(**arguments: Any) -> SandboxProvider:
    from .provider import CubeSandboxProvider

    return CubeSandboxProvider(**arguments)


@hookimpl
def ai4j_sandbox_providers() -> tuple[ProviderRegistration, ...]:
    """Contribute the CubeSandbox provider."""
    return (ProviderRegistration(info=INFO, factory=_provider),)
