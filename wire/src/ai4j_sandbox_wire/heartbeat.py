"""A beat while something is under way, for services that take silence for idleness.

The thread exists only while it is needed. It is a daemon: it must not keep a program alive that forgot to close.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from ai4j_sandbox.errors import SandboxException


class Heartbeat:
    """Calls `beat` every so often for as long as `busy` says so.

    Args:
        beat: What keeps the other side alive; it may fail, the next one may not.
        busy: Whether something is under way.
        every_seconds: The time between two beats.
    """

    def __init__(self, beat: Callable[[], object], *, busy: Callable[[], bool], every_seconds: float) -> None:
        self._beat = beat
        self._busy = busy
        self._every_seconds = every_seconds
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._beating = False

    def start(self) -> None:
        """Begin, unless it goes on already: something is under way now."""
        with self._lock:
            if self._beating or self._stopped.is_set():
                return
            self._beating = True
        threading.Thread(target=self._run, name="ai4j-heartbeat", daemon=True).start()

    def stop(self) -> None:
        """End for good. Idempotent; does not wait for a beat that is on its way."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_seconds) and self._goes_on():
            with contextlib.suppress(SandboxException):
                self._beat()

    def _goes_on(self) -> bool:
        with self._lock:  # so that a start in another thread either sees us or begins anew
            self._beating = self._busy()
            return self._beating
