"""The entry point ``daytona``: what the provider is, without importing it."""

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
    provider_id="daytona",
    display_name="Daytona",
    distribution="ai4j-sandbox-daytona",
    version="0.1.0",
    requirements=(
        Requirement(any_of=("DAYTONA_API_KEY",), hint="set DAYTONA_API_KEY to an API key of your Daytona account"),
    ),
    capabilities=Capabilities(
        {
            Capability.STREAMING: emulated("output is fetched from the sandbox as it grows"),
            Capability.STDIN: emulated("input travels within the command's text, or is uploaded first"),
            Capability.SEPARATE_STREAMS: emulated("a script in the sandbox keeps what the service would merge"),
            Capability.TIMEOUT: emulated("kept by a script in the sandbox: the service's own loses all output"),
            Capability.CANCEL: emulated("a second, small command signals the whole process tree"),
            Capability.FILES: NATIVE,
            Capability.ARTIFACTS: emulated("found by a shell script in the sandbox"),
            Capability.TERMINAL: NATIVE,
            Capability.BACKGROUND: emulated("started commands keep a record in the sandbox"),
            Capability.PORTS: NATIVE,
            Capability.PAUSE: NATIVE,
            Capability.EXTEND: NATIVE,
            Capability.SNAPSHOT: NATIVE,
            Capability.METRICS: unsupported("Daytona's toolbox tells no use"),
            Capability.WATCH: unsupported("Daytona's toolbox has no notifications"),
            Capability.CONNECT: NATIVE,
            Capability.HEALTH: NATIVE,
            Capability.LISTING: NATIVE,
            Capability.NETWORK_POLICY: NATIVE,
            Capability.BROWSER: unsupported("run one from a snapshot that holds it"),
        }
    ),
    isolation=IsolationLevel.VIRTUAL_MACHINE,
)


def _provider(**arguments: Any) -> SandboxProvider:
    from .provider import DaytonaSandboxProvider

    return DaytonaSandboxProvider(**arguments)


@hookimpl
def ai4j_sandbox_providers() -> tuple[ProviderRegistration, ...]:
    """Contribute the Daytona provider."""
    return (ProviderRegistration(info=INFO, factory=_provider),)
