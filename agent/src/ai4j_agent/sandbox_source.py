"""Where a session's sandbox comes from when it is first needed, and what a policy calls that place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from ai4j_sandbox.capability import SandboxLocation
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.registry import DEFAULT_PROVIDER_ID, SandboxRegistry, default_registry
from ai4j_sandbox.spi import SandboxProvider, SandboxSession

from .errors import AgentConfigError
from .permission import AgentExecutionEnvironment


def environment_of(location: SandboxLocation) -> AgentExecutionEnvironment:
    """Return what a policy calls a sandbox there: its provider's word, never its id, decides."""
    if location is SandboxLocation.THIS_MACHINE:
        return AgentExecutionEnvironment.SANDBOX
    return AgentExecutionEnvironment.REMOTE_SANDBOX


class SandboxSource(Protocol):
    """Makes, or lends, the sandbox of a session.

    Attributes:
        environment: What a policy calls the place; known before the sandbox is made. May raise `SandboxException`.
        lends: Whether somebody else closes it.
    """

    @property
    def environment(self) -> AgentExecutionEnvironment: ...

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
    def environment(self) -> AgentExecutionEnvironment:
        """What a policy calls the place, as the provider declares it. Nothing is made.

        Raises:
            SandboxProviderError: There is no such provider, or it does not work.
        """
        if isinstance(self.provider, SandboxProvider):
            return environment_of(self.provider.info.location)
        return environment_of(self.registry.info(self.provider_id).location)

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
