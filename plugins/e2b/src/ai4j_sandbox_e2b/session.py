"""One E2B sandbox: what envd gives, and what the control API adds to it."""

from __future__ import annotations

from dataclasses import dataclass

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import SandboxNotFoundError, UnsupportedCapabilityError
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.spi import PortUrl, SessionDescription
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.envd_client import EnvdClient, EnvdOptions
from ai4j_sandbox_wire.envd_session import EnvdSession, EnvdSetup, RemoteState, envd_http
from ai4j_sandbox_wire.sandbox_records import PAUSED, RemoteSandbox

from .client import USER_AGENT, E2BSandboxClient
from .config import PROVIDER_ID, SETTINGS, E2BSandboxConfig
from .payloads import envd_address, envd_headers, explain_edge, reachable_port

_SHELL = ("sh", "-c")
_DEFAULT_USER = "user"  # of every template, and to be named to an envd older than 0.4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """What a session talks through: the control API, and the transport to its envd."""

    client: E2BSandboxClient
    transport: DirectTransport


class E2BSandboxSession(EnvdSession):
    """One sandbox at E2B."""

    lifetime_advice = f"raise {SETTINGS['timeout_seconds'].knobs}, or call session.extend() in time"

    def __init__(
        self,
        description: SessionDescription,
        config: E2BSandboxConfig,
        sandbox: RemoteSandbox,
        connections: Connections,
    ) -> None:
        self._config = config
        self._sandbox = sandbox
        self._client = connections.client
        super().__init__(description, envd_setup(config, sandbox, connections.transport))

    # --- what envd's session asks -------------------------------------------------------------------------------

    def _remote_state(self, deadline: Deadline) -> RemoteState:
        try:
            sandbox = self._client.describe(self.session_id, deadline)
        except SandboxNotFoundError:
            return RemoteState.GONE
        return RemoteState.PAUSED if sandbox.state == PAUSED else RemoteState.RUNNING

    def _destroys(self) -> bool:
        return self._config.delete_on_close if self.owned else self._config.destroys_attached

    def _destroy_sandbox(self) -> None:
        self._client.destroy(self.session_id)

    def _arguments(self, command: SandboxCommand) -> tuple[str, ...]:
        if self._config.use_shell_wrap or not isinstance(command.command, str):
            return command.argv(_SHELL)
        if command.stdin or command.keep_stdin_open:
            raise UnsupportedCapabilityError(
                "with useShellWrap=false a command line that is split at blanks takes no stdin",
                hint="give the command as a list of arguments, or leave useShellWrap on",
            )
        return tuple(command.command.split())

    # --- what the control API adds ------------------------------------------------------------------------------

    def port_url(self, port: int) -> PortUrl:
        """Return where a port that something inside listens on can be reached.

        The headers hold the sandbox's traffic token, when it was made with ``public: false``.
        """
        self._require_open()
        return reachable_port(self._config, self._sandbox, port)

    def pause(self) -> None:
        """Freeze the machine with its memory. Commands that run go on after `resume`; what they say is heard again."""
        self._require_open()
        with self._gate.pausing():
            self._client.pause(self.session_id)

    def resume(self) -> None:
        """Wake the machine; it then lives at least ``timeoutSeconds`` more."""
        self._require_open()
        self._client.connect(self.session_id, self._config.timeout_seconds)
        self._setup.transport.drop_idle()  # the woken machine may know nothing of connections made before
        self._gate.resumed()

    def extend(self, seconds: int) -> None:
        """Let the sandbox live at least `seconds` from now; never shortens its life."""
        self._require_ready()
        self._client.connect(self.session_id, seconds)

    def snapshot(self, name: str | None = None) -> str:
        """Keep the machine with memory and disk; return what `SandboxSpec.image` takes to start from it."""
        self._require_ready()
        return self._client.snapshot(self.session_id, name)


def envd_setup(config: E2BSandboxConfig, sandbox: RemoteSandbox, transport: DirectTransport) -> EnvdSetup:
    """Return how to reach and use the envd of a sandbox."""
    headers = envd_headers(config, sandbox) | {"User-Agent": USER_AGENT}
    http = envd_http(
        envd_address(config, sandbox),
        transport,
        headers=headers,
        limits=config.limits,
        explain=explain_edge,
        port=(config.envd_port, SETTINGS["envd_port"].knobs),
        secrets=(config.api_key, config.envd_access_token, *sandbox.secrets),
        where={"provider_id": PROVIDER_ID, "session_id": sandbox.sandbox_id},
    )
    options = EnvdOptions(version=sandbox.envd_version, user=config.user)
    if config.user is None and not options.at_least(0, 4, 0):
        options = EnvdOptions(version=sandbox.envd_version, user=_DEFAULT_USER)
    return EnvdSetup(
        client=EnvdClient(http, options),
        transport=transport,
        shell=_SHELL,
        working_directory=config.working_directory,
        environment=config.environment,
    )
