"""The provider: creates sandboxes at Daytona, attaches to them, finds and deletes them."""

from __future__ import annotations

import ipaddress
import uuid
import weakref
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
from ai4j_sandbox.model import SandboxSpec, SandboxSummary
from ai4j_sandbox.ownership import owned_labels
from ai4j_sandbox.redaction import Scrubber
from ai4j_sandbox.spi import Health, SandboxProvider, SandboxSession, SessionDescription
from ai4j_sandbox_wire.base_url import BaseUrl, Origin, path_segment
from ai4j_sandbox_wire.connection import Dialer
from ai4j_sandbox_wire.creation import CREATE_TAG, removing, undone
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.http import HttpClient
from ai4j_sandbox_wire.message import Send

from .client import DaytonaSandboxClient, service_headers
from .config import PROVIDER_ID, SETTINGS, DaytonaArguments, DaytonaSandboxConfig, daytona_config
from .hooks import INFO
from .payloads import RemoteSandbox, Stage, create_body, explain_toolbox
from .session import Connections, DaytonaMachineSession, DaytonaSandboxSession
from .toolbox import Toolbox

_CONTAINERS_STOP = unsupported("this sandbox is a container, which can be stopped but not paused: use stop and resume")


class DaytonaSandboxProvider(SandboxProvider):
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
        unknown = sorted(set(settings) - set(DaytonaArguments.__annotations__))
        if unknown:
            raise TypeError(f"DaytonaSandboxProvider() got an unexpected keyword argument {unknown[0]!r}")
        self._arguments: Mapping[str, object] = dict(settings)
        self._allowed_origins = tuple(allowed_origins)
        self._environ = environ
        self._send = send
        self._transport = transport
        self._senders: dict[str | None, Send] = {}

    def __repr__(self) -> str:
        return f"DaytonaSandboxProvider(<{len(self._arguments)} settings>)"

    # --- create and attach --------------------------------------------------------------------------------------

    def _create(self, spec: SandboxSpec) -> SandboxSession:
        config = self._config(spec)
        client = self._client(config)
        deadline = Deadline(config.start_seconds)
        try:
            existing = _existing(config, client, deadline)
            if existing is not None:
                return self._attached(spec, config, client, existing, deadline)
        except SandboxException as error:
            raise _told(error, config) from None
        return self._created(spec, config, client, deadline)

    def _created(
        self, spec: SandboxSpec, config: DaytonaSandboxConfig, client: DaytonaSandboxClient, deadline: Deadline
    ) -> SandboxSession:
        tag = uuid.uuid4().hex
        labels = {**owned_labels(spec.labels, self._environ), CREATE_TAG: tag}
        sandbox: RemoteSandbox | None = None
        try:
            try:
                sandbox = client.create(create_body(config.sandbox_name, config.create, labels), deadline)
            except SandboxConflictError:
                return self._attached_after_all(spec, config, client, deadline)
            return self._session(spec, config, client, client.start(sandbox, deadline), owned=True)
        except BaseException as error:
            # Whatever it is that stops us, KeyboardInterrupt included: a sandbox costs money.
            sandbox_id = None if sandbox is None else sandbox.sandbox_id
            failure = undone(error, client, tag=tag, sandbox_id=sandbox_id, info=self.info)
            if isinstance(failure, SandboxException):
                raise _told(failure, config) from None
            raise

    def _attached_after_all(
        self, spec: SandboxSpec, config: DaytonaSandboxConfig, client: DaytonaSandboxClient, deadline: Deadline
    ) -> SandboxSession:
        """Somebody else has just created the sandbox of this name."""
        if config.sandbox_name is None:
            raise SandboxConflictError("the service says the sandbox exists, though it was given no name")
        existing = client.describe(config.sandbox_name, deadline)
        return self._attached(spec, config, client, existing, deadline)

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
        spec = spec or SandboxSpec(provider_id=self.provider_id)
        self._admit(spec)
        config = self._config(spec)
        client = self._client(config)
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

    # --- without a session --------------------------------------------------------------------------------------

    def list_sessions(self, labels: Mapping[str, str] | None = None) -> list[SandboxSummary]:
        """Return the sandboxes that carry all of `labels`, in whatever state they are."""
        return self._usual_client().find(labels or {})

    def destroy(self, session_id: str) -> None:
        """Delete a sandbox by id or name; one that is gone already is fine.

        Raises:
            SandboxCleanupError: It is not known whether it is gone.
            SandboxException: The service refused.
        """
        with removing(session_id, self.info):
            self._usual_client().destroy(session_id)

    def health(self) -> Health:
        """Ask the service for one sandbox: proves address, certificate and key, and creates nothing."""
        try:
            config = self._config(SandboxSpec())
            self._client(config).probe()
        except SandboxException as error:
            return Health(healthy=False, summary=error.message, advice=() if error.hint is None else (error.hint,))
        return Health(
            healthy=True,
            summary=f"{config.api_url} answers and accepts the key",
            details={"target": config.create.target} if config.create.target else {},
        )

    # --- making what is needed ----------------------------------------------------------------------------------

    def _config(self, spec: SandboxSpec) -> DaytonaSandboxConfig:
        settings = SETTINGS.resolve(spec, arguments=self._arguments, environ=self._environ)
        return daytona_config(settings, self._allowed_origins)

    def _usual_client(self) -> DaytonaSandboxClient:
        return self._client(self._config(SandboxSpec()))

    def _client(self, config: DaytonaSandboxConfig) -> DaytonaSandboxClient:
        return DaytonaSandboxClient(config, send=self._send or self._own_sender(config.ca_bundle))

    def _own_sender(self, ca_bundle: str | None) -> Send:
        """Return the sender that all sessions of this provider share, so that they share its connections."""
        if ca_bundle not in self._senders:
            # Not `requests`: importing it would be a third of the time until the first command.
            transport = DirectTransport(_dialer(ca_bundle, "api_url"))
            weakref.finalize(self, transport.close)
            self._senders[ca_bundle] = transport.send
        return self._senders[ca_bundle]

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
        return DirectTransport(_dialer(config.ca_bundle, "toolbox_proxy_url"))


def _dialer(ca_bundle: str | None, url: str) -> Dialer:
    return Dialer(ca_bundle=ca_bundle, ca_setting=SETTINGS["ca_bundle"].knobs, setting=SETTINGS[url].knobs)


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
