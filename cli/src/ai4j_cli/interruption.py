"""Ctrl-C and its relatives: the first one cancels the command, none can skip the clean-up.

Rules:

* While a command runs, the first signal cancels it (TERM, a grace, KILL) from a thread of its own; whoever receives
  the command's output goes on until it ends, so its last words are shown.
* At any other time the first signal raises `Interrupted` in the main thread, except while `held`: then what is being
  done (closing a sandbox) is finished first.
* Further signals change nothing: the sandbox is being closed already.
* A signal that was ignored when we started stays ignored (``nohup``, a shell's background jobs).

That is `Interruption`, for one command. A program that goes on after Ctrl-C uses `stop_signals_raise` for its whole
life, and `signals_deferred` around what must not be left halfway.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ai4j_sandbox import SandboxProcess

STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP


class Interrupted(KeyboardInterrupt):
    """A signal asked this program to stop.

    Attributes:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Interruption:
    """Takes over the stop signals for one run. A context manager, for the main thread."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._process: SandboxProcess | None = None
        self._held = False
        self._previous: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._received)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def watching(self, process: SandboxProcess) -> Iterator[None]:
        """Let a signal cancel `process` instead of raising."""
        self._process = process
        try:
            yield
        finally:
            self._process = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let what is done inside be finished, whatever signal arrives."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            return
        self.number = number
        if self._process is not None:
            # Not here: the main thread may hold the very lock that `cancel` needs.
            threading.Thread(target=self._process.cancel, daemon=True).start()
        elif not self._held:
            raise Interrupted(number)


@contextmanager
def stop_signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Interrupted` in the main thread; Ctrl-C stays a `KeyboardInterrupt`."""

    def received(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    with _handled({number: received for number in STOP_SIGNALS if number != signal.SIGINT}):
        yield


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Let what is done inside be finished; a stop signal that arrived meanwhile takes its effect afterwards."""
    arrived: list[int] = []
    with _handled(dict.fromkeys(STOP_SIGNALS, lambda number, frame: arrived.append(number))):
        yield
    if arrived:
        signal.raise_signal(arrived[0])


@contextmanager
def _handled(handlers: Mapping[int, Callable[[int, FrameType | None], None]]) -> Iterator[None]:
    previous = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
