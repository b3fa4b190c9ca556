"""One command as a plain process of this machine: the channel behind `host_workspace.LocalWorkspace`. No isolation."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import subprocess
import threading
from collections.abc import Mapping
from typing import IO

from ai4j_sandbox.errors import Outcome, SandboxException, SandboxNotFoundError, SandboxOutcomeUnknownError
from ai4j_sandbox.model import OutputStream, SandboxCommand
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit

_READ_BYTES = 65536
# What a process wrote is in its pipes when it ends, so no more than this is its own; what follows is a descendant's.
_PIPE_BYTES = 2 * 1024 * 1024
# An argument list goes through a shell too: a program that is missing then is exit code 127, as in a shell line.
_RUN_ARGUMENTS = ("/bin/sh", "-c", 'exec "$@"', "sh")


class HostChannel(ProcessChannel):
    """A process in a group of its own. Its end is not delayed by descendants that still hold its output open."""

    def __init__(self, command: SandboxCommand, directory: str, environment: Mapping[str, str]) -> None:
        feeds = bool(command.stdin) or command.keep_stdin_open
        self._process = _started(command, directory, environment, subprocess.PIPE if feeds else subprocess.DEVNULL)
        self.pid = self._process.pid
        self._input = _Input(self._process.stdin, command) if self._process.stdin else None
        self._told_to_end = False
        self._ended = threading.Event()
        self._unread_after_end = _PIPE_BYTES
        self._closed = False
        self._receiving = threading.Lock()
        self._waking = threading.Lock()
        self._woken, self._wake = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        streams = {OutputStream.STDOUT: self._process.stdout, OutputStream.STDERR: self._process.stderr}
        self._outputs = {stream: pipe for stream, pipe in streams.items() if pipe is not None}
        for stream, pipe in self._outputs.items():
            self._selector.register(pipe, selectors.EVENT_READ, stream)
        threading.Thread(target=self._reap, name=f"command {self.pid}", daemon=True).start()

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        """Return output as it comes; the exit once there is no output to be had."""
        with self._receiving:
            if self._closed:
                raise SandboxOutcomeUnknownError("the channel was closed")
            ended = self._ended.is_set()
            if self._unread_after_end <= 0:
                return self._exit()
            ready = [key for key, _ in self._selector.select(0 if ended else timeout) if key.data is not None]
            for key in ready:
                if data := os.read(key.fd, _READ_BYTES):
                    self._unread_after_end -= len(data) if ended else 0
                    return OutputChunk(key.data, data)
                self._selector.unregister(key.fileobj)
            return self._exit() if ended and not ready else None

    def kill(self, signal_name: str) -> bool:
        """Send a signal to the whole group."""
        running = not self._ended.is_set()
        self._told_to_end = True
        self._signal_group(signal.Signals[signal_name])
        return running

    def close(self) -> None:
        """Give the descriptors back; a process that still runs is reaped when it ends."""
        with self._waking:
            if self._closed:
                return
            self._closed = True
            if self._wake >= 0:
                os.write(self._wake, b"!")
        with self._receiving:
            self._selector.close()
            os.close(self._woken)
            for pipe in self._outputs.values():
                pipe.close()
        if self._input:
            self._input.end()

    def write_stdin(self, data: bytes) -> None:
        """Queue input."""
        if self._input is None or self._ended.is_set():
            raise SandboxException("the command reads no more input", hint="start it with keep_stdin_open=True")
        self._input.write(data)

    def close_stdin(self) -> None:
        """Let the input end after what was queued."""
        if self._input:
            self._input.end()

    def _reap(self) -> None:
        self._process.wait()
        self._ended.set()
        if self._told_to_end:  # whoever of the group survived the signal that ended its leader
            self._signal_group(signal.SIGKILL)
        with self._waking:
            os.close(self._wake)  # its end is readable, too
            self._wake = -1

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _exit(self) -> ProcessExit:
        code = self._process.returncode
        if code < 0:
            return ProcessExit(exit_code=128 - code, signal=signal.Signals(-code).name)
        return ProcessExit(exit_code=code)


class _Input:
    """Feeds a pipe from a thread of its own, so that a command that does not read blocks nobody."""

    def __init__(self, pipe: IO[bytes], command: SandboxCommand) -> None:
        self._pipe = pipe
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._accepts = command.keep_stdin_open
        self._pieces.put(command.stdin_bytes)
        if not self._accepts:
            self._pieces.put(None)
        threading.Thread(target=self._feed, name="command input", daemon=True).start()

    def write(self, data: bytes) -> None:
        if not self._accepts:
            raise SandboxException("the command's input is closed")
        self._pieces.put(data)

    def end(self) -> None:
        self._accepts = False
        self._pieces.put(None)

    def _feed(self) -> None:
        with contextlib.suppress(BrokenPipeError), self._pipe as pipe:
            while (data := self._pieces.get()) is not None:
                pipe.write(data)
                pipe.flush()


def _started(
    command: SandboxCommand, directory: str, environment: Mapping[str, str], stdin: int
) -> subprocess.Popen[bytes]:
    arguments = command.argv() if isinstance(command.command, str) else (*_RUN_ARGUMENTS, *command.command)
    try:
        return subprocess.Popen(
            arguments,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env={**environment, **command.environment},
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SandboxNotFoundError(f"no working directory {directory!r}", outcome=Outcome.NOT_STARTED) from error
    except OSError as error:
        reason = f"the command cannot be started: {error.strerror}"
        raise SandboxException(reason, outcome=Outcome.NOT_STARTED) from error
