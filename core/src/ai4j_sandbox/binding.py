"""What an agent session remembers of a sandbox: the seeds' nine summary fields and nothing else (seed 1 section 5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from .frozen import empty_mapping, freeze
from .model import SandboxStatus
from .redaction import filter_labels, mask_text

if TYPE_CHECKING:
    from .spi import SandboxSession

WallClock = Callable[[], int]


def epoch_millis() -> int:
    """Return the wall-clock time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSessionSandboxBinding:
    """The non-sensitive summary of the sandbox an agent session is bound to. Not a live session.

    Built by hand or by `from_session`, it is sanitised either way: labels whose key is sensitive are dropped
    (`redaction.filter_labels`), and secrets that give themselves away are masked in every text. `SandboxSpec.config`
    never gets here.

    Attributes:
        bound_at, updated_at: Milliseconds since 1970. Unset or not positive means now, respectively `bound_at`.
    """

    provider_id: str | None = None
    sandbox_session_id: str | None = None
    status: SandboxStatus | None = None
    profile: str | None = None
    image: str | None = None
    workspace_id: str | None = None
    labels: Mapping[str, str | None] = field(default_factory=empty_mapping)
    bound_at: int = 0
    updated_at: int = 0

    def __post_init__(self) -> None:
        for name in ("provider_id", "sandbox_session_id", "profile", "image", "workspace_id"):
            value = getattr(self, name)
            self._set(name, mask_text(value.strip()) or None if value is not None else None)
        self._set("labels", freeze(filter_labels(self.labels)))
        if self.bound_at <= 0:
            self._set("bound_at", epoch_millis())
        if self.updated_at <= 0:
            self._set("updated_at", self.bound_at)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def from_session(cls, session: SandboxSession, *, clock: WallClock = epoch_millis) -> Self:
        """Return the summary of a live session as it is now."""
        spec = session.spec
        return cls(
            provider_id=session.provider_id,
            sandbox_session_id=session.session_id,
            status=session.status,
            profile=spec.profile,
            image=spec.image,
            workspace_id=spec.workspace_id,
            labels=spec.labels,
            bound_at=clock(),
        )

    def with_status(self, status: SandboxStatus | None, *, clock: WallClock = epoch_millis) -> Self:
        """Return the same binding with another status, updated now."""
        return replace(self, status=status, updated_at=clock())

    def to_dict(self) -> dict[str, Any]:
        """Return the binding as JSON-ready data with the seeds' camelCase keys."""
        return {
            "providerId": self.provider_id,
            "sandboxSessionId": self.sandbox_session_id,
            "status": None if self.status is None else str(self.status),
            "profile": self.profile,
            "image": self.image,
            "workspaceId": self.workspace_id,
            "labels": dict(self.labels),
            "boundAt": self.bound_at,
            "updatedAt": self.updated_at,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the binding that `to_dict` wrote; also reads the Java original's ``boundAtEpochMs`` names.

        Raises:
            SandboxConfigError: `data` is not such a mapping; names the fields.
        """
        from .schema import BindingSchema, load

        return load(BindingSchema, data, cls)
