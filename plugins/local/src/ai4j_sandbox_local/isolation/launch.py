"""Starts a sandbox with an agent inside, and ends it. Nothing outlives `RunningSandbox.destroy` or the host process."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import json
import marshal
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ai4j_sandbox.errors import SandboxException

from .identity import Identity

PYTHON_OPTIONS = ("-I", "-S", "-B", "-X", "utf8")
"""For the programs inside: no environment, no site packages, no caches written, UTF-8 whatever the locale."""

START_SECONDS = 15.0
END_SECONDS = 10.0


class LaunchError(SandboxException):
    """A sandbox of this kind did not start; the message has the reason that its first process gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What the agent inside is told when it starts."""

    directory: str
    limits: dict[str, int]
    lifetime: float | None


class Descriptors:
    """Descriptors that a program is started with; closed when the block ends."""

    def __init__(self) -> None:
        self._held = contextlib.ExitStack()
        self.numbers: list[int] = []

    def __enter__(self) -> Descriptors:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def add(self, descriptor: int) -> int:
        """Hand a descriptor over."""
        self._held.callback(os.close, descriptor)
        self.numbers.append(descriptor)
        return descriptor

    def file(self, content: bytes) -> int:
        """Return a descriptor of an unnamed file with this content."""
        descriptor = self.add(os.memfd_create("file"))
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor


@functools.cache
def inside_program(name: str) -> bytes:
    """Return an archive that Python can run: the folder `inside`, compiled, and a start of the named program.

    The Python in the sandbox is the one that runs us, so it takes our compiled files.
    """
    folder = resources.files("ai4j_sandbox_local.inside")
    sources = {f"inside/{file.name}": file.read_text() for file in folder.iterdir() if file.name.endswith(".py")}
    sources["__main__.py"] = f"from inside.{name} import main\nmain()\n"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        for path, source in sources.items():
            files.writestr(f"{path}c", _compiled(path, source))
    return archive.getvalue()


def _compiled(path: str, source: str) -> bytes:
    code = compile(source, path, "exec", dont_inherit=True)
    never_checked = (0b01).to_bytes(4, "little") + bytes(8)  # PEP 552: by hash, and not compared with a source
    return importlib.util.MAGIC_NUMBER + never_checked + marshal.dumps(code)


class RunningSandbox:
    """The processes of one sandbox, and the control socket of its agent."""

    def __init__(
        self, process: subprocess.Popen[bytes], control: socket.socket, diagnostics: int, agent_pid: int
    ) -> None:
        self.process = process
        self.control = control
        self.agent_pid = agent_pid
        self._diagnostics = diagnostics
        self._agent = os.pidfd_open(agent_pid)
        self._ended = False
        self._ending = threading.Lock()

    def destroy(self) -> None:
        """End everything inside and return when it is gone. Idempotent."""
        with self._ending:
            if not self._ended:
                self._destroy()
                self._ended = True

    def _destroy(self) -> None:
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._agent, signal.SIGKILL)
        _wait_readable(self._agent, END_SECONDS)
        end_process(self.process)
        self.control.close()
        os.close(self._agent)
        os.close(self._diagnostics)

    def last_words(self) -> str:
        """Return what the first process said about its end, or an empty text."""
        with self._ending:
            return "" if self._ended else read_diagnostics(self._diagnostics)


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that is about to end; kill it when it takes too long."""
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        _kill_group(process)


def read_diagnostics(descriptor: int) -> str:
    """Return the end of what was written to the diagnostics file."""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, 4096, max(0, size - 4096)).decode("utf-8", "replace").strip()


def _wait_readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


CommandLine = Callable[[Descriptors, Sequence[str]], list[str]]
"""Makes the argument list that runs a program, given as its argument list, in a sandbox of some kind."""


Greeting = Callable[[socket.socket, int, Identity], int]
"""Waits for the agent's first message, given the control socket and the diagnostics file; returns its process id."""


def launch(
    command_line: CommandLine,
    interpreter: str,
    settings: AgentSettings,
    identity: Identity,
    greeting: Greeting | None = None,
) -> RunningSandbox:
    """Start the agent and return the sandbox once the agent has answered.

    Raises:
        LaunchError: It did not start.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    diagnostics = os.memfd_create("diagnostics")
    process = None
    try:
        with Descriptors() as descriptors, theirs:
            descriptors.numbers.append(theirs.fileno())
            program = _agent_program(descriptors, interpreter, settings, theirs.fileno())
            process = _spawn(command_line(descriptors, program), descriptors.numbers, diagnostics)
        agent_pid = (greeting or _greeting)(ours, diagnostics, identity)
        return RunningSandbox(process, ours, diagnostics, agent_pid)
    except ProcessLookupError:
        _abort(process, ours, diagnostics)
        raise LaunchError("the sandbox ended as soon as it had started") from None
    except BaseException:
        _abort(process, ours, diagnostics)
        raise


def _abort(process: subprocess.Popen[bytes] | None, control: socket.socket, diagnostics: int) -> None:
    """Leave nothing of a sandbox that did not start."""
    control.close()  # an agent that is there ends when this does
    if process is not None:
        _kill_group(process)
    os.close(diagnostics)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what `_spawn` started with what it started: bwrap's child would wait for its killed parent forever."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _agent_program(descriptors: Descriptors, interpreter: str, settings: AgentSettings, control: int) -> list[str]:
    source = descriptors.file(inside_program("agent"))
    told: dict[str, Any] = {
        "control": control,
        "host": descriptors.add(os.pidfd_open(os.getpid())),
        "directory": settings.directory,
        "marker": secrets.randbits(38) << 24,
        "limits": settings.limits,
        "lifetime": settings.lifetime,
    }
    return [interpreter, *PYTHON_OPTIONS, f"/proc/self/fd/{source}", json.dumps(told)]


def _spawn(arguments: Sequence[str], descriptors: Sequence[int], diagnostics: int) -> subprocess.Popen[bytes]:
    """Start with an empty environment: /proc/1/environ inside would show it."""
    try:
        return subprocess.Popen(
            arguments,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=diagnostics,
            stderr=diagnostics,
            pass_fds=descriptors,
            start_new_session=True,  # so that Ctrl-C in the host's terminal does not reach it
        )
    except OSError as error:
        raise LaunchError(f"{arguments[0]} cannot be started: {error.strerror}") from error


def _greeting(control: socket.socket, diagnostics: int, identity: Identity) -> int:
    """Wait for the agent's first message and return its process id, as the kernel vouches for it."""
    if not _wait_readable(control.fileno(), START_SECONDS):
        raise LaunchError(f"the sandbox did not start within {START_SECONDS:g} seconds")
    message, ancillary, _, _ = control.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
    if not message:
        raise LaunchError(read_diagnostics(diagnostics) or "the sandbox ended without a word")
    pid, uid, _ = struct.unpack("3i", ancillary[0][2])
    if uid != identity.uid:
        raise LaunchError(f"the sandbox runs as host user {uid} instead of {identity.uid}")
    return int(pid)
