"""Bodies and replies of Daytona's control API as data, and what its states and refusals mean. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxException,
    SandboxProtocolError,
    SandboxQuotaError,
    SandboxSessionLostError,
    SessionState,
)
from ai4j_sandbox.frozen import empty_mapping, thaw
from ai4j_sandbox.model import SandboxStatus, SandboxSummary
from ai4j_sandbox.redaction import filter_labels
from ai4j_sandbox.spi import PortUrl
from ai4j_sandbox_wire.answers import as_object, text_member, text_members
from ai4j_sandbox_wire.faults import Fault
from ai4j_sandbox_wire.message import HttpReply
from ai4j_sandbox_wire.sandbox_host import is_sandbox_id

from .config import PROVIDER_ID, SETTINGS, CreateOptions

STARTED = "started"
SETTLED = (STARTED, "stopped", "archived", "paused")
"""States in which nothing is under way."""


class Stage(StrEnum):
    """What a sandbox's state means for somebody who waits for it to run."""

    READY = "ready"
    RESTING = "resting"
    MOVING = "moving"
    FAILED = "failed"
    GONE = "gone"


_STAGES = {
    STARTED: Stage.READY,
    **dict.fromkeys(("stopped", "archived", "archiving", "paused"), Stage.RESTING),
    **dict.fromkeys(("error", "build_failed"), Stage.FAILED),
    **dict.fromkeys(("destroyed", "destroying"), Stage.GONE),
}

_STATUSES = {
    Stage.READY: SandboxStatus.RUNNING,
    Stage.RESTING: SandboxStatus.CLOSED,
    Stage.MOVING: SandboxStatus.CREATED,
    Stage.FAILED: SandboxStatus.FAILED,
    Stage.GONE: SandboxStatus.CLOSED,
}
_VIRTUAL_MACHINE = "linux-vm"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSandbox:
    """A sandbox as the control API describes it.

    Attributes:
        state: The service's own word in lower case; ``None`` in answers that do not say.
        error_reason: Why it failed.
        recoverable: Whether the service offers to mend it.
        toolbox_proxy_url: Where the proxy in front of its toolbox is.
        sandbox_class: ``"container"``, ``"linux-vm"``, ``"windows"``, ``"android"``.
        auto_stop_minutes: Minutes of rest until it stops; 0 for never.
    """

    sandbox_id: str
    name: str | None = None
    state: str | None = None
    error_reason: str | None = None
    recoverable: bool = False
    toolbox_proxy_url: str | None = None
    sandbox_class: str | None = None
    auto_stop_minutes: int | None = None
    snapshot: str | None = None
    labels: Mapping[str, str] = field(default_factory=empty_mapping)
    created_at_epoch_ms: int | None = None

    @property
    def stage(self) -> Stage:
        """What its state means; a state that is not known is on its way somewhere."""
        return _STAGES.get(self.state or "", Stage.MOVING)

    @property
    def is_virtual_machine(self) -> bool:
        """Whether it is a machine of its own, which can be paused."""
        return self.sandbox_class == _VIRTUAL_MACHINE

    @property
    def is_paused(self) -> bool:
        """Whether it is frozen, or about to be, with everything that runs in it."""
        return self.state in ("paused", "pausing")

    @property
    def condition(self) -> str:
        """Its state for people, with the reason of a failure."""
        reason = f" ({self.error_reason})" if self.error_reason else ""
        return f"{self.state or 'of unknown state'}{reason}"


# --- what is sent -----------------------------------------------------------------------------------------------


def create_body(name: str | None, options: CreateOptions, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the request for a new sandbox."""
    chosen = {
        "name": name,
        "snapshot": options.snapshot,
        "buildInfo": _build_info(options.image),
        "user": options.user,
        "target": options.target,
        "env": dict(options.environment) or None,
        "labels": dict(labels),
        "public": options.public,
        "cpu": options.cpu,
        "memory": options.memory,
        "disk": options.disk,
        "gpu": options.gpu,
        "gpuType": _list(options.gpu_type),
        "autoStopInterval": options.auto_stop_minutes,
        "autoArchiveInterval": options.auto_archive_minutes,
        "autoDeleteInterval": options.auto_delete_minutes,
        "volumes": _list(options.volumes),
        "networkBlockAll": options.network_block_all,
        "networkAllowList": _joined(options.network_allow_list),
        "domainAllowList": _joined(options.domain_allow_list),
        "linkedSandbox": options.linked_sandbox,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def _build_info(image: str | None) -> dict[str, str] | None:
    """An image has no field of its own on the wire: it is the first line of a Dockerfile."""
    return None if image is None else {"dockerfileContent": f"FROM {image}\n"}


def _list(items: tuple[Any, ...] | None) -> list[Any] | None:
    thawed: list[Any] | None = None if items is None else thaw(items)
    return thawed


def _joined(items: tuple[str, ...] | None) -> str | None:
    return None if items is None else ",".join(items)


# --- what comes back --------------------------------------------------------------------------------------------


def parse_sandbox(document: Any) -> RemoteSandbox:
    """Return the sandbox that an answer describes.

    Raises:
        SandboxProtocolError: It describes none.
    """
    answer = as_object(document)
    sandbox_id = answer.get("id")
    if not is_sandbox_id(sandbox_id):
        raise SandboxProtocolError("the service's answer names no sandbox: id is missing or no id")
    state = text_member(answer, "state")
    return RemoteSandbox(
        sandbox_id=str(sandbox_id),
        name=text_member(answer, "name"),
        state=None if state is None else state.lower(),
        error_reason=text_member(answer, "errorReason"),
        recoverable=answer.get("recoverable") is True,
        toolbox_proxy_url=text_member(answer, "toolboxProxyUrl"),
        sandbox_class=text_member(answer, "sandboxClass"),
        auto_stop_minutes=_number(answer, "autoStopInterval"),
        snapshot=text_member(answer, "snapshot"),
        labels=text_members(answer, "labels"),
        created_at_epoch_ms=_timestamp(text_member(answer, "createdAt")),
    )


def says_gone(document: Any) -> bool:
    """Whether the answer to a deletion says that the sandbox is gone, or going."""
    state = document.get("state") if isinstance(document, dict) else None
    return isinstance(state, str) and _STAGES.get(state.lower()) is Stage.GONE


def parse_page(document: Any) -> tuple[list[RemoteSandbox], str | None]:
    """Return the sandboxes of one page of a list, and the cursor of the next.

    Raises:
        SandboxProtocolError: It is no page of sandboxes.
    """
    page = as_object(document)
    items = page.get("items")
    if not isinstance(items, list):
        raise SandboxProtocolError("the service's answer holds no list of sandboxes")
    return [parse_sandbox(item) for item in items], text_member(page, "nextCursor")


def parse_url(document: Any) -> str:
    """Return the address that an answer tells.

    Raises:
        SandboxProtocolError: It tells none.
    """
    url = text_member(as_object(document), "url")
    if url is None:
        raise SandboxProtocolError("the service's answer holds no url")
    return url


def parse_port(document: Any) -> PortUrl:
    """Return where a port can be reached; the token goes into a header.

    Raises:
        SandboxProtocolError: The answer does not tell.
    """
    token = text_member(as_object(document), "token")
    return PortUrl(url=parse_url(document), headers={} if token is None else {"x-daytona-preview-token": token})


def summary_of(sandbox: RemoteSandbox) -> SandboxSummary:
    """Return what a list shows of a sandbox."""
    return SandboxSummary(
        session_id=sandbox.sandbox_id,
        provider_id=PROVIDER_ID,
        status=_STATUSES[sandbox.stage],
        state=sandbox.state,
        name=sandbox.name,
        image=sandbox.snapshot,
        labels=filter_labels(sandbox.labels),
        created_at_epoch_ms=sandbox.created_at_epoch_ms,
    )


def _number(document: Mapping[str, Any], name: str) -> int | None:
    value = document.get(name)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _timestamp(text: str | None) -> int | None:
    try:
        return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


# --- what a refusal means ---------------------------------------------------------------------------------------


def explain_control(reply: HttpReply, fault: Fault) -> SandboxException | None:
    """Return Daytona's own meaning of a refusal of the control API (a `faults.Explain`)."""
    words = fault.message.lower()
    if fault.status == 401:
        return SandboxAuthError(
            f"Daytona does not accept the API key: {fault.message}",
            hint=f"check {SETTINGS['api_key'].knobs}",
            outcome=Outcome.NOT_STARTED,
        )
    if fault.status == 400 and "failed to start" in words:
        # Said of a sandbox that exists, also by the call that was to create it.
        return SandboxException(f"{fault.place}: {fault.message}", outcome=Outcome.UNKNOWN, retryable=False)
    if fault.status in (400, 403) and ("quota" in words or "limit exceeded" in words):
        return SandboxQuotaError(f"the account's limit is used up: {fault.message}", outcome=Outcome.NOT_STARTED)
    return None


def explain_toolbox(reply: HttpReply, fault: Fault) -> SandboxException | None:
    """Return the meaning of a refusal in the toolbox's place (a `faults.Explain`)."""
    if fault.status == 401:
        return SandboxAuthError(
            f"the toolbox proxy does not accept the API key: {fault.message}",
            hint=f"check {SETTINGS['api_key'].knobs}",
            outcome=Outcome.NOT_STARTED,
        )
    if fault.status == 400 and "is the sandbox started" in fault.message.lower():
        return SandboxSessionLostError(
            "the sandbox does not run: it was stopped, by somebody or after a rest",
            hint="call session.resume(), or raise config.autoStopInterval",
            outcome=Outcome.NOT_STARTED,
            session_state=SessionState.LOST,
        )
    return None
