"""Commands of a session: what is sent, how often, and what its answers mean."""

from __future__ import annotations

import base64
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxOutcomeUnknownError,
    SandboxPausedError,
    SandboxProtocolError,
    SandboxSessionLostError,
    SandboxUnreachableError,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxEvent, SandboxSpec, StreamMode
from ai4j_sandbox.spi import SandboxSession, SupportsBackground, SupportsPause
from ai4j_sandbox_daytona import DaytonaSandboxProvider, DaytonaSandboxSession
from ai4j_sandbox_daytona.files import DaytonaFiles
from ai4j_sandbox_daytona.git import GitCredential
from ai4j_sandbox_daytona.wrapping import Running
from ai4j_sandbox_emulator import Emulator
from ai4j_sandbox_emulator.daytona.requests import MACHINE_SNAPSHOT
from support.daytona_stub import DaytonaStub, answer, executed
from support.http_stub import Ending, Recorded, Reply
from support.secrets import CANARY, assert_no_secret, everything_said

GET, EXECUTE = "GET /sandbox/id-1", "POST /id-1/process/execute"


@pytest.fixture
def stub() -> Iterator[DaytonaStub]:
    with DaytonaStub({}) as playing:
        playing.play(GET, answer(playing.sandbox()))
        yield playing


@pytest.fixture
def session(stub: DaytonaStub) -> Iterator[SandboxSession]:
    with stub.provider().connect("id-1") as opened:
        yield opened


def done(command: SandboxCommand, stdout: bytes = b"", stderr: bytes = b"", code: int = 0) -> Reply:
    """Return what the script in the sandbox answers."""
    parts = (base64.b64encode(part).decode() for part in (stdout, b"", stderr, b""))
    head = f"AI4J:{Running(command.command_id).mark}:done {code} - {len(stdout)} {len(stderr)}\n"
    return executed(head + "-".join(parts) + "-.\n")


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_plain_command_is_one_call(stub: DaytonaStub, session: SandboxSession) -> None:
    command = SandboxCommand(command="true")
    stub.play(EXECUTE, done(command, b"out", b"err", 3))

    result = session.execute(command)

    assert (result.stdout, result.stderr, result.exit_code, result.streams) == ("out", "err", 3, StreamMode.SEPARATE)
    assert stub.calls == [GET, EXECUTE]


@pytest.mark.parametrize(
    ("millis", "inside", "backstop"), [(45_000, 4500, 55), (1, 1, 11), (999, 100, 11), (1001, 101, 12)]
)
def test_limit_of_the_command_is_kept_inside_and_backed_by_the_services_own(
    stub: DaytonaStub, session: SandboxSession, millis: int, inside: int, backstop: int
) -> None:
    """Case C16."""
    command = SandboxCommand(command="true", timeout_millis=millis)
    stub.play(EXECUTE, done(command))

    session.execute(command)

    body, *_ = stub.bodies(EXECUTE)  # where a millisecond passed before the answer came, its tree is ended too
    assert f" '' {inside} '' " in body["command"]  # centiseconds, between directory and input
    assert body["timeout"] == backstop  # seconds


def test_variables_travel_in_their_own_field(stub: DaytonaStub, session: SandboxSession) -> None:
    """Case F04."""
    command = SandboxCommand(command="true", environment={"MY_VAR": "two  words "})
    stub.play(EXECUTE, done(command))

    session.execute(command)

    (body,) = stub.bodies(EXECUTE)
    assert body["envs"] == {"MY_VAR": "two  words "}
    assert "two  words" not in body["command"]


def test_large_input_is_uploaded_first(stub: DaytonaStub, session: SandboxSession) -> None:
    command = SandboxCommand(command="cat", stdin=b"x" * 200_000)
    stub.play(EXECUTE, done(command))
    stub.play("POST /id-1/files/bulk-upload", answer({"files": []}))

    session.execute(command)

    upload, call = stub.http.requests[-2:]
    assert (upload.path, call.path) == ("/id-1/files/bulk-upload", "/id-1/process/execute")
    assert upload.body.index(b"files[0].path") < upload.body.index(b"files[0].file")
    assert upload.body.count(b"x" * 200_000) == 1
    assert len(call.body) < 20_000


# --- what comes back --------------------------------------------------------------------------------------------------


def test_answer_that_our_script_did_not_give_is_taken_as_it_is(stub: DaytonaStub, session: SandboxSession) -> None:
    """Case B13."""
    stub.play(EXECUTE, executed("ls: cannot access 'q'\n", 2))

    result = session.execute(SandboxCommand(command="ls q"))

    assert (result.exit_code, result.stdout, result.stderr) == (2, "ls: cannot access 'q'\n", "")


@pytest.mark.parametrize("code", [-1, None])
def test_code_that_is_not_known_is_never_success(stub: DaytonaStub, session: SandboxSession, code: int | None) -> None:
    stub.play(EXECUTE, executed("fork/exec /bin/zsh: no such file", code))

    result = session.execute(SandboxCommand(command="true"))

    assert (result.exit_code, result.succeeded) == (None, False)
    assert result.status_text == "fork/exec /bin/zsh: no such file"


def test_limit_that_the_service_had_to_keep_is_a_result(stub: DaytonaStub, session: SandboxSession) -> None:
    stub.play(EXECUTE, answer({"statusCode": 408, "message": "command execution timeout"}, 408))

    result = session.execute(SandboxCommand(command="sleep 9", timeout_millis=500))

    assert (result.timed_out, result.exit_code) == (True, None)


def test_output_that_is_left_in_a_file_is_fetched(stub: DaytonaStub, session: SandboxSession) -> None:
    command = SandboxCommand(command="true", output_limit_bytes=2_000_000)
    running = Running(command.command_id)
    content = bytes(range(256)) * 20_000

    def part(request: Recorded) -> Reply:
        first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
        return Reply(status=206, body=content[int(first) : int(last) + 1])

    stub.play(EXECUTE, executed(f"AI4J:{running.mark}:filed 0 - {len(content)} 0\n"), executed())
    stub.play("GET /id-1/files/download", part)

    result = session.execute(command)

    assert result.stdout_total_bytes == len(content)
    assert result.stdout_bytes == content[:1_000_000] + content[-1_000_000:]
    assert stub.calls[1:] == [EXECUTE, *["GET /id-1/files/download"] * 2, EXECUTE]  # the last tidies up


@pytest.mark.parametrize("sent", [b"out", b"output and more", b""])
@pytest.mark.parametrize("way", ["execute", "start"])
def test_output_of_another_length_than_was_told_is_no_result(
    stub: DaytonaStub, session: SandboxSession, sent: bytes, way: str
) -> None:
    command = SandboxCommand(command="true")
    head = f"AI4J:{Running(command.command_id).mark}:done 0 - 6 0\n"
    stub.play(EXECUTE, executed(f"{head}{base64.b64encode(sent).decode()}----.\n"))

    with pytest.raises(SandboxProtocolError, match=f"{len(sent)} of 6 bytes"):
        getattr(session, way)(command)


@pytest.mark.parametrize("word", ["live", "sent", "fed", "ended"])
def test_word_that_is_no_end_is_no_result(stub: DaytonaStub, session: SandboxSession, word: str) -> None:
    command = SandboxCommand(command="true")
    stub.play(EXECUTE, executed(f"AI4J:{Running(command.command_id).mark}:{word} 0 - 0 0\n----.\n"))

    with pytest.raises(SandboxProtocolError, match=word):
        session.execute(command)


@pytest.mark.parametrize("status", [200, 206])
@pytest.mark.parametrize("size", [1_999_999, 2_000_001, 50_000_000])
def test_file_of_another_length_than_was_told_is_no_result(
    stub: DaytonaStub, session: SandboxSession, status: int, size: int
) -> None:
    command = SandboxCommand(command="true", output_limit_bytes=2_000_000)
    taken = []

    def endless() -> Iterator[bytes]:
        for start in range(0, size, 100_000):
            taken.append(start)
            yield bytes(min(100_000, size - start))

    stub.play(EXECUTE, executed(f"AI4J:{Running(command.command_id).mark}:filed 0 - 2000000 0\n"), executed())
    stub.play("GET /id-1/files/download", lambda _: Reply(status=status, chunked=True, body=endless()))

    with pytest.raises(SandboxProtocolError, match="of 2000000 bytes"):
        session.execute(command)

    assert len(taken) < 300  # what is too much is not read to its end


# --- when it breaks ---------------------------------------------------------------------------------------------------

RESET = Reply(ending=Ending.RESET, body=b"x")
CUT = Reply(ending=Ending.CUT, headers={"Content-Type": "application/json"}, body=b'{"exitCode":')


@pytest.mark.parametrize("broken", [RESET, CUT, answer({}, 502), Reply(status=502), answer({"message": "boom"}, 500)])
def test_command_whose_answer_is_lost_is_sent_once_and_its_outcome_is_unknown(
    stub: DaytonaStub, session: SandboxSession, broken: Reply
) -> None:
    stub.play(EXECUTE, broken)

    with pytest.raises(SandboxOutcomeUnknownError):
        session.execute(SandboxCommand(command="make deploy"))

    assert stub.calls.count(EXECUTE) == 1


def test_answer_that_is_cut_at_any_byte_is_never_a_result(stub: DaytonaStub, session: SandboxSession) -> None:
    command = SandboxCommand(command="true")
    whole = done(command, b"out", b"err").body
    for size in range(len(whole)):
        stub.play(EXECUTE, Reply(ending=Ending.CUT, headers={"Content-Type": "application/json"}, body=whole[:size]))
        with pytest.raises(SandboxOutcomeUnknownError):
            session.execute(command)

    assert stub.calls.count(EXECUTE) == len(whole)


def test_command_that_is_never_answered_is_sent_once_and_times_out(stub: DaytonaStub, session: SandboxSession) -> None:
    """Cases N03 and C05."""
    sent = []

    def silent(request: Recorded) -> Reply:
        sent.append(request)
        return Reply(ending=Ending.SILENCE)

    stub.play(EXECUTE, silent)
    started = time.monotonic()
    result = session.execute(SandboxCommand(command="echo a; sleep 9", timeout_millis=400))

    assert (result.timed_out, result.exit_code) == (True, None)
    assert time.monotonic() - started < 15
    assert sum(b"echo a; sleep 9" in request.body for request in sent) == 1


def test_sandbox_that_was_deleted_meanwhile_is_a_lost_session(stub: DaytonaStub, session: SandboxSession) -> None:
    stub.play(GET, answer({"message": "gone"}, 404))

    with pytest.raises(SandboxSessionLostError, match="deleted"):
        session.execute(SandboxCommand(command="true"))


def test_sandbox_that_was_stopped_meanwhile_is_a_lost_session(stub: DaytonaStub, session: SandboxSession) -> None:
    stub.play(GET, answer(stub.sandbox("stopped")))
    stub.play(EXECUTE, Reply(status=502))

    with pytest.raises(SandboxSessionLostError, match="stopped"):
        session.execute(SandboxCommand(command="true"))


def test_refused_key_is_an_error_about_the_key(stub: DaytonaStub, session: SandboxSession) -> None:
    stub.play(EXECUTE, answer({"message": "unauthorized"}, 401))

    with pytest.raises(SandboxAuthError):
        session.execute(SandboxCommand(command="true"))


def test_toolbox_that_cannot_be_reached_says_that_nothing_ran(stub: DaytonaStub) -> None:
    with (
        stub.provider(toolbox_proxy_url="http://127.0.0.1:1").connect("id-1") as session,
        pytest.raises(SandboxConnectionError) as caught,
    ):
        session.execute(SandboxCommand(command="true"))

    assert caught.value.outcome is Outcome.NOT_STARTED


@pytest.mark.parametrize("kind", ["application/json", "text/html"])
@pytest.mark.parametrize(
    "body", [b"<html>sign in</html>", b"[]", b"", b'{"exitCode":"0"}', b'{"exitCode":0,"result":7}']
)
@pytest.mark.parametrize("stdin_open", [True, False])
def test_answer_that_is_none_is_a_protocol_error(
    stub: DaytonaStub, session: SandboxSession, kind: str, body: bytes, stdin_open: bool
) -> None:
    stub.play(EXECUTE, Reply(headers={"Content-Type": kind}, body=body))

    with pytest.raises(SandboxProtocolError) as caught:
        session.execute(SandboxCommand(command="true", keep_stdin_open=stdin_open))

    assert (caught.value.outcome, caught.value.retryable) == (Outcome.UNKNOWN, False)
    assert sum(b"ai4j-run" in request.body or b"done" in request.body for request in stub.http.requests) == 1


SIGN_IN = Reply(headers={"Content-Type": "text/html"}, body=b"<html>sign in</html>")
NOT_OUR_SCRIPT = executed()


@pytest.mark.parametrize(
    ("work", "pages"),
    [
        (lambda files: files.remove("a"), [SIGN_IN, answer([1]), Reply(), NOT_OUR_SCRIPT]),
        (lambda files: files.move("a", "b"), [SIGN_IN, answer([1]), Reply(), NOT_OUR_SCRIPT]),
        (lambda files: files.make_dir("a"), [SIGN_IN, answer([1]), Reply(), NOT_OUR_SCRIPT]),
        (lambda files: files.write("a", "text"), [SIGN_IN, answer([1]), Reply(), NOT_OUR_SCRIPT]),
        (lambda files: files.read("a"), [SIGN_IN]),
        (lambda files: files.set_permissions("a", mode=0o644), [SIGN_IN, answer([1])]),
        (lambda files: files.find_text("a", "b"), [SIGN_IN, answer([1]), answer({}), Reply()]),
        (lambda files: files.search("a", "b"), [SIGN_IN, answer([1]), answer({"files": [1]}), Reply()]),
    ],
)
def test_file_operation_that_something_else_answered_is_never_success(
    stub: DaytonaStub, session: SandboxSession, work: Callable[[DaytonaFiles], object], pages: list[Reply]
) -> None:
    for page in pages:
        stub.answer_all_else(page)
        with pytest.raises(SandboxProtocolError):
            work(session._files())  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["stopped", "archived", "destroyed"])
@pytest.mark.parametrize(
    "work",
    [
        lambda session: session.files.read("a"),
        lambda session: session.files.write("a", "text"),
        lambda session: session.files.remove("a"),
        lambda session: session.git.status("a"),
        lambda session: session.git.push("a"),
        lambda session: session.list_processes(),
        lambda session: session.start(SandboxCommand(command="true")),
        lambda session: session.execute(SandboxCommand(command="true")),
    ],
)
@pytest.mark.parametrize(
    "refusal",
    [
        answer({"message": "bad request: no IP address found. Is the Sandbox started?"}, 400),
        Reply(status=502),
        Reply(status=404),
        Reply(status=504, headers={"Content-Type": "text/html"}, body=b"<html>gateway</html>"),
    ],
)
def test_sandbox_that_was_stopped_or_deleted_elsewhere_is_a_lost_session_whatever_is_asked(
    stub: DaytonaStub,
    session: SandboxSession,
    state: str,
    work: Callable[[DaytonaSandboxSession], object],
    refusal: Reply,
) -> None:
    stub.play(GET, answer(stub.sandbox(state)))
    stub.answer_all_else(refusal)

    with pytest.raises(SandboxSessionLostError):
        work(session)  # type: ignore[arg-type]


@pytest.mark.parametrize("page", [b'{"message":"bad gateway"}', b"<html>bad gateway</html>", b""])
@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("way", ["execute", "start"])
def test_gateway_that_answers_for_the_sandbox_leaves_the_outcome_unknown(
    stub: DaytonaStub, session: SandboxSession, page: bytes, status: int, way: str
) -> None:
    stub.play(EXECUTE, Reply(status=status, body=page))
    command = SandboxCommand(command="make deploy", timeout_millis=60_000)

    with pytest.raises(SandboxUnreachableError) as caught:
        getattr(session, way)(command)

    error = caught.value
    assert (error.outcome, error.retryable, error.http_status) == (Outcome.UNKNOWN, False, status)
    assert stub.calls.count(EXECUTE) == 1


def test_input_that_cannot_be_uploaded_says_that_nothing_ran(stub: DaytonaStub, session: SandboxSession) -> None:
    stub.play("POST /id-1/files/bulk-upload", Reply(status=502))

    with pytest.raises(SandboxException) as caught:
        session.execute(SandboxCommand(command="cat", stdin=b"x" * 200_000))

    assert caught.value.outcome is Outcome.NOT_STARTED
    assert EXECUTE not in stub.calls


def test_news_that_are_refused_leave_the_outcome_of_the_command_unknown(
    stub: DaytonaStub, session: SandboxSession
) -> None:
    command = SandboxCommand(command="sleep 9")
    live = f"AI4J:{Running(command.command_id).mark}:live - - 0 0\n----.\n"
    stub.play(EXECUTE, executed(live), answer({"message": "not found"}, 404))

    process = session.start(command)
    with pytest.raises(SandboxOutcomeUnknownError):
        process.wait()


def test_news_that_are_cut_are_asked_for_again(stub: DaytonaStub, session: SandboxSession) -> None:
    command = SandboxCommand(command="sleep 9")
    live = executed(f"AI4J:{Running(command.command_id).mark}:live - - 0 0\n----.\n")
    whole = done(command, b"out").body
    cut = [
        Reply(ending=Ending.CUT, headers={"Content-Type": "application/json"}, body=whole[:size])
        for size in (0, 1, len(whole) // 2, len(whole) - 1)
    ]
    for broken in (*cut, RESET):
        stub.play(EXECUTE, live, broken, done(command, b"out"))
        assert session.start(command).wait().stdout == "out"


def test_start_whose_answer_is_cut_at_any_byte_is_never_a_process(stub: DaytonaStub, session: SandboxSession) -> None:
    command = SandboxCommand(command="true")
    whole = done(command, b"out", b"err").body
    for size in range(len(whole)):
        stub.play(EXECUTE, Reply(ending=Ending.CUT, headers={"Content-Type": "application/json"}, body=whole[:size]))
        with pytest.raises(SandboxOutcomeUnknownError):
            session.start(command)

    assert stub.calls.count(EXECUTE) == len(whole)


def test_interrupt_while_a_command_starts_leaves_it_not_running(stub: DaytonaStub, session: SandboxSession) -> None:
    def interrupted(request: Recorded) -> Reply:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
        return Reply(ending=Ending.SILENCE)

    stub.play(EXECUTE, interrupted, executed())
    command = SandboxCommand(command="make deploy")
    with pytest.raises(KeyboardInterrupt):
        session.start(command)

    begun, killed = stub.bodies(EXECUTE)
    assert "make deploy" in begun["command"]
    assert "KILL" in killed["command"]
    assert Running(command.command_id).mark in killed["command"]


def killed(request: Recorded) -> Reply:
    """What the script that signals a command answers when there is none."""
    mark = request.body.decode().partition("/tmp/.ai4j-")[2][:32]
    return executed(f"AI4J:{mark}:ended - - 0 0\n")


def test_close_ends_the_other_commands_though_one_cannot_be_reached(stub: DaytonaStub, session: SandboxSession) -> None:
    commands = [SandboxCommand(command=f"sleep {number}") for number in range(3)]
    marks = [Running(command.command_id).mark for command in commands]
    for command, mark in zip(commands, marks, strict=True):
        stub.play(EXECUTE, executed(f"AI4J:{mark}:live - - 0 0\n----.\n"))
        session.start(command)
    stub.play(EXECUTE, answer({"message": "boom"}, 500))

    with pytest.raises(SandboxException):
        session.close()

    asked = [body["command"] for body in stub.bodies(EXECUTE)[3:]]
    assert all(any(mark in text and "KILL" in text for text in asked) for mark in marks)
    stub.play(EXECUTE, killed)


def test_limit_that_the_service_had_to_keep_leaves_nobody_behind(stub: DaytonaStub, session: SandboxSession) -> None:
    stub.play(EXECUTE, answer({"statusCode": 408, "message": "command execution timeout"}, 408), executed())
    command = SandboxCommand(command="sleep 9", timeout_millis=500)

    session.execute(command)

    kill = stub.bodies(EXECUTE)[1]["command"]
    assert "KILL" in kill
    assert Running(command.command_id).mark in kill


def test_password_that_git_repeats_is_in_no_error(stub: DaytonaStub, session: SandboxSession) -> None:
    credential = GitCredential(username="me", password=CANARY)
    stub.answer_all_else(
        answer({"message": f"fatal: could not read from https://me:{CANARY}@host, tried {CANARY}"}, 500)
    )

    for work in (
        lambda git: git.clone("https://host/r", "r", credential=credential),
        lambda git: git.push("r", credential),
        lambda git: git.pull("r", credential),
    ):
        with pytest.raises(SandboxException) as caught:
            work(session.git)  # type: ignore[attr-defined]
        assert_no_secret(everything_said(caught.value), repr(credential))


@pytest.mark.parametrize("given", [{}, {"hash": 5}, []])
def test_commit_without_a_hash_is_a_protocol_error(stub: DaytonaStub, session: SandboxSession, given: object) -> None:
    stub.play("POST /id-1/git/commit", answer(given))

    with pytest.raises(SandboxProtocolError):
        session.git.commit("r", "m", author="a", email="e")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "given", [[], {"currentBranch": 5}, {"currentBranch": "m", "ahead": "1"}, {"currentBranch": "m", "fileStatus": 5},
              {"currentBranch": "m", "fileStatus": [{}]}]
)  # fmt: skip
def test_git_status_that_is_none_is_a_protocol_error(stub: DaytonaStub, session: SandboxSession, given: object) -> None:
    stub.play("GET /id-1/git/status", answer(given))

    with pytest.raises(SandboxProtocolError):
        session.git.status("r")  # type: ignore[attr-defined]


def test_canary_is_nowhere_but_in_the_requests_headers(stub: DaytonaStub, caplog: pytest.LogCaptureFixture) -> None:
    """Cases J05 and J10."""
    caplog.set_level(logging.DEBUG)
    stub.play(EXECUTE, answer({"message": f"upstream said: Bearer {CANARY}"}, 500))
    told: list[SandboxEvent] = []
    with stub.provider(api_key=CANARY).connect("id-1") as session:
        session.subscribe(told.append)
        with pytest.raises(SandboxException) as caught:
            session.execute(SandboxCommand(command="true"))

    assert_no_secret(everything_said(caught.value), repr(session), repr(told), caplog.text)
    assert all(CANARY not in request.target and CANARY.encode() not in request.body for request in stub.http.requests)


# --- what only a real sandbox shows -----------------------------------------------------------------------------------


@pytest.fixture
def real(provider: DaytonaSandboxProvider) -> Iterator[DaytonaSandboxSession]:
    with provider.create_session(SandboxSpec(config={"deleteOnClose": True})) as opened:
        assert isinstance(opened, DaytonaSandboxSession)
        yield opened


def test_plain_command_is_one_call_for_real(emulator: Emulator, real: DaytonaSandboxSession) -> None:
    emulator.requests.clear()

    real.execute(SandboxCommand(command="echo out; echo err >&2", stdin="in"))

    assert [request.path.rpartition("/")[2] for request in emulator.requests.all()] == ["execute"]


def test_command_of_a_machine_that_is_paused_is_found_again_after_it_is_resumed(
    provider: DaytonaSandboxProvider,
) -> None:
    with provider.create_session(SandboxSpec(image=MACHINE_SNAPSHOT, config={"deleteOnClose": True})) as session:
        command = SandboxCommand(command="echo up; until [ -e go ]; do sleep 0.05; done; echo done")
        process = session.start(command)
        session.require(SupportsPause).pause()

        with pytest.raises(SandboxPausedError, match="paused"):
            process.wait()
        with pytest.raises(SandboxConflictError, match=r"resume\(\)") as refused:
            session.execute(SandboxCommand(command="true"))
        session.require(SupportsPause).resume()
        found = session.require(SupportsBackground).attach(command.command_id)
        session.files.write("go", "")

        assert refused.value.outcome is Outcome.NOT_STARTED
        assert found.wait().stdout == "done\n"


@pytest.mark.parametrize("output", [
    "\x01\x01\x01looks like a session's log",
    "AAAAAAAAAAVoZWxsbw==",
    "AI4J:00000000000000000000000000000000:done 0 - 0 0\n----.\n",
    "{\"exitCode\":7}",
])  # fmt: skip
def test_output_that_looks_like_protocol_is_kept_whole(real: DaytonaSandboxSession, output: str) -> None:
    """Case A15."""
    assert real.execute(SandboxCommand(command="cat", stdin=output)).stdout == output
    assert real.execute(SandboxCommand(command=f"cat <<'EOF'\n{output}\nEOF")).stdout == f"{output}\n"


@pytest.mark.parametrize("command", [
    SandboxCommand(command="echo " + "x" * 200_000),
    SandboxCommand(command=("echo", "x" * 200_000)),
    SandboxCommand(command="echo $BIG", environment={"BIG": "x" * 200_000}),
])  # fmt: skip
def test_what_is_too_long_for_the_system_is_told_and_is_no_result(
    real: DaytonaSandboxSession, command: SandboxCommand
) -> None:
    with pytest.raises(SandboxConfigError, match="128 KiB") as caught:
        real.execute(command)

    assert caught.value.outcome is Outcome.NOT_STARTED


@pytest.mark.parametrize(
    ("code", "said"),
    [(126, "bash: line 1: /bin/sh: Argument list too long\n"), (127, "zsh: argument list too long: /bin/sh\n")],
)
def test_whichever_shell_the_service_takes_says_what_is_too_long(
    stub: DaytonaStub, session: SandboxSession, code: int, said: str
) -> None:
    stub.play(EXECUTE, answer({"exitCode": code, "result": said}))

    with pytest.raises(SandboxConfigError, match="128 KiB"):
        session.execute(SandboxCommand(command="true"))


def test_output_that_the_sandbox_has_no_room_for_is_told_and_is_no_result(real: DaytonaSandboxSession) -> None:
    fill = SandboxCommand(command="cat /dev/zero >/tmp/fill 2>/dev/null")
    real.execute(fill)

    with pytest.raises(SandboxException, match="/tmp is full") as caught:
        real.execute(SandboxCommand(command="printf %100000s"))
    real.files.remove("/tmp/fill")

    assert caught.value.outcome is Outcome.COMPLETED
    assert real.execute(SandboxCommand(command="echo again")).stdout == "again\n"


@pytest.mark.parametrize(
    ("line", "code", "stdout"),
    [
        ("echo a; exit 3; echo b", 3, "a\n"),
        ("exec echo a", 0, "a\n"),
        ("set -e; echo a; false; echo b", 1, "a\n"),
        ("set -eu; echo $NO_SUCH", 2, ""),
        ("trap 'echo bye' EXIT; echo a; exit 4", 4, "a\nbye\n"),
        ("echo a; kill -9 $$", 137, "a\n"),
        ("echo a; kill -TERM 0; sleep 9", 143, "a\n"),
        ("exec 1>&-; echo lost; exit 5", 5, ""),
        ("exec 0<&- 1>&- 2>&-; exit 6", 6, ""),
        ("echo 'no end", 2, ""),
        ("cd /; umask 0; ulimit -n 10; echo a", 0, "a\n"),
        ("PATH=; unset HOME IFS; echo a", 0, "a\n"),
        ("printf '\\0\\377\\r\\n'", 0, "\0\N{REPLACEMENT CHARACTER}\r\n"),
        ("echo AI4J_INPUT\necho '$x' \"`echo q`\" \\\\ '!!'", 0, "AI4J_INPUT\n$x q \\ !!\n"),
    ],
)
def test_line_that_tries_to_get_away_is_answered_as_a_shell_would(
    real: DaytonaSandboxSession, line: str, code: int, stdout: str
) -> None:
    ran = real.execute(SandboxCommand(command=line, timeout_millis=30_000))
    started = real.start(SandboxCommand(command=line, timeout_millis=30_000)).wait()

    assert [(result.exit_code, result.stdout) for result in (ran, started)] == [(code, stdout)] * 2


@pytest.mark.parametrize("way", ["execute", "start"])
def test_output_that_the_command_removed_is_missed_and_not_taken_for_none(
    real: DaytonaSandboxSession, way: str
) -> None:
    command = SandboxCommand(command="echo out; sleep 0.3; rm -f /tmp/.ai4j-*; echo more", timeout_millis=30_000)

    with pytest.raises(SandboxException, match="gone"):
        real.execute(command) if way == "execute" else real.start(command).wait()

    assert (
        real.execute(SandboxCommand(command="echo again; ls -A /tmp | grep -c 'ai4j.*[.]pid$'")).stdout == "again\n1\n"
    )


def test_line_is_run_as_it_is(real: DaytonaSandboxSession) -> None:
    heredoc = real.execute(SandboxCommand(command="cat <<'EOF'\nhi\nEOF", stdin="x"))
    variable = real.execute(SandboxCommand(command='printf %s "$MY_VAR"', environment={"MY_VAR": "two  words "}))

    assert (heredoc.stdout, heredoc.exit_code) == ("hi\n", 0)
    assert variable.stdout == "two  words "


def test_container_cannot_be_paused_and_says_what_it_can(real: DaytonaSandboxSession) -> None:
    with pytest.raises(UnsupportedCapabilityError, match="does not support pause"):
        real.require(SupportsPause)


def test_sandbox_is_stopped_archived_and_resumed_with_its_files(real: DaytonaSandboxSession) -> None:
    real.execute(SandboxCommand(command="echo kept >note"))

    real.stop()
    with pytest.raises(SandboxSessionLostError):
        real.execute(SandboxCommand(command="true"))
    real.archive()
    real.resume()
    real.resume()

    assert real.execute(SandboxCommand(command="cat note")).stdout == "kept\n"


def test_life_is_extended_and_never_shortened(emulator: Emulator, real: DaytonaSandboxSession) -> None:
    real.extend(60)
    real.extend(3600)
    real.extend(60)

    settings = [request.path for request in emulator.requests.all() if "/autostop/" in request.path]
    assert [path.rpartition("/")[2] for path in settings] == ["60"]


def test_git_works_on_a_repository(real: DaytonaSandboxSession) -> None:
    real.execute(SandboxCommand(command="git init -q --bare -b main o.git && git init -q -b main work"))
    real.files.write("work/a.txt", "one\n")

    real.git.add("work", "a.txt")
    commit = real.git.commit("work", "one", author="Name", email="n@example.org")
    real.git.create_branch("work", "topic")
    status = real.git.status("work")

    assert len(commit) == 40
    assert (status.branch, status.files) == ("topic", ())
    assert sorted(real.git.branches("work")) == ["main", "topic"]


def test_files_are_searched_and_their_permissions_set(real: DaytonaSandboxSession) -> None:
    files = real._files()
    files.write("dir/a.txt", "alpha\nbeta\n")

    files.set_permissions("dir/a.txt", mode=0o600)

    assert files.stat("dir/a.txt").mode == 0o600
    assert [(found.line, found.content) for found in files.find_text("dir", "beta")] == [(2, "beta")]
    assert [path.rpartition("/")[2] for path in files.search("dir", "*.txt")] == ["a.txt"]


def test_kept_sandbox_keeps_no_command_running_after_close(
    emulator: Emulator, provider: DaytonaSandboxProvider
) -> None:
    session = provider.create_session(SandboxSpec())
    try:
        running = threading.Thread(target=lambda: session.execute(SandboxCommand(command="sleep 54321")))
        running.start()
        process = session.start(SandboxCommand(command="sleep 54321"))
        session.close()
        running.join(10)
        assert process.wait().canceled
        with provider.connect(session.session_id) as again:
            listed = again.execute(SandboxCommand(command="cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout
            assert "sleep 54321" not in listed.replace("cat /proc", "")
    finally:
        provider.destroy(session.session_id)


def test_large_output_is_fetched_for_real_and_leaves_nothing_behind(real: DaytonaSandboxSession) -> None:
    command = SandboxCommand(command="head -c 5000000 /dev/zero | tr '\\0' a", output_limit_bytes=10_000_000)

    result = real.execute(command)

    assert result.stdout == "a" * 5_000_000
    assert real.execute(SandboxCommand(command="ls -A /tmp | grep -c '[.]out$'")).stdout.strip() in ("0", "1")
