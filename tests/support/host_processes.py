"""Runs commands as plain processes of this machine, so that tests can drive the core with something that really runs.

No isolation: only for commands that a test wrote itself.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from ai4j_sandbox.errors import Outcome, SandboxException, SandboxNotFoundError, SandboxOutcomeUnknownError
from ai4j_sandbox.model import OutputStream, SandboxCommand
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessContext, ProcessExit, SandboxProcess

# A program that cannot be started then gives 127 or 126, as in a shell line.
RUN_ARGUMENTS = ("/bin/sh", "-c", 'exec "$@"', "sh")


class HostChannel(ProcessChannel):
    """One process and its group, with pipes."""

    def __init__(self, command: SandboxCommand, *, home: Path, environment: Mapping[str, str] | None = None) -> None:
        directory = home / (command.working_directory or "")
        if not directory.is_dir():
            raise SandboxNotFoundError(f"no working directory {str(directory)!r}", outcome=Outcome.NOT_STARTED)
        self._process = subprocess.Popen(
            command.argv() if isinstance(command.command, str) else (*RUN_ARGUMENTS, *command.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env={**default_environment(home), **(environment or {}), **command.environment},
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._closed = False
        self._told_to_end = False
        self._input: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._accepts_input = command.keep_stdin_open
        self._input.put(command.stdin_bytes)
        if not command.keep_stdin_open:
            self._input.put(None)
        self._writer = threading.Thread(target=self._feed, daemon=True)
        self._writer.start()
        self._exit = os.pidfd_open(self._process.pid)
        self._wake = os.eventfd(0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._exit, selectors.EVENT_READ, None)
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        for pipe, stream in ((self._process.stdout, OutputStream.STDOUT), (self._process.stderr, OutputStream.STDERR)):
            assert pipe is not None
            self._selector.register(pipe, selectors.EVENT_READ, stream)

    @property
    def running(self) -> bool:
        """Whether the command has not ended."""
        return self._process.poll() is None

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        for key, _ in self._selector.select(timeout):
            if self._closed:
                raise SandboxOutcomeUnknownError("the channel was closed")
            if key.data is None:
                continue
            if data := os.read(key.fd, 65536):
                return OutputChunk(key.data, data)
            else:
                self._selector.unregister(key.fileobj)
        # What the command wrote is in the pipes before its exit shows; whoever still holds them is not waited for.
        ready = {key.fd for key, _ in self._selector.select(0)}
        return self._ended() if ready == {self._exit} else None

    def kill(self, signal_name: str) -> bool:
        running = self.running
        self._told_to_end = self._told_to_end or signal_name in ("SIGTERM", "SIGKILL")
        self._signal_group(signal.Signals[signal_name])
        return running

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def close(self) -> None:
        self._closed = True
        self._input.put(None)
        os.eventfd_write(self._wake, 1)

    def write_stdin(self, data: bytes) -> None:
        if not (self._accepts_input and self.running):
            raise SandboxException("the command reads no more input")
        self._input.put(data)

    def close_stdin(self) -> None:
        self._accepts_input = False
        self._input.put(None)

    def end(self) -> None:
        """Kill the whole group, reap it and give everything back; for the end of a test."""
        self.kill("SIGKILL")
        self._process.wait()
        self.close()
        self._writer.join(5)
        self._selector.close()
        os.close(self._exit)
        os.close(self._wake)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _feed(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            while (data := self._input.get()) is not None:
                pipe.write(data)
                pipe.flush()

    def _ended(self) -> ProcessExit:
        code = self._process.wait()
        if self._told_to_end:  # whoever of the group ignored the signal that ended its leader
            self._signal_group(signal.SIGKILL)
        if code < 0:
            return ProcessExit(exit_code=128 - code, signal=signal.Signals(-code).name)
        return ProcessExit(exit_code=code)


class HostProcesses:
    """Starts commands on this machine and ends them all; its `start` is what `ShellFiles` needs."""

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self._home = home
        self._environment = environment
        self._channels: list[HostChannel] = []
        self.commands: list[SandboxCommand] = []

    def open_channel(self, command: SandboxCommand) -> HostChannel:
        """Run the command."""
        self.commands.append(command)
        channel = HostChannel(command, home=self._home, environment=self._environment)
        self._channels.append(channel)
        return channel

    def start(self, command: SandboxCommand) -> SandboxProcess:
        """Run the command and return its process."""
        return SandboxProcess(command, self.open_channel(command), ProcessContext())

    def running(self) -> int:
        """Return how many of the commands have not ended."""
        return sum(channel.running for channel in self._channels)

    def end(self) -> None:
        """Leave nothing running."""
        for channel in self._channels:
            channel.end()


@contextlib.contextmanager
def host_processes(home: Path, environment: Mapping[str, str] | None = None) -> Iterator[HostProcesses]:
    """Give host processes that are ended with the block."""
    processes = HostProcesses(home, environment)
    try:
        yield processes
    finally:
        processes.end()


def default_environment(home: Path) -> dict[str, str]:
    """Return what a command finds in its environment: nothing of the host's but where programs are."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}
