"""Where the board's data comes from: a thread asks every provider again and again, and looks into what runs.

A sandbox is attached to once and the session kept for as long as it is listed; closing it leaves the sandbox alive. One
that is paused is never woken.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Self

from ai4j_cli.application import Application
from ai4j_cli.attachment import connect
from ai4j_cli.fleet import address_of, survey
from ai4j_sandbox import (
    SandboxException,
    SandboxNotFoundError,
    SandboxProcess,
    SandboxSession,
    SandboxSpec,
    SandboxStatus,
    SandboxSummary,
)
from ai4j_sandbox.spi import SupportsBackground, SupportsMetrics

from .board import Board, RunningCommand, SandboxView

_LOOKS_AT_ONCE = 8


class Watcher:
    """Looks at the sandboxes of some providers. A context manager: the thread runs inside.

    Args:
        application: Where providers come from.
        provider_ids: Whom to ask.
        labels: What sandboxes have to carry.
        interval: Seconds between two looks.

    Attributes:
        failures: Why providers did not answer the latest look.
    """

    def __init__(
        self, application: Application, provider_ids: Sequence[str], labels: dict[str, str], interval: float
    ) -> None:
        self._application = application
        self._provider_ids = provider_ids
        self._labels = labels
        self._interval = interval
        self._sessions: dict[str, SandboxSession] = {}
        self.failures: tuple[SandboxException, ...] = ()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._board = Board()
        self._thread = threading.Thread(target=self._run, name="ai4j-top", daemon=True)

    @property
    def board(self) -> Board:
        """The latest look."""
        return self._board

    def look(self) -> Board:
        """Look now."""
        answer = survey(self._application, self._provider_ids, self._labels)
        with self._lock, ThreadPoolExecutor(max_workers=_LOOKS_AT_ONCE) as pool:
            self._forget_others({str(address_of(summary)) for summary in answer.sandboxes})
            views = tuple(pool.map(self._view, answer.sandboxes))
        self.failures = answer.failures
        failures = tuple(f"{failure.provider_id}: {failure.message}" for failure in answer.failures)
        self._board = Board(sandboxes=views, failures=failures)
        return self._board

    def follow(self, command: RunningCommand) -> SandboxProcess | None:
        """Return a running command to follow; ``None`` when it cannot be found again."""
        try:
            return self._attach(command)
        except SandboxException:
            return None

    def cancel(self, command: RunningCommand) -> bool:
        """Stop a running command; ``False`` when it had ended by itself.

        Raises:
            SandboxException: It cannot be found again, or its sandbox cannot be reached.
        """
        session = self._sessions.get(command.address)
        followed = session is not None and session.cancel(command.process.command_id or "")
        return followed or self._attach(command).cancel()

    def _attach(self, command: RunningCommand) -> SandboxProcess:
        session, command_id = self._sessions.get(command.address), command.process.command_id
        if session is None or command_id is None:
            raise SandboxNotFoundError(f"{command.process.pid} was not started by ai4j, or its sandbox is gone")
        return session.require(SupportsBackground).attach(command_id)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(timeout=5)
        self.close()

    def close(self) -> None:
        """Let go of every sandbox."""
        with self._lock:
            self._forget_others(set())

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.look()
            # Providers are foreign code; one that breaks must show on the board instead of freezing it.
            except Exception as error:  # noqa: BLE001
                self._board = replace(self._board, failures=(f"the look failed with {type(error).__name__}",))
            self._stopped.wait(self._interval)

    def _forget_others(self, listed: set[str]) -> None:
        for address in set(self._sessions) - listed:
            _close(self._sessions.pop(address))

    def _view(self, summary: SandboxSummary) -> SandboxView:
        if summary.status is not SandboxStatus.RUNNING:
            return SandboxView(summary=summary)
        try:
            session = self._session(summary)
            return SandboxView(
                summary=summary,
                metrics=session.metrics() if isinstance(session, SupportsMetrics) else None,
                processes=tuple(session.list_processes()) if isinstance(session, SupportsBackground) else (),
            )
        except SandboxException as error:
            return SandboxView(summary=summary, problem=error.message)

    def _session(self, summary: SandboxSummary) -> SandboxSession:
        address = str(address_of(summary))
        if address not in self._sessions:
            spec = SandboxSpec(provider_id=summary.provider_id)
            self._sessions[address] = connect(self._application, spec, summary.session_id)
        return self._sessions[address]


def _close(session: SandboxSession) -> None:
    try:
        session.close()
    except SandboxException:
        return  # it was only looked at; whoever owns it learns of its failures
