"""One emulated sandbox: a session of some provider, and what a service keeps about it. The same for all faces."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox.deadline import Clock
from ai4j_sandbox.frozen import empty_mapping, freeze
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.spi import SandboxSession, SupportsPause

from .metrics import Sample, measure
from .process import EmulatedProcess
from .reply import Gone, reset_connection
from .state import Action, Lifetime, OnTimeout, Phase, moved
from .watching import Watcher

RETAINED_EXIT_SECONDS = 30
"""How long a command that has ended can still be asked how it ended (envd's figure)."""

# Never without proof that the processes seen are the sandbox's own: the argument is where the emulator's live.
_END_ALL = 'space=$(readlink /proc/self/ns/pid); [ "$1" ] && [ "$space" ] && [ "$space" != "$1" ] && kill -KILL -1'
_FIRST_MADE_UP_PID = 1000  # for providers that do not tell process ids
_JOURNAL_ENTRIES = 10_000
_SAMPLES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSandbox:
    """What a face asks for.

    Attributes:
        template: Image, template or snapshot in the face's terms; recorded, and looked up among the snapshots.
        seconds: Time to live; ``None`` for no end.
        keep_memory: Whether the pause at the end of its time keeps the processes.
        environment: Variables of every command.
        access_token: What the data plane demands, or ``None``.
        traffic_token: What other ports demand, or ``None``.
    """

    sandbox_id: str
    template: str
    seconds: float | None
    on_timeout: OnTimeout = OnTimeout.KILL
    keep_memory: bool = True
    auto_resume: bool = False
    environment: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    metadata: Mapping[str, str] = field(default_factory=empty_mapping)
    access_token: str | None = field(default=None, repr=False)
    traffic_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", freeze(self.environment))
        object.__setattr__(self, "metadata", freeze(self.metadata))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One line of a sandbox's log."""

    logged_at: float
    level: str
    message: str
    fields: Mapping[str, str] = field(default_factory=empty_mapping)


class Sandbox:
    """A sandbox that runs. Every method is called on the loop's thread.

    Attributes:
        request: What was asked for.
        session: Where its commands really run.
        home: Its workspace.
        phase, lifetime: Where it is in its life (`state`).
        watchers: Watched directories by id.
        file_metadata: What clients attached to files, by path; real servers keep it in extended attributes.
        journal: Its log.
    """

    def __init__(self, request: NewSandbox, session: SandboxSession, *, home: str, clock: Clock) -> None:
        self.request = request
        self.session = session
        self.home = home
        self.phase = Phase.RUNNING
        self.lifetime = Lifetime.starting(clock(), request.seconds)
        self.watchers: dict[str, Watcher] = {}
        self.files_changing = asyncio.Lock()
        self.file_metadata: dict[str, dict[str, str]] = {}
        self.journal: deque[LogEntry] = deque(maxlen=_JOURNAL_ENTRIES)
        self.samples: deque[Sample] = deque(maxlen=_SAMPLES)
        self._clock = clock
        self._pids = itertools.count(_FIRST_MADE_UP_PID)
        self._processes: list[EmulatedProcess] = []
        self._connections: set[asyncio.BaseTransport] = set()
        self.log("info", "sandbox created", template=request.template)

    @property
    def sandbox_id(self) -> str:
        """Its id."""
        return self.request.sandbox_id

    def __repr__(self) -> str:
        return f"Sandbox({self.sandbox_id!r}, {self.phase})"

    # --- life -----------------------------------------------------------------------------------------------------

    def move(self, action: Action) -> None:
        """Go to the next phase.

        Raises:
            WrongPhaseError: The action is not possible now.
        """
        self.phase = moved(self.phase, action)
        self.log("info", f"sandbox {self.phase}")

    async def freeze(self) -> None:
        """Stop everything inside, keeping it in memory: by the provider, or with signals where it cannot."""
        if isinstance(self.session, SupportsPause):
            await in_thread(self.session.pause)
        else:
            await self._signal_all("SIGSTOP")

    async def thaw(self) -> None:
        """Let everything inside go on."""
        if isinstance(self.session, SupportsPause):
            await in_thread(self.session.resume)
        else:
            await self._signal_all("SIGCONT")

    async def end_processes(self) -> None:
        """Kill everything inside, as a cold boot does; also what no longer belongs to any command.

        Where a sandbox has no process ids of its own, only the commands that run can be told from the host's processes.
        """
        await self._signal_all("SIGKILL")
        ending = SandboxCommand(command=("/bin/sh", "-c", _END_ALL, "sh", _process_space()), output_limit_bytes=0)
        await in_thread(self.session.execute, ending)
        for process in self.running_processes():
            await process.wait_over(2)
        self._processes.clear()

    async def _signal_all(self, signal: str) -> None:
        for process in self.running_processes():
            await process.kill_tree(signal)

    # --- processes ------------------------------------------------------------------------------------------------

    def prepare(self, command: SandboxCommand, tag: str | None = None) -> EmulatedProcess:
        """Return a command that is ready to `run`, and known from then on."""
        self._forget_old_processes()
        process = EmulatedProcess(
            command,
            self.session.start,
            tag=tag,
            next_pid=lambda: next(self._pids),
            clock=self._clock,
        )
        self._processes.append(process)
        return process

    def running_processes(self) -> list[EmulatedProcess]:
        """Return what runs."""
        return [process for process in self._processes if process.is_running]

    def known_processes(self) -> list[EmulatedProcess]:
        """Return what runs or ended a short while ago, the newest first: process ids are used again."""
        self._forget_old_processes()
        return [process for process in reversed(self._processes) if process.pid is not None]

    def _forget_old_processes(self) -> None:
        oldest = self._clock() - RETAINED_EXIT_SECONDS
        self._processes = [
            process for process in self._processes if process.ended_at is None or process.ended_at > oldest
        ]

    # --- connections ----------------------------------------------------------------------------------------------

    @contextmanager
    def connected(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """Count a connection as one into this sandbox while its request lasts.

        Raises:
            Gone: The sandbox stopped running in the meantime, or the client left.
        """
        if transport is None or self.phase is not Phase.RUNNING:
            reset_connection(transport)
            raise Gone
        self._connections.add(transport)
        try:
            yield
        finally:
            self._connections.discard(transport)

    def reset_connections(self) -> None:
        """Reset every connection into the sandbox, as happens when its machine stops."""
        for transport in list(self._connections):
            reset_connection(transport)

    # --- records --------------------------------------------------------------------------------------------------

    def log(self, level: str, message: str, **fields: str) -> None:
        """Write a line into the sandbox's log."""
        self.journal.append(LogEntry(logged_at=self._clock(), level=level, message=message, fields=freeze(fields)))

    async def measure(self) -> Sample:
        """Return what it uses now, and remember it.

        Raises:
            SandboxException: It cannot be measured.
        """
        sample = await in_thread(measure, self.session, self.home, self._clock())
        self.samples.append(sample)
        return sample


def _process_space() -> str:
    """Return the name of the emulator's own process-id namespace; empty where the system has none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
