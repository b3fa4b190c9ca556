"""Everything that can be told of one sandbox: what its provider lists, and what a look inside adds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from ai4j_sandbox import Capability, SandboxException, SandboxSession, SandboxStatus
from ai4j_sandbox.spi import SupportsBackground, SupportsMetrics

from .address import SandboxAddress
from .application import Application
from .attachment import attached, provider_id_of
from .failures import describe_failure
from .fleet import describe, find, span

ValueT = TypeVar("ValueT")


def describe_sandbox(
    application: Application, address: SandboxAddress, provider: str | None, settings: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """Return a sandbox as JSON-ready data.

    Raises:
        SandboxNotFoundError: There is none.
        SandboxException: Its provider could not be asked.
    """
    provider_id = provider_id_of(application, address, provider)
    known: dict[str, Any] = {}
    if Capability.LISTING in application.registry.info(provider_id).capabilities:
        summary = find(application, provider_id, address.session_id)
        known = describe(summary)
        if summary.status is not SandboxStatus.RUNNING:
            return known | {"inside": None}
    with attached(application, address, provider_id, settings) as session:
        return known | {"inside": _inside(application, session)}


def lines_of(document: Mapping[str, Any], now_ms: int) -> Iterator[str]:
    """Yield a description for people."""
    times = {"createdAtEpochMs": ("age", -1), "expiresAtEpochMs": ("ends in", 1)}
    for name, value in document.items():
        if name in times and value is not None:
            label, sign = times[name]
            yield f"{label}: {span(sign * (value - now_ms))}"
        elif name != "inside" and value not in (None, {}):
            yield f"{name}: {_shown(value)}"
    inside = document.get("inside")
    if inside is None:
        yield "not looked into: it does not run"
        return
    for name, value in inside.items():
        yield f"{name}: {_shown(value)}"


def _inside(application: Application, session: SandboxSession) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "isolation": session.isolation.name,
        "capabilities": session.capabilities.offered(),
    }
    if isinstance(session, SupportsMetrics):
        facts["metrics"] = _asked(application, lambda: asdict(session.metrics()))
    if isinstance(session, SupportsBackground):
        facts["processes"] = _asked(application, lambda: [asdict(item) for item in session.list_processes()])
    return facts


def _asked(application: Application, question: Callable[[], ValueT]) -> ValueT | dict[str, Any]:
    """Return the answer, or why there is none: one ability that fails hides no other."""
    try:
        return question()
    except SandboxException as error:
        return {"error": describe_failure(application, error)}


def _shown(value: object) -> str:
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return json.dumps(value)
