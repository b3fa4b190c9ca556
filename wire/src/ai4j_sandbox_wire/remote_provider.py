"""A provider whose sandboxes a service makes: what is the same for every control API."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import SandboxSpec, SandboxSummary
from ai4j_sandbox.settings import ResolvedSettings
from ai4j_sandbox.spi import Health, SandboxProvider

from .connection import ConnectionPool, Dialer
from .creation import Service, removing
from .direct import DirectTransport
from .message import Send

ConfigT = TypeVar("ConfigT")
ClientT = TypeVar("ClientT", bound=Service)


class RemoteProvider(SandboxProvider, Generic[ConfigT, ClientT]):
    """Resolves settings for every call, and finds and destroys sandboxes. A subclass names its service's settings
    ``api_url`` and ``ca_bundle``.

    Args:
        allowed_origins: Addresses (``https://host``) that may receive the host's credentials though the `config` of a
            spec names them.
        environ: The environment to read settings from, at the moment of use; the process's own by default.
        send: Sends one request to the control API; pooled connections of the provider's own by default.
        arguments: Settings by name, as the constructor got them; ``TypeError`` for one that does not exist.
    """

    def __init__(
        self,
        *,
        allowed_origins: Sequence[str],
        environ: Mapping[str, str] | None,
        send: Send | None,
        arguments: Mapping[str, object],
    ) -> None:
        unknown = sorted(set(arguments) - {setting.name for setting in self.settings})
        if unknown:
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {unknown[0]!r}")
        self._arguments = dict(arguments)
        self._allowed_origins = tuple(allowed_origins)
        self._environ = environ
        self._send = send
        self._senders: dict[str | None, Send] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<{len(self._arguments)} settings>)"

    # --- what a provider implements -----------------------------------------------------------------------------

    @abstractmethod
    def _configured(self, settings: ResolvedSettings) -> ConfigT:
        """Return the configuration that resolved settings describe."""

    @abstractmethod
    def _client(self, config: ConfigT) -> ClientT:
        """Return what calls the control API."""

    @abstractmethod
    def _health(self, config: ConfigT, client: ClientT) -> Health:
        """Ask the service how it is, and whether it accepts the key; create nothing.

        Raises:
            SandboxException: It is not well.
        """

    def _make_sender(self, ca_bundle: str | None) -> Send:
        """Return a way to send to the control API; called once for each CA bundle."""
        # Not `requests`: importing it would be most of the time until the first command.
        pool = ConnectionPool(self._dialer(ca_bundle, "api_url").connect)
        transport = DirectTransport(pool=pool)
        weakref.finalize(transport, pool.close)  # sessions go on sending when the provider is no longer held
        return transport.send

    # --- without a session --------------------------------------------------------------------------------------

    def list_sessions(self, labels: Mapping[str, str] | None = None) -> list[SandboxSummary]:
        """Return the sandboxes that carry all of `labels`, in whatever state they are."""
        return self._usual_client().find(labels or {})

    def destroy(self, session_id: str) -> None:
        """Destroy a sandbox by id; one that is gone already is fine.

        Raises:
            SandboxCleanupError: It is not known whether it is gone.
            SandboxException: The service refused.
        """
        with removing(session_id, self.info):
            self._usual_client().destroy(session_id)

    def health(self) -> Health:
        """Ask the service how it is: proves address, certificate and key, and creates nothing."""
        try:
            config = self._config(SandboxSpec())
            return self._health(config, self._client(config))
        except SandboxException as error:
            return Health(healthy=False, summary=error.message, advice=() if error.hint is None else (error.hint,))

    # --- making what is needed ----------------------------------------------------------------------------------

    def _admitted(self, spec: SandboxSpec | None) -> tuple[SandboxSpec, ConfigT, ClientT]:
        """Return the spec of a `connect`, once it is admitted, its configuration, and what calls the control API.

        Raises:
            SandboxException: As `create_session`, before anything is sent.
        """
        spec = spec or SandboxSpec(provider_id=self.provider_id)
        self._admit(spec)
        config = self._config(spec)
        return spec, config, self._client(config)

    def _config(self, spec: SandboxSpec) -> ConfigT:
        return self._configured(self.settings.resolve(spec, arguments=self._arguments, environ=self._environ))

    def _usual_client(self) -> ClientT:
        return self._client(self._config(SandboxSpec()))

    def _sender(self, ca_bundle: str | None) -> Send:
        """Return the sender that all sessions of this provider share, so that they share its connections."""
        if self._send is not None:
            return self._send
        if ca_bundle not in self._senders:
            self._senders[ca_bundle] = self._make_sender(ca_bundle)
        return self._senders[ca_bundle]

    def _dialer(self, ca_bundle: str | None, address: str) -> Dialer:
        """Return what opens connections to the address that a setting names."""
        knobs = {name: self.settings[name].knobs for name in ("ca_bundle", address)}
        return Dialer(ca_bundle=ca_bundle, ca_setting=knobs["ca_bundle"], setting=knobs[address])
