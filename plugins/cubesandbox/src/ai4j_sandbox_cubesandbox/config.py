"""The settings of the CubeSandbox provider, and what they resolve to."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypedDict

from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.frozen import empty_mapping
from ai4j_sandbox.settings import (
    Kind,
    Layer,
    ResolvedSettings,
    Setting,
    SettingsTable,
    credential_text,
    directory_path,
    known_entries,
    origin_of,
    text_entries,
    variable_entries,
)
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.connect import DEFAULT_ENVELOPE_LIMIT_BYTES
from ai4j_sandbox_wire.message import HttpLimits
from ai4j_sandbox_wire.sandbox_host import parse_domain

PROVIDER_ID = "cubesandbox"
DEFAULT_API_URL = "http://127.0.0.1:3000"
DEFAULT_DOMAIN = "cube.app"
DEFAULT_ENVD_PORT = 49983
DEFAULT_TIMEOUT_SECONDS = 300
DEFAULT_REQUEST_SECONDS = 30.0
DEFAULT_USER = "root"

NEVER = -1
"""The idle window of a sandbox that nothing but `destroy` ends."""

_NETWORK_KEYS = (
    "allowPublicTraffic", "allowOut", "denyOut", "allow_out", "deny_out", "maskRequestHost", "rules",
)  # fmt: skip

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HOST = re.compile(r"[A-Za-z0-9_.-]+|\[?[0-9A-Fa-f]*(?::[0-9A-Fa-f.]*){2,8}\]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """What is asked of a new sandbox besides its template and idle window; ``None`` leaves it to the service.

    Network rules may inject credentials, so they are hidden from ``repr``, like metadata.
    """

    allow_internet_access: bool | None = None
    network: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)
    metadata: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    auto_pause: bool | None = None
    auto_resume: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How sandboxes are reached. The first of these that is given counts; without any it is DNS.

    Attributes:
        envd_base_url: Address of every sandbox's envd.
        proxy_url: Address of a CubeProxy that takes sandbox and port from the path.
        node: Host and port of a CubeProxy that takes them from the ``Host`` header.
        domain: What the host names of sandboxes end in, unless the service names another.
        port: The proxy's port in those host names, where it is not the scheme's own.
    """

    scheme: str = "http"
    domain: str = DEFAULT_DOMAIN
    port: int | None = None
    node: tuple[str, int] | None = None
    proxy_url: BaseUrl | None = None
    envd_base_url: BaseUrl | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CubeSandboxConfig:
    """Everything that shapes the sessions of one spec. Credentials and variables are hidden from ``repr``.

    Attributes:
        api_url: Address of CubeAPI.
        api_key: ``None`` for a cluster without authentication.
        withheld_key: There is an E2B key that was not accepted for this address; for error messages.
        template: ``None`` when none is configured, which only connecting does not mind.
        timeout_seconds: Idle window of a new sandbox; `NEVER` for none.
        timeout_given: Whether somebody asked for that window, so that connecting asks for it too.
        keep_alive: A running command counts as use of the sandbox.
        working_directory: Where commands run that name no directory.
    """

    api_url: BaseUrl
    api_key: str | None = field(default=None, repr=False)
    send_x_api_key: bool = False
    withheld_key: bool = False
    template: str | None = None
    reach: Reach = field(default_factory=Reach)
    envd_port: int = DEFAULT_ENVD_PORT
    user: str = DEFAULT_USER
    traffic_access_token: str | None = field(default=None, repr=False)
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    timeout_given: bool = False
    keep_alive: bool = True
    delete_on_close: bool = True
    use_login_shell: bool = True
    working_directory: str | None = None
    environment: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    create: CreateOptions = field(default_factory=CreateOptions)
    envelope_limit_bytes: int = DEFAULT_ENVELOPE_LIMIT_BYTES
    ca_bundle: str | None = None
    limits: HttpLimits = field(default_factory=HttpLimits, repr=False)


class CubeArguments(TypedDict, total=False):
    """Constructor arguments of the provider: the names of its settings."""

    api_url: str
    api_key: str
    accept_e2b_key: bool
    send_x_api_key: bool
    template: str
    sandbox_domain: str
    envd_port: int
    proxy_node_ip: str
    proxy_port: int
    proxy_scheme: str
    proxy_url: str
    envd_base_url: str
    ca_bundle: str
    user: str
    traffic_access_token: str
    timeout_seconds: int
    keep_alive: bool
    request_timeout: float
    request_timeout_millis: float
    delete_on_close: bool
    use_login_shell: bool
    working_directory: str
    environment: Mapping[str, str]
    metadata: Mapping[str, str]
    allow_internet_access: bool
    network: Mapping[str, Any]
    auto_pause: bool
    auto_resume: bool
    connect_envelope_limit_bytes: int


# --- parsing of single values -------------------------------------------------------------------------------------


def _idle_window(seconds: float) -> int:
    if seconds == NEVER:
        return NEVER
    if seconds <= 0:
        raise ValueError(f"must be more than 0, or {NEVER} for a sandbox that never ends by itself")
    return math.ceil(seconds)


def _positive(number: float) -> float:
    if number <= 0:
        raise ValueError("must be more than 0")
    return number


def _user(text: str) -> str:
    if not _USER.fullmatch(text):
        raise ValueError("must be the name of a Linux user")
    return text


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise ValueError("must be an IP address or a host name, without scheme and port")
    return text.strip("[]")


def _refused(variable: str, argument: str, *keys: str) -> Mapping[str, str]:
    """Return keys of `config` that are refused, and why: a spec may be stored."""
    reason = f"is never read from a spec: set {variable}, or pass {argument}= to the provider"
    return MappingProxyType(dict.fromkeys(keys, reason))


SETTINGS = SettingsTable(
    PROVIDER_ID,
    (
        Setting(
            name="api_url",
            env=("CUBE_API_URL", "E2B_API_URL"),
            config=("apiUrl", "apiURL", "baseUrl", "baseURL"),
            kind=Kind.URL,
            default=DEFAULT_API_URL,
            help="Address of CubeAPI, the control plane.",
        ),
        Setting(
            name="api_key",
            env=("CUBE_API_KEY", "E2B_API_KEY"),
            refused_config=_refused("CUBE_API_KEY", "api_key", "apiKey", "apikey", "api_key", "e2bApiKey"),
            secret=True,
            parse=credential_text,
            help="Key, where the cluster asks for one, sent as `Authorization: Bearer`; never read from a spec.",
        ),
        Setting(
            name="accept_e2b_key",
            env=("CUBE_ACCEPT_E2B_KEY",),
            kind=Kind.BOOLEAN,
            default=False,
            help="Whether `E2B_API_KEY` may go to an address that does not come from `E2B_API_URL`.",
        ),
        Setting(
            name="send_x_api_key",
            config=("sendXApiKey",),
            kind=Kind.BOOLEAN,
            default=False,
            help="Send the key as `X-API-Key` too, for a gateway that looks only there.",
        ),
        Setting(
            name="template",
            env=("CUBE_TEMPLATE_ID",),
            config=("templateId", "templateID"),
            spec="image",
            help="Template or snapshot to start from; a cluster has no default one.",
        ),
        Setting(
            name="sandbox_domain",
            env=("CUBE_SANDBOX_DOMAIN",),
            config=("sandboxDomain", "domain"),
            default=DEFAULT_DOMAIN,
            parse=parse_domain,
            help="What the host names of sandboxes end in, where the service names no domain.",
        ),
        Setting(
            name="envd_port",
            env=("CUBE_ENVD_PORT",),
            config=("envdPort", "envdHTTPPort", "dataPort"),
            kind=Kind.INTEGER,
            default=DEFAULT_ENVD_PORT,
            minimum=1,
            maximum=65535,
            help="Port of envd, the daemon that runs commands; 49999 in templates whose gateway offers it there.",
        ),
        Setting(
            name="proxy_node_ip",
            env=("CUBE_PROXY_NODE_IP",),
            config=("proxyNodeIp",),
            parse=_host,
            help="Address of a CubeProxy to connect to whatever the host name says, so that no DNS is needed.",
        ),
        Setting(
            name="proxy_port",
            env=("CUBE_PROXY_PORT_HTTP",),
            config=("proxyPort",),
            kind=Kind.INTEGER,
            minimum=1,
            maximum=65535,
            help="Port of CubeProxy; the scheme's own otherwise.",
        ),
        Setting(
            name="proxy_scheme",
            env=("CUBE_PROXY_SCHEME",),
            config=("proxyScheme",),
            choices=("http", "https"),
            help="How to speak to CubeProxy: `http`, or `https`, which port 443 implies.",
        ),
        Setting(
            name="proxy_url",
            env=("CUBE_PROXY_URL",),
            config=("proxyUrl",),
            kind=Kind.URL,
            help="Address of a CubeProxy that takes sandboxes by path, `/sandbox/<id>/<port>/`; beats `proxy_node_ip`.",
        ),
        Setting(
            name="envd_base_url",
            env=("CUBE_ENVD_BASE_URL",),
            config=("envdBaseUrl",),
            kind=Kind.URL,
            help="Address of every sandbox's envd, for tests and tunnels; beats every other way.",
        ),
        Setting(
            name="ca_bundle",
            env=("CUBE_CA_BUNDLE",),
            config=("caBundle",),
            help="File with the certificates to trust, for a private certificate authority such as mkcert's.",
        ),
        Setting(
            name="user",
            config=("user",),
            default=DEFAULT_USER,
            parse=_user,
            help="Linux user that runs commands and owns files.",
        ),
        Setting(
            name="traffic_access_token",
            env=("CUBE_TRAFFIC_ACCESS_TOKEN",),
            refused_config=_refused("CUBE_TRAFFIC_ACCESS_TOKEN", "traffic_access_token", "trafficAccessToken"),
            secret=True,
            parse=credential_text,
            help="Token of a sandbox without public traffic, for connecting: the service tells it only at creation.",
        ),
        Setting(
            name="timeout_seconds",
            env=("CUBE_TIMEOUT",),
            config=("timeoutSeconds", "timeout"),
            kind=Kind.DURATION,
            default=DEFAULT_TIMEOUT_SECONDS,
            parse=_idle_window,
            unit="s",
            help="Idle window: a sandbox that nobody uses for so long ends; -1 for never.",
        ),
        Setting(
            name="keep_alive",
            config=("keepAlive",),
            kind=Kind.BOOLEAN,
            default=True,
            help="Whether a running command counts as use; the service itself counts only finished requests.",
        ),
        Setting(
            name="request_timeout",
            env=("CUBE_REQUEST_TIMEOUT",),
            config=("requestTimeout",),
            kind=Kind.DURATION,
            maximum=999,
            parse=_positive,
            unit="s",
            help="How long CubeAPI may take to answer a call, 30 s by default; a command has its own limit.",
        ),
        Setting(
            name="request_timeout_millis",
            config=("requestTimeoutMillis",),
            kind=Kind.DURATION,
            maximum=999_000,
            parse=_positive,
            unit="ms",
            help="The same in milliseconds.",
        ),
        Setting(
            name="delete_on_close",
            config=("closeDestroysSandbox", "destroyOnClose", "deleteOnClose"),
            kind=Kind.BOOLEAN,
            default=True,
            help="Whether `close` destroys a sandbox that the session created; a connected one is never destroyed.",
        ),
        Setting(
            name="use_login_shell",
            config=("useLoginShell",),
            kind=Kind.BOOLEAN,
            default=True,
            help="Run a command line with `/bin/bash -l -c`; false leaves out `-l`, and with it the profile files.",
        ),
        Setting(
            name="working_directory",
            config=("workingDirectory",),
            spec="workspace_id",
            parse=directory_path,
            help="Absolute directory that commands run in; made in a new sandbox. The user's home otherwise.",
        ),
        Setting(
            name="environment",
            config=("envVars", "env"),
            kind=Kind.MAPPING,
            default={},
            parse=variable_entries,
            help="Variables of the sandbox and of every command, without secrets.",
        ),
        Setting(
            name="metadata",
            config=("metadata",),
            kind=Kind.MAPPING,
            default={},
            parse=text_entries,
            help="Metadata besides the labels; sensitive names are dropped, as with labels.",
        ),
        Setting(
            name="allow_internet_access",
            config=("allowInternetAccess",),
            kind=Kind.BOOLEAN,
            help="False cuts the sandbox off from the internet; sent as `allow_internet_access`.",
        ),
        Setting(
            name="network",
            config=("network",),
            kind=Kind.MAPPING,
            default={},
            parse=known_entries(*_NETWORK_KEYS),
            help=f"Network rules in the service's own terms: {', '.join(f'`{key}`' for key in _NETWORK_KEYS)}.",
        ),
        Setting(
            name="auto_pause",
            config=("autoPause",),
            kind=Kind.BOOLEAN,
            help="Pause the sandbox at the end of its idle window instead of destroying it.",
        ),
        Setting(
            name="auto_resume",
            config=("autoResume",),
            kind=Kind.BOOLEAN,
            help="Let traffic wake the paused sandbox.",
        ),
        Setting(
            name="connect_envelope_limit_bytes",
            config=("connectEnvelopeLimitBytes",),
            kind=Kind.INTEGER,
            default=DEFAULT_ENVELOPE_LIMIT_BYTES,
            minimum=1024,
            unit="bytes",
            help="Longest message accepted in a command's stream.",
        ),
    ),
)

# How `guard_credential` is to compare what is not a URL with the origins that the host allows.
_SANDBOX_ADDRESSES = ("envd_base_url", "proxy_url", "proxy_node_ip", "sandbox_domain")


def cube_config(settings: ResolvedSettings, allowed_origins: Sequence[str] = ()) -> CubeSandboxConfig:
    """Return the configuration that resolved settings describe.

    Args:
        allowed_origins: Addresses that may receive the host's credentials though a spec's `config` names them, or
            though the key is E2B's.

    Raises:
        SandboxConfigError: Two settings exclude each other.
        SandboxAuthError: A spec's `config` names an address that may not receive the host's credentials.
    """
    api_key = _accepted_key(settings, allowed_origins)
    _guard(settings, allowed_origins, sends_key=api_key is not None)
    return CubeSandboxConfig(
        api_url=BaseUrl.parse(settings["api_url"], setting=SETTINGS["api_url"].knobs),
        api_key=api_key,
        send_x_api_key=settings["send_x_api_key"],
        withheld_key=api_key is None and settings["api_key"] is not None,
        template=settings["template"],
        reach=_reach(settings),
        envd_port=settings["envd_port"],
        user=settings["user"],
        traffic_access_token=settings["traffic_access_token"],
        timeout_seconds=settings["timeout_seconds"],
        timeout_given=settings.given("timeout_seconds"),
        keep_alive=settings["keep_alive"],
        delete_on_close=settings["delete_on_close"],
        use_login_shell=settings["use_login_shell"],
        working_directory=settings["working_directory"],
        environment=settings["environment"],
        create=_create_options(settings),
        envelope_limit_bytes=settings["connect_envelope_limit_bytes"],
        ca_bundle=settings["ca_bundle"],
        limits=_limits(settings),
    )


def _guard(settings: ResolvedSettings, allowed_origins: Sequence[str], *, sends_key: bool) -> None:
    if sends_key:  # one that stays here anyway need not keep an address from being used
        settings.guard_credential(credential="api_key", url="api_url", allowed_origins=allowed_origins)
    for name in _SANDBOX_ADDRESSES:
        value = settings[name]
        address = None if value is None or SETTINGS[name].kind is Kind.URL else f"http://{_bracketed(value)}"
        settings.guard_credential(
            credential="traffic_access_token", url=name, allowed_origins=allowed_origins, address=address
        )


def _accepted_key(settings: ResolvedSettings, allowed_origins: Sequence[str]) -> str | None:
    """Return the key to send. One of E2B goes only where E2B's own variable leads, unless somebody asked for it."""
    key: str | None = settings["api_key"]
    if settings.source("api_key").knob != "E2B_API_KEY" or settings.source("api_url").knob == "E2B_API_URL":
        return key
    asked = settings["accept_e2b_key"] or origin_of(settings["api_url"]) in map(origin_of, allowed_origins)
    return key if asked else None


def _reach(settings: ResolvedSettings) -> Reach:
    port: int | None = settings["proxy_port"]
    scheme = settings["proxy_scheme"] or ("https" if port == 443 else "http")
    node_ip = settings["proxy_node_ip"]
    return Reach(
        scheme=scheme,
        domain=settings["sandbox_domain"],
        port=port,
        node=None if node_ip is None else (node_ip, port or (443 if scheme == "https" else 80)),
        proxy_url=_optional_url(settings, "proxy_url"),
        envd_base_url=_optional_url(settings, "envd_base_url"),
    )


def _optional_url(settings: ResolvedSettings, name: str) -> BaseUrl | None:
    text = settings[name]
    return None if text is None else BaseUrl.parse(text, setting=SETTINGS[name].knobs)


def _create_options(settings: ResolvedSettings) -> CreateOptions:
    if settings["auto_resume"] and not settings["auto_pause"]:
        raise _contradiction("config.autoResume needs config.autoPause: true")
    return CreateOptions(
        allow_internet_access=settings["allow_internet_access"],
        network=settings["network"],
        metadata=settings["metadata"],
        auto_pause=settings["auto_pause"],
        auto_resume=settings["auto_resume"],
    )


def _limits(settings: ResolvedSettings) -> HttpLimits:
    seconds = _request_seconds(settings)
    return HttpLimits(connect_seconds=min(10.0, seconds), read_seconds=seconds, call_seconds=2 * seconds)


def _request_seconds(settings: ResolvedSettings) -> float:
    """Return what the stronger of the two settings for it says."""
    seconds, millis = settings["request_timeout"], settings["request_timeout_millis"]
    said = {
        settings.source("request_timeout").layer: seconds,
        settings.source("request_timeout_millis").layer: None if millis is None else millis / 1000,
    }
    if len(said) == 1 and seconds is not None:
        raise _contradiction("requestTimeout and requestTimeoutMillis say the same thing twice; give one of them")
    found: float | None = said[max(said)]
    return DEFAULT_REQUEST_SECONDS if max(said) is Layer.DEFAULT or found is None else found


def _contradiction(message: str) -> SandboxConfigError:
    return SandboxConfigError(message, provider_id=PROVIDER_ID, operation="create")


def _bracketed(host: str) -> str:
    return f"[{host}]" if host.count(":") > 1 else host
