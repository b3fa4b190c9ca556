"""Bodies and replies of E2B's control API as data, and what its refusals mean. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
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
    SandboxQuotaError,
    SandboxSessionLostError,
    SessionState,
)
from ai4j_sandbox.frozen import thaw
from ai4j_sandbox.spi import PortUrl
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.creation import tagged_metadata
from ai4j_sandbox_wire.faults import Fault
from ai4j_sandbox_wire.message import HttpReply
from ai4j_sandbox_wire.sandbox_host import port_host
from ai4j_sandbox_wire.sandbox_records import RemoteSandbox

from .config import SETTINGS, CreateOptions, E2BSandboxConfig

_NOTHING_CREATED = frozenset(("sandbox_capacity_unavailable", "sandbox_no_compatible_node"))


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
