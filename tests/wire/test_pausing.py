from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ai4j_sandbox.errors import SandboxConflictError, SandboxException, SandboxOutcomeUnknownError
from ai4j_sandbox.model import TerminalSize
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit
from ai4j_sandbox_wire.errors import StreamCutError
from ai4j_sandbox_wire.pausing import PausableChannel, PauseGate
from support.scripted_channel import ended, out

Piece = OutputChunk | ProcessExit | SandboxException | None


class PlayedChannel(ProcessChannel):
    """Gives one piece for each `receive`; when there is none left, nothing."""

    def __init__(self, *pieces: Piece) -> None:
        self.pid = 7
        self.pieces = list(pieces)
        self.closed = 0
        self.signals: list[str] = []
        self.written: list[bytes] = []
        self.receive_hook: Callable[[], object] = lambda: None

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        self.receive_hook()
        piece = self.pieces.pop(0) if self.pieces else None
        if isinstance(piece, SandboxException):
            raise piece
        return piece

    def kill(self, signal: str) -> bool:
        self.signals.append(signal)
        return True

    def close(self) -> None:
        self.closed += 1

    def write_stdin(self, data: bytes) -> None:
        self.written.append(data)


def wait_closed(gate: PauseGate) -> None:
    """Return once the gate is closed."""
    deadline = time.monotonic() + 5
    while not gate.closed and time.monotonic() < deadline:
        time.sleep(0.001)


class Sandbox:
    """A channel, a gate, and what is followed after a pause."""

    def __init__(self, *pieces: Piece, afterwards: tuple[Piece, ...] = ()) -> None:
        self.gate = PauseGate()
        self.before = PlayedChannel(*pieces)
        self.after = PlayedChannel(*afterwards)
        self.followed: list[ProcessChannel] = []
        self.killed: list[str] = []
        self.channel = PausableChannel(self.before, self.gate, follow=self._follow, kill=self._kill)

    def pause(self) -> None:
        with self.gate.pausing():
            pass

    def pause_and_resume(self) -> None:
        self.pause()
        self.gate.resumed()

    def cut_by_pausing(self) -> Piece:
        """Pause while somebody who passed the gate before is receiving; return what that one got."""
        entered, gate = threading.Event(), self.gate
        received: list[Piece] = []
        self.before.receive_hook = lambda: (entered.set(), wait_closed(gate))
        receiving = threading.Thread(target=lambda: received.append(self.channel.receive(1)))
        receiving.start()
        assert entered.wait(5)
        self.pause()
        receiving.join(5)
        gate.resumed()
        return received[0]

    def _follow(self, before: ProcessChannel) -> ProcessChannel:
        self.followed.append(before)
        return self.after

    def _kill(self, before: ProcessChannel, signal: str) -> bool:
        self.killed.append(signal)
        return True


CUT = StreamCutError("cut")


def test_without_a_pause_everything_passes() -> None:
    sandbox = Sandbox(out("a"), ended(3))

    assert [sandbox.channel.receive(0), sandbox.channel.receive(0)] == [out("a"), ended(3)]
    sandbox.channel.write_stdin(b"x")
    assert sandbox.channel.kill("SIGTERM")
    sandbox.channel.close()
    assert (sandbox.before.written, sandbox.before.signals, sandbox.before.closed) == ([b"x"], ["SIGTERM"], 1)
    assert sandbox.channel.pid == 7


def test_nothing_is_received_while_paused() -> None:
    sandbox = Sandbox(out("a"))
    sandbox.pause()

    assert sandbox.channel.receive(0.01) is None
    assert sandbox.before.pieces == [out("a")]


@pytest.mark.parametrize(
    "act", [lambda c: c.write_stdin(b"x"), lambda c: c.close_stdin(), lambda c: c.resize(TerminalSize())]
)
def test_paused_command_takes_nothing_and_says_so(act: Callable[[ProcessChannel], None]) -> None:
    sandbox = Sandbox()
    sandbox.pause()

    with pytest.raises(SandboxConflictError, match="paused"):
        act(sandbox.channel)


def test_stream_that_the_pause_cut_is_followed_anew() -> None:
    sandbox = Sandbox(out("a"), CUT, afterwards=(out("b"), ended(0)))
    assert sandbox.channel.receive(0) == out("a")
    with sandbox.gate.pausing():
        pass
    sandbox.gate.resumed()

    assert [sandbox.channel.receive(0), sandbox.channel.receive(0)] == [out("b"), ended(0)]
    assert (sandbox.followed, sandbox.before.closed) == ([sandbox.before], 1)


def test_stream_that_is_cut_while_the_pause_is_under_way_is_followed_anew() -> None:
    sandbox = Sandbox(CUT, afterwards=(out("b"),))

    assert sandbox.cut_by_pausing() is None
    assert sandbox.channel.receive(0) == out("b")


def test_what_had_arrived_before_the_pause_is_not_lost() -> None:
    sandbox = Sandbox(out("a"), out("b"), None, afterwards=(out("c"),))
    sandbox.pause_and_resume()

    assert [sandbox.channel.receive(0) for _ in range(3)] == [out("a"), out("b"), out("c")]


def test_stream_cut_without_a_pause_is_a_failure() -> None:
    with pytest.raises(StreamCutError):
        Sandbox(CUT).channel.receive(0)


def test_channel_closed_by_ourselves_does_not_come_back() -> None:
    sandbox = Sandbox(SandboxOutcomeUnknownError("let go"))
    sandbox.pause()
    sandbox.channel.close()
    sandbox.gate.resumed()

    with pytest.raises(SandboxOutcomeUnknownError):
        sandbox.channel.receive(0)


def test_command_whose_stream_is_gone_can_still_be_killed() -> None:
    sandbox = Sandbox(CUT)
    sandbox.cut_by_pausing()

    assert sandbox.channel.kill("SIGKILL")

    assert (sandbox.killed, sandbox.before.signals) == (["SIGKILL"], [])


def test_pause_that_fails_opens_the_gate_again() -> None:
    gate = PauseGate()

    with pytest.raises(RuntimeError), gate.pausing():
        raise RuntimeError

    assert (gate.closed, gate.pauses) == (False, 0)


def test_second_pause_that_fails_leaves_it_paused() -> None:
    sandbox = Sandbox()
    sandbox.pause()

    with pytest.raises(RuntimeError), sandbox.gate.pausing():
        raise RuntimeError

    assert sandbox.gate.closed
