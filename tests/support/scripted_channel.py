"""A channel that plays a timeline on a clock of its own: tests of minutes take no time and always go alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ai4j_sandbox.errors import SandboxOutcomeUnknownError
from ai4j_sandbox.model import OutputStream
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit

Piece = OutputChunk | ProcessExit | BaseException


class FakeClock:
    """A clock that only moves when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ScriptedChannel(ProcessChannel):
    """Plays `(seconds, piece)` pairs, the seconds counted from the start; an error is raised at its time.

    Args:
        on_signal: What arrives after a signal, in seconds after it; the rest of the timeline is dropped then. A
            signal that is not named is ignored by the command.
        gone: The command has ended, so that signals find nothing.

    Attributes:
        signals: Every signal that was sent, with its time.
        closed: How often the channel was closed.
    """

    def __init__(
        self,
        clock: FakeClock,
        timeline: Iterable[tuple[float, Piece]] = (),
        *,
        on_signal: Mapping[str, Iterable[tuple[float, Piece]]] | None = None,
        gone: bool = False,
    ) -> None:
        self._clock = clock
        self._timeline = _counted_from(clock.now, timeline)
        self._next: tuple[float, Piece] | None = next(self._timeline, None)
        self._on_signal = on_signal or {}
        self._gone = gone
        self.signals: list[tuple[float, str]] = []
        self.closed = 0
        self.written: list[bytes] = []
        self.stdin_closed = 0

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        assert timeout is not None, "nobody may wait without a bound"
        if self.closed:
            raise SandboxOutcomeUnknownError("received after close")
        if self._next is None or self._next[0] > self._clock.now + timeout:
            self._clock.now += timeout
            return None
        due, piece = self._next
        self._clock.now = max(self._clock.now, due)
        self._next = next(self._timeline, None)
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def kill(self, signal: str) -> bool:
        self.signals.append((self._clock.now, signal))
        if self._gone:
            return False
        if signal in self._on_signal:
            self._timeline = _counted_from(self._clock.now, self._on_signal[signal])
            self._next = next(self._timeline, None)
        return True

    def close(self) -> None:
        self.closed += 1

    def write_stdin(self, data: bytes) -> None:
        self.written.append(data)

    def close_stdin(self) -> None:
        self.stdin_closed += 1


def _counted_from(start: float, timeline: Iterable[tuple[float, Piece]]) -> Iterator[tuple[float, Piece]]:
    return ((start + seconds, piece) for seconds, piece in timeline)


def out(text: str | bytes) -> OutputChunk:
    """Return a chunk of standard output."""
    return OutputChunk(OutputStream.STDOUT, text.encode() if isinstance(text, str) else text)


def err(text: str | bytes) -> OutputChunk:
    """Return a chunk of standard error."""
    return OutputChunk(OutputStream.STDERR, text.encode() if isinstance(text, str) else text)


def ended(exit_code: int | None = 0, **fields: object) -> ProcessExit:
    """Return an exit."""
    return ProcessExit(exit_code=exit_code, **fields)  # type: ignore[arg-type] # fields of several types
