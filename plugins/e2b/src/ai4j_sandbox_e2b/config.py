"""The settings of the E2B provider, and what they resolve to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.frozen import empty_mapping, freeze
from ai4j_sandbox.settings import (
    Kind,
    Layer,
    ResolvedSettings,
    Setting,
    SettingsTable,
    credential_text,
    directory_path,
    known_entries,
    text_entries,
    variable_entries,
)
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.message import HttpLimits
from ai4j_sandbox_wire.sandbox_host import parse_domain

PROVIDER_ID = "e2b"
DEFAULT_DOMAIN = "e2b.app"
DEFAULT_TEMPLATE = "base"
DEFAULT_ENVD_PORT = 49983
DEFAULT_TIMEOUT_SECONDS = 300

_NETWORK_KEYS = (
    "allowPublicTraffic", "allowOut", "denyOut", "egressProxy", "maskRequestHost", "rules", "dnsServers", "httpsPorts",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """What is asked of a new sandbox besides its template and lifetime; ``None`` leaves it to the service."""

    secure: bool = True
    auto_pause: bool | None = None
    auto_resume: bool | None = None
    allow_internet_access: bool | None = None
    network: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)
    metadata: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    resources: Mapping[str, Any] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class E2BSandboxConfig:
    """Everything that shapes the sessions of one spec. Credentials and variables are hidden from ``repr``.

    Attributes:
        api_url: Address of the control API.
        domain: What the hosts of sandboxes end in, unless the service names another.
        sandbox_url: Address of every sandbox's envd, when it is not derived.
        timeout_seconds: Life of a new sandbox.
        timeout_given: Whether somebody asked for that life, so that attaching extends to it.
        working_directory: Where commands run that name no directory.
        destroys_attached: `close` also destroys a sandbox that was only attached.
        send_api_key_as_bearer: Without an envd token the API key goes to the sandbox's host (the contract's rule).
    """

    api_key: str = field(repr=False)
    api_url: BaseUrl
    domain: str = DEFAULT_DOMAIN
    template: str = DEFAULT_TEMPLATE
    envd_port: int = DEFAULT_ENVD_PORT
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    timeout_given: bool = False
    sandbox_url: BaseUrl | None = None
    envd_access_token: str | None = field(default=None, repr=False)
    send_api_key_as_bearer: bool = True
    use_shell_wrap: bool = True
    delete_on_close: bool = True
    destroys_attached: bool = False
    working_directory: str | None = None
    user: str | None = None
    environment: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    create: CreateOptions = field(default_factory=CreateOptions)
    ca_bundle: str | None = None
    limits: HttpLimits = field(default_factory=HttpLimits, repr=False)


class E2BArguments(TypedDict, total=False):
    """Constructor arguments of the provider: the names of its settings."""

    api_key: str
    domain: str
    api_url: str
    template: str
    envd_port: int
    timeout_seconds: int
    sandbox_url: str
    envd_access_token: str
    send_api_key_as_bearer: bool
    use_shell_wrap: bool
    delete_on_close: bool
    working_directory: str
    user: str
    environment: Mapping[str, str]
    secure: bool
    public: bool
    metadata: Mapping[str, str]
    resources: Mapping[str, Any]
    allow_internet_access: bool
    network: Mapping[str, Any]
    auto_pause: bool
    auto_resume: bool
    connect_timeout_millis: int
    read_timeout_millis: int
    ca_bundle: str


SETTINGS = SettingsTable(
    PROVIDER_ID,
    (
        Setting(
            name="api_key",
            env=("E2B_API_KEY",),
            config=("apiKey",),
            secret=True,
            parse=credential_text,
            help="E2B API key; better in the environment than in a document.",
        ),
        Setting(
            name="domain",
            env=("E2B_DOMAIN",),
            config=("apiDomain",),
            default=DEFAULT_DOMAIN,
            parse=parse_domain,
            help="Domain of the service; the other addresses are derived from it.",
        ),
        Setting(
            name="api_url",
            env=("E2B_API_URL",),
            config=("apiUrl",),
            kind=Kind.URL,
            help="Address of the control API; derived as `https://api.<domain>`.",
        ),
        Setting(
            name="template",
            env=("E2B_TEMPLATE_ID",),
            config=("templateId", "templateID", "image"),
            spec="image",
            default=DEFAULT_TEMPLATE,
            help="Template, alias or snapshot to start from.",
        ),
        Setting(
            name="envd_port",
            env=("E2B_ENVD_PORT",),
            config=("envdPort",),
            kind=Kind.INTEGER,
            default=DEFAULT_ENVD_PORT,
            minimum=1,
            maximum=65535,
            help="Port of envd, the daemon that runs commands.",
        ),
        Setting(
            name="timeout_seconds",
            env=("E2B_TIMEOUT",),
            config=("timeoutSeconds",),
            kind=Kind.INTEGER,
            default=DEFAULT_TIMEOUT_SECONDS,
            minimum=1,
            unit="s",
            help="Life of a new sandbox by the wall clock, whatever runs in it; `session.extend` prolongs it.",
        ),
        Setting(
            name="sandbox_url",
            env=("E2B_SANDBOX_URL",),
            config=("sandboxUrl",),
            kind=Kind.URL,
            help="Address of every sandbox's envd, for a proxy of your own; derived as `https://<port>-<id>.<domain>`.",
        ),
        Setting(
            name="envd_access_token",
            env=("E2B_ACCESS_TOKEN",),
            config=("envdAccessToken",),
            secret=True,
            parse=credential_text,
            help="Token for envd; the one that the service gives at creation comes first.",
        ),
        Setting(
            name="send_api_key_as_bearer",
            config=("sendApiKeyAsBearer",),
            kind=Kind.BOOLEAN,
            default=True,
            help="Whether the API key goes to a sandbox that has no envd token (only with `secure: false`).",
        ),
        Setting(
            name="use_shell_wrap",
            config=("useShellWrap",),
            kind=Kind.BOOLEAN,
            default=True,
            help="Run a command line with `sh -c`; false splits it at blanks and runs it directly, without stdin.",
        ),
        Setting(
            name="delete_on_close",
            config=("deleteOnClose",),
            kind=Kind.BOOLEAN,
            default=True,
            help="Whether `close` destroys the sandbox; one that was attached, only if the spec of `connect` says so.",
        ),
        Setting(
            name="working_directory",
            config=("workingDirectory",),
            spec="workspace_id",
            parse=directory_path,
            help="Absolute directory that commands run in; made in a new sandbox. The user's home otherwise.",
        ),
        Setting(
            name="user",
            config=("user",),
            help="Linux user that runs commands and owns files; the template's own otherwise.",
        ),
        Setting(
            name="environment",
            config=("env",),
            kind=Kind.MAPPING,
            default={},
            parse=variable_entries,
            help="Variables for every command, without secrets.",
        ),
        Setting(
            name="secure",
            config=("secure",),
            kind=Kind.BOOLEAN,
            default=True,
            help="Whether envd asks for a token of this sandbox; false lets everybody in who knows its id.",
        ),
        Setting(
            name="public",
            config=("public",),
            kind=Kind.BOOLEAN,
            help="Whether the other ports answer without a token; sent as `network.allowPublicTraffic`.",
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
            name="resources",
            config=("resources",),
            kind=Kind.MAPPING,
            default={},
            help="Sent as it is, for a service that reads it; e2b.app takes CPU and memory from the template.",
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
            help="Pause the sandbox at the end of its life instead of destroying it.",
        ),
        Setting(
            name="auto_resume",
            config=("autoResume",),
            kind=Kind.BOOLEAN,
            help="Let traffic wake the paused sandbox.",
        ),
        Setting(
            name="connect_timeout_millis",
            config=("connectTimeoutMillis",),
            kind=Kind.INTEGER,
            default=10_000,
            minimum=1,
            unit="ms",
            help="How long a connection may take to stand.",
        ),
        Setting(
            name="read_timeout_millis",
            config=("readTimeoutMillis",),
            kind=Kind.INTEGER,
            default=120_000,
            minimum=1,
            unit="ms",
            help="How long the service may take to answer a call; a command has its own limit.",
        ),
        Setting(
            name="ca_bundle",
            config=("caBundle",),
            help="File with the certificates to trust, for a cluster with a private certificate authority.",
        ),
    ),
)


def e2b_config(settings: ResolvedSettings, allowed_origins: Sequence[str] = ()) -> E2BSandboxConfig:
    """Return the configuration that resolved settings describe.

    Args:
        allowed_origins: Addresses that may receive the host's credentials though a spec's `config` names them.

    Raises:
        SandboxConfigError: The API key is missing, or two settings exclude each other.
        SandboxAuthError: A spec's `config` names an address that may not receive the host's credentials.
    """
    api_key = settings.require("api_key")
    api_url = settings["api_url"] or f"https://api.{settings['domain']}"
    _guard(settings, allowed_origins)
    return E2BSandboxConfig(
        api_key=api_key,
        api_url=BaseUrl.parse(api_url, setting=SETTINGS["api_url"].knobs),
        domain=settings["domain"],
        template=settings["template"],
        envd_port=settings["envd_port"],
        timeout_seconds=settings["timeout_seconds"],
        timeout_given=settings.given("timeout_seconds"),
        sandbox_url=_sandbox_url(settings["sandbox_url"]),
        envd_access_token=settings["envd_access_token"],
        send_api_key_as_bearer=settings["send_api_key_as_bearer"],
        use_shell_wrap=settings["use_shell_wrap"],
        delete_on_close=settings["delete_on_close"],
        destroys_attached=settings["delete_on_close"] and settings.source("delete_on_close").layer is Layer.CONFIG,
        working_directory=settings["working_directory"],
        user=settings["user"],
        environment=settings["environment"],
        create=_create_options(settings),
        ca_bundle=settings["ca_bundle"],
        limits=_limits(settings),
    )


def _guard(settings: ResolvedSettings, allowed_origins: Sequence[str]) -> None:
    derived = f"https://api.{settings['domain']}"
    for credential in ("api_key", "envd_access_token"):
        for url, address in (("api_url", None), ("sandbox_url", None), ("domain", derived)):
            settings.guard_credential(credential=credential, url=url, allowed_origins=allowed_origins, address=address)


def _sandbox_url(text: str | None) -> BaseUrl | None:
    return None if text is None else BaseUrl.parse(text, setting=SETTINGS["sandbox_url"].knobs)


def _create_options(settings: ResolvedSettings) -> CreateOptions:
    network, public = dict(settings["network"]), settings["public"]
    if public is not None and network.setdefault("allowPublicTraffic", public) is not public:
        raise _contradiction("config.public and config.network.allowPublicTraffic say the opposite")
    if network.get("allowPublicTraffic") is False and not settings["secure"]:
        raise _contradiction("config.public: false needs config.secure: true")
    if settings["auto_resume"] and not settings["auto_pause"]:
        raise _contradiction("config.autoResume needs config.autoPause: true")
    return CreateOptions(
        secure=settings["secure"],
        auto_pause=settings["auto_pause"],
        auto_resume=settings["auto_resume"],
        allow_internet_access=settings["allow_internet_access"],
        network=freeze(network),
        metadata=settings["metadata"],
        resources=settings["resources"],
    )


def _contradiction(message: str) -> SandboxConfigError:
    return SandboxConfigError(message, provider_id=PROVIDER_ID, operation="create")


def _limits(settings: ResolvedSettings) -> HttpLimits:
    connect, read = settings["connect_timeout_millis"] / 1000, settings["read_timeout_millis"] / 1000
    return HttpLimits(connect_seconds=connect, read_seconds=read, call_seconds=connect + read)
