"""Whether providers work here: loaded, asked for their health, and judged by what is configured."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from typing import Any

from ai4j_sandbox import ProviderInfo, SandboxException, SandboxRegistry
from ai4j_sandbox.frozen import empty_mapping, freeze, thaw
from ai4j_sandbox.plugin import DISABLED_VARIABLE, disabled_plugins
from ai4j_sandbox.spi import SupportsHealth

from .catalog import unmet_requirements


class Condition(StrEnum):
    """The state of a provider on this machine."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    UNCONFIGURED = "not configured"
    UNTOLD = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is the matter with one provider.

    Attributes:
        advice: What to do, one line each.
        details: Facts worth showing.
    """

    provider_id: str
    condition: Condition
    summary: str
    advice: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=empty_mapping)

    def __post_init__(self) -> None:
        object.__setattr__(self, "details", freeze(self.details))

    @property
    def works(self) -> bool:
        """Whether nothing speaks against using it."""
        return self.condition in (Condition.HEALTHY, Condition.UNTOLD)

    def document(self) -> dict[str, Any]:
        """Return the diagnosis as JSON-ready data."""
        return {
            "providerId": self.provider_id,
            "condition": self.condition,
            "summary": self.summary,
            "advice": list(self.advice),
            "details": thaw(self.details),
        }

    def lines(self) -> list[str]:
        """Return the diagnosis for people."""
        facts = [f"    {name}: {value}" for name, value in thaw(self.details).items()]
        advice = [f"    -> {line}" for line in self.advice]
        return [f"{self.provider_id}: {self.condition} - {self.summary}", *facts, *advice]


def diagnose(registry: SandboxRegistry, info: ProviderInfo, environ: Mapping[str, str]) -> Diagnosis:
    """Return the state of one provider. Whatever its plugin does wrong is part of the answer."""
    unmet = unmet_requirements(info, environ)
    if unmet:
        return Diagnosis(
            provider_id=info.provider_id,
            condition=Condition.UNCONFIGURED,
            summary="something it needs is not set",
            advice=unmet,
        )
    try:
        return _asked(registry, info.provider_id)
    except SandboxException as error:
        return Diagnosis(
            provider_id=info.provider_id,
            condition=Condition.UNHEALTHY,
            summary=error.message,
            advice=[error.hint] if error.hint else [],
        )


def _asked(registry: SandboxRegistry, provider_id: str) -> Diagnosis:
    provider = registry.provider(provider_id)
    if not isinstance(provider, SupportsHealth):
        return Diagnosis(
            provider_id=provider_id,
            condition=Condition.UNTOLD,
            summary="it loads, and offers no health check; `ai4j sandbox run` shows whether it works",
        )
    health = provider.health()
    return Diagnosis(
        provider_id=provider_id,
        condition=Condition.HEALTHY if health.healthy else Condition.UNHEALTHY,
        summary=health.summary,
        advice=health.advice,
        details=health.details,
    )


def surroundings() -> dict[str, str]:
    """Return the facts of this machine that a bug report needs."""
    facts = {
        "ai4j-cli": version("ai4j-cli"),
        "ai4j-sandbox": version("ai4j-sandbox"),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
    }
    disabled = ", ".join(sorted(disabled_plugins()))
    return facts | ({DISABLED_VARIABLE: disabled} if disabled else {})
