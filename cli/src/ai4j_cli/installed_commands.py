"""Commands that other distributions bring: ``ai4j emulator`` comes with `ai4j-sandbox-emulator`.

A distribution offers a click command under the entry-point group ``ai4j.commands``; the entry point's name is the
command's name. Listing them reads metadata and imports none, so what is listed about a command is its distribution's
own summary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .lazy_group import LazyCommand

if TYPE_CHECKING:
    from ai4j_sandbox.discovery import PluginEntry

GROUP = "ai4j.commands"


def installed_commands(path: Sequence[str] | None = None) -> Mapping[str, LazyCommand]:
    """Return the commands on the search path, by name; of two with one name the first distribution's counts."""
    from ai4j_sandbox.discovery import discover

    found: dict[str, LazyCommand] = {}
    for entry in discover(GROUP, path).entries:
        module, _, attribute = entry.value.partition(":")
        if attribute:
            found.setdefault(
                entry.name,
                LazyCommand(module=module, attribute=attribute, summary=_summary(entry)),
            )
    return found


def _summary(entry: PluginEntry) -> str:
    from importlib.metadata import distributions

    path = [] if entry.location is None else [entry.location]
    for distribution in distributions(name=entry.distribution, path=path):
        if "Summary" in distribution.metadata:
            return f"{distribution.metadata['Summary'].rstrip('.')}."
    return f"Comes with {entry.distribution}."
