"""The provider: creates sandboxes in a CubeSandbox cluster, connects to them, finds and destroys them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    SandboxAuthError,
    SandboxConnectionError,
    SandboxException,
    SandboxPermissionError,
)
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.ownership import owned_labels
from ai4j_sandbox.settings import ResolvedSettings
from ai4j_sandbox.spi import Health, SandboxSession, SessionDescription
from ai4j_sandbox_wire.connection import Dialer
from ai4j_sandbox_wire.creation import undoing
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.message import Send
from ai4j_sandbox_wire.remote_provider import RemoteProvider
from ai4j_sandbox_wire.sandbox_records import RemoteSandbox

from .client import PROBE_SECONDS, CubeSandboxClient
from .config import SETTINGS, CubeArguments, CubeSandboxConfig, cube_config
from .hooks import INFO
from .payloads import UNRESOLVED_HINT, create_body, sent_metadata
from .session import Connections, CubeSandboxSession

MakeTransport = Callable[[CubeSandboxConfig], DirectTransport]


class CubeSandboxProvider(RemoteProvider[CubeSandboxConfig, CubeSandboxClient]):
    """Sandboxes of a CubeSandbox cluster.

    Args:
        allowed_origins: Addresses (``https://host``) that may receive the host's credentials though the `config` of a
            spec names them, or though the key is E2B's.
        environ: The environment to read settings from, at the moment of use; the process's own by default.
        send: Sends one request to CubeAPI; our own transport by default.
        transport: Makes the transport of one session to its envd.
        **settings: Any of the settings by its name (``api_key=``, ``template=``); they win over spec and environment.
    """

    info = INFO
    settings = SETTINGS

    def __init__(
        self,
        *,
        allowed_origins: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        send: Send | None = None,
        transport: MakeTransport | None = None,
        **settings: Unpack[CubeArguments],
    ) -> None:
        super().__init__(allowed_origins=allowed_origins, environ=environ, send=send, arguments=dict(settings))
        self._transport = transport or _dial

    # --- create and connect -------------------------------------------------------------------------------------

    def _create(self, spec: SandboxSpec) -> SandboxSession:
        return self._created(spec, self._config(spec))

    def _created(self, spec: SandboxSpec, config: CubeSandboxConfig) -> CubeSandboxSession:
        client = self._client(config)
        with undoing(client, self.info) as creation:
            labels = owned_labels(spec.labels, self._environ)
            metadata = sent_metadata(config.create, labels, creation.tag, self.provider_id)
            sandbox = client.create(create_body(config, metadata))
            creation.sandbox_id = sandbox.sandbox_id
            return self._opened(spec, config, client, sandbox)

    def connect(self, session_id: str, spec: SandboxSpec | None = None) -> CubeSandboxSession:
        """Attach to a sandbox, waking it if it is paused. Its life is never shortened, and `close` leaves it alive.

        Args:
            session_id: The sandbox's id.
            spec: Settings; with ``timeoutSeconds`` the idle window becomes at least that.

        Raises:
            SandboxNotFoundError: It does not exist.
            SandboxSessionLostError: CubeAPI still knows it, but it is gone.
            SandboxConnectionError: It cannot be reached.
            SandboxException: As `create_session`.
        """
        spec, config, client = self._admitted(spec)
        sandbox = client.connect(session_id, config.timeout_seconds if config.timeout_given else None)
        session = self._session(spec, config, client, sandbox, owned=False)
        try:
            session.await_envd()
        except SandboxConnectionError as error:
            session.disconnect()
            raise _unreachable(error, sandbox) from error
        except BaseException:
            session.disconnect()
            raise
        return session

    def _opened(
        self, spec: SandboxSpec, config: CubeSandboxConfig, client: CubeSandboxClient, sandbox: RemoteSandbox
    ) -> CubeSandboxSession:
        session = self._session(spec, config, client, sandbox, owned=True)
        try:
            # Not every port is open when CubeAPI answers, and whether there is a way to the sandbox shows only now.
            session.await_envd()
            if config.working_directory is not None:
                session.files.make_dir(config.working_directory)
        except BaseException:
            session.disconnect()
            raise
        return session

    def _session(
        self,
        spec: SandboxSpec,
        config: CubeSandboxConfig,
        client: CubeSandboxClient,
        sandbox: RemoteSandbox,
        *,
        owned: bool,
    ) -> CubeSandboxSession:
        description = SessionDescription(
            session_id=sandbox.sandbox_id,
            info=self.info,
            spec=spec,
            owned=owned,
            secrets=(config.api_key, config.traffic_access_token, *sandbox.secrets),
        )
        connections = Connections(
            client=client,
            transport=self._transport(config),
            create_from=lambda snapshot_id: self._created(
                replace(spec, image=snapshot_id), replace(config, template=snapshot_id)
            ),
        )
        return CubeSandboxSession(description, config, sandbox, connections)

    # --- making what is needed ----------------------------------------------------------------------------------

    def _configured(self, settings: ResolvedSettings) -> CubeSandboxConfig:
        return cube_config(settings, self._allowed_origins)

    def _client(self, config: CubeSandboxConfig) -> CubeSandboxClient:
        return CubeSandboxClient(config, send=self._sender(config.ca_bundle))

    def _health(self, config: CubeSandboxConfig, client: CubeSandboxClient) -> Health:
        said = client.health(Deadline(PROBE_SECONDS))
        _check_key(client)
        return Health(
            healthy=True,
            summary=f"{config.api_url} answers",
            advice=() if config.template else (f"set {SETTINGS['template'].knobs}: there is no default template",),
            details={name: said[name] for name in ("status", "sandboxes") if name in said},
        )


def _dial(config: CubeSandboxConfig) -> DirectTransport:
    return DirectTransport(
        Dialer(
            ca_bundle=config.ca_bundle,
            ca_setting=SETTINGS["ca_bundle"].knobs,
            address=None if _by_url(config) else config.reach.node,
            setting=_sandbox_setting(config),
            hint=None if _by_url(config) else UNRESOLVED_HINT,
        )
    )


def _by_url(config: CubeSandboxConfig) -> bool:
    return config.reach.envd_base_url is not None or config.reach.proxy_url is not None


def _sandbox_setting(config: CubeSandboxConfig) -> str:
    """The knob that says where sandboxes are, for an error of the connection."""
    reach = config.reach
    ways = {"envd_base_url": reach.envd_base_url, "proxy_url": reach.proxy_url, "proxy_node_ip": reach.node}
    return SETTINGS[next((name for name, value in ways.items() if value is not None), "sandbox_domain")].knobs


def _check_key(client: CubeSandboxClient) -> None:
    """Find out whether the key is accepted; health itself is open to everybody.

    Raises:
        SandboxAuthError, SandboxPermissionError: It is not.
    """
    try:
        client.find({}, Deadline(PROBE_SECONDS))
    except (SandboxAuthError, SandboxPermissionError):
        raise
    except SandboxException:
        return  # what it does not do is no reason to call it unhealthy


def _unreachable(error: SandboxConnectionError, sandbox: RemoteSandbox) -> SandboxConnectionError:
    """Return what an envd that does not answer means when CubeAPI said that the sandbox runs."""
    return SandboxConnectionError(
        f"CubeAPI says that sandbox {sandbox.sandbox_id} runs, but it cannot be reached: {error.message}",
        hint=error.hint,
        provider_id=INFO.provider_id,
        session_id=sandbox.sandbox_id,
        http_status=error.http_status,
        outcome=error.outcome,
    )
