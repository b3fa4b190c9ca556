"""One running command: bytes out, bytes in, signals. No policy: deadlines and results are the core's.

The command is the leader of a process group of its own. A signal goes to the group, and when the leader has ended,
whatever it left running in the group is killed. A process that starts a session of its own escapes: this is no sandbox.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
from contextlib import suppress
from queue import SimpleQueue
from signal import SIGKILL, Signals
from typing import IO

from ai4j_sandbox import (
    OutputChunk,
    OutputStream,
    ProcessChannel,
    ProcessExit,
    SandboxConfigError,
    SandboxException,
    SandboxOutcomeUnknownError,
)
from ai4j_sandbox.deadline import Deadline

CHUNK_BYTES = 64 * 1024
POLL_SECONDS = 0.05  # how soon an exit is noticed that no pipe tells of, because another process holds them open


class SubprocessChannel(ProcessChannel):
    """The pipes and the process group of a local process, which was started with ``start_new_session``."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, *, keep_stdin_open: bool) -> None:
        self.pid = process.pid
        self._process = process
        self._outputs = {OutputStream.STDOUT: _given(process.stdout), OutputStream.STDERR: _given(process.stderr)}
        self._unread = selectors.DefaultSelector()
        for stream, pipe in self._outputs.items():
            self._unread.register(pipe, selectors.EVENT_READ, stream)
        self._receiving = threading.Lock()
        self._closed = False
        self._group_killed = False
        self._input: SimpleQueue[bytes | None] = SimpleQueue()  # ``None`` ends it
        self._input_open = True
        self._input.put(stdin)
        if not keep_stdin_open:
            self.close_stdin()
        threading.Thread(target=_feed, args=(_given(process.stdin), self._input), daemon=True).start()

    @property
    def ended(self) -> bool:
        """Whether the command has ended. Then nothing is left of its group either."""
        if self._process.poll() is None:
            return False
        if not self._group_killed:
            self._group_killed = True
            self._signal_group(SIGKILL)
        return True

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        """Return the next output, or the exit once all output that is there was returned."""
        deadline = Deadline(timeout)
        with self._receiving:
            while not self._closed:
                if chunk := self._read(deadline.bound(POLL_SECONDS)):
                    return chunk
                if self.ended:
                    return self._read(0) or _exit_of(self._process.returncode)
                if deadline.expired:
                    return None
        raise SandboxOutcomeUnknownError("the command was let go of before its end was seen")

    def _read(self, patience: float) -> OutputChunk | None:
        """Return output that is there or comes within `patience` seconds."""
        if not self._unread.get_map():  # both have ended, so the command is about to
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
            return None
        for pipe, _ in self._unread.select(patience):
            if data := os.read(pipe.fd, CHUNK_BYTES):
                return OutputChunk(pipe.data, data)
            self._unread.unregister(pipe.fileobj)
        return None

    def write_stdin(self, data: bytes) -> None:
        """Take bytes for the command; a thread hands them over as the command reads."""
        if not self._input_open or self.ended:
            raise SandboxException("this command has no open stdin", hint="start it with keep_stdin_open=True")
        self._input.put(data)

    def close_stdin(self) -> None:
        """Let the input end after what was written so far."""
        self._input_open = False
        self._input.put(None)

    def kill(self, signal: str) -> bool:
        """Send a signal to the command's process group."""
        if signal not in Signals.__members__:
            raise SandboxConfigError(f"there is no signal {signal!r}", hint="write it as 'SIGTERM'")
        return not self.ended and self._signal_group(Signals[signal])

    def _signal_group(self, number: int) -> bool:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):  # the second is what macOS says of a group of zombies
            return False
        return True

    def close(self) -> None:
        """Let go of the pipes. A `receive` in another thread notices within `POLL_SECONDS`."""
        self._closed = True
        self.close_stdin()
        with self._receiving:
            self._unread.close()
            for pipe in self._outputs.values():
                pipe.close()

    def end(self) -> None:
        """Kill the command and its group, and wait until it is gone."""
        if not self.ended:
            self._signal_group(SIGKILL)
            self._process.wait()
        self.close()


def _given(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "the process was started with a pipe for each stream"
    return pipe


def _feed(pipe: IO[bytes], source: SimpleQueue[bytes | None]) -> None:
    """Write everything from `source` into a command's input, and close it."""
    with suppress(BrokenPipeError), pipe:  # a command that reads no more is within its rights
        while (data := source.get()) is not None:
            pipe.write(data)
            pipe.flush()


def _exit_of(returncode: int) -> ProcessExit:
    """Spell an end as a shell does: 128 + n after signal n."""
    if returncode >= 0:
        return ProcessExit(exit_code=returncode)
    number = -returncode
    name = Signals(number).name if number in Signals.__members__.values() else f"SIG{number}"
    return ProcessExit(exit_code=128 + number, signal=name)
