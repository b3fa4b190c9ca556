from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
    SandboxProtocolError,
    SandboxSessionLostError,
    SandboxTimeoutError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxResult, TerminalSize
from ai4j_sandbox.process import ProcessContext, SandboxProcess
from ai4j_sandbox_wire.connect import Codec
from ai4j_sandbox_wire.envd import Selector, StartRequest
from ai4j_sandbox_wire.process_channel import Diagnose, Launch, follow, launch, no_diagnosis
from ai4j_sandbox_wire.process_tree import marker
from support.envd_stub import END_OF_STREAM, EXITED, KILLED, START, EnvdStub, failure, output
from support.http_stub import Ending, Reply

SOON = 5.0


def start(
    stub: EnvdStub,
    command: SandboxCommand | None = None,
    *,
    diagnose: Diagnose = no_diagnosis,
    codec: Codec = Codec.JSON,
) -> SandboxProcess:
    """Start a command as a session does."""
    command = command or SandboxCommand(command="true", command_id="c-1")
    deadline = Deadline.after_millis(command.timeout_millis)
    program, *arguments = command.argv()
    launching = Launch(
        request=StartRequest(program=program, arguments=tuple(arguments), terminal=command.terminal),
        command_id=command.command_id,
        stdin=command.stdin_bytes,
        keep_stdin_open=command.keep_stdin_open,
        timeout_millis=command.timeout_millis,
        diagnose=diagnose,
    )
    channel = launch(stub.client(codec=codec), launching, deadline)
    return SandboxProcess(command, channel, ProcessContext(), deadline)


def run(stub: EnvdStub, **fields: Any) -> SandboxResult:
    return start(stub, SandboxCommand(command="true", command_id="c-1", **fields)).wait()


def sent(stub: EnvdStub) -> dict[str, Any]:
    """The one Start request, as JSON."""
    (request,) = stub.starts
    document: dict[str, Any] = json.loads(request.body[5:])
    return document


def test_output_and_exit_code_arrive() -> None:
    with EnvdStub(START, output(b"out"), output(b"err", "stderr"), EXITED, END_OF_STREAM) as stub:
        result = run(stub)

    assert (result.exit_code, result.stdout, result.stderr, result.timed_out) == (0, "out", "err", False)


def test_start_request_carries_tag_marker_and_headers() -> None:
    with EnvdStub(START, EXITED, END_OF_STREAM) as stub:
        run(stub, timeout_millis=5000)

    assert sent(stub) == {
        "process": {"cmd": "/bin/sh", "args": ["-c", "true"], "envs": {"AI4J_COMMAND": marker("c-1")}},
        "tag": "c-1",
        "stdin": False,
    }
    headers = stub.starts[0].headers
    assert headers["connect-timeout-ms"] == "5000"
    assert headers["keepalive-ping-interval"] == "30"
    assert headers["content-type"] == "application/connect+json"


def test_no_timeout_sends_no_timeout_header() -> None:
    """Case C01."""
    with EnvdStub(START, EXITED, END_OF_STREAM) as stub:
        run(stub)

    assert "connect-timeout-ms" not in stub.starts[0].headers


def test_commands_share_connections() -> None:
    with EnvdStub(*[START, EXITED, END_OF_STREAM] * 12) as stub:
        client = stub.client()
        for number in range(12):
            launching = Launch(request=StartRequest(program="true"), command_id=str(number))
            command = SandboxCommand(command="true")
            SandboxProcess(command, launch(client, launching, Deadline(SOON)), ProcessContext()).wait()

        # Not always one: a command may end before the last bytes of the one before have come.
        assert stub.http.connections < 6


def test_end_event_is_the_end_whatever_the_trailer_says() -> None:
    with EnvdStub(START, output(b"x"), EXITED, failure("deadline_exceeded")) as stub:
        result = run(stub)

    assert (result.exit_code, result.stdout, result.timed_out) == (0, "x", False)


def test_exit_is_known_before_the_stream_ends() -> None:
    with EnvdStub(START, EXITED) as stub:
        began = time.monotonic()
        assert run(stub).exit_code == 0

        assert time.monotonic() - began < 2


# --- streams that break -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET, Ending.KEEP])
def test_stream_without_an_end_is_outcome_unknown_with_what_had_arrived(ending: Ending) -> None:
    """Case D01."""
    broken = EnvdStub(START, output(b"partial"), ending)
    with broken as stub, pytest.raises(SandboxOutcomeUnknownError, match="end never arrived") as caught:
        run(stub)

    assert caught.value.result is not None
    assert (caught.value.result.stdout, caught.value.result.exit_code) == ("partial", None)


@pytest.mark.parametrize("trailer", [END_OF_STREAM, failure("unavailable"), failure("canceled"), failure("internal")])
def test_stream_that_ends_in_order_without_an_exit_is_outcome_unknown(trailer: bytes) -> None:
    with EnvdStub(START, output(b"partial"), trailer) as stub, pytest.raises(SandboxOutcomeUnknownError) as caught:
        run(stub)

    assert caught.value.result is not None
    assert caught.value.result.stdout == "partial"


@pytest.mark.parametrize("piece", [Ending.CUT, failure("unavailable", "no upstream"), failure("canceled")])
def test_provider_diagnoses_a_broken_stream(piece: bytes | Ending) -> None:
    causes: list[SandboxException] = []

    def diagnose(cause: SandboxException) -> SandboxException:
        causes.append(cause)
        return SandboxSessionLostError("the sandbox is gone")

    with EnvdStub(START, piece) as stub, pytest.raises(SandboxSessionLostError, match="gone"):
        start(stub, diagnose=diagnose).wait()

    assert len(causes) == 1
    assert isinstance(causes[0], SandboxConnectionError)


def test_garbage_is_a_protocol_error_and_what_came_before_is_kept() -> None:
    with EnvdStub(START, output(b"good") + b"\0\0\0\0\3{]}") as stub:
        process = start(stub)
        first = next(process.output())

        with pytest.raises(SandboxProtocolError):
            process.wait()
    assert first.data == b"good"


def test_failure_before_the_start_is_an_error_of_the_start() -> None:
    refused = EnvdStub(failure("unauthenticated", "invalid username: 'x'"))
    with refused as stub, pytest.raises(SandboxAuthError, match="invalid username") as caught:
        start(stub)

    assert caught.value.outcome is Outcome.NOT_STARTED


def test_unavailable_before_the_start_is_diagnosed() -> None:
    """Case D25: 200 with nothing but an error."""
    with (
        EnvdStub(failure("unavailable", "no upstream")) as stub,
        pytest.raises(SandboxConnectionError, match="no upst"),
    ):
        start(stub)
    with EnvdStub(failure("unavailable")) as stub, pytest.raises(SandboxSessionLostError):
        start(stub, diagnose=lambda cause: SandboxSessionLostError("gone"))


def test_missing_working_directory_is_not_found() -> None:
    refused = EnvdStub(failure("invalid_argument", "cwd '/nope' does not exist"))
    with refused as stub, pytest.raises(SandboxNotFoundError, match="working directory does not exist") as caught:
        start(stub)

    assert caught.value.outcome is Outcome.NOT_STARTED


def test_connection_that_breaks_before_any_answer_is_outcome_unknown_and_sent_once() -> None:
    with EnvdStub() as stub:
        stub.refusals["Start"] = Reply(raw=b"", ending=Ending.CUT)
        with pytest.raises(SandboxOutcomeUnknownError):
            start(stub)

        assert len(stub.http.requests) == 1


def test_start_that_is_not_confirmed_in_time_is_a_timeout_error() -> None:
    with EnvdStub() as stub, pytest.raises(SandboxTimeoutError, match="not confirmed"):
        start(stub)


# --- time ---------------------------------------------------------------------------------------------------------


def test_deadline_that_the_service_enforces_is_a_timed_out_result_and_the_tree_is_killed() -> None:
    """Case C07."""
    with EnvdStub(START, output(b"a\n"), failure("deadline_exceeded", "context deadline exceeded")) as stub:
        result = run(stub, timeout_millis=4000)

    assert (result.timed_out, result.exit_code, result.stdout) == (True, None, "a\n")
    assert stub.kills == [[f"AI4J_COMMAND={marker('c-1')}", "KILL", ""]]


def test_silent_command_is_timed_out_by_us_and_its_tree_killed() -> None:
    """Case C08."""
    with EnvdStub(START, output(b"a\n")) as stub:
        began = time.monotonic()
        result = run(stub, timeout_millis=300)

        assert time.monotonic() - began < 1.5
    assert (result.timed_out, result.exit_code, result.signal, result.stdout) == (True, 137, "SIGKILL", "a\n")
    mark = f"AI4J_COMMAND={marker('c-1')}"
    assert stub.kills == [[mark, "TERM", "7"], [mark, "KILL", ""]]


def test_command_that_never_stops_talking_is_timed_out() -> None:
    """Case C04."""
    stop = threading.Event()
    with EnvdStub(START) as stub:

        def talk() -> None:
            while not stop.wait(0.05):
                stub.say(output(b"x"))

        talker = threading.Thread(target=talk)
        talker.start()
        began = time.monotonic()
        result = run(stub, timeout_millis=500)
        stop.set()
        talker.join()

        assert time.monotonic() - began < 1.5
    assert result.timed_out
    assert result.stdout.startswith("xxx")


def test_service_that_never_answers_is_timed_out() -> None:
    """Case C05."""
    with EnvdStub() as stub:
        stub.refusals["Start"] = Reply(ending=Ending.SILENCE)
        began = time.monotonic()
        result = run(stub, timeout_millis=300)

        assert time.monotonic() - began < 1.3
    assert (result.timed_out, result.exit_code) == (True, None)


def test_start_event_that_never_comes_is_timed_out() -> None:
    with EnvdStub() as stub:
        result = run(stub, timeout_millis=200)

    assert result.timed_out
    assert stub.kills[0] == [f"AI4J_COMMAND={marker('c-1')}", "TERM", ""]


def test_cancel_kills_the_tree_and_then_what_ignored_the_first_signal() -> None:
    with EnvdStub(START, output(b"x")) as stub:
        process = start(stub)
        next(process.output())
        assert process.cancel()

    assert process.wait().canceled
    assert [arguments[1:] for arguments in stub.kills] == [["TERM", "7"], ["KILL", ""]]


def test_command_that_survives_is_left_after_two_graces() -> None:
    with EnvdStub(START, ends_when_killed=False) as stub:
        began = time.monotonic()
        result = run(stub, timeout_millis=200)

        assert time.monotonic() - began < 4
    assert (result.timed_out, result.exit_code) == (True, None)
    assert [arguments[1] for arguments in stub.kills] == ["TERM", "KILL"]


def test_kill_falls_back_to_the_one_process_where_there_is_no_shell() -> None:
    with EnvdStub(START) as stub:
        process = start(stub)
        stub.kill_exit = 127
        assert process.kill("SIGTERM")

        assert stub.calls == [("SendSignal", {"process": {"pid": 7}, "signal": "SIGNAL_SIGTERM"})]
        stub.say(KILLED)
        assert process.wait().exit_code == 137


# --- input --------------------------------------------------------------------------------------------------------


def test_known_input_is_sent_whole_and_closed() -> None:
    with EnvdStub(START) as stub:
        process = start(stub, SandboxCommand(command="cat", stdin=b"\0x\n" * 300_000))
        assert stub.input_closed.wait(SOON)
        stub.say(EXITED)
        process.wait()

    assert bytes(stub.input) == b"\0x\n" * 300_000
    assert sent(stub)["stdin"] is True


def test_ten_megabytes_that_are_echoed_meanwhile_do_not_block() -> None:
    """A command that writes while it reads: if we only fed, or only read, both would wait for ever."""
    with EnvdStub(START) as stub:
        echoed = threading.Thread(target=_echo, args=(stub, 10_000_000))
        echoed.start()
        result = run(stub, stdin=b"x" * 10_000_000, output_limit_bytes=20_000_000)
        echoed.join(SOON)

    assert (result.exit_code, result.stdout_total_bytes) == (0, 10_000_000)


def _echo(stub: EnvdStub, size: int) -> None:
    told = 0
    while told < size:
        time.sleep(0.001)
        new = len(stub.input) - told
        if new:
            stub.say(output(b"x" * new))
            told += new
    stub.say(EXITED)


@pytest.mark.parametrize("status", [404, 500])
def test_command_that_does_not_read_its_input_is_no_error(status: int) -> None:
    """Case E09: it may exit, or close its input, before it has read all."""
    with EnvdStub(START) as stub:
        stub.refusals["SendInput"] = Reply(status=status, body=b'{"code":"internal","message":"broken pipe"}')
        process = start(stub, SandboxCommand(command="true", stdin=b"x"))
        stub.say(EXITED)

        assert process.wait().exit_code == 0


def test_input_that_cannot_be_delivered_is_an_error_and_ends_the_command() -> None:
    with EnvdStub(START, ends_when_killed=False) as stub:
        stub.refusals["SendInput"] = Reply(status=502)
        with pytest.raises(SandboxConnectionError):
            run(stub, stdin=b"x")

        assert [arguments[1] for arguments in stub.kills] == ["KILL"]


def test_open_input_takes_more_after_the_known_one() -> None:
    with EnvdStub(START) as stub:
        process = start(stub, SandboxCommand(command="cat", stdin="a", keep_stdin_open=True))
        process.write_stdin("b")
        assert not stub.input_closed.is_set()
        process.close_stdin()
        process.close_stdin()
        with pytest.raises(SandboxException, match="no open stdin"):
            process.write_stdin("c")
        stub.say(EXITED)
        process.wait()

    assert bytes(stub.input) == b"ab"
    assert [name for name, _ in stub.calls] == ["SendInput", "SendInput", "CloseStdin"]


def test_input_that_was_not_kept_open_is_refused() -> None:
    with EnvdStub(START, EXITED) as stub:
        process = start(stub)
        with pytest.raises(SandboxException, match="keep_stdin_open"):
            process.write_stdin(b"x")
        process.wait()


def test_terminal_gets_its_size_input_and_end() -> None:
    with EnvdStub(START, output(b"$ ", "pty")) as stub:
        command = SandboxCommand(command="bash", stdin="ls\n", keep_stdin_open=True, terminal=TerminalSize())
        process = start(stub, command)
        process.resize(TerminalSize(rows=30, columns=100))
        process.close_stdin()
        stub.say(EXITED)
        result = process.wait()

    assert result.stdout == "$ "
    assert sent(stub)["pty"] == {"size": {"cols": 80, "rows": 24}}
    assert "stdin" not in sent(stub)
    assert bytes(stub.input) == b"ls\n\4\4"
    assert ("Update", {"process": {"pid": 7}, "pty": {"size": {"cols": 100, "rows": 30}}}) in stub.calls


def test_resize_without_a_terminal_is_refused() -> None:
    with EnvdStub(START, EXITED) as stub:
        process = start(stub)
        with pytest.raises(SandboxException, match="no terminal"):
            process.resize(TerminalSize())
        process.wait()


# --- the rest -----------------------------------------------------------------------------------------------------


def test_running_command_is_followed_by_its_tag() -> None:
    with EnvdStub(START, output(b"later"), EXITED, END_OF_STREAM) as stub:
        launching = Launch(request=StartRequest(program="sh"), command_id="c-1", keep_stdin_open=True)
        channel = follow(stub.client(), Selector("c-1"), launching, Deadline(SOON))
        process = SandboxProcess(SandboxCommand(command="sh"), channel, ProcessContext())
        process.write_stdin(b"x")

        assert process.wait().stdout == "later"
    assert sent(stub) == {"process": {"tag": "c-1"}}
    assert bytes(stub.input) == b"x"


def test_detached_command_is_let_go_and_not_killed() -> None:
    with EnvdStub(START) as stub:
        process = start(stub)
        process.detach()

        with pytest.raises(SandboxOutcomeUnknownError, match="detached"):
            process.wait()
        assert stub.kills == []


def test_old_envd_is_not_told_about_stdin() -> None:
    with EnvdStub(START, EXITED) as stub:
        launching = Launch(request=StartRequest(program="true"), command_id="c-1")
        launch(stub.client(version="0.2.9"), launching, Deadline(SOON)).close()

    assert "stdin" not in sent(stub)


def test_refused_binary_codec_falls_back_to_json_and_stays_there() -> None:
    refused: list[str] = []

    with EnvdStub(*[START, EXITED, END_OF_STREAM] * 2) as stub:
        answer = stub.http._handler

        def json_only(request: Any) -> Reply:
            kind = request.headers["content-type"]
            if kind == "application/connect+proto":
                refused.append(kind)
                return Reply(status=415, headers={"Accept-Post": "application/connect+json"})
            return answer(request)

        stub.http._handler = json_only
        client = stub.client(codec=Codec.BINARY)
        for number in range(2):
            launch(client, Launch(request=StartRequest(program="true"), command_id=str(number)), Deadline(SOON)).close()

    assert len(refused) == 1
    assert len(stub.starts) == 2


@pytest.mark.parametrize("status", [400, 500, 502, 503])
def test_other_refusals_of_a_start_are_never_sent_again(status: int) -> None:
    with EnvdStub() as stub:
        stub.refusals["Start"] = Reply(status=status)
        with pytest.raises(SandboxException):
            start(stub, codec=Codec.BINARY)

        assert len(stub.http.requests) == 1


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_stream_arrives_in_any_slices(size: int) -> None:
    whole = START + output("é😀".encode()) + EXITED
    with EnvdStub(*pieces(whole, size), END_OF_STREAM) as stub:
        assert run(stub).stdout == "é😀"


def test_stream_cut_at_every_byte_is_never_a_success() -> None:
    whole = START + output(b"x") + EXITED
    for size in range(len(whole)):
        with EnvdStub(whole[:size], Ending.CUT) as stub, pytest.raises(SandboxException) as caught:
            run(stub)
        assert isinstance(caught.value, SandboxOutcomeUnknownError)
