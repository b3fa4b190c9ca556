"""One sandbox: how commands are sent, what their streams mean, its idle window, and what is said when it breaks."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxConfigError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
    SandboxOutputLimitError,
    SandboxPausedError,
    SandboxSessionLostError,
    SandboxUnreachableError,
    SessionState,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxResult, SandboxSpec, SandboxStatus, TerminalSize
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox_cubesandbox import CubeSandboxProvider, CubeSandboxSession
from ai4j_sandbox_emulator import Emulator
from ai4j_sandbox_emulator.faults import Answer, Cut, Fault
from support.cube_stub import CREATED, GONE, CubeStub
from support.e2b_stub import answer, stream, unless_kill
from support.envd_stub import END_OF_STREAM, EXITED, START, STREAM, event, failure, output
from support.http_stub import Ending, Reply
from support.waiting import eventually

START_PATH = "/process.Process/Start"
START_CALL = f"POST {START_PATH}"


@pytest.fixture
def session(provider: CubeSandboxProvider) -> Iterator[CubeSandboxSession]:
    """Give a live session at the emulator."""
    with provider.create_session() as session:
        assert isinstance(session, CubeSandboxSession)
        yield session


def run(session: SandboxSession, command: str | list[str], **options: Any) -> SandboxResult:
    return session.execute(SandboxCommand(command=command, **options))


def started(stub: CubeStub, **config: Any) -> CubeSandboxSession:
    session = stub.provider().create_session(SandboxSpec(config=config))
    assert isinstance(session, CubeSandboxSession)
    return session


def played(reply: Reply, command: SandboxCommand | None = None, **config: Any) -> SandboxResult:
    """What a command comes to whose Start is answered with `reply`."""
    with CubeStub({START_CALL: unless_kill(reply)}) as stub, started(stub, **config) as session:
        return session.execute(command or SandboxCommand(command="true"))


# --- how a command is sent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "arguments"),
    [
        ({}, ["/bin/bash", "-l", "-c", "echo 'a b'"]),
        ({"useLoginShell": False}, ["/bin/bash", "-c", "echo 'a b'"]),
    ],
)
def test_line_is_run_by_a_login_shell_unless_told_otherwise(config: dict[str, Any], arguments: list[str]) -> None:
    with CubeStub() as stub, started(stub, **config) as session:
        run(session, "echo 'a b'")

    (start,) = stub.starts()
    assert [start["process"]["cmd"], *start["process"]["args"]] == arguments


def test_argument_list_is_run_without_a_shell() -> None:
    with CubeStub() as stub, started(stub) as session:
        run(session, ["git", "commit", "-m", "a b"])

    (start,) = stub.starts()
    assert [start["process"]["cmd"], *start["process"]["args"]] == ["git", "commit", "-m", "a b"]


def test_user_and_port_are_the_configured_ones() -> None:
    with CubeStub() as stub, started(stub, user="user") as session:
        run(session, "true")

    assert stub.requests(START_CALL)[0].headers["authorization"] == "Basic dXNlcjo="


def test_given_path_reaches_the_command_in_spite_of_the_profile(session: CubeSandboxSession) -> None:  # F11
    result = run(session, "echo $PATH", environment={"PATH": "/opt/x:/usr/bin:/bin"})

    assert result.stdout == "/opt/x:/usr/bin:/bin\n"


def test_variables_of_the_config_reach_every_command(provider: CubeSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(config={"envVars": {"A": "config", "B": "config"}})) as session:
        assert run(session, "echo $A $B", environment={"B": "command"}).stdout == "config command\n"


def test_variables_reach_commands_also_where_the_server_ignores_them(older_emulator: Emulator) -> None:
    provider = CubeSandboxProvider(environ=older_emulator.environment)
    with provider.create_session(SandboxSpec(config={"envVars": {"A": "config"}})) as session:
        assert run(session, "echo $A").stdout == "config\n"


def test_profile_that_leaves_is_a_command_that_never_ran_and_can_be_avoided(provider: CubeSandboxProvider) -> None:
    # F12: bash itself says nothing and exits with 0; the page of the provider warns of it.
    for login, stdout, exit_code in ((True, "", 0), (False, "hi\n", 3)):
        with provider.create_session(SandboxSpec(config={"useLoginShell": login})) as session:
            session.files.write("/workspace/.bash_profile", b"exec sh\n")
            result = run(session, "echo hi; exit 3")
            assert (result.stdout, result.exit_code) == (stdout, exit_code)


def test_shell_survives_characters_that_are_not_its_own(session: CubeSandboxSession) -> None:  # F04, F09
    run(session, ["mkdir", "-p", "/tmp/it's a dir"])

    assert run(session, 'printf %s "$V"', environment={"V": "two  words "}).stdout == "two  words "
    assert run(session, "pwd", working_directory="/tmp/it's a dir").stdout == "/tmp/it's a dir\n"


def test_unanswered_command_is_sent_once_and_times_out() -> None:  # N03, K12
    with CubeStub({START_CALL: unless_kill(Reply(ending=Ending.SILENCE))}) as stub, started(stub) as session:
        result = run(session, "true", timeout_millis=400)

    assert (result.timed_out, result.exit_code, len(stub.starts())) == (True, None, 1)


def test_limit_is_told_only_when_there_is_one() -> None:  # C01
    with CubeStub() as stub, started(stub) as session:
        run(session, "true")
        run(session, "true", timeout_millis=2000)

    assert [request.headers.get("connect-timeout-ms") for request in stub.requests(START_CALL)] == [None, "3500"]


# --- what a stream means ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "exit_code", "signal"),
    [
        ({"exited": True, "status": "exit status 0"}, 0, None),  # B01
        ({"exitCode": 0, "exited": True, "status": "exited"}, 0, None),  # B02
        ({"exited": True}, 0, None),  # I-5
        ({"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}, 3, None),  # B03
        ({"exitCode": 7, "exited": True}, 7, None),  # B09
        ({"exit_code": 7, "exited": True}, 7, None),
        ({"status": "exited with code 5"}, 5, None),
        ({"exitCode": -1, "status": "signal: killed", "error": "signal: killed"}, 137, "SIGKILL"),  # B04, I-4
        ({"error": "fork/exec: no such file"}, None, None),
    ],
)
def test_end_of_a_command(end: dict[str, Any], exit_code: int | None, signal: str | None) -> None:  # K2
    result = played(stream(START, output(b"hi"), event(end=end), END_OF_STREAM))

    assert (result.exit_code, result.signal, result.stdout, result.timed_out) == (exit_code, signal, "hi", False)


def test_both_streams_of_a_failure_are_kept() -> None:  # B10
    end = event(end={"exitCode": 1, "exited": True})
    result = played(stream(START, output(b"partial"), output(b"bad\n", "stderr"), end, END_OF_STREAM))

    assert (result.exit_code, result.stdout, result.stderr) == (1, "partial", "bad\n")


def test_character_in_two_frames_is_one_character() -> None:  # K3, I-3
    assert played(stream(START, output(b"\xc3"), output(b"\xa9"), EXITED, END_OF_STREAM)).stdout == "é"


def test_deadline_that_the_service_keeps_is_a_timeout() -> None:  # C07
    result = played(stream(START, output(b"a\n"), failure("deadline_exceeded", "context deadline exceeded")))

    assert (result.timed_out, result.stdout, result.exit_code) == (True, "a\n", None)


def test_silence_after_output_is_a_timeout_that_keeps_it() -> None:  # C08, K5
    reply = Reply(headers=STREAM, body=[START + output(b"a\n")], chunked=True, ending=Ending.STALL)

    result = played(reply, SandboxCommand(command="true", timeout_millis=400))

    assert (result.timed_out, result.stdout, result.exit_code) == (True, "a\n", None)


def test_exit_counts_whatever_the_stream_says_afterwards() -> None:  # I-7
    assert played(stream(START, EXITED, failure("deadline_exceeded"))).exit_code == 0


def test_message_over_the_limit_is_refused_with_the_knob() -> None:
    with pytest.raises(SandboxOutputLimitError, match="connectEnvelopeLimitBytes"):
        played(stream(START, output(b"x" * 4000), EXITED, END_OF_STREAM), connectEnvelopeLimitBytes=2048)


def test_command_leaves_no_artifact_nobody_asked_for() -> None:  # I-15
    answers = {START_CALL: stream(START, output("é".encode()), EXITED, END_OF_STREAM)}
    with CubeStub(answers) as stub, started(stub) as session:
        results = [run(session, "true", command_id="c") for _ in range(2)]
        assert [result.artifacts for result in results] == [(), ()]
        assert session.list_artifacts() == []


# --- a stream that breaks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_stream_cut_anywhere_is_never_a_success_before_its_end(  # K1, I-1
    emulator: Emulator, session: CubeSandboxSession, how: Any
) -> None:
    outcomes: list[type[SandboxException] | None] = []
    for position in range(0, 300, 20):
        emulator.faults.add(Fault(effect=Cut(after=position, how=how), path=START_PATH))
        try:
            result = run(session, "printf hi; exit 3")
        except SandboxException as error:
            outcomes.append(type(error))
        else:
            assert (result.exit_code, result.stdout) == (3, "hi")
            outcomes.append(None)

    assert set(outcomes) == {SandboxOutcomeUnknownError, None}
    assert outcomes[0] is SandboxOutcomeUnknownError
    assert run(session, "echo alive").stdout == "alive\n"


CUT = Reply(headers=STREAM, body=[START + output(b"half")], chunked=True, ending=Ending.CUT)


def first(reply: Reply, then: Reply) -> Any:
    """An envd that answers when the session is opened, and differently afterwards."""
    waiting = [reply]
    return lambda request: waiting.pop() if waiting else then


@pytest.mark.parametrize(
    ("health", "control", "kind", "state"),
    [
        (Reply(status=204), answer({}, 500), SandboxOutcomeUnknownError, SessionState.INTACT),
        (GONE, answer({"code": 404}, 404), SandboxSessionLostError, SessionState.LOST),
        (GONE, answer({**CREATED, "state": "paused"}), SandboxPausedError, SessionState.INTACT),
        (GONE, answer({**CREATED, "state": "pausing"}), SandboxPausedError, SessionState.INTACT),
        (GONE, answer({**CREATED, "state": "running"}), SandboxUnreachableError, SessionState.UNKNOWN),
    ],
    ids=["alive", "gone", "paused", "pausing", "unreachable"],
)
@pytest.mark.parametrize("broken", [CUT, stream(START, output(b"half"), failure("unavailable", "x"))])
def test_broken_stream_is_looked_into_and_keeps_what_had_arrived(
    broken: Reply, health: Reply, control: Reply, kind: type[SandboxException], state: SessionState
) -> None:
    answers = {START_CALL: broken, "GET /health": first(Reply(status=204), health), "GET /sandboxes/sb1": control}
    with CubeStub(answers) as stub, started(stub) as session, pytest.raises(kind) as caught:
        run(session, "true")

    assert type(caught.value) is kind
    assert caught.value.session_state is state
    if isinstance(caught.value, SandboxOutcomeUnknownError):
        assert caught.value.result is not None
        assert (caught.value.result.stdout, caught.value.result.exit_code) == ("half", None)


@pytest.mark.parametrize(
    ("refusal", "control", "kind", "says"),
    [
        (GONE, answer({"code": 404}, 404), SandboxSessionLostError, "CUBE_TIMEOUT"),
        (GONE, answer({**CREATED, "state": "running"}), SandboxConnectionError, "cannot be reached"),
        (answer({"error": "service unavailable"}, 503), answer({}, 500), SandboxConflictError, "resume"),
    ],
)
def test_command_that_the_proxy_refuses_was_not_started(
    refusal: Reply, control: Reply, kind: type[SandboxException], says: str
) -> None:
    answers = {START_CALL: refusal, "GET /sandboxes/sb1": control}
    with CubeStub(answers) as stub, started(stub) as session, pytest.raises(kind, match=says) as caught:
        run(session, "true")

    assert (caught.value.outcome, len(stub.starts())) == ("not_started", 1)


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize(
    "page", [answer({"message": "bad gateway"}), Reply(headers={"Content-Type": "text/html"}, body=b"<html></html>")]
)
def test_start_that_a_gateway_answers_may_have_run_and_is_sent_once(page: Reply, status: int) -> None:
    reply = Reply(status=status, headers=page.headers, body=page.body)
    with CubeStub({START_CALL: reply}) as stub, started(stub) as session, pytest.raises(SandboxException) as caught:
        run(session, "true")

    assert (caught.value.outcome, caught.value.retryable) == (Outcome.UNKNOWN, False)
    assert len(stub.starts()) == 1


AT_THE_SANDBOX: dict[str, Callable[[CubeSandboxSession], object]] = {
    "read": lambda session: session.files.read("/a"),
    "metrics": lambda session: session.metrics(),
    "list_processes": lambda session: session.list_processes(),
    "watch": lambda session: session.watch("/"),
    "execute": lambda session: run(session, "true"),
}


@pytest.mark.parametrize("call", AT_THE_SANDBOX.values(), ids=AT_THE_SANDBOX)
def test_sandbox_paused_elsewhere_is_no_lost_one(
    emulator: Emulator, session: CubeSandboxSession, call: Callable[[CubeSandboxSession], object]
) -> None:
    with CubeSandboxProvider(environ=emulator.environment).connect(session.session_id) as elsewhere:
        elsewhere.pause()

    with pytest.raises(SandboxConflictError, match="paused") as caught:
        call(session)

    assert (caught.value.outcome, caught.value.session_state) == (Outcome.NOT_STARTED, SessionState.INTACT)
    assert session.status is SandboxStatus.RUNNING


@pytest.mark.parametrize("call", AT_THE_SANDBOX.values(), ids=AT_THE_SANDBOX)
def test_sandbox_destroyed_elsewhere_is_lost_to_every_call(
    emulator: Emulator, session: CubeSandboxSession, call: Callable[[CubeSandboxSession], object]
) -> None:
    CubeSandboxProvider(environ=emulator.environment).destroy(session.session_id)

    with pytest.raises(SandboxSessionLostError, match="gone") as caught:
        call(session)

    assert (caught.value.outcome, caught.value.session_state) == (Outcome.NOT_STARTED, SessionState.LOST)
    assert session.status is SandboxStatus.FAILED


def test_port_that_is_not_envds_is_named() -> None:  # D26
    answers = {START_CALL: Reply(status=404, body=b"404 page not found")}
    with (
        CubeStub(answers) as stub,
        started(stub, envdPort=49999) as session,
        pytest.raises(SandboxConnectionError) as caught,
    ):
        run(session, "true")

    assert "port 49999" in str(caught.value)
    assert "CUBE_ENVD_PORT / config.envdPort" in str(caught.value)
    assert not isinstance(caught.value, SandboxNotFoundError)


def test_page_in_place_of_a_stream_is_an_error(emulator: Emulator, session: CubeSandboxSession) -> None:
    page = Answer(status=200, body="<html><title>Sign in</title></html>", content_type="text/html")
    emulator.faults.add(Fault(effect=page, path=START_PATH))

    with pytest.raises(SandboxException, match="Sign in"):
        run(session, "true")


def test_redirect_of_the_data_plane_is_refused(session: CubeSandboxSession, emulator: Emulator) -> None:
    moved = Answer(status=302, headers={"Location": "http://127.0.0.1:1/login"})
    emulator.faults.add(Fault(effect=moved, path="/files"))

    with pytest.raises(SandboxException, match="redirect"):
        session.files.read("/etc/hostname")


def test_sandbox_killed_while_a_command_runs_is_lost(
    provider: CubeSandboxProvider, session: CubeSandboxSession
) -> None:
    process = session.start(SandboxCommand(command="echo begun; sleep 60"))
    next(process.output())
    provider.destroy(session.session_id)

    with pytest.raises(SandboxSessionLostError):
        process.wait()


# --- stdin --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 131_072, 10_000_000])
def test_input_of_any_size_arrives(session: CubeSandboxSession, size: int) -> None:  # K4, I-9
    data = (b"\0'\"\n\xff" * (size // 5 + 1))[:size]

    assert run(session, "sha256sum | cut -c1-64; true", stdin=data).stdout.strip() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("command", "stdin", "stdout"),
    [
        ("wc -c", "line1\nline2\n", "12\n"),  # E06
        ("wc -c", "x\0y", "3\n"),  # E07
        ("cat # note", "hi", "hi"),
        ("cat <<EOF\nhi\nEOF", "unread", "hi\n"),
        ("cat", None, ""),  # E01
    ],
)
def test_input_reaches_the_command_whatever_the_command_is(
    session: CubeSandboxSession, command: str, stdin: str | None, stdout: str
) -> None:
    result = run(session, command) if stdin is None else run(session, command, stdin=stdin)

    assert (result.stdout, result.exit_code) == (stdout, 0)


def test_envd_of_unknown_version_is_asked_whether_it_can_end_input(older_emulator: Emulator) -> None:
    provider = CubeSandboxProvider(environ=older_emulator.environment)
    with provider.create_session() as session:
        older_emulator.requests.clear()
        assert [run(session, "cat", stdin=word).stdout for word in ("one", "two")] == ["one", "two"]

    asked = [request.path for request in older_emulator.requests.all()]
    assert asked[0] == "/process.Process/CloseStdin"  # about a process that is not there
    assert asked.count("/process.Process/CloseStdin") == 3


@pytest.mark.parametrize(
    "refusal", [Reply(status=404, body=b"404 page not found"), answer({"code": "unimplemented"}, 501)]
)
def test_envd_that_cannot_end_input_reads_it_from_a_file(refusal: Reply) -> None:
    answers = {
        "POST /sandboxes": answer({**CREATED, "envdVersion": "0.2.0"}, 201),
        "POST /process.Process/CloseStdin": refusal,
        "POST /files": answer([]),
    }
    with CubeStub(answers) as stub, started(stub) as session:
        run(session, "cat", stdin="hi")
        with pytest.raises(UnsupportedCapabilityError, match="left open"):
            session.start(SandboxCommand(command="cat", keep_stdin_open=True))

    (start,) = stub.starts()
    assert start["process"]["args"][-3:] == ["-l", "-c", "cat"]
    assert start["stdin"] is False


# --- the idle window ------------------------------------------------------------------------------------------------


def test_long_command_keeps_its_sandbox_alive(provider: CubeSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(config={"timeoutSeconds": 1})) as session:
        assert run(session, "sleep 2.5; echo done").stdout == "done\n"
        assert run(session, "echo alive").stdout == "alive\n"


def test_long_command_is_cut_off_when_it_may_not_count(provider: CubeSandboxProvider) -> None:
    spec = SandboxSpec(config={"timeoutSeconds": 1, "keepAlive": False})
    with provider.create_session(spec) as session, pytest.raises(SandboxSessionLostError):
        run(session, "sleep 30")


def test_sandbox_that_nobody_uses_ends_and_says_so(emulator: Emulator, provider: CubeSandboxProvider) -> None:  # I-35
    session = provider.create_session(SandboxSpec(config={"timeoutSeconds": 1}))
    run(session, "true")
    assert eventually(lambda: session.session_id not in [each.sandbox_id for each in emulator.sandboxes()])

    with pytest.raises(SandboxSessionLostError, match="CUBE_TIMEOUT"):
        run(session, "true")
    session.close()


def test_every_use_begins_the_window_anew(emulator: Emulator, provider: CubeSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(config={"timeoutSeconds": 1})) as session:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert run(session, "sleep 0.3; echo alive").stdout == "alive\n"


def test_never_ending_sandbox_has_no_end(emulator: Emulator, provider: CubeSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(config={"timeoutSeconds": -1})):
        (sandbox,) = emulator.sandboxes()
        assert sandbox.lifetime.ends_at is None


def test_extending_never_shortens(emulator: Emulator, provider: CubeSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(config={"timeoutSeconds": 600})) as session:
        ends = []
        for seconds in (60, 1200):
            session.extend(seconds)
            ends.append(emulator.sandboxes()[0].lifetime.ends_at or 0)
        with pytest.raises(SandboxConfigError, match="at least 1"):
            session.extend(0)

    assert ends[1] - ends[0] > 500
    assert ends[0] - time.time() > 500


# --- pause, snapshot, rollback, clone, ports --------------------------------------------------------------------------


def test_command_goes_on_after_a_pause(session: CubeSandboxSession) -> None:
    process = session.start(SandboxCommand(command="sleep 0.5; echo woken"))
    session.pause()
    with pytest.raises(SandboxConflictError, match="resume"):
        run(session, "true")
    session.resume()

    assert process.wait().stdout == "woken\n"


def test_paused_sandbox_is_destroyed_by_close(emulator: Emulator, older_emulator: Emulator) -> None:
    for service in (emulator, older_emulator):
        session = CubeSandboxProvider(environ=service.environment).create_session()
        session.pause()
        session.close()
        assert service.sandboxes() == []


def test_rollback_undoes_what_happened_since(session: CubeSandboxSession) -> None:
    run(session, "echo before > ~/file")
    kept = session.snapshot()
    run(session, "echo after > ~/file; touch ~/new")

    session.rollback(kept)

    assert run(session, "cat ~/file; ls ~/new").stdout == "before\n"


def test_clones_go_on_from_here_and_take_their_snapshot_with_them(
    emulator: Emulator, session: CubeSandboxSession
) -> None:
    run(session, "echo cloned > ~/file")

    clones = session.clone(2)

    assert [run(clone, "cat ~/file").stdout for clone in clones] == ["cloned\n", "cloned\n"]
    assert len({clone.session_id for clone in (*clones, session)}) == 3
    removed = [request.path for request in emulator.requests.all() if request.path.startswith("/templates/")]
    assert removed == []
    for clone in clones:
        assert clone.owned
        clone.close()
    removed = [request.path for request in emulator.requests.all() if request.path.startswith("/templates/")]
    assert len(removed) == 1


def test_clones_come_all_or_none(emulator: Emulator, session: CubeSandboxSession) -> None:
    refused = Answer(status=500, body='{"code": 500, "message": "full (130597)"}')
    emulator.faults.add(Fault(effect=refused, method="POST", path="/sandboxes", skip=1, times=None))

    with pytest.raises(SandboxException, match="full"):
        session.clone(3)

    assert [sandbox.sandbox_id for sandbox in emulator.sandboxes()] == [session.session_id]
    removed = [request for request in emulator.requests.all() if request.path.startswith("/templates/")]
    assert len(removed) == 1


def test_number_of_clones_is_a_number(session: CubeSandboxSession) -> None:
    with pytest.raises(SandboxConfigError, match="at least 1"):
        session.clone(0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda session: session.clone(0), "count must be a whole number"),
        (lambda session: session.clone("2"), "count must be a whole number"),
        (lambda session: session.rollback(None), "snapshot_id must be text"),
        (lambda session: session.extend("5"), "seconds must be a whole number"),
    ],
)
def test_argument_that_is_none_is_refused_by_its_name(session: CubeSandboxSession, call: Any, says: str) -> None:
    with pytest.raises(SandboxConfigError, match=says):
        call(session)


@pytest.mark.parametrize("port", [0, 70000, -1])
def test_port_that_is_none_is_refused(session: CubeSandboxSession, port: int) -> None:
    with pytest.raises(SandboxConfigError, match="port"):
        session.port_url(port)


def test_terminal_is_a_bash(session: CubeSandboxSession) -> None:
    result = run(session, "stty size; echo $BASH_VERSION", terminal=TerminalSize(rows=33, columns=99))

    assert result.stdout.startswith("33 99\r\n5.")


# --- traffic tokens ---------------------------------------------------------------------------------------------------


def test_sandbox_without_public_traffic_is_used_with_its_token(
    emulator: Emulator, provider: CubeSandboxProvider
) -> None:
    spec = SandboxSpec(config={"network": {"allowPublicTraffic": False}})
    with provider.create_session(spec) as session:
        assert run(session, "echo in").stdout == "in\n"
        token = session.port_url(80).headers["e2b-traffic-access-token"]
        with pytest.raises(SandboxException, match="CUBE_TRAFFIC_ACCESS_TOKEN"):
            provider.connect(session.session_id)
        holder = CubeSandboxProvider(environ=emulator.environment, traffic_access_token=token)
        with holder.connect(session.session_id) as attached:
            assert run(attached, "echo in too").stdout == "in too\n"


def test_network_is_understood_by_the_server(emulator: Emulator, provider: CubeSandboxProvider) -> None:
    config = {"allowInternetAccess": False, "network": {"allow_out": ["10.0.0.0/8"]}}
    with (
        provider.create_session(SandboxSpec(config=config)) as session,
        urlopen(f"{emulator.url()}/sandboxes/{session.session_id}/network", timeout=5) as reply,
    ):
        policy = json.load(reply)

    assert (policy["allowInternetAccess"], policy["allowOut"]) == (False, ["10.0.0.0/8"])


# --- the way to a sandbox ---------------------------------------------------------------------------------------------


def test_sandbox_is_reached_by_path(emulator: Emulator) -> None:
    environ = {"CUBE_API_URL": emulator.url(), "CUBE_PROXY_URL": emulator.url(), "CUBE_TEMPLATE_ID": "tpl"}
    with CubeSandboxProvider(environ=environ).create_session(SandboxSpec(workspace_id="/tmp/by path")) as session:
        assert run(session, "pwd; cat", stdin="x").stdout == "/tmp/by path\nx"
        session.files.write("a b&c=d%20.txt", b"1")
        assert session.files.read("/workspace/a b&c=d%20.txt") == b"1"


def test_host_name_that_nobody_knows_names_the_settings_that_help() -> None:
    unresolvable = answer({**CREATED, "sandboxID": "a" * 100}, 201)  # no label of a host name is that long
    with CubeStub({"POST /sandboxes": unresolvable, f"DELETE /sandboxes/{'a' * 100}": Reply(status=204)}) as stub:
        environ = stub.environ(CUBE_ENVD_BASE_URL="")
        with pytest.raises(SandboxConnectionError, match="could not be resolved") as caught:
            CubeSandboxProvider(environ=environ).create_session()

    assert "CUBE_PROXY_NODE_IP" in str(caught.value)
    assert "CUBE_PROXY_URL" in str(caught.value)
    assert stub.asked[-1].startswith("DELETE /sandboxes/a")


def test_session_tells_what_the_service_told(session: CubeSandboxSession) -> None:
    assert (session.sandbox.template, session.sandbox.domain) == ("tpl-emulator", "cube.app")
    assert session.sandbox.client_id == "emulator"
