"""Creating, attaching, starting, closing: against played answers, with the requests counted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    SandboxAuthError,
    SandboxCleanupError,
    SandboxConfigError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxSessionClosedError,
    SandboxSessionLostError,
    SandboxTimeoutError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxSpec, SandboxStatus
from support.daytona_stub import KEY, Answer, DaytonaStub, answer, executed
from support.http_stub import Ending, HttpStub, Recorded, Reply
from support.secrets import CANARY, assert_no_secret, everything_said

GET, START, EXECUTE = "GET /sandbox/id-1", "POST /sandbox/id-1/start", "POST /id-1/process/execute"
BY_NAME, CREATE, DELETE = "GET /sandbox/work", "POST /sandbox", "DELETE /sandbox/id-1"
LIST = "GET /sandbox"
PROXY = "GET /sandbox/id-1/toolbox-proxy-url"
RESET = Reply(ending=Ending.RESET, body=b"x")
NOT_FOUND = answer({"message": "not found"}, 404)
DELETED = answer({"id": "id-1", "state": "destroying"})
SIGN_IN = Reply(headers={"Content-Type": "text/html"}, body=b"<html><title>Sign in</title></html>")
FAST = {"pollIntervalMillis": 10}


def states(stub: DaytonaStub, *names: str) -> list[Answer]:
    return [answer(stub.sandbox(name)) for name in names]


def spec(**config: Any) -> SandboxSpec:
    return SandboxSpec(provider_id="daytona", config=FAST | config)


def named(**config: Any) -> SandboxSpec:
    return SandboxSpec(provider_id="daytona", workspace_id="work", config=FAST | config)


# --- the acceptance list of the original (11 to 14) ------------------------------------------------------------------


def test_attaching_by_name_starts_a_stopped_sandbox_and_close_leaves_it() -> None:
    with DaytonaStub({}) as stub:
        stub.play(BY_NAME, *states(stub, "stopped"))
        stub.play(GET, *states(stub, "started"))
        stub.play(START, answer(stub.sandbox("started")))
        stub.play(EXECUTE, executed("daytona-ok"))
        session = stub.provider().create_session(named())
        command = SandboxCommand(command="cat", stdin="in", environment={"A": "1"}, timeout_millis=1500)
        result = session.execute(command)
        session.close()

    assert (result.exit_code, result.stdout, len(result.events)) == (0, "daytona-ok", 2)
    assert (session.status, session.owned) == (SandboxStatus.CLOSED, False)
    assert stub.calls == [BY_NAME, START, GET, EXECUTE]
    (body,) = stub.bodies(EXECUTE)
    assert body["envs"] == {"A": "1"}
    assert "aW4=" in body["command"]  # the input, in base64
    assert body["timeout"] >= 2  # the service's own limit is a backstop behind the one kept in the sandbox
    assert {request.headers["authorization"] for request in stub.http.requests} == {f"Bearer {KEY}"}


def test_name_that_is_missing_is_not_created_when_the_host_forbids_it() -> None:
    """Case I12."""
    with (
        DaytonaStub({}) as stub,
        pytest.raises(SandboxNotFoundError, match="failed to create or attach Daytona sandbox session"),
    ):
        stub.provider(create_if_missing=False).create_session(named())

    assert stub.calls == [BY_NAME]


def test_missing_name_is_created_and_what_was_created_is_deleted_on_close() -> None:
    with DaytonaStub({}) as stub:
        creating = {"id": "id-1", "name": "work", "state": "creating"}
        stub.play(CREATE, answer(creating))
        stub.play(GET, answer(creating), answer(creating | {"state": "started"}))
        stub.play(PROXY, answer({"url": stub.http.url}))
        stub.play(EXECUTE, executed("ok"))
        stub.play(DELETE, answer({"id": "id-1", "state": "destroying"}))
        request = SandboxSpec(
            image="snap", workspace_id="work", labels={"task": "t"}, config=FAST | {"deleteOnClose": True, "cpu": 2}
        )
        with stub.provider().create_session(request) as session:
            assert session.owned
            assert session.execute(SandboxCommand(command="true")).stdout == "ok"

    assert stub.calls == [BY_NAME, CREATE, GET, GET, PROXY, EXECUTE, DELETE]
    (body,) = stub.bodies(CREATE)
    assert (body["name"], body["snapshot"], body["cpu"], body["labels"]["task"]) == ("work", "snap", 2, "t")
    assert body["labels"]["ai4jOwner"] == "ai4j"


def test_created_sandbox_is_kept_by_default() -> None:
    with DaytonaStub({}) as stub:
        stub.play(CREATE, answer(stub.sandbox()))
        stub.provider().create_session(spec()).close()

    assert stub.calls == [CREATE]


# --- attach or create -------------------------------------------------------------------------------------------------


def test_explicit_id_that_is_missing_is_an_error_and_never_another_sandbox() -> None:
    with DaytonaStub({}) as stub, pytest.raises(SandboxNotFoundError):
        stub.provider().create_session(spec(sandboxId="id-1"))

    assert stub.calls == [GET]


@pytest.mark.parametrize(("status", "kind"), [(500, SandboxException), (401, SandboxAuthError)])
def test_only_a_404_leads_to_a_creation(status: int, kind: type[SandboxException]) -> None:
    """Case I12."""
    with DaytonaStub({BY_NAME: answer({"message": "no"}, status)}) as stub, pytest.raises(kind):
        stub.provider().create_session(named())

    assert CREATE not in stub.calls


def test_somebody_else_who_creates_the_name_first_is_attached_to() -> None:
    with DaytonaStub({CREATE: answer({"message": "already exists"}, 409)}) as stub:
        stub.play(BY_NAME, NOT_FOUND, answer(stub.sandbox()))
        session = stub.provider().create_session(named())
        session.close()

    assert session.owned is False
    assert stub.calls == [BY_NAME, CREATE, BY_NAME]


def test_attached_sandbox_is_deleted_only_if_the_document_says_so() -> None:
    with DaytonaStub({DELETE: DELETED}) as stub:
        stub.play(GET, answer(stub.sandbox()))
        stub.provider(delete_on_close=True).create_session(spec(sandboxId="id-1")).close()
        assert DELETE not in stub.calls
        stub.provider().create_session(spec(sandboxId="id-1", deleteOnClose=True)).close()
        assert stub.calls[-1] == DELETE


@pytest.mark.parametrize(
    "given", [Reply(), answer({}), answer({"id": ""}), answer({"id": None}, 201), Reply(body=b"<html>")]
)
def test_created_without_a_usable_id_is_an_error_and_looked_for(given: Reply) -> None:
    """Case I05."""
    with DaytonaStub({CREATE: given, LIST: answer({"items": []})}) as stub, pytest.raises(SandboxProtocolError):
        stub.provider().create_session(spec())

    assert stub.calls.count(CREATE) == 1
    assert LIST in stub.calls


# --- starting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "starts"),
    [
        (["started"], 0),
        (["stopped", "stopped", "starting", "started"], 1),  # Case I09
        (["stopping", "stopped", "starting", "started"], 1),
        (["archived", "restoring", "started"], 1),
        (["archiving", "archiving", "started"], 1),
        (["paused", "resuming", "started"], 1),
        (["creating", "pulling_snapshot", "unknown", "quantum", "started"], 0),
    ],
)
def test_every_way_to_started(seen: list[str], starts: int) -> None:
    with DaytonaStub({START: answer({})}) as stub:
        stub.play(GET, *states(stub, *seen))
        stub.provider().create_session(spec(sandboxId="id-1")).close()

    assert stub.calls.count(START) == starts


def test_start_that_meets_another_change_is_tried_again() -> None:
    with DaytonaStub({START: [answer({"message": "state change in progress"}, 409), answer({})]}) as stub:
        stub.play(GET, *states(stub, "stopped", "stopped", "started"))
        stub.provider().create_session(spec(sandboxId="id-1")).close()

    assert stub.calls.count(START) == 2


def test_sandbox_that_never_gets_ready_times_out_with_its_last_state() -> None:
    """Case I08."""
    with DaytonaStub({}) as stub:
        stub.play(GET, *states(stub, "creating", "pending_build", "starting", "quantum", "starting"))
        started = time.monotonic()
        with pytest.raises(SandboxTimeoutError, match="it is starting"):
            stub.provider().create_session(spec(sandboxId="id-1", startTimeoutMillis=600, pollIntervalMillis=50))

    assert 0.5 < time.monotonic() - started < 3
    assert START not in stub.calls


def test_polls_that_fail_for_a_moment_do_not_end_the_wait() -> None:
    """Case N05."""
    with DaytonaStub({}) as stub:
        stub.play(
            GET,
            *states(stub, "creating"),
            answer({}, 503),
            answer({}, 429),
            RESET,
            *states(stub, "started"),
        )
        stub.provider().create_session(spec(sandboxId="id-1", startTimeoutMillis=3000)).close()

    assert stub.calls.count(GET) == 5


def test_wish_to_wait_longer_than_there_is_time_ends_the_wait() -> None:
    """Case N06."""
    with DaytonaStub({}) as stub:
        stub.play(GET, *states(stub, "creating"), answer({}, 429, **{"Retry-After": "60"}))
        started = time.monotonic()
        with pytest.raises(SandboxException):
            stub.provider().create_session(spec(sandboxId="id-1", startTimeoutMillis=500))

    assert time.monotonic() - started < 2


# --- what was created does not stay -----------------------------------------------------------------------------------


def failing_start(stub: DaytonaStub) -> None:
    stub.play(CREATE, answer(stub.sandbox("creating")))
    stub.play(GET, answer(stub.sandbox("error", errorReason=f"token={CANARY}")))


def never_started(stub: DaytonaStub) -> None:
    stub.play(CREATE, answer(stub.sandbox("creating")))
    stub.play(GET, answer(stub.sandbox("creating")))


def no_proxy(stub: DaytonaStub) -> None:
    stub.play(CREATE, answer({"id": "id-1", "state": "started"}))
    stub.play(PROXY, answer({"message": "boom"}, 500))


@pytest.mark.parametrize("arrange", [failing_start, never_started, no_proxy])
def test_creation_that_fails_later_deletes_what_it_made(arrange: Callable[[DaytonaStub], None]) -> None:
    with DaytonaStub({DELETE: DELETED}) as stub:
        arrange(stub)
        with pytest.raises(SandboxException) as caught:
            stub.provider().create_session(spec(startTimeoutMillis=200))

    assert stub.calls[-1] == DELETE
    assert_no_secret(everything_said(caught.value))


def test_creation_and_its_cleanup_that_both_fail_say_so() -> None:
    with DaytonaStub({DELETE: answer({"message": "no"}, 500)}) as stub:
        failing_start(stub)
        with pytest.raises(SandboxCleanupError, match="id-1") as caught:
            stub.provider().create_session(spec())

    assert caught.value.may_still_exist


def test_creation_whose_answer_is_lost_is_looked_for_by_its_tag_and_deleted() -> None:
    with DaytonaStub({CREATE: RESET, DELETE: DELETED}) as stub:

        def listed(request: Recorded) -> Reply:
            (body,) = stub.bodies(CREATE)
            mine, other = stub.sandbox(labels=body["labels"]), stub.sandbox(labels={"ai4jCreate": "other"})
            return answer({"items": [mine, other | {"id": "id-2"}], "nextCursor": None})

        stub.play(LIST, listed)
        with pytest.raises(SandboxException):
            stub.provider().create_session(spec())

    assert stub.calls == [CREATE, LIST, DELETE]


@pytest.mark.parametrize("at", [CREATE, GET, START, PROXY])
@pytest.mark.parametrize("answered", [True, False])
def test_creation_that_is_interrupted_deletes_what_it_made(at: str, answered: bool) -> None:
    """A KeyboardInterrupt while any call of a creation is under way, before it took effect or after."""

    def interrupted(request: Recorded) -> Reply:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
        return Reply(ending=Ending.SILENCE)

    with DaytonaStub({DELETE: DELETED, START: answer({}), PROXY: answer({"url": "http://127.0.0.1:1"})}) as stub:

        def listed(request: Recorded) -> Reply:
            (body,) = stub.bodies(CREATE)
            return answer({"items": [stub.sandbox(labels=body["labels"])] if answered else [], "nextCursor": None})

        made = {"id": "id-1", "state": "creating"}
        stub.play(LIST, listed)
        stub.play(CREATE, answer(made))
        stub.play(GET, answer(made | {"state": "stopped"}), answer(made | {"state": "started"}))
        stub.play(at, interrupted)
        with pytest.raises(KeyboardInterrupt):
            stub.provider().create_session(spec())

    assert at in stub.calls
    assert (DELETE in stub.calls) is (answered or at != CREATE)
    assert stub.calls.count(CREATE) == 1


def test_creation_is_undone_though_the_sandbox_is_busy_for_longer() -> None:
    busy = answer({"message": "Sandbox state change in progress"}, 409)
    with DaytonaStub({DELETE: [*[busy] * 8, DELETED]}) as stub:
        failing_start(stub)
        with pytest.raises(SandboxException) as caught:
            stub.provider().create_session(spec())

    assert stub.calls.count(DELETE) == 9
    assert not caught.value.may_still_exist


# --- closing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", [[NOT_FOUND], [answer({"message": "state change in progress"}, 409), DELETED]])
def test_close_succeeds_when_the_sandbox_is_gone_or_busy_for_a_moment(answers: list[Answer]) -> None:
    """Case I03."""
    with DaytonaStub({DELETE: answers}) as stub:
        stub.play(CREATE, answer(stub.sandbox()))
        session = stub.provider().create_session(spec(deleteOnClose=True))
        session.close()

    assert session.status is SandboxStatus.CLOSED


@pytest.mark.parametrize(
    "first", [answer({"message": "no"}, 401), answer({"message": "no"}, 500), answer({}, 403), RESET]
)
def test_close_that_fails_says_so_refuses_commands_and_can_be_tried_again(first: Reply) -> None:
    """Case I04."""
    with DaytonaStub({DELETE: first}) as stub:
        stub.play(CREATE, answer(stub.sandbox()))
        session = stub.provider().create_session(spec(deleteOnClose=True))
        with pytest.raises(SandboxCleanupError):
            session.close()
        assert session.status is SandboxStatus.FAILED
        with pytest.raises(SandboxSessionClosedError):
            session.execute(SandboxCommand(command="true"))
        stub.play(DELETE, DELETED)
        tried = stub.calls.count(DELETE)
        session.close()

    assert session.status is SandboxStatus.CLOSED
    assert stub.calls.count(DELETE) == tried + 1


@pytest.mark.parametrize("taken", [answer({}), Reply(), answer({"id": "id-1", "state": "started"})])
def test_deletion_whose_answer_proves_nothing_is_looked_at(taken: Reply) -> None:
    with DaytonaStub({DELETE: taken, GET: NOT_FOUND}) as stub:
        stub.provider().destroy("id-1")

    assert stub.calls == [DELETE, GET]


@pytest.mark.parametrize("taken", [SIGN_IN, answer([]), answer({}), Reply()])
def test_deletion_that_left_the_sandbox_alive_is_never_success(taken: Reply) -> None:
    with DaytonaStub({DELETE: taken}) as stub:
        stub.play(CREATE, answer(stub.sandbox()))
        stub.play(GET, answer(stub.sandbox()))
        session = stub.provider().create_session(spec(deleteOnClose=True))
        with pytest.raises(SandboxCleanupError) as closing:
            session.close()
        with pytest.raises(SandboxCleanupError) as destroying:
            stub.provider().destroy("id-1")
        stub.play(DELETE, DELETED)
        session.close()

    assert closing.value.may_still_exist
    assert destroying.value.may_still_exist


@pytest.mark.parametrize("call", ["stop", "archive", "pause"])
@pytest.mark.parametrize("taken", [SIGN_IN, answer([])])
def test_change_that_something_else_answered_is_never_success(call: str, taken: Reply) -> None:
    with DaytonaStub({f"POST /sandbox/id-1/{call}": taken}) as stub:
        stub.play(GET, answer(stub.sandbox(sandboxClass="linux-vm")))
        with stub.provider().connect("id-1") as session, pytest.raises(SandboxProtocolError):
            getattr(session, call)()


def test_change_that_does_not_happen_is_never_success() -> None:
    with DaytonaStub({"POST /sandbox/id-1/archive": Reply()}) as stub:
        stub.play(GET, answer(stub.sandbox()))
        attached = stub.provider().connect("id-1", spec(startTimeoutMillis=500))
        with attached as session, pytest.raises(SandboxTimeoutError, match="it is started"):
            session.archive()


def test_archive_of_a_sandbox_that_is_gone_says_so_and_stopping_it_is_fine() -> None:
    with DaytonaStub({f"POST /sandbox/id-1/{call}": answer({}) for call in ("stop", "archive")}) as stub:
        stub.play(GET, answer(stub.sandbox()), NOT_FOUND)
        with stub.provider().connect("id-1") as session:
            session.stop()
            with pytest.raises(SandboxSessionLostError, match="deleted"):
                session.archive()


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("seconds must be a whole number of at least 1", lambda session: session.extend("5")),
        ("seconds must be a whole number of at least 1", lambda session: session.extend(0)),
        ("seconds must be a whole number of at least 1", lambda session: session.extend(True)),
        ("port must be a whole number from 1 to 65535", lambda session: session.port_url("80")),
        ("port must be a whole number from 1 to 65535", lambda session: session.port_url(65536)),
        ("seconds must be a whole number from 1 to 86400", lambda session: session.signed_port_url(80, "60")),
        ("name must be text", lambda session: session.snapshot(5)),
        ("mode must be a whole number from 0 to", lambda session: session._files().set_permissions("a", mode="644")),
    ],
)
def test_wrong_argument_is_told_by_its_name_and_nothing_is_sent(words: str, call: Callable[[Any], object]) -> None:
    with DaytonaStub({}) as stub:
        stub.play(GET, answer(stub.sandbox()))
        with stub.provider().connect("id-1") as session, pytest.raises(SandboxConfigError, match=words):
            call(session)

    assert stub.calls == [GET]


@pytest.mark.parametrize("wrong", [None, "", "..", 5])
def test_id_that_is_none_is_a_wrong_argument(wrong: Any) -> None:
    with DaytonaStub({}) as stub:
        with pytest.raises(SandboxConfigError, match="id must"):
            stub.provider().connect(wrong)
        with pytest.raises(SandboxConfigError, match="id must"):
            stub.provider().destroy(wrong)

    assert stub.calls == []


# --- where the key goes ----------------------------------------------------------------------------------------------


def test_configured_proxy_wins_over_the_one_the_service_names() -> None:
    with DaytonaStub({}) as stub, HttpStub(executed("from the configured one")) as proxy:
        stub.play(CREATE, answer(stub.sandbox()))
        session = stub.provider(toolbox_proxy_url=f"{proxy.url}/base/").create_session(spec())
        result = session.execute(SandboxCommand(command="true"))
        session.close()

    assert result.stdout == "from the configured one"
    assert [request.path for request in proxy.requests] == ["/base/id-1/process/execute"]


@pytest.mark.parametrize("proxy", ["http://proxy.example/toolbox", "http://10.0.0.1"])
def test_proxy_that_is_named_without_proof_gets_no_key(proxy: str) -> None:
    with DaytonaStub({DELETE: DELETED}) as stub:
        stub.play(CREATE, answer(stub.sandbox() | {"toolboxProxyUrl": proxy}))
        with pytest.raises(SandboxAuthError, match="DAYTONA_TOOLBOX_PROXY_URL"):
            stub.provider().create_session(spec())

    assert stub.calls == [CREATE, DELETE]


def test_redirect_is_not_followed() -> None:
    """Case J01."""
    with HttpStub(answer({"id": "stolen"})) as other:
        redirect = Reply(status=302, headers={"Location": f"{other.url}/"})
        with DaytonaStub({GET: redirect}) as stub, pytest.raises(SandboxProtocolError, match="redirected"):
            stub.provider().create_session(spec(sandboxId="id-1"))

        assert other.requests == []


def test_netrc_and_proxy_variables_are_not_read(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases J03 and J10."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login u password p\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with DaytonaStub({EXECUTE: executed()}) as stub:
        stub.play(GET, answer(stub.sandbox()))
        with stub.provider().create_session(spec(sandboxId="id-1")) as session:
            session.execute(SandboxCommand(command="true"))

    assert {request.headers["authorization"] for request in stub.http.requests} == {f"Bearer {KEY}"}
    assert not [request for request in stub.http.requests if KEY in request.target]


# --- without a session ------------------------------------------------------------------------------------------------


def test_list_follows_the_cursor_and_leaves_out_what_is_gone() -> None:
    with DaytonaStub({}) as stub:
        one, two, gone = (stub.sandbox(state) | {"id": state} for state in ("started", "stopped", "destroyed"))
        stub.play(LIST, answer({"items": [one, gone], "nextCursor": "c"}), answer({"items": [two], "nextCursor": None}))
        listed = stub.provider().list_sessions()

    assert [summary.session_id for summary in listed] == ["started", "stopped"]


def test_destroying_what_is_gone_is_fine() -> None:
    with DaytonaStub({}) as stub:
        stub.provider().destroy("id-1")

    assert stub.calls == [DELETE]


def test_health_tells_what_is_wrong_instead_of_raising() -> None:
    with DaytonaStub({LIST: answer({"message": "Invalid credentials"}, 401)}) as stub:
        health = stub.provider().health()

    assert (health.healthy, "API key" in health.summary) == (False, True)


def test_repr_of_the_provider_shows_no_setting() -> None:
    with DaytonaStub({}) as stub:
        assert_no_secret(repr(stub.provider(api_key=CANARY)))
