from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    SandboxConfigError,
    SandboxConnectionError,
    SandboxException,
    SandboxFileError,
    SandboxOutcomeUnknownError,
    SandboxSessionLostError,
)
from ai4j_sandbox.model import (
    SandboxArtifact,
    SandboxCommand,
    SandboxEvent,
    SandboxEventType,
    SandboxResult,
    StreamMode,
    TerminalSize,
)
from ai4j_sandbox.process import (
    KILL_GRACE_SECONDS,
    TERM_GRACE_SECONDS,
    OutputChunk,
    ProcessChannel,
    ProcessContext,
    ProcessExit,
    SandboxProcess,
)
from ai4j_sandbox.redaction import Scrubber, escape_controls
from support.scripted_channel import FakeClock, Piece, ScriptedChannel, ended, err, out

SECRET = "SECRETKEY1234"
DIES_OF_TERM = {"SIGTERM": [(0.01, ended(143, signal="SIGTERM"))]}


class Bench:
    """A clock, a channel and the process that drives it."""

    def __init__(
        self,
        *timeline: tuple[float, Piece],
        endless: Iterator[tuple[float, Piece]] | None = None,
        on_signal: Mapping[str, Any] | None = None,
        gone: bool = False,
        context: Mapping[str, Any] | None = None,
        **command: Any,
    ) -> None:
        self.clock = FakeClock()
        self.channel = ScriptedChannel(self.clock, endless or timeline, on_signal=on_signal, gone=gone)
        self.ended: list[SandboxProcess] = []
        self.process = SandboxProcess(
            SandboxCommand(**{"command": "true", "command_id": "c", **command}),
            self.channel,
            ProcessContext(
                session_id="s", provider_id="p", clock=self.clock, ended=self.ended.append, **(context or {})
            ),
        )

    @property
    def elapsed(self) -> float:
        return round(self.clock.now - 1000.0, 3)


def test_result_holds_what_arrived() -> None:
    bench = Bench((0.1, out("a")), (0.2, err("e")), (0.3, out("b")), (0.5, ended(3, status_text="exit status 3")))

    result = bench.process.wait()

    assert result == SandboxResult(
        command_id="c",
        exit_code=3,
        stdout="ab",
        stderr="e",
        duration_millis=500,
        events=result.events,
        status_text="exit status 3",
    )
    assert [(event.type, event.message, event.sequence) for event in result.events] == [
        (SandboxEventType.COMMAND_STARTED, "started", 1),
        (SandboxEventType.COMMAND_FINISHED, "exit code 3, exit status 3", 2),
    ]
    assert bench.ended == [bench.process]
    assert bench.channel.closed == 1


def test_iteration_yields_output_as_it_arrives() -> None:
    bench = Bench((1, out("a")), (2, out("b")), (3, ended()))

    seen = [(bench.elapsed, event.type, event.data, event.offset) for event in bench.process]

    assert seen == [
        (0, SandboxEventType.COMMAND_STARTED, None, None),
        (1, SandboxEventType.COMMAND_OUTPUT, b"a", 0),
        (2, SandboxEventType.COMMAND_OUTPUT, b"b", 1),
        (3, SandboxEventType.COMMAND_FINISHED, None, None),
    ]


def test_the_event_that_ends_a_command_carries_its_exit_code_and_timeout() -> None:
    late = Bench((10, ended()), on_signal={"SIGTERM": [(0, ended(143))]}, timeout_millis=1000)

    ends = [bench.process.wait().events[-1] for bench in (Bench((0, ended(3))), late)]

    assert [(end.exit_code, end.timed_out) for end in ends] == [(3, False), (143, True)]


def test_output_yields_raw_chunks() -> None:
    bench = Bench((0, out(f"raw {SECRET}")), (0, err("e")), (0, ended()), context={"scrubber": Scrubber([SECRET])})

    assert list(bench.process.output()) == [out(f"raw {SECRET}"), err("e")]


def test_waiting_after_iterating_half_way_keeps_everything() -> None:
    bench = Bench((0, out("a")), (0, out("b")), (0, ended()))
    next(bench.process.output())

    assert bench.process.wait().stdout == "ab"


def test_deadline_holds_against_endless_output() -> None:
    dots = ((second / 10, out(".")) for second in count(1))
    bench = Bench(endless=dots, on_signal=DIES_OF_TERM, timeout_millis=2000)

    result = bench.process.wait()

    assert (result.timed_out, result.canceled, result.exit_code, result.signal) == (True, False, 143, "SIGTERM")
    assert len(result.stdout) in (19, 20)
    assert bench.channel.signals == [(1002.0, "SIGTERM")]


def test_deadline_holds_against_silence() -> None:
    bench = Bench(on_signal=DIES_OF_TERM, timeout_millis=500)

    result = bench.process.wait()

    assert result.timed_out
    assert bench.elapsed == 0.51


def test_what_ignores_term_gets_kill() -> None:
    killed = {"SIGKILL": [(0.0, ended(137, signal="SIGKILL"))]}
    bench = Bench(on_signal=killed, timeout_millis=1000)

    result = bench.process.wait()

    assert (result.exit_code, result.timed_out) == (137, True)
    assert bench.channel.signals == [(1001.0, "SIGTERM"), (1001.0 + TERM_GRACE_SECONDS, "SIGKILL")]


def test_what_does_not_even_end_after_kill_is_left() -> None:
    bench = Bench((0.5, out("partial")), timeout_millis=1000)

    result = bench.process.wait()

    assert (result.exit_code, result.timed_out, result.stdout) == (None, True, "partial")
    assert bench.elapsed == 1 + TERM_GRACE_SECONDS + KILL_GRACE_SECONDS
    assert bench.channel.closed == 1


def test_signals_that_cannot_be_sent_do_not_prevent_the_return() -> None:
    class Unreachable(ScriptedChannel):
        def kill(self, signal: str) -> bool:
            raise SandboxConnectionError("no route")

    clock = FakeClock()
    command = SandboxCommand(command="x", timeout_millis=1000)
    process = SandboxProcess(command, Unreachable(clock), ProcessContext(clock=clock))

    result = process.wait()

    assert (result.timed_out, result.exit_code) == (True, None)


def test_exit_zero_after_the_deadline_is_not_zero() -> None:
    bench = Bench(on_signal={"SIGTERM": [(0.1, ended(0))]}, timeout_millis=1000)

    result = bench.process.wait()

    assert (result.timed_out, result.exit_code, result.succeeded) == (True, None, False)


def test_timeout_that_the_service_enforces_counts_as_one() -> None:
    bench = Bench((1, out("a")), (2, ended(0, timed_out=True)))

    result = bench.process.wait()

    assert (result.timed_out, result.exit_code, result.stdout) == (True, None, "a")


def test_exit_that_waited_to_be_looked_at_is_no_timeout() -> None:
    bench = Bench((0.1, out("done")), (0.2, ended(0)), gone=True, timeout_millis=1000)
    bench.clock.now += 60

    result = bench.process.wait()

    assert (result.timed_out, result.exit_code, result.stdout) == (False, 0, "done")


def test_cancel_of_a_command_that_ended_unobserved_is_false() -> None:
    bench = Bench((0.1, out("done")), (0.2, ended(0)), gone=True)

    assert not bench.process.cancel()
    assert bench.process.wait().exit_code == 0


def test_cancel_without_a_waiting_thread_stops_and_keeps_output() -> None:
    bench = Bench((0, out("a")), on_signal={"SIGTERM": [(0, out("b")), (0, ended(143))]})
    next(bench.process.output())

    assert bench.process.cancel()

    result = bench.process.wait()
    assert (result.canceled, result.timed_out, result.stdout, result.exit_code) == (True, False, "ab", 143)
    assert result.events[-1].type is SandboxEventType.COMMAND_CANCELED
    assert result.events[-1].message == "exit code 143, canceled"


def test_cancel_escalates_to_kill() -> None:
    bench = Bench(on_signal={"SIGKILL": [(0, ended(137))]})

    assert bench.process.cancel()

    assert [name for _, name in bench.channel.signals] == ["SIGTERM", "SIGKILL"]
    assert bench.process.wait().canceled


def test_second_cancel_sends_no_second_signal() -> None:
    bench = Bench(on_signal=DIES_OF_TERM)

    assert bench.process.cancel()
    assert not bench.process.cancel()

    assert [name for _, name in bench.channel.signals] == ["SIGTERM"]
    assert bench.process.wait().canceled


def test_cancel_from_another_thread_wakes_the_one_that_waits() -> None:
    channel = BlockingChannel()
    process = SandboxProcess(SandboxCommand(command="x"), channel, ProcessContext())
    results: list[SandboxResult] = []
    waiting = threading.Thread(target=lambda: results.append(process.wait()))
    waiting.start()
    assert channel.receiving.wait(5)

    canceled = process.cancel()
    waiting.join(5)

    assert canceled
    assert [(result.canceled, result.exit_code) for result in results] == [(True, 143)]


def test_cancel_leaves_the_last_words_to_the_thread_that_reads_the_output() -> None:
    last_words = [(0.01, out("bye")), (0.02, ended(143, signal="SIGTERM"))]
    bench = Bench((0, out("first")), (9, ended(0)), on_signal={"SIGTERM": last_words})
    canceling = threading.Thread(target=bench.process.cancel)

    read = []
    for chunk in bench.process.output():
        read.append(chunk.data)
        if chunk.data == b"first":
            canceling.start()
            canceling.join(0.1)  # all the time it would need to take what is not its own
    canceling.join(5)

    assert read == [b"first", b"bye"]
    assert bench.process.wait().canceled


def test_cancel_from_an_observer_of_the_same_command() -> None:
    processes: list[SandboxProcess] = []

    def observe(event: SandboxEvent) -> None:
        if event.data == b"stop":
            processes[0].cancel()

    bench = Bench((0, out("stop")), (9, ended(0)), on_signal=DIES_OF_TERM, context={"observer": observe})
    processes.append(bench.process)

    assert bench.process.wait().canceled


def test_cancel_while_artifacts_are_collected_ends_the_collecting_and_says_that_the_command_had_ended() -> None:
    collecting = threading.Event()
    helper = Bench(on_signal={"SIGTERM": [(0, ended(143))]})

    def collect(command: SandboxCommand) -> tuple[SandboxArtifact, ...]:
        bench.process.helped_by(helper.process)
        collecting.set()
        helper.process.wait()
        return ()

    bench = Bench((0, ended()), gone=True, artifacts=["x"], context={"collect_artifacts": collect})
    waiting = threading.Thread(target=bench.process.wait)
    waiting.start()
    collecting.wait(5)

    assert not bench.process.cancel()
    waiting.join(5)
    assert helper.process.wait().canceled
    assert (bench.process.wait().exit_code, bench.process.wait().canceled) == (0, False)


def test_broken_stream_carries_what_had_arrived() -> None:
    bench = Bench((0.1, out("partial")), (0.2, SandboxOutcomeUnknownError("cut")))

    with pytest.raises(SandboxOutcomeUnknownError, match="cut") as caught:
        bench.process.wait()

    error = caught.value
    assert (error.provider_id, error.session_id, error.command_id, error.operation) == ("p", "s", "c", "execute")
    assert error.result is not None
    assert (error.result.stdout, error.result.exit_code, error.result.duration_millis) == ("partial", None, 200)
    assert [event.type for event in error.result.events] == [SandboxEventType.COMMAND_STARTED, SandboxEventType.ERROR]
    with pytest.raises(SandboxOutcomeUnknownError):
        bench.process.wait()


def test_lost_session_is_an_error_of_its_own() -> None:
    bench = Bench((0.1, SandboxSessionLostError("expired")))

    with pytest.raises(SandboxSessionLostError, match="expired"):
        list(bench.process)

    assert bench.ended == [bench.process]


def test_stream_that_breaks_after_the_deadline_is_a_timeout() -> None:
    bench = Bench((0.1, out("a")), on_signal={"SIGTERM": [(0, SandboxOutcomeUnknownError("cut"))]}, timeout_millis=1000)

    result = bench.process.wait()

    assert (result.timed_out, result.exit_code, result.stdout, result.status_text) == (True, None, "a", "cut")


def test_secret_in_a_broken_stream_is_masked() -> None:
    broken = SandboxOutcomeUnknownError(f"refused {SECRET}", hint=f"see {SECRET}")
    bench = Bench((0, broken), context={"scrubber": Scrubber([SECRET])})

    with pytest.raises(SandboxOutcomeUnknownError) as caught:
        bench.process.wait()

    assert SECRET not in f"{caught.value}{vars(caught.value)}{caught.value.result!r}"
    assert SECRET not in repr(caught.value.result and caught.value.result.events)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(1), ZeroDivisionError()])
def test_interrupted_wait_stops_the_command(interrupt: BaseException) -> None:
    bench = Bench((0.1, interrupt))

    with pytest.raises(type(interrupt)):
        bench.process.wait()

    assert [name for _, name in bench.channel.signals] == ["SIGTERM", "SIGKILL"]
    assert bench.channel.closed == 1
    assert bench.ended == [bench.process]


def test_leaving_the_block_cancels_a_running_command() -> None:
    bench = Bench(on_signal=DIES_OF_TERM)

    with bench.process:
        pass

    assert bench.process.wait().canceled


def test_leaving_the_block_after_the_end_does_nothing() -> None:
    bench = Bench((0, ended()))

    with bench.process as process:
        process.wait()

    assert bench.channel.signals == []


def test_session_closing_makes_the_command_canceled_and_the_wait_short() -> None:
    bench = Bench((0, out("a")))
    next(bench.process.output())

    bench.process.session_closing()
    result = bench.process.wait()

    assert (result.canceled, result.exit_code, result.stdout) == (True, None, "a")
    assert bench.elapsed == KILL_GRACE_SECONDS


def test_session_that_closed_under_the_command_is_a_cancellation_not_an_error() -> None:
    bench = Bench((0.1, SandboxSessionLostError("gone")))

    bench.process.session_closing()

    assert bench.process.wait().canceled


def test_session_closing_after_the_end_changes_nothing() -> None:
    bench = Bench((0, ended(0)))
    bench.process.wait()

    bench.process.session_closing()

    assert bench.process.wait().succeeded


def test_detached_command_is_let_go_unharmed() -> None:
    bench = Bench((9, ended()))

    bench.process.detach()

    assert (bench.channel.signals, bench.channel.closed, bench.process.done) == ([], 1, True)
    with pytest.raises(SandboxOutcomeUnknownError, match="detached"):
        bench.process.wait()


def test_signal_is_passed_on_until_the_end() -> None:
    bench = Bench((0, out("x")), (1, ended(0)))

    assert bench.process.kill("SIGUSR1")
    bench.process.wait()
    assert not bench.process.kill("SIGUSR1")

    assert [name for _, name in bench.channel.signals] == ["SIGUSR1"]


def test_stdin_text_is_sent_as_utf8() -> None:
    bench = Bench((0, ended()))

    bench.process.write_stdin("ü")
    bench.process.write_stdin(b"\xff")
    bench.process.close_stdin()

    assert (bench.channel.written, bench.channel.stdin_closed) == ([b"\xc3\xbc", b"\xff"], 1)


def test_output_over_the_limit_is_told_once_for_each_stream() -> None:
    """Case G07."""
    chunks = [(0, out("x" * 100)) for _ in range(50)] + [(0, err("e" * 3000))]
    bench = Bench(*chunks, (0, ended()), output_limit_bytes=2000)

    result = bench.process.wait()

    told = [
        (event.type, event.stream, event.dropped_bytes, event.message) for event in result.events if event.dropped_bytes
    ]
    assert told == [
        (SandboxEventType.COMMAND_OUTPUT, "stdout", 3000, "stdout truncated: 3000 of 5000 bytes dropped"),
        (SandboxEventType.COMMAND_OUTPUT, "stderr", 1000, "stderr truncated: 1000 of 3000 bytes dropped"),
    ]
    assert (result.stdout_total_bytes, len(result.stdout_bytes), result.truncated) == (5000, 2000, True)


def test_events_are_masked_across_pieces_and_the_result_is_not() -> None:
    bench = Bench(
        (0, out("xx SECRET")), (0, out("KEY1234 yy SECRETK")), (0, ended()), context={"scrubber": Scrubber([SECRET])}
    )

    shown = b"".join(event.data for event in bench.process if event.data)

    assert shown == b"xx [redacted] yy SECRETK"
    assert bench.process.wait().stdout == f"xx {SECRET} yy SECRETK"


def test_observer_sees_every_event_also_when_nobody_iterates() -> None:
    seen: list[SandboxEvent] = []
    bench = Bench((0, out("a")), (0, ended()), context={"observer": seen.append})

    bench.process.wait()

    assert [(event.type, event.data) for event in seen] == [
        (SandboxEventType.COMMAND_STARTED, None),
        (SandboxEventType.COMMAND_OUTPUT, b"a"),
        (SandboxEventType.COMMAND_FINISHED, None),
    ]
    assert [event.sequence for event in seen] == [1, 2, 3]


def test_artifacts_are_collected_after_the_exit_and_told() -> None:
    artifact = SandboxArtifact(artifact_id="a", path="/w/report.xml")
    bench = Bench((0, ended(1)), artifacts=["*.xml"], context={"collect_artifacts": lambda command: (artifact,)})

    result = bench.process.wait()

    assert (result.exit_code, result.artifacts) == (1, (artifact,))
    assert [(event.type, event.message) for event in result.events][1:-1] == [
        (SandboxEventType.ARTIFACT_CREATED, "/w/report.xml")
    ]


def test_artifacts_are_not_looked_for_when_none_were_wanted_or_the_command_was_stopped() -> None:
    def refuse(command: SandboxCommand) -> tuple[SandboxArtifact, ...]:
        raise AssertionError("not wanted")

    context = {"collect_artifacts": refuse}

    Bench((0, ended()), context=context).process.wait()
    Bench(on_signal=DIES_OF_TERM, timeout_millis=1, artifacts=["*"], context=context).process.wait()


def test_failure_to_collect_artifacts_does_not_take_the_result_away() -> None:
    def fail(command: SandboxCommand) -> tuple[SandboxArtifact, ...]:
        raise SandboxFileError("no find in this sandbox")

    bench = Bench((0, out("kept")), (0, ended(3)), artifacts=["*"], context={"collect_artifacts": fail})

    result = bench.process.wait()

    assert (result.exit_code, result.stdout, result.artifacts) == (3, "kept", ())
    assert result.artifacts_error == "no find in this sandbox"
    assert [event.message for event in result.events if event.type is SandboxEventType.ERROR] == [
        "artifacts could not be collected: no find in this sandbox"
    ]


def test_interrupt_while_artifacts_are_collected_ends_the_process() -> None:
    def interrupt(command: SandboxCommand) -> tuple[SandboxArtifact, ...]:
        raise KeyboardInterrupt

    bench = Bench((0, ended()), artifacts=["*"], context={"collect_artifacts": interrupt})

    with pytest.raises(KeyboardInterrupt):
        bench.process.wait()

    assert bench.process.done
    assert bench.ended == [bench.process]


@pytest.mark.parametrize(
    ("terminal", "streams", "expected"),
    [
        (None, StreamMode.SEPARATE, StreamMode.SEPARATE),
        (None, StreamMode.MERGED, StreamMode.MERGED),
        (TerminalSize(), StreamMode.SEPARATE, StreamMode.MERGED),
    ],
)
def test_result_says_how_far_its_streams_are_apart(
    terminal: TerminalSize | None, streams: StreamMode, expected: StreamMode
) -> None:
    bench = Bench((0, ended()), terminal=terminal, context={"streams": streams})

    assert bench.process.wait().streams is expected


def test_channel_without_stdin_or_terminal_says_what_to_do() -> None:
    class Mute(ProcessChannel):
        def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
            return ended()

        def kill(self, signal: str) -> bool:
            return False

        def close(self) -> None: ...

    process = SandboxProcess(SandboxCommand(command="x"), Mute(), ProcessContext())

    process.close_stdin()
    with pytest.raises(SandboxException, match="keep_stdin_open=True"):
        process.write_stdin("x")
    with pytest.raises(SandboxException, match=r"terminal=TerminalSize\(\)"):
        process.resize(TerminalSize())


def test_process_says_in_its_repr_whether_it_runs() -> None:
    bench = Bench((0, ended()), environment={"API": SECRET})

    before = repr(bench.process)
    bench.process.wait()

    assert before == "SandboxProcess(command_id='c', pid=None, running)"
    assert repr(bench.process) == "SandboxProcess(command_id='c', pid=None, done)"


class BlockingChannel(ProcessChannel):
    """Delivers nothing until it is killed."""

    def __init__(self) -> None:
        self.receiving = threading.Event()
        self._killed = threading.Event()

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        self.receiving.set()
        return ended(143) if self._killed.wait(timeout) else None

    def kill(self, signal: str) -> bool:
        self._killed.set()
        return True

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda process: process.write_stdin(None), "input must be text or bytes, got NoneType"),
        (lambda process: process.write_stdin("\ud800"), "input holds a lone surrogate"),
        (lambda process: process.kill("x"), "'x' is not the name of a signal"),
        (lambda process: process.kill(9), "9 is not the name of a signal"),
        (lambda process: process.kill("SIG"), "'SIG' is not the name of a signal"),
        (lambda process: process.resize((24, 80)), "size must be a TerminalSize, got list"),
    ],
)
def test_argument_of_the_wrong_type_reaches_no_provider(call: Any, said: str) -> None:
    bench = Bench((0, ended()))

    with pytest.raises(SandboxConfigError, match=said):
        call(bench.process)
    assert bench.channel.signals == []


def test_signal_may_be_given_without_sig() -> None:
    bench = Bench((0, ended()), on_signal={"SIGHUP": []})

    bench.process.kill("HUP")

    assert [name for _, name in bench.channel.signals] == ["SIGHUP"]


def test_output_that_steers_a_terminal_is_kept_in_the_result_and_in_no_message() -> None:
    """Case A12."""
    text = "\x1b]0;owned\a\x1b[31mred\x1b[0m\n"
    bench = Bench((0, out(text)), (0, ended()))

    result = bench.process.wait()

    assert result.stdout == text
    assert [message for event in result.events if (message := event.message or "") != escape_controls(message)] == []


def test_names_of_artifacts_cannot_steer_the_terminal_that_shows_the_events() -> None:
    artifact = SandboxArtifact(artifact_id="a", path="/w/\x1b[2J\a\nfake \udcff.xml")
    bench = Bench((0, ended()), artifacts=["*.xml"], context={"collect_artifacts": lambda command: (artifact,)})

    result = bench.process.wait()

    assert result.artifacts == (artifact,)
    assert [event.message for event in result.events if event.type is SandboxEventType.ARTIFACT_CREATED] == [
        r"/w/\x1b[2J\x07\nfake \udcff.xml"
    ]
