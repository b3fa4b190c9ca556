"""Commands of a session: what is sent, how often, and what its answers mean."""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxConnectionError,
    SandboxException,
    SandboxOutcomeUnknownError,
    SandboxProtocolError,
    SandboxSessionLostError,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxEvent, SandboxSpec, StreamMode
from ai4j_sandbox.spi import SandboxSession, SupportsPause
from ai4j_sandbox_daytona import DaytonaSandboxProvider, DaytonaSandboxSession
from ai4j_sandbox_daytona.wrapping import Running
from ai4j_sandbox_emulator import Emulator
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


def test_limit_of_the_command_is_kept_inside_and_backed_by_the_services_own(
    stub: DaytonaStub, session: SandboxSession
) -> None:
    command = SandboxCommand(command="true", timeout_millis=45_000)
    stub.play(EXECUTE, done(command))

    session.execute(command)

    (body,) = stub.bodies(EXECUTE)
    assert " 4500 " in body["command"]  # centiseconds
    assert 45 < body["timeout"] < 120


def test_variables_travel_in_their_own_field(stub: DaytonaStub, session: SandboxSession) -> None:
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


def test_command_that_is_never_answered_is_sent_once_and_times_out(stub: DaytonaStub, session: SandboxSession) -> None:
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


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b"[]", b'{"exitCode":"0"}', b'{"exitCode":0,"result":7}'])
def test_answer_that_is_none_is_a_protocol_error(stub: DaytonaStub, session: SandboxSession, body: bytes) -> None:
    stub.play(EXECUTE, Reply(headers={"Content-Type": "application/json"}, body=body))

    with pytest.raises((SandboxProtocolError, SandboxOutcomeUnknownError)):
        session.execute(SandboxCommand(command="true"))


def test_canary_is_nowhere_but_in_the_requests_headers(stub: DaytonaStub, caplog: pytest.LogCaptureFixture) -> None:
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


def test_container_cannot_be_paused_and_says_what_it_can(real: DaytonaSandboxSession) -> None:
    with pytest.raises(UnsupportedCapabilityError, match="Pause"):
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
