"""The settings of the Daytona provider, and what they resolve to."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    variable_entries,
)
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.message import HttpLimits

PROVIDER_ID = "daytona"
DEFAULT_API_URL = "https://app.daytona.io/api"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """What is asked of a new sandbox; ``None`` leaves it to the service.

    Attributes:
        snapshot: Snapshot to start from.
        image: Docker image to build from, instead of a snapshot.
        auto_stop_minutes, auto_archive_minutes, auto_delete_minutes: Minutes of rest until that happens; 0 means never
            for the first, the longest time for the second, and at once for the third, which -1 switches off.
        network_allow_list, domain_allow_list: The only destinations that may be reached.
    """

    snapshot: str | None = None
    image: str | None = None
    user: str | None = None
    target: str | None = None
    environment: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    public: bool | None = None
    cpu: int | None = None
    memory: int | None = None
    disk: int | None = None
    gpu: int | None = None
    gpu_type: tuple[str, ...] | None = None
    auto_stop_minutes: int | None = None
    auto_archive_minutes: int | None = None
    auto_delete_minutes: int | None = None
    volumes: tuple[Mapping[str, str], ...] | None = None
    network_block_all: bool | None = None
    network_allow_list: tuple[str, ...] | None = None
    domain_allow_list: tuple[str, ...] | None = None
    linked_sandbox: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DaytonaSandboxConfig:
    """Everything that shapes the sessions of one spec. Credentials and variables are hidden from ``repr``.

    Attributes:
        toolbox_proxy_url: Address of the proxy in front of all sandboxes, when the service's own word is not to count.
        sandbox_id: Attach to exactly this sandbox.
        sandbox_name: Attach to the sandbox of this name, or create it.
        destroys_attached: `close` also destroys a sandbox that was only attached.
        start_seconds: How long creating and starting may take altogether.
        poll_seconds: The longest pause between two looks at a sandbox that is not ready.
    """

    api_key: str = field(repr=False)
    api_url: BaseUrl
    toolbox_proxy_url: BaseUrl | None = None
    organization_id: str | None = None
    sandbox_id: str | None = None
    sandbox_name: str | None = None
    create_if_missing: bool = True
    delete_on_close: bool = False
    destroys_attached: bool = False
    create: CreateOptions = field(default_factory=CreateOptions)
    start_seconds: float = 60.0
    poll_seconds: float = 1.0
    ca_bundle: str | None = None
    limits: HttpLimits = field(default_factory=HttpLimits, repr=False)


class DaytonaArguments(TypedDict, total=False):
    """Constructor arguments of the provider: the names of its settings."""

    api_key: str
    api_url: str
    toolbox_proxy_url: str
    organization_id: str
    target: str
    sandbox_id: str
    sandbox_name: str
    create_if_missing: bool
    delete_on_close: bool
    snapshot: str
    image: str
    user: str
    environment: Mapping[str, str]
    public: bool
    cpu: int
    memory: int
    disk: int
    gpu: int
    gpu_type: Sequence[str]
    auto_stop_minutes: int
    auto_archive_minutes: int
    auto_delete_minutes: int
    volumes: Sequence[Mapping[str, str]]
    network_block_all: bool
    network_allow_list: Sequence[str]
    domain_allow_list: Sequence[str]
    linked_sandbox: str
    connect_timeout_millis: int
    read_timeout_millis: int
    start_timeout_millis: int
    poll_interval_millis: int
    ca_bundle: str


# --- parsing of single values -------------------------------------------------------------------------------------


def _name(text: str) -> str:
    if any(character in text for character in "/<>\\?#%"):
        raise ValueError("must be a plain name, without '/', '<', '>', '?', '#' and '%'")
    return text


def _networks(items: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(str(item), strict=False)) for item in items)


def _texts(items: tuple[Any, ...]) -> tuple[str, ...]:
    if not all(isinstance(item, str) and item for item in items):
        raise ValueError("must hold only non-empty text")
    return items


def _volumes(items: tuple[Any, ...]) -> tuple[Mapping[str, str], ...]:
    for item in items:
        if not isinstance(item, Mapping) or not {"volumeId", "mountPath"} <= set(item) <= _VOLUME_KEYS:
            raise ValueError("must hold mappings with volumeId, mountPath and optionally subpath")
        if not all(isinstance(value, str) for value in item.values()):
            raise ValueError("must hold only text in volumeId, mountPath and subpath")
    return items


_VOLUME_KEYS = {"volumeId", "mountPath", "subpath"}


def _whole(name: str, key: str, text: str, *, minimum: int = 1, unit: str | None = None) -> Setting:
    return Setting(name=name, config=(key,), kind=Kind.INTEGER, minimum=minimum, unit=unit, help=text)


def _millis(name: str, key: str, default: int, text: str) -> Setting:
    return Setting(name=name, config=(key,), kind=Kind.INTEGER, default=default, minimum=1, unit="ms", help=text)


SETTINGS = SettingsTable(
    PROVIDER_ID,
    (
        Setting(
            name="api_key",
            env=("DAYTONA_API_KEY",),
            config=("apiKey",),
            secret=True,
            parse=credential_text,
            help="Daytona API key; better in the environment than in a document.",
        ),
        Setting(
            name="api_url",
            env=("DAYTONA_API_URL",),
            config=("apiUrl",),
            kind=Kind.URL,
            default=DEFAULT_API_URL,
            help="Address of the Daytona API.",
        ),
        Setting(
            name="toolbox_proxy_url",
            env=("DAYTONA_TOOLBOX_PROXY_URL",),
            config=("toolboxProxyUrl",),
            kind=Kind.URL,
            help="Address of the toolbox proxy; asked of the service otherwise.",
        ),
        Setting(
            name="organization_id",
            env=("DAYTONA_ORGANIZATION_ID",),
            config=("organizationId",),
            help="Organization to act in; needed with a token that is no API key.",
        ),
        Setting(
            name="target", env=("DAYTONA_TARGET",), config=("target",), help="Region in which sandboxes are created."
        ),
        Setting(
            name="sandbox_id",
            config=("sandboxId",),
            parse=_name,
            help="Attach to this sandbox; it is an error when it does not exist.",
        ),
        Setting(
            name="sandbox_name",
            config=("sandboxName", "name"),
            spec="workspace_id",
            parse=_name,
            help="Attach to the sandbox of this name, or create it.",
        ),
        Setting(
            name="create_if_missing",
            config=("createIfMissing",),
            kind=Kind.BOOLEAN,
            default=True,
            help="Whether a name that does not exist is created.",
        ),
        Setting(
            name="delete_on_close",
            config=("deleteOnClose",),
            kind=Kind.BOOLEAN,
            default=False,
            help="Whether `close` deletes the sandbox; one that was attached, only if `config` says so.",
        ),
        Setting(
            name="snapshot",
            config=("snapshot",),
            spec="image",
            help="Snapshot to start from; the organization's default otherwise.",
        ),
        Setting(
            name="image",
            config=("image",),
            help="Docker image to build the sandbox from, instead of a snapshot.",
        ),
        Setting(name="user", config=("user",), help="Linux user of the sandbox."),
        Setting(
            name="environment",
            config=("env",),
            kind=Kind.MAPPING,
            default={},
            parse=variable_entries,
            help="Variables of the new sandbox, without secrets.",
        ),
        Setting(
            name="public",
            config=("public",),
            kind=Kind.BOOLEAN,
            help="Whether the sandbox's ports answer without a token.",
        ),
        _whole("cpu", "cpu", "Processors; the service takes sizes only with `image`."),
        _whole("memory", "memory", "Memory in GB."),
        _whole("disk", "disk", "Disk in GB."),
        _whole("gpu", "gpu", "Graphics processors.", minimum=0),
        Setting(
            name="gpu_type",
            config=("gpuType",),
            kind=Kind.LIST,
            parse=_texts,
            help="Acceptable kinds of graphics processors.",
        ),
        _whole("auto_stop_minutes", "autoStopInterval", "Minutes of rest until it stops; 0 for never.", minimum=0),
        _whole(
            "auto_archive_minutes", "autoArchiveInterval", "Minutes stopped until it is archived; 0 for the longest.",
            minimum=0,
        ),
        _whole(
            "auto_delete_minutes", "autoDeleteInterval", "Minutes stopped until it is deleted; 0 at once, -1 never.",
            minimum=-1,
        ),
        Setting(
            name="volumes",
            config=("volumes",),
            kind=Kind.LIST,
            parse=_volumes,
            help="Volumes to mount: a list of {volumeId, mountPath, subpath}.",
        ),
        Setting(
            name="network_block_all",
            config=("networkBlockAll",),
            kind=Kind.BOOLEAN,
            help="Cut the sandbox off from the network.",
        ),
        Setting(
            name="network_allow_list",
            config=("networkAllowList",),
            kind=Kind.LIST,
            parse=_networks,
            help="The only networks (CIDR) that may be reached.",
        ),
        Setting(
            name="domain_allow_list",
            config=("domainAllowList",),
            kind=Kind.LIST,
            parse=_texts,
            help="The only domains that may be reached.",
        ),
        Setting(name="linked_sandbox", config=("linkedSandbox",), help="Sandbox to place this one next to."),
        _millis("connect_timeout_millis", "connectTimeoutMillis", 10_000, "How long a connection may take to stand."),
        _millis(
            "read_timeout_millis", "readTimeoutMillis", 60_000,
            "How long the service may take to answer a call; a command has its own limit.",
        ),
        _millis(
            "start_timeout_millis", "startTimeoutMillis", 60_000, "How long a sandbox may take to be ready."
        ),
        _millis(
            "poll_interval_millis", "pollIntervalMillis", 1000, "Longest pause between two looks while it starts."
        ),
        Setting(
            name="ca_bundle",
            config=("caBundle",),
            help="File with the certificates to trust, for a server with a private certificate authority.",
        ),
    ),
)  # fmt: skip


def daytona_config(settings: ResolvedSettings, allowed_origins: Sequence[str] = ()) -> DaytonaSandboxConfig:
    """Return the configuration that resolved settings describe.

    Args:
        allowed_origins: Addresses that may receive the host's credentials though a spec's `config` names them.

    Raises:
        SandboxConfigError: The API key is missing, or two settings exclude each other.
        SandboxAuthError: A spec's `config` names an address that may not receive the host's credentials.
    """
    api_key = settings.require("api_key")
    for url in ("api_url", "toolbox_proxy_url"):
        settings.guard_credential(credential="api_key", url=url, allowed_origins=allowed_origins)
    proxy = settings["toolbox_proxy_url"]
    return DaytonaSandboxConfig(
        api_key=api_key,
        api_url=BaseUrl.parse(settings["api_url"], setting=SETTINGS["api_url"].knobs),
        toolbox_proxy_url=None if proxy is None else BaseUrl.parse(proxy, setting=SETTINGS["toolbox_proxy_url"].knobs),
        organization_id=settings["organization_id"],
        sandbox_id=settings["sandbox_id"],
        sandbox_name=settings["sandbox_name"],
        create_if_missing=settings["create_if_missing"],
        delete_on_close=settings["delete_on_close"],
        destroys_attached=settings["delete_on_close"] and settings.source("delete_on_close").layer is Layer.CONFIG,
        create=_create_options(settings),
        start_seconds=settings["start_timeout_millis"] / 1000,
        poll_seconds=settings["poll_interval_millis"] / 1000,
        ca_bundle=settings["ca_bundle"],
        limits=_limits(settings),
    )


_OPTIONS = tuple(CreateOptions.__dataclass_fields__)


def _create_options(settings: ResolvedSettings) -> CreateOptions:
    options = CreateOptions(**{name: settings[name] for name in _OPTIONS})
    if options.image is not None and options.snapshot is not None:
        raise _contradiction("an image and a snapshot exclude each other: spec.image names a snapshot")
    if options.network_block_all and (options.network_allow_list or options.domain_allow_list):
        raise _contradiction("config.networkBlockAll excludes lists of what may be reached")
    return options


def _contradiction(message: str) -> SandboxConfigError:
    return SandboxConfigError(message, provider_id=PROVIDER_ID, operation="create")


def _limits(settings: ResolvedSettings) -> HttpLimits:
    connect, read = settings["connect_timeout_millis"] / 1000, settings["read_timeout_millis"] / 1000
    return HttpLimits(connect_seconds=connect, read_seconds=read, call_seconds=connect + read)
