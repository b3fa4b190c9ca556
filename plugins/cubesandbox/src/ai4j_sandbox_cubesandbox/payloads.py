"""Bodies and replies of CubeAPI as data, what refusals mean, and where a sandbox is. Pure functions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxCapacityError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxPermissionError,
    SandboxProtocolError,
    SandboxSessionLostError,
    SandboxTimeoutError,
    SessionState,
)
from ai4j_sandbox.frozen import thaw
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.spi import PortUrl
from ai4j_sandbox_wire.base_url import BaseUrl, path_segment
from ai4j_sandbox_wire.creation import tagged_metadata
from ai4j_sandbox_wire.faults import Explain, Fault
from ai4j_sandbox_wire.message import HttpReply
from ai4j_sandbox_wire.sandbox_host import port_host
from ai4j_sandbox_wire.sandbox_records import RemoteSandbox

from .config import PROVIDER_ID, SETTINGS, CreateOptions, CubeSandboxConfig, Reach

PROVIDER_KEY = "ai4jProvider"
"""Metadata that says who made a sandbox."""

UNKNOWN_ENVD = "0.2.0"
"""What CubeAPI says when it does not know the version of a template's envd."""

LIFETIME_ADVICE = f"raise {SETTINGS['timeout_seconds'].knobs}, or call session.extend() in time"
"""What to do about a sandbox that ended because nobody used it."""

TRAFFIC_HEADER = "e2b-traffic-access-token"

# CubeAPI refuses a creation that sets one of these; for a single command they are fine.
_RESERVED_VARIABLES = frozenset(
    (
        "PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "NODE_PATH", "BASH_ENV", "ENV", "IFS", "CLASSPATH",
    )
)  # fmt: skip

_PLAIN = re.compile(r"[A-Za-z0-9_.:/@-]+")  # metadata that can be asked for: CubeAPI decodes nothing in a filter


# --- what is sent -----------------------------------------------------------------------------------------------


def create_body(config: CubeSandboxConfig, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the request for a new sandbox.

    Raises:
        SandboxConfigError: There is no template.
    """
    if config.template is None:
        raise SandboxConfigError(
            "templateID is required: a CubeSandbox cluster has no default template",
            hint=f"set {SETTINGS['template'].knobs}",
            provider_id=PROVIDER_ID,
            operation="create",
            outcome=Outcome.NOT_STARTED,
        )
    variables = {name: value for name, value in config.environment.items() if name not in _RESERVED_VARIABLES}
    return {
        "templateID": config.template,
        "timeout": config.timeout_seconds,
        "metadata": dict(metadata),
        **({"envVars": variables} if variables else {}),
        **_options(config.create),
    }


def _options(options: CreateOptions) -> dict[str, Any]:
    network: dict[str, Any] = thaw(options.network)
    chosen: dict[str, Any] = {
        # Snake case, unlike every other field: CubeAPI ignores any other spelling, and the internet would stay open.
        "allow_internet_access": options.allow_internet_access,
        "network": network or None,
        "lifecycle": _lifecycle(options),
        "autoPause": options.auto_pause,  # all that the oldest servers know of a lifecycle
    }
    return {name: value for name, value in chosen.items() if value is not None}


def _lifecycle(options: CreateOptions) -> dict[str, Any] | None:
    if options.auto_pause is None:
        return None
    lifecycle: dict[str, Any] = {"onTimeout": "pause" if options.auto_pause else "kill"}
    return lifecycle if options.auto_resume is None else lifecycle | {"autoResume": options.auto_resume}


def sent_metadata(
    options: CreateOptions, labels: Mapping[str, str], tag: str, provider_id: str = PROVIDER_ID
) -> dict[str, str]:
    """Return the metadata of a new sandbox: the caller's own and the labels, both filtered, and our marks."""
    return {PROVIDER_KEY: provider_id, **tagged_metadata(options.metadata, labels, tag)}


def metadata_query(metadata: Mapping[str, str]) -> str | None:
    """Return the filter for sandboxes that carry `metadata`, as far as CubeAPI can be asked for it."""
    pairs = (
        f"{name}={value}" for name, value in metadata.items() if _PLAIN.fullmatch(name) and _PLAIN.fullmatch(value)
    )
    return "&".join(pairs) or None


def login_arguments(command: SandboxCommand, shell: Sequence[str], path: str | None) -> tuple[str, ...]:
    """Return program and arguments of a command.

    Args:
        path: The ``PATH`` the command is given. A login shell reads ``/etc/profile``, which on Debian replaces it,
            so that it is set once more where the command begins.
    """
    if path is None or not isinstance(command.command, str):
        return command.argv(shell)
    return (*shell, f"export PATH={shlex.quote(path)}; {command.command}")


# --- what a refusal means ---------------------------------------------------------------------------------------

_BACKEND_CODE = re.compile(r"\b130\d{3}\b")

# Codes of the cluster's own services, inside the texts that CubeAPI answers; texts change, codes do not.
_ERROR_BY_CODE: Mapping[str, tuple[type[SandboxException], Outcome]] = {
    "130400": (SandboxConfigError, Outcome.NOT_STARTED),
    "130404": (SandboxNotFoundError, Outcome.NOT_STARTED),
    "130409": (SandboxConflictError, Outcome.NOT_STARTED),
    "130490": (SandboxConflictError, Outcome.NOT_STARTED),
    "130589": (SandboxConflictError, Outcome.NOT_STARTED),
    "130595": (SandboxTimeoutError, Outcome.UNKNOWN),
    "130597": (SandboxCapacityError, Outcome.NOT_STARTED),
}


def explain_control(*, withheld_key: bool = False) -> Explain:
    """Return CubeAPI's own meaning of a refusal.

    Args:
        withheld_key: There is an E2B key that was not sent, which a 401 may be about.
    """

    def explain(reply: HttpReply, fault: Fault) -> SandboxException | None:
        if fault.status == 401:
            return _unauthorized(fault, withheld_key)
        code = _BACKEND_CODE.search(fault.message)
        kind, outcome = _ERROR_BY_CODE.get(code[0] if code else "", (None, Outcome.UNKNOWN))
        return None if kind is None else kind(f"{fault.place}: {fault.message}", outcome=outcome)

    return explain


def _unauthorized(fault: Fault, withheld_key: bool) -> SandboxAuthError:
    hint = f"check {SETTINGS['api_key'].knobs}"
    if withheld_key:
        hint = (
            "E2B_API_KEY was not sent, because the address does not come from E2B_API_URL: set CUBE_API_KEY, "
            "or CUBE_ACCEPT_E2B_KEY=true"
        )
    return SandboxAuthError(f"CubeAPI does not accept the key: {fault.message}", hint=hint, outcome=Outcome.NOT_STARTED)


def explain_proxy(reply: HttpReply, fault: Fault) -> SandboxException | None:
    """Return the meaning of an answer that CubeProxy gives in a sandbox's place (a `faults.Explain`)."""
    if fault.status in (502, 504) and "json" not in reply.content_type:
        return SandboxConnectionError(
            "CubeProxy answers, but nothing listens on the sandbox's envd port",
            hint=f"check {SETTINGS['envd_port'].knobs}; a sandbox that was just made may need a moment",
        )
    if not _says_proxy(reply):
        return None
    if fault.status in (404, 410):
        return SandboxSessionLostError(
            f"CubeSandbox no longer has the sandbox ({fault.message}): it was destroyed, or unused for too long",
            hint=LIFETIME_ADVICE,
            outcome=Outcome.NOT_STARTED,
        )
    if fault.status == 403:
        return SandboxPermissionError(
            "the sandbox takes no public traffic, and its token is missing or wrong",
            hint=f"it is told only at creation; whoever connects sets {SETTINGS['traffic_access_token'].knobs}",
            outcome=Outcome.NOT_STARTED,
        )
    if fault.status == 503:
        return SandboxConflictError(
            "the sandbox is paused, or is being paused or resumed",
            hint="call resume(), or connect to it anew",
            outcome=Outcome.NOT_STARTED,
            session_state=SessionState.INTACT,
        )
    return None


def _says_proxy(reply: HttpReply) -> bool:
    """Whether the answer has CubeProxy's form: ``{"error": "gone"}``. envd has a message and a code."""
    try:
        document = reply.json(any_type=True)
    except SandboxProtocolError:
        return False
    return isinstance(document, dict) and isinstance(document.get("error"), str) and "message" not in document


# --- the data plane ---------------------------------------------------------------------------------------------


def port_address(reach: Reach, sandbox: RemoteSandbox, port: int) -> BaseUrl:
    """Return where a port of a sandbox is, by path or by host name.

    Raises:
        SandboxProtocolError: The service named a sandbox or domain that would lead somewhere else.
    """
    if reach.proxy_url is not None:
        way = f"/sandbox/{path_segment(sandbox.sandbox_id, 'sandbox id')}/{port}"
        return BaseUrl.parse(f"{reach.proxy_url}{way}", setting=SETTINGS["proxy_url"].knobs)
    host = _port_host(reach, sandbox, port)
    # The host name of a node's proxy carries no port: the proxy's own is dialled.
    own_port = "" if reach.port is None or reach.node is not None or ":" in host else f":{reach.port}"
    return BaseUrl.parse(f"{reach.scheme}://{host}{own_port}", setting=SETTINGS["sandbox_domain"].knobs)


def envd_address(config: CubeSandboxConfig, sandbox: RemoteSandbox) -> BaseUrl:
    """Return where a sandbox's envd is.

    Raises:
        SandboxProtocolError: As `port_address`.
    """
    return config.reach.envd_base_url or port_address(config.reach, sandbox, config.envd_port)


def traffic_headers(config: CubeSandboxConfig, sandbox: RemoteSandbox) -> dict[str, str]:
    """Return what the proxy asks of every request to a sandbox without public traffic."""
    token = sandbox.traffic_access_token or config.traffic_access_token
    return {} if token is None else {TRAFFIC_HEADER: token}


def envd_headers(config: CubeSandboxConfig, sandbox: RemoteSandbox) -> dict[str, str]:
    """Return what every call to a sandbox's envd carries. Never the API key: it would reach what runs inside."""
    token = sandbox.envd_access_token
    access = {} if token is None else {"X-Access-Token": token}
    return traffic_headers(config, sandbox) | access


def reachable_port(config: CubeSandboxConfig, sandbox: RemoteSandbox, port: int) -> PortUrl:
    """Return where a port of a sandbox can be reached from outside, and with which headers."""
    reach, headers = config.reach, traffic_headers(config, sandbox)
    if reach.envd_base_url is not None:
        return PortUrl(url=str(reach.envd_base_url), headers=headers | {"Host": _port_host(reach, sandbox, port)})
    if reach.node is None or reach.proxy_url is not None:
        return PortUrl(url=str(port_address(reach, sandbox, port)), headers=headers)
    host, node_port = reach.node
    node = f"[{host}]" if ":" in host else host
    url = BaseUrl.parse(f"{reach.scheme}://{node}:{node_port}", setting=SETTINGS["proxy_node_ip"].knobs)
    return PortUrl(url=str(url), headers=headers | {"Host": _port_host(reach, sandbox, port)})


def _port_host(reach: Reach, sandbox: RemoteSandbox, port: int) -> str:
    return port_host(port, sandbox.sandbox_id, sandbox.domain or reach.domain)


UNRESOLVED_HINT = (
    f"sandboxes need a wildcard DNS entry for their domain ({SETTINGS['sandbox_domain'].knobs}); without one, set "
    f"{SETTINGS['proxy_node_ip'].env[0]} to the address of a node that runs CubeProxy, or "
    f"{SETTINGS['proxy_url'].env[0]} to a proxy that takes sandboxes by path"
)
"""What to do when the host name of a sandbox is not known."""
