"""The provider: creates sandboxes at Daytona, attaches to them, finds and deletes them."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Unpack

from ai4j_sandbox.capability import Capabilities, Capability, IsolationLevel, unsupported
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxCleanupError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxException,
    SandboxNotFoundError,
)
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.ownership import owned_labels
from ai4j_sandbox.redaction import Scrubber
from ai4j_sandbox.settings import ResolvedSettings
from ai4j_sandbox.spi import Health, SandboxSession, SessionDescription
from ai4j_sandbox_wire.base_url import BaseUrl, Origin, path_segment
from ai4j_sandbox_wire.creation import CREATE_TAG, undoing
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.http import HttpClient
from ai4j_sandbox_wire.message import Send
from ai4j_sandbox_wire.remote_provider import RemoteProvider

from .client import DELETE_SECONDS, DaytonaSandboxClient, service_headers
from .config import PROVIDER_ID, SETTINGS, DaytonaArguments, DaytonaSandboxConfig, daytona_config
from .hooks import INFO
from .payloads import RemoteSandbox, Stage, create_body, explain_toolbox
from .session import Connections, DaytonaMachineSession, DaytonaSandboxSession
from .toolbox import Toolbox

_CONTAINERS_STOP = unsupported("this sandbox is a container, which can be stopped but not paused: use stop and resume")


class DaytonaSandboxProvider(RemoteProvider[DaytonaSandboxConfig, DaytonaSandboxClient]):
    """Sandboxes of Daytona, in the cloud or self-hosted.

    Args:
        allowed_origins: Addresses (``https://host``) that may receive the host's credentials though the `config` of a
            spec names them.
        environ: The environment to read settings from, at the moment of use; the process's own by default.
        send: Sends one request to the control API; pooled connections of the provider's own by default.
        transport: Makes the transport of one session to its toolbox.
        **settings: Any of the settings by its name (``api_key=``, ``snapshot=``); they win over spec and environment.
    """

    info = INFO
    settings = SETTINGS

    def __init__(
        self,
        *,
        allowed_origins: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        send: Send | None = None,
        transport: Callable[[], DirectTransport] | None = None,
        **settings: Unpack[DaytonaArguments],
    ) -> None:
        super().__init__(allowed_origins=allowed_origins, environ=environ, send=send, arguments=dict(settings))
        self._transport = transport

    # --- create and attach --------------------------------------------------------------------------------------

    def _create(self, spec: SandboxSpec) -> SandboxSession:
        config = self._config(spec)
        client = self._client(config)
        deadline = Deadline(config.start_seconds)
        try:
            existing = _existing(config, client, deadline)
            if existing is None:
                created = self._created(spec, config, client, deadline)
                if created is not None:
                    return created
                existing = client.describe(config.sandbox_name or "", deadline)
            return self._attached(spec, config, client, existing, deadline)
        except SandboxException as error:
            raise _told(error, config) from None

    def _created(
        self, spec: SandboxSpec, config: DaytonaSandboxConfig, client: DaytonaSandboxClient, deadline: Deadline
    ) -> SandboxSession | None:
        """Return the session of a new sandbox; ``None`` when somebody else has just created one of this name."""
        with undoing(client, self.info, seconds=DELETE_SECONDS) as creation:
            labels = {**owned_labels(spec.labels, self._environ), CREATE_TAG: creation.tag}
            try:
                sandbox = client.create(create_body(config.sandbox_name, config.create, labels), deadline)
            except SandboxConflictError:
                if config.sandbox_name is None:
                    raise
                return None
            creation.sandbox_id = sandbox.sandbox_id
            return self._session(spec, config, client, client.start(sandbox, deadline), owned=True)

    def _attached(
        self,
        spec: SandboxSpec,
        config: DaytonaSandboxConfig,
        client: DaytonaSandboxClient,
        sandbox: RemoteSandbox,
        deadline: Deadline,
    ) -> SandboxSession:
        return self._session(spec, config, client, client.start(sandbox, deadline), owned=False)

    def connect(self, session_id: str, spec: SandboxSpec | None = None) -> SandboxSession:
        """Attach to a sandbox by id or name, starting it if it rests; `close` leaves it alive.

        Args:
            session_id: The sandbox's id, or its name.
            spec: Settings; with ``deleteOnClose`` `close` deletes it after all.

        Raises:
            SandboxNotFoundError: It does not exist.
            SandboxException: As `create_session`.
        """
        spec, config, client = self._admitted(spec)
        deadline = Deadline(config.start_seconds)
        try:
            return self._attached(spec, config, client, client.describe(session_id, deadline), deadline)
        except SandboxNotFoundError as error:
            raise SandboxNotFoundError(
                f"there is no sandbox {session_id!r}: {error.message}",
                provider_id=PROVIDER_ID,
                operation="connect",
                http_status=error.http_status,
                outcome=Outcome.NOT_STARTED,
            ) from None

    def _session(
        self,
        spec: SandboxSpec,
        config: DaytonaSandboxConfig,
        client: DaytonaSandboxClient,
        sandbox: RemoteSandbox,
        *,
        owned: bool,
    ) -> DaytonaSandboxSession:
        toolbox = self._toolbox(config, client, sandbox)
        machine = sandbox.is_virtual_machine
        description = SessionDescription(
            session_id=sandbox.sandbox_id,
            info=self.info,
            spec=spec,
            owned=owned,
            capabilities=None if machine else _container_capabilities(self.info.capabilities),
            isolation=IsolationLevel.VIRTUAL_MACHINE if machine else IsolationLevel.CONTAINER,
            secrets=(config.api_key,),
        )
        kind = DaytonaMachineSession if machine else DaytonaSandboxSession
        return kind(description, config, sandbox, Connections(client=client, toolbox=toolbox))

    # --- making what is needed ----------------------------------------------------------------------------------

    def _configured(self, settings: ResolvedSettings) -> DaytonaSandboxConfig:
        return daytona_config(settings, self._allowed_origins)

    def _client(self, config: DaytonaSandboxConfig) -> DaytonaSandboxClient:
        return DaytonaSandboxClient(config, send=self._sender(config.ca_bundle))

    def _health(self, config: DaytonaSandboxConfig, client: DaytonaSandboxClient) -> Health:
        client.probe()
        return Health(
            healthy=True,
            summary=f"{config.api_url} answers and accepts the key",
            details={"target": config.create.target} if config.create.target else {},
        )

    def _toolbox(self, config: DaytonaSandboxConfig, client: DaytonaSandboxClient, sandbox: RemoteSandbox) -> Toolbox:
        transport = self._dial(config)
        headers = service_headers(config)
        http = HttpClient(
            toolbox_address(config, client, sandbox),
            headers=lambda: headers,
            send=transport.send,
            open_stream=transport.open,
            begin=transport.begin,
            limits=config.limits,
            explain=explain_toolbox,
            scrubber=lambda: Scrubber((config.api_key,)),
            where={"provider_id": PROVIDER_ID, "session_id": sandbox.sandbox_id},
        )
        return Toolbox(http, transport, lambda cause: client.why_unreachable(sandbox.sandbox_id, cause))

    def _dial(self, config: DaytonaSandboxConfig) -> DirectTransport:
        if self._transport is not None:
            return self._transport()
        return DirectTransport(self._dialer(config.ca_bundle, "toolbox_proxy_url"))


def _existing(config: DaytonaSandboxConfig, client: DaytonaSandboxClient, deadline: Deadline) -> RemoteSandbox | None:
    """Return the sandbox to attach to; ``None`` when one is to be created."""
    if config.sandbox_id is not None:
        return client.describe(config.sandbox_id, deadline)
    if config.sandbox_name is None:
        return None
    try:
        sandbox = client.describe(config.sandbox_name, deadline)
    except SandboxNotFoundError:
        if not config.create_if_missing:
            raise
        return None
    # The name of a sandbox that is being deleted is free at once.
    return None if sandbox.stage is Stage.GONE and config.create_if_missing else sandbox


def toolbox_address(config: DaytonaSandboxConfig, client: DaytonaSandboxClient, sandbox: RemoteSandbox) -> BaseUrl:
    """Return where a sandbox's toolbox is: the configured proxy, else the one the sandbox names, else asked for.

    Raises:
        SandboxAuthError: The service named a place that may not receive the API key.
    """
    segment = path_segment(sandbox.sandbox_id, "sandbox id")
    if config.toolbox_proxy_url is not None:
        proxy = config.toolbox_proxy_url
    else:
        told = sandbox.toolbox_proxy_url or client.toolbox_proxy_url(sandbox.sandbox_id)
        proxy = BaseUrl.parse(told, setting="the service's toolboxProxyUrl")
        _require_vouched(config.api_url.origin, proxy.origin)
    return BaseUrl(origin=proxy.origin, path=f"{proxy.path}/{segment}", setting=proxy.setting)


def _require_vouched(api: Origin, proxy: Origin) -> None:
    """The key goes where the API says only if nobody can have changed what it says, and reads nothing on the way."""
    if proxy == api or (_is_safe(api) and _is_safe(proxy)):
        return
    raise SandboxAuthError(
        f"the service names the toolbox proxy {proxy}, but not over a connection that proves it",
        hint=f"set {SETTINGS['toolbox_proxy_url'].knobs} to that address if you trust it, or use https",
        provider_id=PROVIDER_ID,
        operation="create",
    )


def _is_safe(origin: Origin) -> bool:
    return origin.scheme == "https" or _is_loopback(origin.host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _container_capabilities(capabilities: Capabilities) -> Capabilities:
    return capabilities.narrowed({Capability.PAUSE: _CONTAINERS_STOP})


def _told(error: SandboxException, config: DaytonaSandboxConfig) -> SandboxException:
    """Say what was being done when it failed."""
    if isinstance(error, SandboxConfigError | SandboxCleanupError):
        return error
    error.message = f"failed to create or attach Daytona sandbox session: {error.message}"
    error.args = (error.message,)
    return error.scrubbed(Scrubber((config.api_key,))).located(provider_id=PROVIDER_ID, operation="create")
