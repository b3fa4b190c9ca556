"""Where a coding agent's tools work: a directory with commands and files, on the host or in a sandbox.

`Workspace` is the one protocol every tool is written for; no tool knows which implementation it has. Files and
processes are the core's own interfaces (`SandboxFiles`, `SandboxProcess`), so that timeouts, cancellation, output
limits and unknown exits mean the same in both places. `SandboxWorkspace` is here, `host_workspace.LocalWorkspace`
beside it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping

from ai4j_sandbox.errors import SandboxFileError, UnsupportedCapabilityError
from ai4j_sandbox.files import SandboxFiles
from ai4j_sandbox.model import SandboxCommand, SandboxResult
from ai4j_sandbox.process import SandboxProcess
from ai4j_sandbox.spi import Browser, SandboxSession, SupportsBackground, SupportsBrowser

from .browser import DevToolsBrowser

MAX_LINKS = 40
"""How many symlinks one path may lead through: as many as Linux follows."""


class Workspace(ABC):
    """A directory to work in. Paths are absolute POSIX paths of the place it is in."""

    @property
    @abstractmethod
    def root(self) -> str:
        """The directory that tools work in and may not leave."""

    @property
    @abstractmethod
    def place(self) -> Mapping[str, str]:
        """What results say about where they come from: ``executionEnvironment``, and the sandbox's ids."""

    @property
    @abstractmethod
    def files(self) -> SandboxFiles:
        """The files of the place; not confined to `root`, see `confinement`."""

    @abstractmethod
    def start(self, command: SandboxCommand) -> SandboxProcess:
        """Start a command. Raises `SandboxException` as `SandboxSession.start`."""

    @abstractmethod
    def attach(self, command_id: str) -> SandboxProcess:
        """Return a command that was started before this program.

        Raises:
            UnsupportedCapabilityError: Commands cannot be found again here.
            SandboxNotFoundError: No such command runs.
        """

    @abstractmethod
    def real_paths(self, *paths: str) -> list[str]:
        """Return each path with every symlink followed; what does not exist yet keeps its names.

        Raises:
            SandboxFileError: A path leads through more than `MAX_LINKS` symlinks, or in a circle.
        """

    @abstractmethod
    def open_browser(self) -> Browser:
        """Start a browser.

        Raises:
            UnsupportedCapabilityError: There is none.
        """

    def execute(self, command: SandboxCommand) -> SandboxResult:
        """Run a command to its end; leaving early, by an exception, stops it."""
        with self.start(command) as process:
            return process.wait()

    def start_helper(self, command: SandboxCommand) -> SandboxProcess:
        """Start a command of a tool's own making, of which observers of the place are not told."""
        return self.start(command)

    def execute_helper(self, command: SandboxCommand) -> SandboxResult:
        """Run a command of a tool's own making to its end."""
        with self.start_helper(command) as process:
            return process.wait()

    def protect(self, *secrets: str) -> None:  # noqa: B027 - a place without events of its own has nothing to mask
        """Mask these values in the place's own events and errors from now on."""


class SandboxWorkspace(Workspace):
    """A directory of a sandbox.

    Args:
        session: The live sandbox, which stays its owner's to close.
        root: The directory; by default the spec's `workspace_id` where that is a path, else the sandbox's default
            directory, looked up when it is first needed.
    """

    def __init__(self, session: SandboxSession, root: str | None = None) -> None:
        workspace_id = session.spec.workspace_id or ""
        self._session = session
        self._root = root or (workspace_id if workspace_id.startswith("/") else None)
        self._looking = threading.Lock()

    @property
    def root(self) -> str:
        """The directory that tools work in."""
        with self._looking:
            if self._root is None:
                self._root = self._default_directory()
            return self._root

    @property
    def place(self) -> Mapping[str, str]:
        """The sandbox's ids."""
        return {
            "executionEnvironment": "sandbox",
            "sandboxProviderId": self._session.provider_id,
            "sandboxSessionId": self._session.session_id,
        }

    @property
    def files(self) -> SandboxFiles:
        """The sandbox's files."""
        return self._session.files

    def start(self, command: SandboxCommand) -> SandboxProcess:
        """Start a command in the sandbox."""
        return self._session.start(command)

    def execute(self, command: SandboxCommand) -> SandboxResult:
        """Run a command in the sandbox, by the service's cheapest call for that."""
        return self._session.execute(command)

    def start_helper(self, command: SandboxCommand) -> SandboxProcess:
        """Start a command that the session's observers are not told of."""
        return self._session.start_helper(command)

    def attach(self, command_id: str) -> SandboxProcess:
        """Return a command that still runs in the sandbox."""
        return self._session.require(SupportsBackground).attach(command_id)

    def real_paths(self, *paths: str) -> list[str]:
        """Follow symlinks inside the sandbox, with one command for all paths."""
        command = SandboxCommand(command=("/bin/sh", "-c", _REAL_PATHS, "sh", str(MAX_LINKS), *paths))
        result = self.execute_helper(command)
        if not result.succeeded:
            raise SandboxFileError(f"{', '.join(paths)}: {result.stderr.strip() or 'cannot be resolved'}")
        return result.stdout.split("\0")[:-1]

    def open_browser(self) -> Browser:
        """Start the session's own browser where it has one, else a Chromium that is installed in the sandbox."""
        if isinstance(self._session, SupportsBrowser):
            return self._session.require(SupportsBrowser).browser()
        return DevToolsBrowser(self.start, isolated=True)

    def protect(self, *secrets: str) -> None:
        """Mask these values in the sandbox's events and errors."""
        self._session.protect(*secrets)

    def _default_directory(self) -> str:
        result = self.execute_helper(SandboxCommand(command="pwd"))
        directory = result.stdout.removesuffix("\n")
        if not result.succeeded or not directory.startswith("/"):
            raise UnsupportedCapabilityError(
                "the sandbox does not tell its default directory", hint="set sandbox_root", operation="files"
            )
        return directory


# Climbs to what exists, follows the link that is found there, and begins again, so that a link to what does not exist
# yet is followed as well. ``echo .`` keeps a newline at the end of a name from being cut off.
_REAL_PATHS = """
limit=$1; shift
for target; do
    rest=; links=0
    while :; do
        while [ ! -e "$target" ] && [ ! -h "$target" ]; do
            rest=/${target##*/}$rest
            target=${target%/*}
            target=${target:-/}
        done
        [ -h "$target" ] || break
        links=$((links + 1))
        [ "$links" -le "$limit" ] || { echo 'too many levels of symbolic links' >&2; exit 1; }
        link=$(readlink "$target" && echo .) || exit 1
        link=${link%??}
        case $link in /*) target=$link;; *) target=${target%/*}/$link;; esac
    done
    if [ ! -d "$target" ]; then
        rest=/${target##*/}$rest
        target=${target%/*}
    fi
    real=$(cd -P "${target:-/}" 2>/dev/null && pwd -P && echo .) || { echo 'cannot be entered' >&2; exit 1; }
    real=${real%??}
    printf '%s%s\\0' "${real%/}" "$rest"
done
"""
