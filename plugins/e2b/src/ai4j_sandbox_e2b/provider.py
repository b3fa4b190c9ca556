"""The provider: creates sandboxes at E2B, connects to them, finds and destroys them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Unpack

from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.ownership import owned_labels
from ai4j_sandbox.settings import ResolvedSettings
from ai4j_sandbox.spi import Health, SandboxSession, SessionDescription
from ai4j_sandbox_wire.creation import undoing
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.message import Send
from ai4j_sandbox_wire.remote_provider import RemoteProvider
from ai4j_sandbox_wire.sandbox_records import PAUSED, RemoteSandbox

from .client import E2BSandboxClient
from .config import SETTINGS, E2BArguments, E2BSandboxConfig, e2b_config
from .hooks import INFO
from .payloads import create_body, sent_metadata
from .session import Connections, E2BSandboxSession

WallClock = Callable[[], float]


class E2BSandboxProvider(RemoteProvider[E2BSandboxConfig, E2BSandboxClient]):
    """Sandboxes of e2b.app, or of an E2B cluster of your own.

    Args:
        allowed_origins: Addresses (``https://host``) that may receive the host's credentials though the `config` of a
            spec names them.
        environ: The environment to read settings from, at the moment of use; the process's own by default.
        send: Sends one request to the control API; pooled connections of the provider's own by default.
        transport: Makes the transport of one session to its envd.
        wall_clock: Seconds since 1970.
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
        transport: Callable[[], DirectTransport] | None = None,
        wall_clock: WallClock = time.time,
        **settings: Unpack[E2BArguments],
    ) -> None:
        super().__init__(allowed_origins=allowed_origins, environ=environ, send=send, arguments=dict(settings))
        self._transport = transport
        self._wall_clock = wall_clock

    # --- create and connect -------------------------------------------------------------------------------------

    def _create(self, spec: SandboxSpec) -> SandboxSession:
        config = self._config(spec)
        client = self._client(config)
        with undoing(client, self.info) as creation:
            metadata = sent_metadata(config.create, owned_labels(spec.labels, self._environ), creation.tag)
            sandbox = client.create(create_body(config, metadata))
            creation.sandbox_id = sandbox.sandbox_id
            return self._opened(spec, config, client, sandbox)

    def connect(self, session_id: str, spec: SandboxSpec | None = None) -> SandboxSession:
        """Attach to a sandbox, waking it if it is paused. Its life is never shortened, and `close` leaves it alive.

        Args:
            session_id: The sandbox's id.
            spec: Settings; with ``timeoutSeconds`` the sandbox lives at least that long from now, and with
                ``deleteOnClose`` `close` destroys it after all.

        Raises:
            SandboxNotFoundError: It does not exist.
            SandboxException: As `create_session`.
        """
        spec, config, client = self._admitted(spec)
        known = client.describe(session_id)
        sandbox = client.connect(known.sandbox_id, self._wanted_life(config, known))
        return self._session(spec, config, client, sandbox, owned=False)

    def _wanted_life(self, config: E2BSandboxConfig, known: RemoteSandbox) -> int:
        """What to ask for when attaching: never less than what is left."""
        left = 0 if known.ends_at_epoch_ms is None else int(known.ends_at_epoch_ms / 1000 - self._wall_clock()) + 1
        if known.state == PAUSED or known.ends_at_epoch_ms is None:
            return config.timeout_seconds  # what is known of a paused sandbox is when it was paused
        return max(left, config.timeout_seconds if config.timeout_given else 1)

    def _opened(
        self, spec: SandboxSpec, config: E2BSandboxConfig, client: E2BSandboxClient, sandbox: RemoteSandbox
    ) -> E2BSandboxSession:
        session = self._session(spec, config, client, sandbox, owned=True)
        try:
            if config.working_directory is not None:
                session.files.make_dir(config.working_directory)
        except BaseException:
            session.disconnect()
            raise
        return session

    def _session(
        self,
        spec: SandboxSpec,
        config: E2BSandboxConfig,
        client: E2BSandboxClient,
        sandbox: RemoteSandbox,
        *,
        owned: bool,
    ) -> E2BSandboxSession:
        description = SessionDescription(
            session_id=sandbox.sandbox_id,
            info=self.info,
            spec=spec,
            owned=owned,
            secrets=(config.api_key, config.envd_access_token, *sandbox.secrets),
        )
        return E2BSandboxSession(description, config, sandbox, Connections(client=client, transport=self._dial(config)))

    # --- making what is needed ----------------------------------------------------------------------------------

    def _configured(self, settings: ResolvedSettings) -> E2BSandboxConfig:
        return e2b_config(settings, self._allowed_origins)

    def _client(self, config: E2BSandboxConfig) -> E2BSandboxClient:
        return E2BSandboxClient(config, send=self._sender(config.ca_bundle))

    def _health(self, config: E2BSandboxConfig, client: E2BSandboxClient) -> Health:
        client.probe()
        return Health(
            healthy=True, summary=f"{config.api_url} answers and accepts the key", details={"domain": config.domain}
        )

    def _dial(self, config: E2BSandboxConfig) -> DirectTransport:
        return self._transport() if self._transport else DirectTransport(self._dialer(config.ca_bundle, "sandbox_url"))
