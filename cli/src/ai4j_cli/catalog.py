"""What is known of providers, as data to print or to dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ai4j_sandbox import Capability, ProviderInfo, SandboxConfigError
from ai4j_sandbox.discovery import PluginProblem
from ai4j_sandbox.frozen import thaw
from ai4j_sandbox.settings import Setting, SettingsTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInForce:
    """One setting with the value it has here, for people: secrets are masked.

    Attributes:
        origin: The knob the value came from (``"E2B_API_KEY"``, ``"default"``).
        problem: What is wrong with the value; ``None`` when nothing is.
    """

    setting: Setting
    shown: str
    origin: str
    problem: str | None = None

    def document(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return {
            "name": self.setting.name,
            "value": self.shown,
            "origin": self.origin,
            "problem": self.problem,
            "secret": self.setting.secret,
            "environment": list(self.setting.env),
            "config": list(self.setting.config),
            "spec": self.setting.spec,
            "help": self.setting.help,
        }


def settings_in_force(table: SettingsTable, environ: Mapping[str, str]) -> list[SettingInForce]:
    """Return every setting of a provider as a spec without settings of its own would find it."""
    return [_in_force(table.provider_id, setting, environ) for setting in table]


def _in_force(provider_id: str, setting: Setting, environ: Mapping[str, str]) -> SettingInForce:
    # One at a time: a wrong value must not hide the others.
    try:
        resolved = SettingsTable(provider_id, (setting,)).resolve(environ=environ)
    except SandboxConfigError as error:
        return SettingInForce(setting=setting, shown="wrong", origin=error.message, problem=error.message)
    return SettingInForce(
        setting=setting, shown=resolved.shown(setting.name), origin=resolved.source(setting.name).knob
    )


def unmet_requirements(info: ProviderInfo, environ: Mapping[str, str]) -> list[str]:
    """Return what the provider still needs, as far as the environment tells, in words."""
    return [
        requirement.hint
        for requirement in info.requirements
        if requirement.any_of and not any(environ.get(name, "").strip() for name in requirement.any_of)
    ]


def describe_info(info: ProviderInfo, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return a provider as JSON-ready data."""
    return {
        "providerId": info.provider_id,
        "displayName": info.display_name,
        "distribution": info.distribution,
        "version": info.version,
        "spi": [".".join(map(str, version)) for version in info.spi],
        "isolation": info.isolation.name,
        "location": info.location,
        "requirements": [{"anyOf": list(item.any_of), "hint": item.hint} for item in info.requirements],
        "unmetRequirements": unmet_requirements(info, environ),
        "capabilities": {
            capability.value: {"level": support.level, "reason": support.reason, "limits": thaw(support.limits)}
            for capability, support in ((capability, info.capabilities[capability]) for capability in Capability)
        },
    }


def describe_problem(problem: PluginProblem) -> dict[str, Any]:
    """Return what is wrong with a plugin as JSON-ready data."""
    return {
        "name": problem.name,
        "distribution": problem.distribution,
        "version": problem.version,
        "reason": problem.reason,
        "hint": problem.hint,
    }
