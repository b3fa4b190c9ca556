"""Sandboxes as E2B's control API describes them. CubeAPI describes its own in the same words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ai4j_sandbox.errors import SandboxProtocolError
from ai4j_sandbox.frozen import EMPTY
from ai4j_sandbox.model import SandboxStatus, SandboxSummary
from ai4j_sandbox.redaction import filter_labels

from .answers import as_object, text_member, text_members
from .envd import parse_timestamp
from .sandbox_host import is_sandbox_id

PAUSED = "paused"

_STATUS_BY_STATE = {
    "running": SandboxStatus.RUNNING,
    PAUSED: SandboxStatus.CREATED,
    "pausing": SandboxStatus.CREATED,
    "terminated": SandboxStatus.CLOSED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSandbox:
    """A sandbox as the control API describes it; ``None`` for what an answer does not say.

    Attributes:
        envd_access_token: What its envd asks for; ``None`` when it is not secured.
        traffic_access_token: What its other ports ask for, when public traffic is off.
        state: ``"running"``, ``"paused"``, or a word for a change between them.
        ends_at_epoch_ms: When its life ends.
    """

    sandbox_id: str
    template: str | None = None
    client_id: str | None = None
    envd_version: str | None = None
    domain: str | None = None
    envd_access_token: str | None = field(default=None, repr=False)
    traffic_access_token: str | None = field(default=None, repr=False)
    state: str | None = None
    ends_at_epoch_ms: int | None = None

    @property
    def secrets(self) -> tuple[str | None, ...]:
        """Every credential of this sandbox."""
        return (self.envd_access_token, self.traffic_access_token)


def parse_sandbox(document: Any) -> RemoteSandbox:
    """Return the sandbox that an answer describes.

    Raises:
        SandboxProtocolError: It describes none.
    """
    answer = as_object(document)
    sandbox_id = answer.get("sandboxID")
    if not is_sandbox_id(sandbox_id):
        raise SandboxProtocolError("the service's answer names no sandbox: sandboxID is missing or no id")
    return RemoteSandbox(
        sandbox_id=str(sandbox_id),
        template=text_member(answer, "templateID"),
        client_id=text_member(answer, "clientID"),
        envd_version=text_member(answer, "envdVersion"),
        domain=text_member(answer, "domain"),
        envd_access_token=text_member(answer, "envdAccessToken"),
        traffic_access_token=text_member(answer, "trafficAccessToken"),
        state=text_member(answer, "state"),
        ends_at_epoch_ms=parse_timestamp(text_member(answer, "endAt")),
    )


def parse_summaries(document: Any, provider_id: str, metadata: Mapping[str, str] = EMPTY) -> list[SandboxSummary]:
    """Return the sandboxes of a list that carry all of `metadata`.

    Looked at here too, because services filter as well as they can, and what is found may be destroyed.

    Raises:
        SandboxProtocolError: It is no list of sandboxes.
    """
    if not isinstance(document, list):
        raise SandboxProtocolError(f"a list of sandboxes was expected, got {type(document).__name__}")
    items = [as_object(item) for item in document]
    return [_summary(item, provider_id) for item in items if metadata.items() <= text_members(item, "metadata").items()]


def parse_snapshot_id(document: Any) -> str:
    """Return the id that `SandboxSpec.image` takes.

    Raises:
        SandboxProtocolError: There is none.
    """
    snapshot = text_member(as_object(document), "snapshotID")
    if snapshot is None:
        raise SandboxProtocolError("the service made a snapshot without telling its id")
    return snapshot


def _summary(item: Mapping[str, Any], provider_id: str) -> SandboxSummary:
    sandbox = parse_sandbox(item)
    return SandboxSummary(
        session_id=sandbox.sandbox_id,
        provider_id=provider_id,
        status=_STATUS_BY_STATE.get(sandbox.state or "running", SandboxStatus.RUNNING),
        state=sandbox.state,
        image=text_member(item, "alias") or sandbox.template,
        labels=filter_labels(text_members(item, "metadata")),
        created_at_epoch_ms=parse_timestamp(text_member(item, "startedAt")),
        expires_at_epoch_ms=sandbox.ends_at_epoch_ms,
    )
