"""What a provider can do, and whether it takes a spec: plain data, known without importing the provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from .frozen import empty_mapping, freeze

SPI_VERSION = (0, 1)
"""Major and minor version of the SPI this core offers to plugins."""


class Capability(StrEnum):
    """One thing a session or provider may be able to do."""

    STREAMING = "streaming"
    STDIN = "stdin"
    SEPARATE_STREAMS = "separate-streams"
    TIMEOUT = "timeout"
    CANCEL = "cancel"
    FILES = "files"
    ARTIFACTS = "artifacts"
    TERMINAL = "terminal"
    BACKGROUND = "background"
    PORTS = "ports"
    PAUSE = "pause"
    EXTEND = "extend"
    SNAPSHOT = "snapshot"
    METRICS = "metrics"
    WATCH = "watch"
    CONNECT = "connect"
    HEALTH = "health"
    LISTING = "listing"
    NETWORK_POLICY = "network-policy"
    BROWSER = "browser"


class SupportLevel(StrEnum):
    """Native to the service, built by us on top of it, or not there."""

    NATIVE = "native"
    EMULATED = "emulated"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """How far one capability goes.

    Attributes:
        reason: Why it is emulated or missing, for people.
        limits: Figures worth knowing (``{"max_bytes": 5_000_000}``).
    """

    level: SupportLevel
    reason: str | None = None
    limits: Mapping[str, Any] = field(default_factory=empty_mapping)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", freeze(self.limits))


NATIVE = Support(level=SupportLevel.NATIVE)


def emulated(reason: str, **limits: Any) -> Support:
    """Return support that is built on top of something else, and says so."""
    return Support(level=SupportLevel.EMULATED, reason=reason, limits=limits)


def unsupported(reason: str) -> Support:
    """Return the support of something that is not there, with the reason."""
    return Support(level=SupportLevel.UNSUPPORTED, reason=reason)


_ABSENT = unsupported("not offered by this provider")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capability to support level; whatever is not listed is unsupported."""

    supports: Mapping[Capability, Support] = field(default_factory=empty_mapping)

    def __post_init__(self) -> None:
        object.__setattr__(self, "supports", freeze(self.supports))

    def __getitem__(self, capability: Capability) -> Support:
        return self.supports.get(capability, _ABSENT)

    def __contains__(self, capability: object) -> bool:
        return isinstance(capability, Capability) and self[capability].level is not SupportLevel.UNSUPPORTED

    def narrowed(self, changes: Mapping[Capability, Support]) -> Capabilities:
        """Return these capabilities with some replaced, as known for one session."""
        return Capabilities({**self.supports, **changes})

    def offered(self) -> list[str]:
        """Names of what is supported, in the order of `Capability`."""
        return [capability.value for capability in Capability if capability in self]


class IsolationLevel(IntEnum):
    """How strong the wall around a command is; larger is stronger, so that hosts can set a floor."""

    NONE = 0
    SYSCALL_FILTER = 1
    NAMESPACE = 2
    CONTAINER = 3
    USER_KERNEL = 4
    VIRTUAL_MACHINE = 5


class SandboxLocation(StrEnum):
    """Where a sandbox runs, seen from the host that uses it."""

    THIS_MACHINE = "this-machine"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What a provider needs from its surroundings.

    Attributes:
        any_of: Environment variables, one of which must be set; empty when it is something else.
        hint: What to do about it, for people.
    """

    any_of: tuple[str, ...] = ()
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderInfo:
    """A provider as its entry-point module describes it, without importing the provider.

    Attributes:
        provider_id: The id that specs name and the entry point is called by.
        display_name: For people.
        distribution, version: The distribution that brings it.
        spi: Lowest and first unsupported SPI version, ``((0, 1), (0, 2))``.
        requirements: What must be there before `create_session` can work.
        capabilities: The most it can do; a session may narrow them.
        isolation: The strongest isolation it gives; a session tells its own.
        location: Where its sandboxes run; what permission policies go by. A provider whose sandboxes may run on this
            machine (a container daemon that is usually local) says `THIS_MACHINE`.

    Raises:
        ValueError: `location` is no `SandboxLocation`.
    """

    provider_id: str
    display_name: str
    distribution: str
    version: str
    spi: tuple[tuple[int, int], tuple[int, int]] = ((0, 1), (0, 2))
    requirements: tuple[Requirement, ...] = ()
    capabilities: Capabilities = field(default_factory=Capabilities)
    isolation: IsolationLevel = IsolationLevel.NONE
    location: SandboxLocation = SandboxLocation.REMOTE

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", SandboxLocation(self.location))


class Decision(StrEnum):
    """What becomes of one field of a spec."""

    HONOURED = "honoured"
    EMULATED = "emulated"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDecision:
    """What becomes of one field (``image``, ``config.timeoutSeconds``), and why."""

    field: str
    decision: Decision
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A provider's answer to a spec: one decision per field. Nothing was contacted to give it."""

    provider_id: str
    decisions: tuple[FieldDecision, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether no field was refused."""
        return not self.refusals

    @property
    def refusals(self) -> tuple[FieldDecision, ...]:
        """The refused fields."""
        return tuple(item for item in self.decisions if item.decision is Decision.REFUSED)

    def explain(self) -> str:
        """Return the refusals as one sentence, or ``"accepted"``."""
        if self.accepted:
            return "accepted"
        return "; ".join(f"{item.field}: {item.reason or 'not supported'}" for item in self.refusals)
