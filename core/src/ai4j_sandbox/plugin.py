"""Loading one plugin, alone: whatever is wrong with it becomes one error that names its distribution.

Each plugin gets a pluggy manager of its own. With a shared one the first plugin that raises in a hook would keep all
later ones from being called.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pluggy

from . import hookspecs
from .capability import SPI_VERSION, ProviderInfo
from .discovery import CORE_DISTRIBUTION, PluginEntry, PluginProblem, canonical_name, core_version
from .errors import Outcome, ProviderIncompatibleError, ProviderLoadError, SandboxProviderError
from .hookspecs import ProviderRegistration

DISABLED_VARIABLE = "AI4J_SANDBOX_DISABLED_PLUGINS"
"""Names of entry points or distributions, separated by commas, that are not loaded."""

_VALUE = re.compile(r"(?P<module>\w+(?:\.\w+)*)\s*(?::\s*(?P<attribute>\w+(?:\.\w+)*))?\s*(?:\[[^\]]*\])?")

Hooks = pluggy.HookRelay


def disabled_plugins(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return the folded names in `DISABLED_VARIABLE`."""
    value = (os.environ if environ is None else environ).get(DISABLED_VARIABLE, "")
    return frozenset(canonical_name(name.strip()) for name in value.split(",") if name.strip())


def is_disabled(entry: PluginEntry, disabled: Collection[str]) -> bool:
    """Whether one of the disabled names is this entry's or its distribution's."""
    return canonical_name(entry.name) in disabled or canonical_name(entry.distribution) in disabled


def load_plugin(entry: PluginEntry) -> Hooks:
    """Import one plugin and return its hooks, to be called.

    Raises:
        ProviderIncompatibleError: Its distribution requires another version of the core. Nothing was imported.
        ProviderLoadError: It cannot be imported, or it implements a hook that does not exist.
    """
    _require_compatible(entry)
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(_resolve(entry), name=entry.name)
        manager.check_pending()
    # The one door to foreign modules: whatever their import does, also exit(), is their failure and nobody else's.
    except (Exception, SystemExit) as error:
        raise load_error(entry, _told(error)) from error
    return manager.hook


def contributed_provider(entry: PluginEntry) -> ProviderRegistration:
    """Return the registration that an entry point contributes under its own name.

    Raises:
        ProviderIncompatibleError: It was made for another version of the core or of the SPI.
        ProviderLoadError: It cannot be imported, or contributes nothing usable under this name.
    """
    registrations = _contributions(entry)
    named = (item for item in registrations if item.info.provider_id.casefold() == entry.name.casefold())
    registration = next(named, None)
    if registration is None:
        raise load_error(entry, _misnamed(entry, [item.info.provider_id for item in registrations]))
    _require_spi(registration.info, entry)
    # The installed metadata is the truth about what is installed; a number typed by hand goes stale.
    info = replace(registration.info, distribution=entry.distribution, version=entry.version)
    return replace(registration, info=info)


def load_error(entry: PluginEntry, reason: str) -> ProviderLoadError:
    """Return the error that says that, and why, this plugin does not work."""
    return ProviderLoadError(
        f"plugin {entry} does not work: {reason}",
        hint=f"reinstall {entry.distribution}, uninstall it, or set {DISABLED_VARIABLE}={entry.name}",
        operation="load",
        outcome=Outcome.NOT_STARTED,
    )


def problem_of(entry: PluginEntry, error: SandboxProviderError) -> PluginProblem:
    """Return the problem that an error with this plugin amounts to."""
    return PluginProblem(
        group=entry.group,
        reason=error.message,
        hint=error.hint,
        distribution=entry.distribution,
        version=entry.version,
        name=entry.name,
        location=entry.location,
    )


def _require_compatible(entry: PluginEntry) -> None:
    # Imported late: whoever only asks which plugins are switched off does not need it.
    from .compatibility import unmet_requirement

    version = core_version()
    unmet = unmet_requirement(entry.requires, CORE_DISTRIBUTION, version)
    if unmet is not None:
        raise ProviderIncompatibleError(
            f"plugin {entry} requires {unmet}, installed is {CORE_DISTRIBUTION} {version}",
            hint=f"run `pip install --upgrade {entry.distribution} {CORE_DISTRIBUTION}`",
            operation="load",
            outcome=Outcome.NOT_STARTED,
        )


def _resolve(entry: PluginEntry) -> Any:
    match = _VALUE.fullmatch(entry.value)
    if match is None:
        raise ValueError(f"{entry.value!r} is not of the form 'package.module' or 'package.module:object'")
    module = importlib.import_module(match["module"])
    return functools.reduce(getattr, (match["attribute"] or "").split("."), module) if match["attribute"] else module


def _contributions(entry: PluginEntry) -> list[ProviderRegistration]:
    hooks = load_plugin(entry)
    try:
        contributions = [item for items in hooks.ai4j_sandbox_providers() for item in items]
    # The hook is foreign code like the import before it: its failure is its own.
    except (Exception, SystemExit) as error:
        raise load_error(entry, _told(error)) from error
    if not all(isinstance(item, ProviderRegistration) for item in contributions):
        kinds = ", ".join(type(item).__name__ for item in contributions)
        raise load_error(entry, f"ai4j_sandbox_providers must return ProviderRegistration objects, got {kinds}")
    return contributions


def _misnamed(entry: PluginEntry, ids: Sequence[str]) -> str:
    if not ids:
        return f"{entry.value} contributes no provider; it needs an @hookimpl named ai4j_sandbox_providers"
    contributed = ", ".join(map(repr, ids))
    return f"the entry point is named {entry.name!r} but contributes the provider id {contributed}; they must be equal"


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _require_spi(info: ProviderInfo, entry: PluginEntry) -> None:
    lowest, first_unsupported = info.spi
    if lowest <= SPI_VERSION < first_unsupported:
        return
    spoken = ".".join(map(str, SPI_VERSION))
    raise ProviderIncompatibleError(
        f"plugin {entry} speaks SPI {'.'.join(map(str, lowest))} up to, not including, "
        f"{'.'.join(map(str, first_unsupported))}; this core speaks {spoken}",
        hint=f"run `pip install --upgrade {entry.distribution} ai4j-sandbox`",
        provider_id=info.provider_id,
        operation="load",
        outcome=Outcome.NOT_STARTED,
    )
