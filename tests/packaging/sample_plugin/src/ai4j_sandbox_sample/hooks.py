"""What the entry point names: what the provider is, and how to make it. Imports nothing of the provider."""

from __future__ import annotations

from typing import Any

from ai4j_sandbox import (
    Capabilities,
    Capability,
    IsolationLevel,
    ProviderInfo,
    ProviderRegistration,
    SandboxLocation,
    SandboxProvider,
    hookimpl,
)
from ai4j_sandbox.capability import NATIVE, emulated, unsupported

INFO = ProviderInfo(
    provider_id="sample",
    display_name="Sample (a directory on this machine, NOT isolated)",
    distribution="ai4j-sandbox-sample",
    version="0.1.0",
    spi=((0, 1), (0, 2)),
    isolation=IsolationLevel.NONE,
    location=SandboxLocation.THIS_MACHINE,
    capabilities=Capabilities(
        {
            Capability.STREAMING: NATIVE,
            Capability.STDIN: NATIVE,
            Capability.SEPARATE_STREAMS: NATIVE,
            Capability.TIMEOUT: NATIVE,
            Capability.CANCEL: NATIVE,
            Capability.FILES: emulated("by small shell scripts"),
            Capability.ARTIFACTS: emulated("by small shell scripts"),
            Capability.TERMINAL: unsupported("commands run on pipes only"),
        }
    ),
)


def make_provider(**arguments: Any) -> SandboxProvider:
    """Import the provider now that somebody wants it, and return a new one."""
    from .provider import SampleProvider

    return SampleProvider(**arguments)


@hookimpl
def ai4j_sandbox_providers() -> list[ProviderRegistration]:
    """Contribute the sample provider."""
    return [ProviderRegistration(info=INFO, factory=make_provider)]
