"""Bodies and replies of E2B's control API as data, and what its refusals mean. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxCapacityError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxQuotaError,
    SandboxSessionLostError,
    SessionState,
)
from ai4j_sandbox.frozen import thaw
from ai4j_sandbox.model import SandboxStatus, SandboxSummary
from ai4j_sandbox.redaction import filter_labels
from ai4j_sandbox.spi import PortUrl
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.creation import tagged_metadata
from ai4j_sandbox_wire.envd import parse_timestamp
from ai4j_sandbox_wire.faults import Fault
from ai4j_sandbox_wire.message import HttpReply
from ai4j_sandbox_wire.sandbox_host import is_sandbox_id, port_host

from .config import PROVIDER_ID, SETTINGS, CreateOptions, E2BSandboxConfig

PAUSED = "paused"

_STATUS_BY_STATE = {"running": SandboxStatus.RUNNING, PAUSED: SandboxStatus.CREATED}
_NOTHING_CREATED = frozenset(("sandbox_capacity_unavailable", "sandbox_no_compatible_node"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSandbox:
    """A sandbox as the control API describes it.

    Attributes:
        envd_access_token: What its envd asks for; ``None`` when it is not secured.
        traffic_access_token: What its other ports ask for, when public traffic is off.
        state: ``"running"`` or ``"paused"``; ``None`` in answers that do not say.
        ends_at_epoch_ms: When its life ends.
    """

    sandbox_id: str
    template: str | None = None
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


# --- what is sent -----------------------------------------------------------------------------------------------


def create_body(config: E2BSandboxConfig, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the request for a new sandbox."""
    return {
        "templateID": config.template,
        "timeout": config.timeout_seconds,
        "metadata": dict(metadata),
        "envVars": dict(config.environment),
        **_options(config.create),
    }


def _options(options: CreateOptions) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "secure": options.secure,
        "autoPause": options.auto_pause,
        "autoResume": None if options.auto_resume is None else {"enabled": options.auto_resume},
        # Snake case, unlike every other field: the server ignores any other spelling.
        "allow_internet_access": options.allow_internet_access,
        "network": thaw(options.network) or None,
        "resources": thaw(options.resources) or None,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def sent_metadata(options: CreateOptions, labels: Mapping[str, str], tag: str) -> dict[str, str]:
    """Return the metadata of a new sandbox: the caller's own, filtered like labels, the labels, and the tag."""
    return tagged_metadata(options.metadata, labels, tag)


def metadata_query(metadata: Mapping[str, str]) -> str | None:
    """Return the filter for sandboxes that carry all of `metadata`; each part is encoded on its own."""
    pairs = (f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in metadata.items())
    return "&".join(pairs) or None


# --- what comes back --------------------------------------------------------------------------------------------


def parse_sandbox(document: Any) -> RemoteSandbox:
    """Return the sandbox that an answer describes.

    Raises:
        SandboxProtocolError: It describes none.
    """
    answer = _object(document)
    sandbox_id = answer.get("sandboxID")
    if not is_sandbox_id(sandbox_id):
        raise SandboxProtocolError("the service's answer names no sandbox: sandboxID is missing or no id")
    return RemoteSandbox(
        sandbox_id=str(sandbox_id),
        template=_text(answer, "templateID"),
        envd_version=_text(answer, "envdVersion"),
        domain=_text(answer, "domain"),
        envd_access_token=_text(answer, "envdAccessToken"),
        traffic_access_token=_text(answer, "trafficAccessToken"),
        state=_text(answer, "state"),
        ends_at_epoch_ms=parse_timestamp(_text(answer, "endAt")),
    )


def parse_summaries(document: Any) -> list[SandboxSummary]:
    """Return the sandboxes of a list.

    Raises:
        SandboxProtocolError: It is no list of sandboxes.
    """
    if not isinstance(document, list):
        raise SandboxProtocolError(f"a list of sandboxes was expected, got {type(document).__name__}")
    return [_parse_summary(_object(item)) for item in document]


def _parse_summary(item: Mapping[str, Any]) -> SandboxSummary:
    state = _text(item, "state")
    metadata = item.get("metadata")
    return SandboxSummary(
        session_id=parse_sandbox(item).sandbox_id,
        provider_id=PROVIDER_ID,
        status=_STATUS_BY_STATE.get(state or "running", SandboxStatus.RUNNING),
        state=state,
        image=_text(item, "alias") or _text(item, "templateID"),
        labels=filter_labels(metadata) if isinstance(metadata, dict) else {},
        created_at_epoch_ms=parse_timestamp(_text(item, "startedAt")),
        expires_at_epoch_ms=parse_timestamp(_text(item, "endAt")),
    )


def parse_snapshot_id(document: Any) -> str:
    """Return the id that `SandboxSpec.image` takes.

    Raises:
        SandboxProtocolError: There is none.
    """
    snapshot = _text(_object(document), "snapshotID")
    if snapshot is None:
        raise SandboxProtocolError("the service made a snapshot without telling its id")
    return snapshot


def _object(document: Any) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise SandboxProtocolError(f"a JSON object was expected from the service, got {type(document).__name__}")
    return document


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) and value else None


# --- what a refusal means ---------------------------------------------------------------------------------------


def explain_control(reply: HttpReply, fault: Fault) -> SandboxException | None:
    """Return E2B's own meaning of a refusal of the control API (a `faults.Explain`)."""
    words = fault.message.lower()
    if fault.status == 401:
        return SandboxAuthError(
            f"E2B does not accept the API key: {fault.message}",
            hint=f"check {SETTINGS['api_key'].knobs}",
            outcome=Outcome.NOT_STARTED,
        )
    if fault.status == 400 and "invalid sandbox id" in words:
        return SandboxNotFoundError(f"{fault.place}: {fault.message}", outcome=Outcome.NOT_STARTED)
    if fault.status == 429 and "retry-after" not in reply.headers and "concurrent" in words:
        return SandboxQuotaError(
            f"the account runs as many sandboxes as it may: {fault.message}",
            hint="destroy some (`ai4j sandbox ls --provider e2b`), or ask E2B for more",
            retryable=True,
            outcome=Outcome.NOT_STARTED,
        )
    if fault.code in _NOTHING_CREATED:
        return SandboxCapacityError(f"E2B has no room now: {fault.message}", outcome=Outcome.NOT_STARTED)
    return None


def explain_edge(reply: HttpReply, fault: Fault) -> SandboxException | None:
    """Return the meaning of an answer that E2B's proxy gives in a sandbox's place (a `faults.Explain`)."""
    words = fault.message.lower()
    if fault.status == 502 and "was not found" in words:
        return SandboxSessionLostError(
            "E2B does not run the sandbox any more: it was destroyed or paused, or its life is over",
            hint=f"resume it; raise {SETTINGS['timeout_seconds'].knobs}, or call session.extend() in time",
            outcome=Outcome.NOT_STARTED,
            session_state=SessionState.UNKNOWN,  # paused and gone look the same here
        )
    if fault.status == 502 and "port is not open" in words:
        return SandboxConnectionError(
            "the sandbox runs, but nothing listens on its envd port",
            hint=f"check {SETTINGS['envd_port'].knobs}",
            outcome=Outcome.NOT_STARTED,
        )
    if fault.status == 409 and "transitioning" in words:
        return SandboxConflictError(
            f"the sandbox is being paused or resumed: {fault.message}", outcome=Outcome.NOT_STARTED
        )
    if fault.status == 401:
        return SandboxAuthError(
            f"the sandbox does not accept the token: {fault.message}",
            hint=f"check {SETTINGS['envd_access_token'].knobs}; it must be the token of this very sandbox",
            outcome=Outcome.NOT_STARTED,
        )
    return None


# --- the data plane ---------------------------------------------------------------------------------------------


def envd_address(config: E2BSandboxConfig, sandbox: RemoteSandbox) -> BaseUrl:
    """Return where a sandbox's envd is.

    Raises:
        SandboxProtocolError: The service named a domain that is none.
    """
    if config.sandbox_url is not None:
        return config.sandbox_url
    host = port_host(config.envd_port, sandbox.sandbox_id, sandbox.domain or config.domain)
    return BaseUrl.parse(f"https://{host}", setting=SETTINGS["sandbox_url"].knobs)


def routing_headers(sandbox: RemoteSandbox, port: int) -> dict[str, str]:
    """Return what a proxy in front of all sandboxes needs in order to find this one."""
    return {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(port)}


def envd_headers(config: E2BSandboxConfig, sandbox: RemoteSandbox) -> dict[str, str]:
    """Return what every call to a sandbox's envd carries.

    The token is the sandbox's own, else the configured one. Without either the contract lets the API key be the
    Bearer; it goes only to a host of our configuration, never to a domain that the service named.
    """
    headers = routing_headers(sandbox, config.envd_port)
    token = sandbox.envd_access_token or config.envd_access_token
    if token is not None:
        return headers | {"X-Access-Token": token, "Authorization": f"Bearer {token}"}
    ours = config.sandbox_url is not None or sandbox.domain in (None, config.domain)
    if config.send_api_key_as_bearer and ours:
        return headers | {"Authorization": f"Bearer {config.api_key}"}
    return headers


def reachable_port(config: E2BSandboxConfig, sandbox: RemoteSandbox, port: int) -> PortUrl:
    """Return where a port of a sandbox can be reached, and with which headers."""
    token = sandbox.traffic_access_token
    headers = {} if token is None else {"e2b-traffic-access-token": token}
    if config.sandbox_url is not None:
        return PortUrl(url=str(config.sandbox_url), headers=routing_headers(sandbox, port) | headers)
    return PortUrl(
        url=f"https://{port_host(port, sandbox.sandbox_id, sandbox.domain or config.domain)}", headers=headers
    )
