"""A directory of the host as a workspace. No isolation: what its commands may do is what this program may do."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path

from ai4j_agent.errors import AgentConfigError
from ai4j_sandbox.artifacts import collect_artifacts
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import SandboxFileError, UnsupportedCapabilityError
from ai4j_sandbox.files import SandboxFiles
from ai4j_sandbox.model import SandboxArtifact, SandboxCommand
from ai4j_sandbox.process import ProcessContext, SandboxProcess
from ai4j_sandbox.redaction import is_sensitive_key, mask_message
from ai4j_sandbox.spi import Browser

from .browser import DevToolsBrowser
from .host_channel import HostChannel
from .host_files import HostFiles
from .workspace import Workspace


class LocalWorkspace(Workspace):
    """A directory of this machine.

    Commands see this program's environment without the variables that hold a secret by their name or by the look of
    their value: a model that may run ``env`` must not read the key it is paid with. That is no wall: a command of the
    same user can read this program's files and, through ``/proc``, its environment. Only a sandbox keeps it from that.

    Args:
        root: The directory.
        environment: Variables for every command, added to the inherited ones as they are.

    Raises:
        AgentConfigError: There is no such directory.
    """

    def __init__(self, root: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> None:
        directory = Path(root)
        if not directory.is_dir():
            raise AgentConfigError(f"workspace_root {str(directory)!r} is not a directory")
        self._root = str(directory.resolve())
        self._environment = dict(environment or {})

    @property
    def root(self) -> str:
        """The directory, symlinks followed."""
        return self._root

    @property
    def place(self) -> Mapping[str, str]:
        """The host."""
        return {"executionEnvironment": "local"}

    @property
    def files(self) -> SandboxFiles:
        """The host's files."""
        return HostFiles()

    def start(self, command: SandboxCommand) -> SandboxProcess:
        """Start a process of this machine."""
        if command.terminal is not None:
            raise UnsupportedCapabilityError("commands on the host have no terminal here", operation="execute")
        deadline = Deadline.after_millis(command.timeout_millis)
        directory = os.path.join(self._root, command.working_directory or "")
        channel = HostChannel(command, directory, self._command_environment())
        return SandboxProcess(command, channel, ProcessContext(collect_artifacts=self._artifacts), deadline)

    def attach(self, command_id: str) -> SandboxProcess:
        """Refuse: a process of the host that nobody holds cannot be told from any other."""
        raise UnsupportedCapabilityError("commands on the host cannot be attached to again", operation="attach")

    def open_browser(self) -> Browser:
        """Start a Chromium that is installed on the host, with its own walls."""
        return DevToolsBrowser(self.start, isolated=False)

    def real_paths(self, *paths: str) -> list[str]:
        """Follow symlinks."""
        return [_real_path(path) for path in paths]

    def _command_environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not _holds_secret(name, value)}
        return inherited | self._environment

    def _artifacts(self, command: SandboxCommand) -> tuple[SandboxArtifact, ...]:
        return collect_artifacts(self.start, command)


def _holds_secret(name: str, value: str) -> bool:
    return is_sensitive_key(name) or _is_private(name) or mask_message(value) != value


def _is_private(name: str) -> bool:
    """Whether a variable's name says more than the rule for labels knows: pass phrases, agents that hold keys."""
    return name not in ("PWD", "OLDPWD") and re.search("pass|pwd|auth(?!or)", name, re.IGNORECASE) is not None


def _real_path(path: str) -> str:
    real = os.path.realpath(path)
    try:
        os.stat(real)  # follows what `realpath` gave up on
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SandboxFileError(f"{path!r}: too many levels of symbolic links", path=path) from None
    return real
