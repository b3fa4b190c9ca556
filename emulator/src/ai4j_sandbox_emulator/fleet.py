"""All sandboxes of one face: made, found, paused, woken, killed, and ended when their time is up."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox.deadline import Clock
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.spi import SandboxSession

from .sandbox import NewSandbox, Sandbox
from .snapshots import Snapshot, SnapshotStore, restore_workspace, save_workspace
from .state import Action, OnTimeout, Phase, WrongPhaseError

T = TypeVar("T")

SessionFactory = Callable[[], SandboxSession]

_SETTLE_SECONDS = 5.0


class Fleet:
    """The sandboxes of one face. Lives on the loop's thread; what blocks is done in threads.

    Args:
        open_session: Makes the session in which a sandbox's commands really run.
        home: Its workspace.
        clock: Seconds since 1970; tests inject their own.
    """

    def __init__(self, open_session: SessionFactory, *, home: str, clock: Clock) -> None:
        self.clock = clock
        self.snapshots = SnapshotStore()
        self._open_session = open_session
        self._home = home
        self._sandboxes: dict[str, Sandbox] = {}
        self._undestroyed: list[SandboxSession] = []
        self._work: set[asyncio.Task[Any]] = set()

    def find(self, sandbox_id: str) -> Sandbox | None:
        """Return a sandbox that has not been killed."""
        return self._sandboxes.get(sandbox_id)

    def all(self) -> list[Sandbox]:
        """Return all sandboxes, in the order they were made."""
        return list(self._sandboxes.values())

    # --- making and ending ----------------------------------------------------------------------------------------

    async def create(self, request: NewSandbox) -> Sandbox:
        """Make a sandbox; from a snapshot when its template names one. It gets made even if nobody waits any more.

        Raises:
            SandboxException: The provider cannot.
        """
        return await asyncio.shield(self._spawn(self._create(request)))

    async def _create(self, request: NewSandbox) -> Sandbox:
        session = await in_thread(self._open_session)
        try:
            snapshot = self.snapshots.find(request.template)
            if snapshot is not None:
                await in_thread(restore_workspace, session, self._home, snapshot.archive)
            sandbox = Sandbox(request, session, home=self._home, clock=self.clock)
        except BaseException:
            await self._destroy(session)
            raise
        self._sandboxes[request.sandbox_id] = sandbox
        return sandbox

    async def kill(self, sandbox: Sandbox) -> None:
        """End a sandbox: its connections are reset, its processes and files are gone.

        Raises:
            WrongPhaseError: It was killed already.
        """
        sandbox.move(Action.KILL)
        self._sandboxes.pop(sandbox.sandbox_id, None)
        sandbox.reset_connections()
        await self._destroy(sandbox.session)

    def end_due(self) -> None:
        """Begin to kill or pause the sandboxes whose time is up."""
        now = self.clock()
        for sandbox in self.all():
            if sandbox.phase is Phase.RUNNING and sandbox.lifetime.is_over(now):
                self._spawn(self._end(sandbox))

    async def _end(self, sandbox: Sandbox) -> None:
        with suppress(WrongPhaseError):  # somebody else was faster
            if sandbox.request.on_timeout is OnTimeout.PAUSE:
                try:
                    await self.pause(sandbox, keep_memory=sandbox.request.keep_memory)
                except SandboxException as error:
                    sandbox.log("error", f"it cannot be paused and is killed: {error.message}")
                else:
                    return
            await self.kill(sandbox)

    async def close(self) -> None:
        """Kill everything, and try once more what could not be destroyed before."""
        await asyncio.gather(*self._work, return_exceptions=True)
        await asyncio.gather(*(self.kill(sandbox) for sandbox in self.all()))
        retried, self._undestroyed = self._undestroyed, []
        for session in retried:
            await self._destroy(session)
        self.snapshots.close()

    async def _destroy(self, session: SandboxSession) -> None:
        try:
            await in_thread(session.close)
        except SandboxException:
            self._undestroyed.append(session)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    # --- pausing --------------------------------------------------------------------------------------------------

    async def pause(self, sandbox: Sandbox, *, keep_memory: bool = True) -> None:
        """Pause a sandbox, with its processes or without.

        Raises:
            WrongPhaseError: It does not run.
            SandboxException: The provider cannot; it goes on running.
        """
        sandbox.move(Action.PAUSE)
        sandbox.reset_connections()
        await self._changed(sandbox, sandbox.freeze() if keep_memory else sandbox.end_processes())
        sandbox.move(Action.PAUSED)
        sandbox.lifetime = sandbox.lifetime.reset(self.clock(), 0)

    async def resume(self, sandbox: Sandbox, seconds: float) -> None:
        """Wake a paused sandbox for so many seconds.

        Raises:
            WrongPhaseError: It is not paused.
            SandboxException: The provider cannot; it stays paused.
        """
        sandbox.move(Action.RESUME)
        await self._changed(sandbox, sandbox.thaw())
        sandbox.move(Action.RESUMED)
        sandbox.lifetime = sandbox.lifetime.reset(self.clock(), seconds)

    async def _changed(self, sandbox: Sandbox, change: Awaitable[None]) -> None:
        try:
            await change
        except SandboxException:
            sandbox.move(Action.FAIL)
            raise

    async def settled(self, sandbox: Sandbox) -> None:
        """Wait, within reason, while the sandbox is between two phases."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _SETTLE_SECONDS
        while sandbox.phase in (Phase.PAUSING, Phase.RESUMING) and loop.time() < end:
            await asyncio.sleep(0.01)

    # --- snapshots ------------------------------------------------------------------------------------------------

    async def snapshot(self, sandbox: Sandbox, *, snapshot_id: str, names: tuple[str, ...]) -> Snapshot:
        """Keep a copy of a sandbox's workspace.

        Raises:
            SandboxException: It cannot be read.
        """
        archive = self.snapshots.archive_path(f"{uuid.uuid4().hex}.tar")
        await in_thread(save_workspace, sandbox.session, self._home, archive)
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            source_id=sandbox.sandbox_id,
            template=sandbox.request.template,
            created_at=self.clock(),
            names=names,
            archive=archive,
        )
        self.snapshots.add(snapshot)
        return snapshot
