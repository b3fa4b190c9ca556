"""Sandboxes that exist, of one provider or of all that can list: found, chosen for cleaning up, described."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ai4j_sandbox import Capability, SandboxException, SandboxNotFoundError, SandboxSummary
from ai4j_sandbox.ownership import OWNER_LABEL

from .address import SandboxAddress
from .application import Application
from .attachment import lister
from .catalog import unmet_requirements

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
COLUMNS = ("SANDBOX", "STATE", "AGE", "ENDS IN", "OWNER", "IMAGE", "NAME")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What providers answered.

    Attributes:
        sandboxes: What there is, by provider and then by age.
        failures: Why a provider did not answer.
    """

    sandboxes: tuple[SandboxSummary, ...] = ()
    failures: tuple[SandboxException, ...] = ()


def providers_asked(application: Application, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return whom to ask: the wanted providers, or without any all that can list and are configured here.

    Raises:
        ProviderNotFoundError: A wanted one is not installed.
        UnsupportedCapabilityError: A wanted one cannot list.
        SandboxException: A wanted one does not load.
    """
    for provider_id in wanted:
        lister(application, provider_id)
    return tuple(wanted) or _providers_that_list(application)


def survey(application: Application, provider_ids: Sequence[str], labels: Mapping[str, str]) -> Survey:
    """Ask providers, all at once, for the sandboxes that carry all of `labels`; one that fails hides no other."""

    def ask(provider_id: str) -> list[SandboxSummary] | SandboxException:
        try:
            return lister(application, provider_id).list_sessions(labels)
        except SandboxException as error:
            return error.located(provider_id=provider_id)

    with ThreadPoolExecutor(max_workers=max(1, len(provider_ids))) as pool:
        answers = list(pool.map(ask, provider_ids))
    found = [summary for answer in answers if isinstance(answer, list) for summary in answer]
    return Survey(
        sandboxes=tuple(sorted(found, key=lambda item: (item.provider_id, item.created_at_epoch_ms or 0))),
        failures=tuple(answer for answer in answers if isinstance(answer, SandboxException)),
    )


def _providers_that_list(application: Application) -> tuple[str, ...]:
    return tuple(
        info.provider_id
        for info in application.registry.infos()
        if Capability.LISTING in info.capabilities and not unmet_requirements(info, os.environ)
    )


def find(application: Application, provider_id: str, session_id: str) -> SandboxSummary:
    """Return one sandbox as its provider lists it, by id or by name.

    Raises:
        SandboxNotFoundError: There is none.
        UnsupportedCapabilityError: The provider cannot list.
        SandboxException: It could not be asked.
    """
    found = lister(application, provider_id).list_sessions({})
    for summary in found:
        if session_id in (summary.session_id, summary.name):
            return summary
    raise SandboxNotFoundError(
        f"provider {provider_id!r} has no sandbox {session_id!r}",
        hint=f"`ai4j sandbox ls --all --provider {provider_id}` shows what there is",
        provider_id=provider_id,
        session_id=session_id,
    )


def split_by_age(
    sandboxes: Iterable[SandboxSummary], older_than: float | None, now_ms: int
) -> tuple[list[SandboxSummary], list[SandboxSummary]]:
    """Return the sandboxes that are old enough, and those whose age nobody knows. Without a limit all are."""
    if older_than is None:
        return list(sandboxes), []
    old, ageless = [], []
    for summary in sandboxes:
        if summary.created_at_epoch_ms is None:
            ageless.append(summary)
        elif now_ms - summary.created_at_epoch_ms >= older_than * 1000:
            old.append(summary)
    return old, ageless


def address_of(summary: SandboxSummary) -> SandboxAddress:
    """Return how a command line names it."""
    return SandboxAddress(session_id=summary.session_id, provider_id=summary.provider_id)


def describe(summary: SandboxSummary) -> dict[str, Any]:
    """Return it as JSON-ready data."""
    return {
        "sandbox": str(address_of(summary)),
        "providerId": summary.provider_id,
        "sessionId": summary.session_id,
        "status": summary.status,
        "state": summary.state,
        "name": summary.name,
        "image": summary.image,
        "labels": dict(summary.labels),
        "owner": summary.labels.get(OWNER_LABEL),
        "createdAtEpochMs": summary.created_at_epoch_ms,
        "expiresAtEpochMs": summary.expires_at_epoch_ms,
    }


def row(summary: SandboxSummary, now_ms: int) -> tuple[str, ...]:
    """Return it as cells below `COLUMNS`."""
    age = None if summary.created_at_epoch_ms is None else now_ms - summary.created_at_epoch_ms
    left = None if summary.expires_at_epoch_ms is None else summary.expires_at_epoch_ms - now_ms
    return (
        str(address_of(summary)),
        summary.state or summary.status.lower(),
        span(age),
        span(left),
        summary.labels.get(OWNER_LABEL) or "-",
        summary.image or "-",
        summary.name or "-",
    )


def span(milliseconds: int | None) -> str:
    """Return a time span for people, to its two largest units (``1h59m``); nothing for one that is over."""
    if milliseconds is None or milliseconds < 0:
        return "-"
    seconds = milliseconds // 1000
    for (unit, length), (smaller, part) in pairwise(_UNITS):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length}{unit}{rest}{smaller}" if rest else f"{seconds // length}{unit}"
    return f"{seconds}s"
