"""One sandbox: how commands are sent, what their streams mean, and what is said when they break."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
    SandboxPausedError,
    SandboxSessionClosedError,
    SandboxSessionLostError,
    SandboxUnreachableError,
    SessionState,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxEventType, SandboxResult, SandboxSpec, SandboxStatus, TerminalSize
from ai4j_sandbox.spi import SandboxSession, SupportsBackground, SupportsPause
from ai4j_sandbox_e2b import E2BSandboxProvider, E2BSandboxSession
from ai4j_sandbox_emulator import Emulator
from ai4j_sandbox_emulator.faults import Answer, Cut, Drip, Ending, Fault, Frames, Stall
from ai4j_sandbox_wire.connect import encode_envelope
from ai4j_sandbox_wire.envd import FileChange
from support.e2b_stub import CREATED, E2BStub, answer, is_kill, stream, unless_kill
from support.e2b_stub import Answer as Answered
from support.envd_stub import END_OF_STREAM, EXITED, KILLED, START, STREAM, event, failure, output
from support.http_stub import Ending as StubEnding
from support.http_stub import Recorded, Reply

START_PATH = "/process.Process/Start"
START_CALL = f"POST {START_PATH}"


@pytest.fixture
def session(provider: E2BSandboxProvider) -> Iterator[E2BSandboxSession]:
    """Give a live session at the emulator."""
    with provider.create_session() as session:
        assert isinstance(session, E2BSandboxSession)
        yield session


def run(session: SandboxSession, command: str | list[str], **options: Any) -> SandboxResult:
    return session.execute(SandboxCommand(command=command, **options))


def played(reply: Reply, command: SandboxCommand | None = None, **config: Any) -> SandboxResult:
    """What a command comes to whose Start is answered with `reply`."""
    with (
        E2BStub({START_CALL: unless_kill(reply)}) as stub,
        stub.provider().create_session(SandboxSpec(config=config)) as session,
    ):
        return session.execute(command or SandboxCommand(command="true"))


def started(stub: E2BStub, **config: Any) -> SandboxSession:
    return stub.provider().create_session(SandboxSpec(config=config))


# --- how a command is sent ----------------------------------------------------------------------------------------


def test_whole_life_of_a_session() -> None:  # H21, H26, H27
    frames = stream(START, output(b"ai4j-"), output(b"ok"), output(b"warn", "stderr"), EXITED, END_OF_STREAM)
    with E2BStub({START_CALL: frames}) as stub:
        session = stub.provider().create_session(SandboxSpec(config={"templateID": "base", "secure": False}))
        command = SandboxCommand(command="echo $CI", working_directory="/w", environment={"CI": "true"})
        result = session.execute(command)
        session.close()

    assert (result.exit_code, result.stdout, result.stderr, len(result.events)) == (0, "ai4j-ok", "warn", 2)
    assert session.status is SandboxStatus.CLOSED
    assert stub.asked == ["POST /sandboxes", START_CALL, "DELETE /sandboxes/sid123"]
    (request,) = stub.requests(START_CALL)
    assert request.headers["content-type"] == "application/connect+json"
    assert request.headers["connect-protocol-version"] == "1"
    assert request.headers["authorization"] == "Bearer unit-key"
    assert (request.headers["e2b-sandbox-id"], request.headers["e2b-sandbox-port"]) == ("sid123", "49983")
    assert "x-api-key" not in request.headers
    assert request.body[:5] == b"\0" + len(request.body[5:]).to_bytes(4)
    (start,) = stub.starts()
    assert (start["process"]["cmd"], start["process"]["args"]) == ("sh", ["-c", "echo $CI"])
    assert (start["process"]["cwd"], start["process"]["envs"]["CI"], start["stdin"]) == ("/w", "true", False)


def test_token_of_the_sandbox_is_used_and_the_key_stays_away() -> None:
    created = answer({**CREATED, "envdAccessToken": "envd-token"}, 201)
    with E2BStub({"POST /sandboxes": created}) as stub, started(stub) as session:
        run(session, "true")

    (request,) = stub.requests(START_CALL)
    assert (request.headers["x-access-token"], request.headers["authorization"]) == ("envd-token", "Bearer envd-token")
    assert "unit-key" not in str(request.headers)


def test_linux_user_is_named_as_envd_wants_it() -> None:
    with E2BStub() as stub, started(stub, user="root") as session:
        run(session, "true")

    assert stub.requests(START_CALL)[0].headers["authorization"] == "Basic cm9vdDo="


def test_old_envd_is_told_the_usual_user() -> None:
    with (
        E2BStub({"POST /sandboxes": answer({**CREATED, "envdVersion": "0.3.9"}, 201)}) as stub,
        started(stub) as session,
    ):
        run(session, "true")

    assert stub.requests(START_CALL)[0].headers["authorization"] == "Basic dXNlcjo="


@pytest.mark.parametrize(
    ("command", "use_shell_wrap", "arguments"),
    [
        ("echo 'a b' | cat", True, ["sh", "-c", "echo 'a b' | cat"]),
        ("echo a\\ ", True, ["sh", "-c", "echo a\\ "]),  # I-14
        ("echo 'a b'", False, ["echo", "'a", "b'"]),  # F17: blanks split, as the contract says
        (["git", "commit", "-m", "a b"], True, ["git", "commit", "-m", "a b"]),
        (["git", "commit", "-m", "a b"], False, ["git", "commit", "-m", "a b"]),
    ],
)
def test_command_becomes_program_and_arguments(command: Any, use_shell_wrap: bool, arguments: list[str]) -> None:
    with E2BStub() as stub, started(stub, useShellWrap=use_shell_wrap) as session:
        run(session, command)

    (start,) = stub.starts()
    assert [start["process"]["cmd"], *start["process"]["args"]] == arguments


def test_split_line_takes_no_stdin_and_says_so() -> None:  # E12, I-9
    with (
        E2BStub() as stub,
        started(stub, useShellWrap=False) as session,
        pytest.raises(UnsupportedCapabilityError, match="useShellWrap"),
    ):
        run(session, "cat", stdin="x")

    assert stub.starts() == []


def test_argument_list_takes_stdin_without_the_shell(provider: E2BSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(config={"useShellWrap": False})) as session:
        assert run(session, ["cat"], stdin="x").stdout == "x"


def test_envd_is_told_a_limit_only_when_there_is_one() -> None:  # C01, I-17
    with E2BStub() as stub, started(stub) as session:
        run(session, "true")
        run(session, "true", timeout_millis=2000)

    told = [request.headers.get("connect-timeout-ms") for request in stub.requests(START_CALL)]
    assert told == [None, "3500"]  # ours comes first, and is polite


def test_command_that_nobody_answers_is_sent_once_and_times_out() -> None:  # N03, K12
    with E2BStub({START_CALL: unless_kill(Reply(ending=StubEnding.SILENCE))}) as stub, started(stub) as session:
        began = time.monotonic()
        result = run(session, "true", timeout_millis=400)

    assert (result.timed_out, result.exit_code) == (True, None)
    assert time.monotonic() - began < 3
    assert len(stub.starts()) == 1


# --- what a stream means ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "exit_code", "signal"),
    [
        ({"exited": True, "status": "exit status 0"}, 0, None),  # B01, H29
        ({"exitCode": 0, "exited": True, "status": "exited"}, 0, None),  # B02
        ({"exited": True}, 0, None),  # I-5
        ({"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}, 3, None),  # B03
        ({"exitCode": 7, "exited": True}, 7, None),  # B09, H26
        ({"exit_code": 7, "exited": True}, 7, None),
        ({"exitCode": -1, "status": "signal: killed", "error": "signal: killed"}, 137, "SIGKILL"),  # B04, I-4
        ({"error": "fork/exec: no such file"}, None, None),  # I-6
    ],
)
def test_end_of_a_command(end: dict[str, Any], exit_code: int | None, signal: str | None) -> None:  # K2
    result = played(stream(START, output(b"hi"), event(end=end), END_OF_STREAM))

    assert (result.exit_code, result.signal, result.stdout) == (exit_code, signal, "hi")
    assert not result.timed_out
    assert result.status_text == (end.get("status") or end.get("error"))


def test_both_streams_of_a_failure_are_kept() -> None:  # B10
    frames = (
        START,
        output(b"partial"),
        output(b"job's not done\n", "stderr"),
        event(end={"exitCode": 1, "exited": True}),
    )

    result = played(stream(*frames, END_OF_STREAM))

    assert (result.exit_code, result.timed_out, result.stdout, result.stderr) == (
        1,
        False,
        "partial",
        "job's not done\n",
    )


def test_deadline_that_the_service_keeps_is_a_timeout() -> None:  # C07
    result = played(stream(START, output(b"a\n"), failure("deadline_exceeded", "context deadline exceeded")))

    assert (result.timed_out, result.stdout, result.exit_code) == (True, "a\n", None)


def test_exit_counts_whatever_the_stream_says_afterwards() -> None:  # I-7
    assert played(stream(START, EXITED, failure("deadline_exceeded"))).exit_code == 0


def test_silence_after_output_is_a_timeout_that_keeps_it() -> None:  # C08, K5
    reply = Reply(headers=STREAM, body=[START + output(b"a\n")], chunked=True, ending=StubEnding.STALL)

    result = played(reply, SandboxCommand(command="true", timeout_millis=400))

    assert (result.timed_out, result.stdout, result.exit_code) == (True, "a\n", None)


def test_timeout_and_cancel_send_a_kill_for_the_whole_tree() -> None:  # K5, K6, I-20
    reply = Reply(headers=STREAM, body=[START], chunked=True, ending=StubEnding.STALL)
    with E2BStub({START_CALL: unless_kill(reply)}) as stub, started(stub) as session:
        assert run(session, "true", timeout_millis=300).timed_out
        process = session.start(SandboxCommand(command="true"))
        threading.Timer(0.2, process.cancel).start()
        result = process.wait()

    assert (result.canceled, result.events[-1].type) == (True, SandboxEventType.COMMAND_CANCELED)
    signals = [item["process"]["args"][4] for item in map(_started, stub.requests(START_CALL)) if _is_kill(item)]
    assert signals == ["TERM", "KILL", "TERM", "KILL"]


def _started(request: Any) -> dict[str, Any]:
    return json.loads(request.body[5:])


def _is_kill(item: dict[str, Any]) -> bool:
    return "ai4j-kill" in item["process"]["args"]


# --- a stream that breaks -----------------------------------------------------------------------------------------


def cut_at(emulator: Emulator, session: SandboxSession, position: int, how: Ending) -> SandboxException | None:
    """What a command says whose stream is cut there; ``None`` when its result is whole all the same."""
    emulator.faults.add(Fault(effect=Cut(after=position, how=how), path=START_PATH))
    try:
        result = run(session, "printf hi; printf no >&2; exit 3")
    except SandboxException as error:
        return error
    assert (result.exit_code, result.stdout, result.stderr) == (3, "hi", "no")
    return None


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_stream_cut_at_any_byte_is_never_a_success_before_its_end(  # K1, I-1
    emulator: Emulator, session: E2BSandboxSession, how: Ending
) -> None:
    said = [cut_at(emulator, session, position, how) for position in range(300)]

    errors = [error for error in said if error is not None]
    assert {type(error) for error in errors} == {SandboxOutcomeUnknownError}
    assert {error.session_state for error in errors} == {SessionState.INTACT}
    assert len(errors) > 100
    assert said[-1] is None
    # What was sent in good order counts from the end event on; a reset may take away what had been sent before it.
    assert how == "rst" or said.index(None) == len(errors)
    assert run(session, "echo alive").stdout == "alive\n"


@pytest.mark.parametrize("frames", [(START, output(b"x")), (START,), ()], ids=["output", "started", "nothing"])
def test_failure_at_the_end_of_a_stream_is_told_in_its_words(frames: tuple[bytes, ...]) -> None:  # H28, I-6
    with pytest.raises(SandboxException, match="the disk is full") as caught:
        played(stream(*frames, failure("internal", "the disk is full")))

    assert (caught.value.outcome == "not_started") == (not frames)


def test_cut_stream_keeps_what_had_arrived() -> None:
    reply = Reply(headers=STREAM, body=[START + output(b"half")], chunked=True, ending=StubEnding.CUT)
    with (
        E2BStub({START_CALL: reply}) as stub,
        started(stub) as session,
        pytest.raises(SandboxOutcomeUnknownError, match="sandbox runs") as caught,
    ):
        run(session, "true", command_id="c-1")

    assert caught.value.result is not None
    assert (caught.value.result.stdout, caught.value.result.exit_code) == ("half", None)
    assert (caught.value.command_id, caught.value.session_id, caught.value.provider_id) == ("c-1", "sid123", "e2b")


CUT = Reply(headers=STREAM, body=[START], chunked=True, ending=StubEnding.CUT)
GONE_AT_THE_EDGE = answer({"sandboxId": "sid123", "message": "The sandbox was not found", "code": 502}, 502)


@pytest.mark.parametrize(
    ("health", "control", "kind", "state", "says"),
    [
        (Reply(status=204), answer({}, 500), SandboxOutcomeUnknownError, SessionState.INTACT, "attach"),
        (GONE_AT_THE_EDGE, answer({"code": 404}, 404), SandboxSessionLostError, SessionState.LOST, "gone"),
        (
            GONE_AT_THE_EDGE,
            answer({**CREATED, "state": "paused"}),
            SandboxPausedError,
            SessionState.INTACT,
            "paused",
        ),
        (
            answer({}, 500),
            answer({**CREATED, "state": "running"}),
            SandboxUnreachableError,
            SessionState.UNKNOWN,
            "runs but cannot be reached",
        ),
        (
            answer({}, 500),
            answer({"code": 401}, 401),
            SandboxOutcomeUnknownError,
            SessionState.UNKNOWN,
            "does not answer either",
        ),
    ],
    ids=["alive", "gone", "paused", "unreachable", "unknown"],
)
@pytest.mark.parametrize("broken", [CUT, stream(START, failure("unavailable", "edge")), stream(START, END_OF_STREAM)])
def test_broken_stream_is_looked_into(
    broken: Reply, health: Reply, control: Reply, kind: type[SandboxException], state: SessionState, says: str
) -> None:
    answers = {START_CALL: broken, "GET /health": health, "GET /sandboxes/sid123": control}
    with E2BStub(answers) as stub, started(stub) as session, pytest.raises(kind, match=says) as caught:
        run(session, "true")

    assert type(caught.value) is kind
    assert (caught.value.session_state, caught.value.retryable) == (state, False)


WATCH_BEGUN = encode_envelope(b'{"start":{}}')


def watched(session: SandboxSession) -> object:
    assert isinstance(session, E2BSandboxSession)
    with session.watch("/") as watch:
        return list(watch)


def test_attached_command_whose_stream_breaks_is_looked_into() -> None:
    running = {"processes": [{"config": {"cmd": "sleep", "args": ["9"]}, "pid": 7, "tag": "c-1"}]}
    answers = {
        "POST /process.Process/List": answer(running),
        "POST /process.Process/Connect": CUT,
        "GET /health": GONE_AT_THE_EDGE,
        "GET /sandboxes/sid123": answer({**CREATED, "state": "paused"}),
    }
    with (
        E2BStub(answers) as stub,
        started(stub) as session,
        session.require(SupportsBackground).attach("c-1") as process,
        pytest.raises(SandboxPausedError),
    ):
        process.wait()


BROKEN_CALLS: dict[str, tuple[str, Reply, Callable[[SandboxSession], object]]] = {
    "watch, cut": (
        "POST /filesystem.Filesystem/WatchDir",
        Reply(headers=STREAM, body=[WATCH_BEGUN], chunked=True, ending=StubEnding.CUT),
        watched,
    ),
    "watch, ended by the edge": (
        "POST /filesystem.Filesystem/WatchDir",
        stream(WATCH_BEGUN, failure("unavailable", "edge")),
        watched,
    ),
    "watch, ended without a reason": (
        "POST /filesystem.Filesystem/WatchDir",
        stream(WATCH_BEGUN, END_OF_STREAM),
        watched,
    ),
    "watch, cut before it began": (
        "POST /filesystem.Filesystem/WatchDir",
        Reply(headers=STREAM, body=[], chunked=True, ending=StubEnding.CUT),
        watched,
    ),
    "read": (
        "GET /files",
        Reply(headers={"Content-Type": "text/plain"}, body=[b"half"], chunked=True, ending=StubEnding.CUT),
        lambda session: session.files.read("/a"),
    ),
    "list": (
        "POST /filesystem.Filesystem/ListDir",
        Reply(headers={"Content-Type": "application/json"}, body=[b"{"], chunked=True, ending=StubEnding.CUT),
        lambda session: session.files.list("/a"),
    ),
}


@pytest.mark.parametrize(
    ("health", "control", "kind", "state", "says"),
    [
        (Reply(status=204), answer({}, 500), SandboxConnectionError, SessionState.INTACT, None),
        (GONE_AT_THE_EDGE, answer({"code": 404}, 404), SandboxSessionLostError, SessionState.LOST, "gone"),
        (GONE_AT_THE_EDGE, answer({**CREATED, "state": "paused"}), SandboxPausedError, SessionState.INTACT, "paused"),
        (
            answer({}, 500),
            answer({**CREATED, "state": "running"}),
            SandboxUnreachableError,
            SessionState.UNKNOWN,
            "runs but cannot be reached",
        ),
        (answer({}, 500), answer({"code": 401}, 401), SandboxConnectionError, SessionState.UNKNOWN, None),
    ],
    ids=["alive", "gone", "paused", "unreachable", "unknown"],
)
@pytest.mark.parametrize(("path", "broken", "call"), BROKEN_CALLS.values(), ids=BROKEN_CALLS)
def test_answer_that_breaks_is_looked_into_as_a_commands_is(
    path: str,
    broken: Reply,
    call: Callable[[SandboxSession], object],
    health: Reply,
    control: Reply,
    kind: type[SandboxException],
    state: SessionState,
    says: str | None,
) -> None:
    answers = {path: broken, "GET /health": health, "GET /sandboxes/sid123": control}
    with E2BStub(answers) as stub, started(stub) as session:
        with pytest.raises(kind, match=says) as caught:
            call(session)

        assert (caught.value.session_state, caught.value.session_id) == (state, "sid123")
        assert (session.status is SandboxStatus.FAILED) == (state is SessionState.LOST)


@pytest.mark.parametrize(
    ("control", "kind", "says"),
    [
        (answer({"code": 404}, 404), SandboxSessionLostError, "is gone"),
        (answer({"code": 500}, 500), SandboxSessionLostError, "destroyed or paused"),
        (answer({**CREATED, "state": "paused"}), SandboxConflictError, "paused"),
        (answer({**CREATED, "state": "running"}), SandboxConnectionError, "cannot be reached"),
    ],
)
def test_command_for_a_sandbox_that_is_not_there_was_not_started(
    control: Reply, kind: type[SandboxException], says: str
) -> None:
    answers = {START_CALL: GONE_AT_THE_EDGE, "GET /sandboxes/sid123": control}
    with E2BStub(answers) as stub, started(stub) as session, pytest.raises(kind, match=says) as caught:
        run(session, "true")

    assert caught.value.outcome == "not_started"


@pytest.mark.parametrize("gateway", [answer({"message": "bad gateway"}, 502), Reply(status=502, body=b"<html></html>")])
@pytest.mark.parametrize("status", [502, 503])
def test_start_that_a_gateway_answers_may_have_run_and_is_sent_once(gateway: Reply, status: int) -> None:
    reply = Reply(status=status, headers=gateway.headers, body=gateway.body)
    with E2BStub({START_CALL: reply}) as stub, started(stub) as session, pytest.raises(SandboxException) as caught:
        run(session, "true")

    assert (caught.value.outcome, caught.value.retryable) == (Outcome.UNKNOWN, False)
    assert len(stub.starts()) == 1


AT_THE_SANDBOX: dict[str, Callable[[E2BSandboxSession], object]] = {
    "read": lambda session: session.files.read("/a"),
    "write": lambda session: session.files.write("/a", b"x"),
    "list": lambda session: session.files.list("/"),
    "make executable": lambda session: session.files.make_executable("/a"),
    "metrics": lambda session: session.metrics(),
    "list_processes": lambda session: session.list_processes(),
    "attach": lambda session: session.attach("c-1"),
    "watch": lambda session: session.watch("/"),
    "execute": lambda session: run(session, "true"),
}


@pytest.mark.parametrize("call", AT_THE_SANDBOX.values(), ids=AT_THE_SANDBOX)
def test_sandbox_paused_elsewhere_is_no_lost_one(
    emulator: Emulator, session: E2BSandboxSession, call: Callable[[E2BSandboxSession], object]
) -> None:
    with E2BSandboxProvider(environ=emulator.environment).connect(session.session_id) as elsewhere:
        elsewhere.require(SupportsPause).pause()

    with pytest.raises(SandboxConflictError, match="paused") as caught:
        call(session)

    error = caught.value
    assert (error.outcome, error.session_state, error.retryable) == (Outcome.NOT_STARTED, SessionState.INTACT, False)
    assert (error.provider_id, error.session_id, session.status) == ("e2b", session.session_id, SandboxStatus.RUNNING)


@pytest.mark.parametrize("call", AT_THE_SANDBOX.values(), ids=AT_THE_SANDBOX)
def test_sandbox_destroyed_elsewhere_is_lost_to_every_call(
    emulator: Emulator, session: E2BSandboxSession, call: Callable[[E2BSandboxSession], object]
) -> None:
    E2BSandboxProvider(environ=emulator.environment).destroy(session.session_id)

    with pytest.raises(SandboxSessionLostError, match="gone") as caught:
        call(session)

    assert (caught.value.outcome, caught.value.session_state) == (Outcome.NOT_STARTED, SessionState.LOST)
    assert session.status is SandboxStatus.FAILED


def test_input_for_a_sandbox_paused_elsewhere_is_refused_as_such() -> None:
    asked_to_run: list[Recorded] = []

    def start(request: Recorded) -> Reply:
        asked_to_run.append(request)
        return Reply(headers=STREAM, body=[START], chunked=True, ending=StubEnding.STALL)

    answers: dict[str, Answered] = {
        START_CALL: lambda request: stream(START, EXITED, END_OF_STREAM) if is_kill(request) else start(request),
        "POST /process.Process/SendInput": GONE_AT_THE_EDGE,
        "GET /sandboxes/sid123": answer({**CREATED, "state": "paused"}),
    }
    with E2BStub(answers) as stub, started(stub) as session:
        process = session.start(SandboxCommand(command="cat", keep_stdin_open=True))
        with pytest.raises(SandboxConflictError, match="paused"):
            process.write_stdin(b"x")
        process.detach()

    assert len(asked_to_run) == 1


def test_sandbox_killed_while_a_command_runs_is_lost(emulator: Emulator, session: E2BSandboxSession) -> None:
    process = session.start(SandboxCommand(command="echo begun; sleep 60"))
    next(process.output())
    E2BSandboxProvider(environ=emulator.environment).destroy(session.session_id)

    with pytest.raises(SandboxSessionLostError):
        process.wait()


def test_sandbox_whose_life_ends_while_a_command_runs_is_lost(provider: E2BSandboxProvider) -> None:  # I-35
    with provider.create_session(SandboxSpec(config={"timeoutSeconds": 1})) as session:
        with pytest.raises(SandboxSessionLostError, match="life"):
            run(session, "sleep 60")
        with pytest.raises(SandboxSessionLostError, match=r"session\.extend"):
            run(session, "true")
        with pytest.raises(SandboxSessionLostError, match="E2B_TIMEOUT"):
            session.files.read("/etc/hostname")


def test_port_that_is_not_envds_is_named() -> None:  # D26
    with (
        E2BStub({START_CALL: Reply(status=404, body=b"404 page not found")}) as stub,
        started(stub, envdPort=49999) as session,
        pytest.raises(SandboxConnectionError) as caught,
    ):
        run(session, "true")

    assert "port 49999" in str(caught.value)
    assert "E2B_ENVD_PORT / config.envdPort" in str(caught.value)
    assert not isinstance(caught.value, SandboxNotFoundError)


@pytest.mark.parametrize(
    "effect",
    [Drip(size=17), Frames(index=1, what="late"), Stall(after=40, seconds=0.1), Frames(index=0, what="duplicate")],
)
def test_stream_in_odd_pieces_is_read(emulator: Emulator, session: E2BSandboxSession, effect: Any) -> None:
    emulator.faults.add(Fault(effect=effect, path=START_PATH))

    result = run(session, "printf 'ü😀'; exit 4")

    assert (result.exit_code, result.stdout) == (4, "ü😀")


def test_page_in_place_of_a_stream_is_an_error(emulator: Emulator, session: E2BSandboxSession) -> None:
    page = Answer(status=200, body="<html><title>Sign in</title></html>", content_type="text/html")
    emulator.faults.add(Fault(effect=page, path=START_PATH))

    with pytest.raises(SandboxException, match="Sign in"):
        run(session, "true")


# --- stdin --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 131_072, 10_000_000])
def test_input_of_any_size_arrives(session: E2BSandboxSession, size: int) -> None:  # K4, I-10
    data = (b"\0'\"\n\xff" * (size // 5 + 1))[:size]

    assert run(session, "sha256sum | cut -c1-64; true", stdin=data).stdout.strip() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("command", "stdin", "stdout", "exit_code"),
    [
        ("cat", None, "", 0),  # E01
        ("cat", "hello stdin", "hello stdin", 0),  # H22
        ("cat", "-n", "-n", 0),  # E05
        ("wc -c", "line1\nline2\n", "12\n", 0),  # E06
        ("wc -c", "x\0y", "3\n", 0),  # E07
        ("cat >/dev/null; exit 3", "x", "", 3),  # E09
        ("cat # copy it", "x", "x", 0),  # F01
        ("cat <<'EOF'\nhi\nEOF", "x", "hi\n", 0),  # F02
    ],
)
def test_input_reaches_the_command_as_it_is(
    session: E2BSandboxSession, command: str, stdin: str | None, stdout: str, exit_code: int
) -> None:
    result = run(session, command, stdin=stdin)

    assert (result.stdout, result.exit_code) == (stdout, exit_code)


def test_command_does_not_see_its_input_among_the_arguments(session: E2BSandboxSession) -> None:  # I-10
    result = run(session, "cat /proc/$$/cmdline | tr '\\0' ' '", stdin="do-not-show")

    assert "do-not-show" not in result.stdout


@pytest.mark.parametrize(("command", "exit_code"), [("nosuchcmd_xyz", 127), ("/etc/passwd", 126), ("if", 2)])
def test_line_that_cannot_be_run_has_the_shells_exit_code(  # B16
    session: E2BSandboxSession, command: str, exit_code: int
) -> None:
    began = time.monotonic()

    assert run(session, command).exit_code == exit_code
    assert time.monotonic() - began < 1


def test_variables_and_directories_are_not_retyped(session: E2BSandboxSession) -> None:  # F04, F09
    run(session, ["mkdir", "-p", "/tmp/it's a dir"])

    assert run(session, 'printf %s "$MY_VAR"', environment={"MY_VAR": "two  words "}).stdout == "two  words "
    assert run(session, "pwd", working_directory="/tmp/it's a dir").stdout == "/tmp/it's a dir\n"


def test_envd_that_cannot_close_stdin_reads_it_from_a_file_that_does_not_stay(emulator: Emulator) -> None:
    class Old(E2BSandboxProvider):
        def _session(self, spec: Any, config: Any, client: Any, sandbox: Any, **fields: Any) -> E2BSandboxSession:
            return super()._session(spec, config, client, replace(sandbox, envd_version="0.5.1"), **fields)

    with Old(environ=emulator.environment).create_session() as session:
        assert run(session, "cat # copy", stdin=b"a\0b" * 50_000).stdout_bytes == b"a\0b" * 50_000
        assert run(session, ["wc", "-c"], stdin="123").stdout.strip() == "3"
        assert run(session, "ls -A /tmp | grep stdin").stdout == ""
        with pytest.raises(UnsupportedCapabilityError, match=r"0\.5\.1"):
            session.start(SandboxCommand(command="cat", keep_stdin_open=True))
        assert run(session, "test -t 0", terminal=TerminalSize()).exit_code == 0


# --- pause, ports, watching, life ---------------------------------------------------------------------------------


def test_command_that_runs_across_a_pause_goes_on(session: E2BSandboxSession) -> None:
    process = session.start(SandboxCommand(command="for i in $(seq 40); do echo $i; sleep 0.05; done; exit 5"))
    next(process.output())

    session.pause()
    with pytest.raises(SandboxConflictError, match="paused"):
        run(session, "true")
    with pytest.raises(SandboxConflictError, match="paused"):
        session.files.read("/etc/hostname")
    session.resume()

    result = process.wait()
    assert (result.exit_code, result.stdout.split()[-1]) == (5, "40")
    assert run(session, "echo alive").stdout == "alive\n"


def test_pausing_and_resuming_twice_is_fine(session: E2BSandboxSession) -> None:
    session.pause()
    session.pause()
    session.resume()
    session.resume()

    assert run(session, "echo alive").stdout == "alive\n"


def test_woken_machine_is_spoken_to_on_a_new_connection() -> None:
    answers = {
        "POST /sandboxes/sid123/pause": Reply(status=204),
        "POST /sandboxes/sid123/connect": answer(CREATED, 201),
    }
    with E2BStub(answers) as stub, started(stub) as session:
        assert isinstance(session, E2BSandboxSession)
        run(session, "true")
        before = stub.http.connections
        run(session, "true")
        assert stub.http.connections == before

        session.pause()
        session.resume()
        run(session, "true")

        assert stub.http.connections == before + 1


def test_pause_that_is_refused_changes_nothing() -> None:
    with E2BStub({"POST /sandboxes/sid123/pause": answer({"code": 500}, 500)}) as stub, started(stub) as session:
        assert isinstance(session, E2BSandboxSession)
        with pytest.raises(SandboxException):
            session.pause()

        assert run(session, "true").exit_code == 0


def test_life_is_prolonged_and_never_shortened(emulator: Emulator, session: E2BSandboxSession) -> None:
    session.extend(3600)
    (longer,) = [sandbox.lifetime.ends_at for sandbox in emulator.sandboxes()]
    session.extend(60)
    (after,) = [sandbox.lifetime.ends_at for sandbox in emulator.sandboxes()]

    assert longer is not None
    assert after is not None
    assert after >= longer > time.time() + 3500


@pytest.mark.parametrize("call", [lambda s: s.extend(0), lambda s: s.port_url(0), lambda s: s.port_url(65536)])
def test_numbers_that_cannot_be_meant_are_refused(session: E2BSandboxSession, call: Any) -> None:
    with pytest.raises(SandboxException, match="must be a whole number"):
        call(session)


def test_port_of_a_private_sandbox_needs_the_token_it_is_given_with(provider: E2BSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(config={"public": False})) as session:
        assert isinstance(session, E2BSandboxSession)
        target = session.port_url(8080)

    assert set(target.headers) == {"E2b-Sandbox-Id", "E2b-Sandbox-Port", "e2b-traffic-access-token"}
    assert target.headers["e2b-traffic-access-token"] not in repr(target)


def test_directory_is_watched(session: E2BSandboxSession) -> None:
    run(session, "mkdir -p /tmp/watched/below")
    with session.watch("/tmp/watched", recursive=True) as watch:
        session.files.write("/tmp/watched/below/new.txt", "x")
        first = watch.next_event(timeout=5)
        run(session, "rm /tmp/watched/below/new.txt")
        told = [first, *iter(lambda: watch.next_event(timeout=2), None)]

    changes = [(item.name, item.change) for item in told if item is not None]
    assert ("below/new.txt", FileChange.CREATED) in changes
    assert ("below/new.txt", FileChange.REMOVED) in changes


def test_watch_ends_when_it_is_closed_elsewhere(session: E2BSandboxSession) -> None:
    watch = session.watch("/tmp")
    threading.Timer(0.2, watch.close).start()

    assert list(watch) == []


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        (lambda elsewhere: elsewhere.require(SupportsPause).pause(), SandboxPausedError),
        (lambda elsewhere: elsewhere.close(), SandboxSessionLostError),
    ],
    ids=["paused", "destroyed"],
)
def test_watch_says_what_became_of_the_sandbox(
    emulator: Emulator,
    session: E2BSandboxSession,
    ends: Callable[[SandboxSession], object],
    kind: type[SandboxException],
) -> None:
    spec = SandboxSpec(config={"deleteOnClose": True})
    elsewhere = E2BSandboxProvider(environ=emulator.environment).connect(session.session_id, spec)

    watch = session.watch("/tmp")
    ends(elsewhere)

    with pytest.raises(kind):
        watch.next_event(timeout=20)
    elsewhere.close()


def test_watch_of_a_session_that_is_closed_says_so(session: E2BSandboxSession) -> None:
    watch = session.watch("/tmp")
    session.close()

    with pytest.raises(SandboxSessionClosedError):
        watch.next_event(timeout=20)


def test_files_whose_names_are_not_utf8_are_files_like_others(session: E2BSandboxSession) -> None:
    files = session.files
    run(
        session,
        "mkdir -p /tmp/odd && printf x > \"$(printf '/tmp/odd/\\377')\" && ln -s \"$(printf '\\376')\" /tmp/odd/link",
    )

    listed = [(entry.path, entry.target) for entry in files.list("/tmp/odd")]
    content = files.read("/tmp/odd/\udcff")
    files.write("/tmp/odd/\udcfe", b"\0" * 300_000)
    files.make_dir("/tmp/odd/\udcfd")
    files.move("/tmp/odd/\udcfe", "/tmp/odd/\udcfd/\udcfc")
    moved = files.stat("/tmp/odd/\udcfd/\udcfc")
    link = files.stat("/tmp/odd/link")
    files.remove("/tmp/odd/\udcff")
    with pytest.raises(SandboxFileError, match="not empty"):
        files.remove("/tmp/odd")
    files.remove("/tmp/odd", recursive=True)

    assert (listed, content) == ([("/tmp/odd/link", "\udcfe"), ("/tmp/odd/\udcff", None)], b"x")
    assert (moved.size_bytes, link.target) == (300_000, "\udcfe")
    assert not files.exists("/tmp/odd")


def test_watching_what_is_not_there_is_not_found(session: E2BSandboxSession) -> None:
    with pytest.raises(SandboxNotFoundError, match="nowhere"):
        session.watch("/nowhere")


def test_command_is_followed_by_one_handle_at_a_time(session: E2BSandboxSession) -> None:
    with (
        session.start(SandboxCommand(command="sleep 60", command_id="server")),
        pytest.raises(SandboxConflictError, match="detach"),
    ):
        session.attach("server")


def test_attached_command_takes_input(session: E2BSandboxSession) -> None:
    session.start(
        SandboxCommand(command="read line; echo got $line; exit 6", command_id="reader", keep_stdin_open=True)
    ).detach()

    process = session.attach("reader")
    process.write_stdin("hello\n")
    result = process.wait()

    assert (result.stdout, result.exit_code) == ("got hello\n", 6)


def test_running_commands_are_listed_as_they_were_written(session: E2BSandboxSession) -> None:
    with (
        session.start(SandboxCommand(command="sleep 61; true", command_id="line")),
        session.start(SandboxCommand(command=["sleep", "62"], command_id="list")),
    ):
        listed = {process.command_id: process.command for process in session.list_processes()}

    assert listed == {"line": "sleep 61; true", "list": "sleep 62"}


def test_killed_command_reports_its_signal() -> None:
    result = played(stream(START, KILLED, END_OF_STREAM))

    assert (result.exit_code, result.signal, result.status_text) == (137, "SIGKILL", "signal: killed")
