"""One CubeSandbox sandbox: what envd gives, and what CubeAPI adds to it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ai4j_sandbox.arguments import require_text, require_whole
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxSessionLostError,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.process import ProcessChannel
from ai4j_sandbox.spi import PortUrl, SessionDescription
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.envd import Selector
from ai4j_sandbox_wire.envd_client import EnvdClient, EnvdOptions
from ai4j_sandbox_wire.envd_session import EnvdSession, EnvdSetup, RemoteState, envd_http
from ai4j_sandbox_wire.heartbeat import Heartbeat
from ai4j_sandbox_wire.sandbox_records import PAUSED, RemoteSandbox

from .client import PROBE_SECONDS, USER_AGENT, CubeSandboxClient
from .config import NEVER, PROVIDER_ID, SETTINGS, CubeSandboxConfig
from .payloads import (
    LIFETIME_ADVICE,
    UNKNOWN_ENVD,
    envd_address,
    envd_headers,
    explain_proxy,
    login_arguments,
    reachable_port,
)

_LOGIN_SHELL = ("/bin/bash", "-l", "-c")
_SHELL = ("/bin/bash", "-c")

_SLOWEST_BEAT_SECONDS = 20.0  # the window of a sandbox that was only connected is not known

# What an envd of unknown version is taken for: old enough for every form of upload, and asked about the rest.
_ASSUMED_ENVD = "0.5.2"

# Answers that something gives which is not the proxy: the port is open, and a command will show what is there.
_ANSWERED = frozenset((400, 401, 404, 405, 501))


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """What a session talks through: CubeAPI, the transport to its envd, and a way to sandboxes like it.

    Attributes:
        create_from: Makes a session of a new sandbox from a snapshot.
    """

    client: CubeSandboxClient
    transport: DirectTransport
    create_from: Callable[[str], CubeSandboxSession]


class CloneSource:
    """The snapshot that clones were made from: deleted when the last of them is gone. Thread-safe."""

    def __init__(self, client: CubeSandboxClient, snapshot_id: str) -> None:
        self._client = client
        self._snapshot_id = snapshot_id
        self._lock = threading.Lock()
        self._users: set[str] = set()

    def used_by(self, sandbox_id: str) -> None:
        """A clone came into being."""
        with self._lock:
            self._users.add(sandbox_id)

    def released_by(self, sandbox_id: str) -> None:
        """A clone is gone. Called again when deleting failed."""
        with self._lock:
            self._users.discard(sandbox_id)
            if not self._users:
                self.delete()

    def delete(self) -> None:
        """Delete the snapshot; one that is gone already is fine."""
        with contextlib.suppress(SandboxNotFoundError):
            self._client.remove_snapshot(self._snapshot_id)


class CubeSandboxSession(EnvdSession):
    """One sandbox of a CubeSandbox cluster.

    Attributes:
        sandbox: What CubeAPI told about it: template, client, domain, version of its envd.
    """

    lifetime_advice = LIFETIME_ADVICE

    def __init__(
        self,
        description: SessionDescription,
        config: CubeSandboxConfig,
        sandbox: RemoteSandbox,
        connections: Connections,
    ) -> None:
        self.sandbox = sandbox
        self._config = config
        self._connections = connections
        self._client = connections.client
        self._clone_source: CloneSource | None = None
        super().__init__(description, envd_setup(config, sandbox, connections.transport))
        self._heartbeat = Heartbeat(self._beat, busy=self._busy, every_seconds=_beat_seconds(config))

    def await_envd(self) -> None:
        """Return when the sandbox's envd answers. CubeAPI's own word proves nothing: it may know dead sandboxes.

        Raises:
            SandboxSessionLostError: The sandbox is gone.
            SandboxException: It cannot be reached.
        """
        try:
            self._envd.health()
        except SandboxSessionLostError:
            raise
        except SandboxException as error:
            if error.http_status not in _ANSWERED:
                raise

    # --- what envd's session asks -------------------------------------------------------------------------------

    def _remote_state(self, deadline: Deadline) -> RemoteState:
        try:
            state = self._client.describe(self.session_id, deadline).state
        except SandboxNotFoundError:
            return RemoteState.GONE
        return RemoteState.PAUSED if state in (PAUSED, "pausing") else RemoteState.RUNNING

    def _destroys(self) -> bool:
        return self.owned and self._config.delete_on_close

    def _destroy_sandbox(self) -> None:
        with contextlib.suppress(SandboxNotFoundError):
            self._client.destroy(self.session_id)
        if self._clone_source is not None:
            self._clone_source.released_by(self.session_id)

    def _arguments(self, command: SandboxCommand) -> tuple[str, ...]:
        path = {**self._setup.environment, **command.environment}.get("PATH")
        return login_arguments(command, self._setup.shell, path if self._config.use_login_shell else None)

    def _open_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        if self._config.keep_alive and self._config.timeout_seconds != NEVER:
            self._heartbeat.start()
        return super()._open_channel(command, deadline)

    @cached_property
    def _closes_stdin(self) -> bool:
        if self.sandbox.envd_version not in (None, UNKNOWN_ENVD):
            return super()._closes_stdin
        # CubeAPI did not know the version, so envd is asked: about a process that is not there.
        try:
            self._envd.close_stdin(Selector("ai4j-is-there-close-stdin"))
        except SandboxNotFoundError:
            return True
        except (UnsupportedCapabilityError, SandboxConnectionError):
            return False
        return True

    def disconnect(self) -> None:
        """Close every connection to the sandbox, whatever becomes of it."""
        self._heartbeat.stop()
        super().disconnect()

    # --- the idle window ------------------------------------------------------------------------------------------

    def _busy(self) -> bool:
        return bool(self._processes or self._starting)

    def _beat(self) -> None:
        """Be a finished request, which is what the service counts; a command's stream is none until it ends."""
        if not self._gate.closed:
            self._envd.health(Deadline(PROBE_SECONDS))

    # --- what CubeAPI adds ----------------------------------------------------------------------------------------

    def port_url(self, port: int) -> PortUrl:
        """Return where a port that something inside listens on can be reached.

        The headers hold the sandbox's traffic token when it takes no public traffic, and its host name when it is
        reached through the address of a proxy.
        """
        self._require_open()
        return reachable_port(self._config, self.sandbox, port)

    def pause(self) -> None:
        """Freeze the machine with its memory. Commands that run go on after `resume`; what they say is heard again."""
        self._require_open()
        with self._gate.pausing():
            self._client.pause(self.session_id)

    def resume(self) -> None:
        """Wake the machine."""
        self._require_open()
        self._client.connect(self.session_id)
        self._reached_anew()
        self._gate.resumed()

    def extend(self, seconds: int) -> None:
        """Let the sandbox live at least `seconds` from now, also when nobody uses it; never shortens its life."""
        self._require_ready()
        self._client.connect(self.session_id, seconds)

    def snapshot(self, name: str | None = None) -> str:
        """Keep the machine with memory and disk; return what `SandboxSpec.image` takes to start from it."""
        self._require_ready()
        return self._client.snapshot(self.session_id, name)

    def rollback(self, snapshot_id: str) -> None:
        """Put this sandbox back to where it was when `snapshot` was called; commands that run now are lost."""
        require_text("snapshot_id", snapshot_id)
        self._require_ready()
        self._client.rollback(self.session_id, snapshot_id)
        self._reached_anew()

    def clone(self, count: int = 1) -> list[CubeSandboxSession]:
        """Return sessions of new sandboxes that go on from where this one is, all of them or none.

        The snapshot they are made from is deleted when the last of them is destroyed.

        Raises:
            SandboxException: One could not be made; those already made are destroyed again.
        """
        require_whole("count", count, minimum=1)
        snapshot_id = self.snapshot()
        source = CloneSource(self._client, snapshot_id)
        clones: list[CubeSandboxSession] = []
        with contextlib.ExitStack() as undo:
            undo.callback(source.delete)
            while len(clones) < count:
                clones.append(self._connections.create_from(snapshot_id))
                undo.callback(clones[-1].close)
            undo.pop_all()
        for clone in clones:
            clone._is_clone_of(source)
        return clones

    def _is_clone_of(self, source: CloneSource) -> None:
        source.used_by(self.session_id)
        self._clone_source = source

    def _reached_anew(self) -> None:
        """Forget connections that the machine no longer knows, and wait until it answers on a new one."""
        self._setup.transport.drop_idle()
        self.await_envd()


def envd_setup(config: CubeSandboxConfig, sandbox: RemoteSandbox, transport: DirectTransport) -> EnvdSetup:
    """Return how to reach and use the envd of a sandbox."""
    headers = envd_headers(config, sandbox) | {"User-Agent": USER_AGENT}
    http = envd_http(
        envd_address(config, sandbox),
        transport,
        headers=headers,
        limits=config.limits,
        explain=explain_proxy,
        port=(config.envd_port, SETTINGS["envd_port"].knobs),
        secrets=(config.api_key, config.traffic_access_token, *sandbox.secrets),
        where={"provider_id": PROVIDER_ID, "session_id": sandbox.sandbox_id},
    )
    known = sandbox.envd_version not in (None, UNKNOWN_ENVD)
    options = EnvdOptions(
        version=sandbox.envd_version if known else _ASSUMED_ENVD,
        user=config.user,
        envelope_limit_bytes=config.envelope_limit_bytes,
    )
    return EnvdSetup(
        client=EnvdClient(http, options),
        transport=transport,
        shell=_LOGIN_SHELL if config.use_login_shell else _SHELL,
        working_directory=config.working_directory,
        environment=config.environment,
    )


def _beat_seconds(config: CubeSandboxConfig) -> float:
    return min(_SLOWEST_BEAT_SECONDS, max(config.timeout_seconds, 1) / 3)
