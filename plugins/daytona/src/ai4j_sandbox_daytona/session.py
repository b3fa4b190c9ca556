"""One Daytona sandbox: commands, files and git by its toolbox, its life by the control API."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ai4j_sandbox.arguments import require_whole
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.process import ProcessChannel, SandboxProcess
from ai4j_sandbox.spi import LAST_PORT, PortUrl, ProcessSummary, SandboxSession, SessionDescription
from ai4j_sandbox_wire.trust import Trust

from .channel import FollowChannel, Launch, RunChannel
from .client import DaytonaSandboxClient
from .config import SETTINGS, DaytonaSandboxConfig
from .files import DaytonaFiles
from .payloads import SETTLED, RemoteSandbox
from .toolbox import Toolbox
from .wrapping import list_text, parse_list

if TYPE_CHECKING:
    from .git import DaytonaGit

_LONGEST_SIGNED_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """What a session talks through: the control API, and the toolbox of its sandbox."""

    client: DaytonaSandboxClient
    toolbox: Toolbox


class DaytonaSandboxSession(SandboxSession):
    """One sandbox at Daytona."""

    def __init__(
        self,
        description: SessionDescription,
        config: DaytonaSandboxConfig,
        sandbox: RemoteSandbox,
        connections: Connections,
    ) -> None:
        self._config = config
        self._sandbox = sandbox
        self._client = connections.client
        self._toolbox = connections.toolbox
        super().__init__(description)

    # --- what the SPI needs -------------------------------------------------------------------------------------

    def _open_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        launch = self._launch(command)
        if command.terminal is not None:
            from .terminal import TerminalChannel  # late: few commands need the websocket library

            trust = Trust(ca_bundle=self._config.ca_bundle, setting=SETTINGS["ca_bundle"].knobs)
            return TerminalChannel.open(launch, command.terminal, deadline, trust)
        return FollowChannel.start(launch, deadline)

    def _run_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        if command.terminal is not None or command.keep_stdin_open:
            return self._open_channel(command, deadline)
        return RunChannel.start(self._launch(command))

    def _script_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        return RunChannel.start(self._launch(command), ours=True)

    def _launch(self, command: SandboxCommand) -> Launch:
        return Launch(toolbox=self._toolbox, command=command)

    def _destroy(self) -> None:
        try:
            if self._config.delete_on_close if self.owned else self._config.destroys_attached:
                self._client.destroy(self.session_id)
            else:
                self._stop_commands()
        finally:
            self._toolbox.close()

    def _stop_commands(self) -> None:
        """End what this session runs in a sandbox that lives on."""
        with self._lock:
            running = list(self._processes.values())
        with contextlib.ExitStack() as ending:  # which goes on when one of them cannot be reached
            for process in running:
                ending.callback(process.kill)

    def _files(self) -> DaytonaFiles:
        return DaytonaFiles(self._toolbox, self._run_script)

    def _run_script(self, command: SandboxCommand) -> SandboxProcess:
        return self._begin(command, self._script_channel, observed=False)

    # --- commands that outlive their handle ---------------------------------------------------------------------

    def list_processes(self) -> list[ProcessSummary]:
        """Return the commands that were started and still run, also those whose handle was let go."""
        self._require_open()
        listed = parse_list(self._toolbox.ask(list_text()))
        return [ProcessSummary(pid=item.pid, command=item.line, command_id=item.command_id) for item in listed]

    def attach(self, command_id: str) -> SandboxProcess:
        """Return a process for a running command; its output is what it writes from now on.

        Raises:
            SandboxNotFoundError: No such command runs.
            SandboxConflictError: Another handle of this session still follows it.
        """
        command = SandboxCommand(command="attached", command_id=command_id, keep_stdin_open=True)
        return self._follow(command, lambda command, deadline: FollowChannel.find_again(self._launch(command)))

    # --- what only Daytona has ----------------------------------------------------------------------------------

    @property
    def git(self) -> DaytonaGit:
        """Repositories in the sandbox, by the service's own git."""
        from .git import DaytonaGit

        self._require_open()
        return DaytonaGit(self._toolbox)

    def port_url(self, port: int) -> PortUrl:
        """Return where a port that something inside listens on can be reached; the headers hold a token."""
        self._require_open()
        return self._client.port_url(self.session_id, port)

    def signed_port_url(self, port: int, seconds: int = 60) -> str:
        """Return where a port can be reached by everybody who has this address, for `seconds`."""
        require_whole("port", port, minimum=1, maximum=LAST_PORT)
        require_whole("seconds", seconds, minimum=1, maximum=_LONGEST_SIGNED_SECONDS)
        self._require_open()
        return self._client.signed_port_url(self.session_id, port, seconds)

    def snapshot(self, name: str | None = None) -> str:
        """Keep the sandbox's state; return what `SandboxSpec.image` takes to start from it."""
        self._require_open()
        name = name or f"ai4j-{uuid.uuid4().hex[:12]}"
        self._client.snapshot(self.session_id, name)
        self._client.await_state(self.session_id, *SETTLED)
        return name

    def extend(self, seconds: int) -> None:
        """Let the sandbox live at least `seconds` from now though nothing happens in it; never shortens its life."""
        self._require_open()
        minutes = -(-seconds // 60)
        current = self._client.describe(self.session_id).auto_stop_minutes
        if current is not None and 0 < current < minutes:
            self._client.set_auto_stop(self.session_id, minutes)
        self._client.keep_alive(self.session_id)

    def stop(self, *, force: bool = False) -> None:
        """Stop the sandbox: its processes end, its files stay. `resume` starts it again.

        Args:
            force: Kill its processes at once.
        """
        self._require_open()
        self._client.act(self.session_id, "stop", force=force)
        self._client.await_state(self.session_id, "stopped", may_be_gone=True)

    def archive(self) -> None:
        """Move the files of the sandbox, which must be stopped, to cheaper storage. `resume` brings them back."""
        self._require_open()
        self._client.act(self.session_id, "archive")
        self._client.await_state(self.session_id, "archived")

    def resume(self) -> None:
        """Let a sandbox that is stopped, archived or paused run again; one that runs is fine."""
        self._require_open()
        sandbox = self._client.describe(self.session_id)
        self._sandbox = self._client.start(sandbox, Deadline(self._config.start_seconds))


class DaytonaMachineSession(DaytonaSandboxSession):
    """One sandbox that is a machine of its own, which can be paused with everything that runs in it."""

    def pause(self) -> None:
        """Freeze everything inside; idempotent."""
        self._require_open()
        if not self._client.describe(self.session_id).is_paused:
            self._client.act(self.session_id, "pause")
        self._client.await_state(self.session_id, "paused")
