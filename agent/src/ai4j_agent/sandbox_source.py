"""Where a session's sandbox comes from when it is first needed, and what a policy calls that place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.registry import DEFAULT_PROVIDER_ID, SandboxRegistry, default_registry
from ai4j_sandbox.spi import SandboxProvider, SandboxSession

from .errors import AgentConfigError
from .permission import AgentExecutionEnvironment

LOCAL_PROVIDER_IDS = frozenset(("local",))
"""Providers whose sandboxes share the host's kernel. Every other provider counts as remote."""


def environment_of(provider_id: str) -> AgentExecutionEnvironment:
    """Return what a policy calls a sandbox of this provider.

    The SPI does not say where a provider's machines are, so that this goes by id: `LOCAL_PROVIDER_IDS` are ``SANDBOX``,
    everything else, a third party's included, is ``REMOTE_SANDBOX``.
    """
    if provider_id.casefold() in LOCAL_PROVIDER_IDS:
        return AgentExecutionEnvironment.SANDBOX
    return AgentExecutionEnvironment.REMOTE_SANDBOX


class SandboxSource(Protocol):
    """Makes, or lends, the sandbox of a session.

    Attributes:
        provider_id: Whose sandbox it will be; known before it is made.
        lends: Whether somebody else closes it.
    """

    @property
    def provider_id(self) -> str: ...

    @property
    def lends(self) -> bool: ...

    def open(self) -> SandboxSession:
        """Return a live sandbox. Raises `SandboxException`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """Makes a new sandbox for each session.

    Attributes:
        provider: A provider, or the id of one in `registry`; by default the spec's, else the registry's default.
        spec: What is wanted; ``None`` means the provider's defaults.
    """

    provider: SandboxProvider | str | None = None
    spec: SandboxSpec | None = field(default=None, repr=False)
    registry: SandboxRegistry = field(default_factory=default_registry, repr=False)

    def __post_init__(self) -> None:
        wanted = self.spec.provider_id if self.spec else None
        if self.provider and wanted and wanted.casefold() != self.provider_id.casefold():
            raise AgentConfigError(
                f"sandbox provider {self.provider_id!r} contradicts spec.provider_id={wanted!r}",
                hint="give one of them",
            )

    @property
    def provider_id(self) -> str:
        """Whose sandbox it will be."""
        if isinstance(self.provider, SandboxProvider):
            return self.provider.provider_id
        return self.provider or (self.spec and self.spec.provider_id) or DEFAULT_PROVIDER_ID

    @property
    def lends(self) -> bool:
        """The session that asked closes it."""
        return False

    def open(self) -> SandboxSession:
        """Create a sandbox. Raises `SandboxException`."""
        if isinstance(self.provider, SandboxProvider):
            return self.provider.create_session(self.spec)
        return self.registry.create_session(self.spec, provider_id=self.provider_id)

    def with_spec(self, spec: SandboxSpec) -> SandboxPlan:
        """Return a plan for another sandbox of the same provider."""
        return replace(self, spec=spec)
