"""The entry point ``local``: what the provider is, without importing it."""

from __future__ import annotations

from typing import Any

from ai4j_sandbox.capability import (
    NATIVE,
    Capabilities,
    Capability,
    IsolationLevel,
    ProviderInfo,
    Requirement,
    SandboxLocation,
    emulated,
)
from ai4j_sandbox.hookspecs import ProviderRegistration, hookimpl
from ai4j_sandbox.spi import SandboxProvider

INFO = ProviderInfo(
    provider_id="local",
    display_name="Local sandbox",
    distribution="ai4j-sandbox-local",
    version="0.1.0",
    requirements=(Requirement(hint="Linux with unprivileged user namespaces, or with Landlock"),),
    capabilities=Capabilities(
        {
            Capability.STREAMING: NATIVE,
            Capability.STDIN: NATIVE,
            Capability.SEPARATE_STREAMS: NATIVE,
            Capability.TIMEOUT: NATIVE,
            Capability.CANCEL: NATIVE,
            Capability.FILES: NATIVE,
            Capability.ARTIFACTS: emulated("found by a shell script in the sandbox"),
            Capability.TERMINAL: NATIVE,
            Capability.BACKGROUND: NATIVE,
            Capability.PORTS: emulated(
                "each connection is copied to the host's loopback, which all local users can reach"
            ),
            Capability.PAUSE: emulated("every process is stopped by a signal; memory stays in use"),
            Capability.EXTEND: NATIVE,
            Capability.METRICS: emulated("memory is the sum over the processes, shared pages counted for each"),
            Capability.HEALTH: NATIVE,
        }
    ),
    isolation=IsolationLevel.NAMESPACE,
    location=SandboxLocation.THIS_MACHINE,
)


def _provider(**arguments: Any) -> SandboxProvider:
    from .provider import LocalProvider

    return LocalProvider(**arguments)


@hookimpl
def ai4j_sandbox_providers() -> tuple[ProviderRegistration, ...]:
    """Contribute the local provider."""
    return (ProviderRegistration(info=INFO, factory=_provider),)
