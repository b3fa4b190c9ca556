"""The whole extension surface: two hooks, and the type they speak in.

A plugin marks its implementations with `hookimpl` and names its module in an entry-point group:
``ai4j.sandbox_providers`` for `ai4j_sandbox_providers`, ``ai4j.sandbox_observers`` for `ai4j_sandbox_event`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from .binding import AgentSessionSandboxBinding
    from .capability import ProviderInfo
    from .model import SandboxEvent
    from .spi import SandboxProvider

PROJECT = "ai4j_sandbox"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRegistration:
    """A provider as a plugin contributes it: what it is, and how to make it.

    Attributes:
        info: Plain data. Its `provider_id` equals the name of the entry point.
        factory: Imports the provider and returns a new one. Called with the keyword arguments that the host gave to
            `SandboxRegistry.provider`, usually none.
    """

    info: ProviderInfo
    factory: Callable[..., SandboxProvider]


@hookspec
def ai4j_sandbox_providers() -> Sequence[ProviderRegistration]:  # type: ignore[empty-body]  # a specification
    """Contribute providers.

    Called to list providers as well as to use one, so an implementation must NOT import its provider, a vendor
    library or an HTTP library, read the environment or files, or contact anything: all of that belongs into
    `ProviderRegistration.factory`, and most of it later still, into `create_session`.

    Returns:
        One registration for each entry point of the distribution that names this module. Others are ignored.

    Raises:
        Exception: Anything; the plugin is then reported as broken, with its distribution, and harms no other.
    """


@hookspec
def ai4j_sandbox_event(event: SandboxEvent, binding: AgentSessionSandboxBinding) -> None:
    """Observe every event of every session of this process: tracing, audit, metrics.

    Called in the thread that drives the command, before the host sees the event. An implementation must NOT block,
    run commands in the session, or keep what it observes from happening: there is nothing it can return or change.

    Args:
        event: What happened. Secrets known to the session are masked already.
        binding: Which session it happened in, without secrets; its `status` is the one at the time of the event.

    Raises:
        Exception: Anything; the first one is logged, none reaches the command.
    """
