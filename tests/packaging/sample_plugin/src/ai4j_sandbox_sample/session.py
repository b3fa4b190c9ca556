"""The session: starts commands, and destroys the sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading

from ai4j_sandbox import (
    Outcome,
    ProcessChannel,
    SandboxCommand,
    SandboxException,
    SandboxNotFoundError,
    SandboxSession,
    SessionDescription,
)
from ai4j_sandbox.deadline import Deadline

from .channel import SubprocessChannel

RUN_ARGUMENTS = ("/bin/sh", "-c", 'exec "$@"', "sh")
"""Runs an argument list; a missing program then is exit code 127, as in every shell, and no exception."""


class SampleSession(SandboxSession):
    """A directory to run commands in, removed at the end together with what still runs."""

    def __init__(self, description: SessionDescription, *, workspace: str, shell: str) -> None:
        self._workspace = workspace
        self._shell = shell
        self._channels: list[SubprocessChannel] = []
        self._channels_lock = threading.Lock()  # commands may be started by several threads
        super().__init__(description)

    def _open_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        directory = os.path.join(self._workspace, command.working_directory or "")
        if not os.path.isdir(directory):
            raise SandboxNotFoundError(f"no such directory: {directory}", outcome=Outcome.NOT_STARTED)
        try:
            process = self._spawn(command, directory)
        except OSError as error:
            raise SandboxException(
                f"the command could not be started: {error.strerror}", outcome=Outcome.NOT_STARTED
            ) from None
        channel = SubprocessChannel(process, command.stdin_bytes, keep_stdin_open=command.keep_stdin_open)
        with self._channels_lock:
            self._channels = [*(other for other in self._channels if not other.ended), channel]
        return channel

    def _spawn(self, command: SandboxCommand, directory: str) -> subprocess.Popen[bytes]:
        line = isinstance(command.command, str)
        return subprocess.Popen(
            command.argv(shell=(self._shell, "-c")) if line else (*RUN_ARGUMENTS, *command.argv()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=self._environment() | dict(command.environment),
            start_new_session=True,  # a process group of its own, so that a signal reaches the whole tree
        )

    def _environment(self) -> dict[str, str]:
        """Of the host's environment only the search path: the rest may hold secrets."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": self._workspace,
            "TMPDIR": self._workspace,
            "LANG": "C.UTF-8",
        }

    def _destroy(self) -> None:
        for channel in self._channels:
            channel.end()
        try:
            shutil.rmtree(self._workspace)
        except FileNotFoundError:
            return
        except OSError as error:
            raise SandboxException(f"{self._workspace} could not be removed: {error.strerror}") from None
