"""Creating, connecting, finding, destroying; and that nothing is left when it goes wrong."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAdmissionError,
    SandboxAuthError,
    SandboxCapacityError,
    SandboxCleanupError,
    SandboxConfigError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxSessionClosedError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxSpec, SandboxStatus
from ai4j_sandbox.spi import SupportsPause
from ai4j_sandbox_e2b import E2BSandboxProvider
from ai4j_sandbox_emulator import Emulator
from ai4j_sandbox_emulator.faults import Answer, Fault, Hang, Reset
from ai4j_sandbox_wire.message import HttpReply, HttpRequest
from ai4j_sandbox_wire.requests_sender import RequestsSender
from support.authority import Authority
from support.e2b_stub import CREATED, E2BStub, answer, in_turn
from support.http_stub import Ending, Reply
from support.waiting import eventually

CREATE = "/sandboxes"


def asked(emulator: Emulator) -> list[str]:
    return [f"{request.method} {request.path}" for request in emulator.requests.all()]


def provider_of(emulator: Emulator, **arguments: Any) -> E2BSandboxProvider:
    return E2BSandboxProvider(environ=emulator.environment, **arguments)


# --- creating -----------------------------------------------------------------------------------------------------


def test_labels_and_owner_are_kept_by_the_service() -> None:  # I-37
    with E2BStub() as stub:
        spec = SandboxSpec(labels={"task": "t-1", "apiToken": "x"}, config={"metadata": {"run": "7"}})
        stub.provider().create_session(spec).close()

    (request,) = stub.requests("POST /sandboxes")
    metadata = json.loads(request.body)["metadata"]
    assert len(metadata.pop("ai4jCreate")) == 32
    assert metadata == {"ai4jOwner": "ai4j", "task": "t-1", "run": "7"}


def test_lifetime_is_the_configured_one_whatever_the_read_timeout_is() -> None:  # C14
    with E2BStub() as stub:
        stub.provider().create_session(SandboxSpec(config={"timeoutSeconds": 300, "readTimeoutMillis": 30_000})).close()

    assert json.loads(stub.requests("POST /sandboxes")[0].body)["timeout"] == 300


def test_image_of_the_spec_is_honoured_also_beside_constructor_arguments() -> None:  # I-51, K15
    with E2BStub() as stub:
        stub.provider(timeout_seconds=60).create_session(SandboxSpec(image="python-img")).close()

    body = json.loads(stub.requests("POST /sandboxes")[0].body)
    assert (body["templateID"], body["timeout"]) == ("python-img", 60)


def test_workspace_is_made_and_commands_run_in_it(provider: E2BSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(workspace_id="/tmp/a b/work")) as session:
        assert session.execute(SandboxCommand(command="pwd")).stdout == "/tmp/a b/work\n"
        assert session.execute(SandboxCommand(command="pwd", working_directory="/tmp")).stdout == "/tmp\n"


def test_variables_of_the_config_are_under_the_commands_own(provider: E2BSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(config={"env": {"A": "config", "B": "config"}})) as session:
        result = session.execute(SandboxCommand(command="echo $A $B", environment={"B": "command"}))

    assert result.stdout == "config command\n"


def test_key_from_the_config_is_used_and_not_kept() -> None:  # I-40
    with E2BStub() as stub:
        provider = E2BSandboxProvider(environ={"E2B_API_URL": stub.http.url, "E2B_SANDBOX_URL": stub.http.url})
        with provider.create_session(SandboxSpec(config={"apiKey": "spec-key"})) as session:
            assert dict(session.spec.config) == {}

    assert {request.headers.get("x-api-key") for request in stub.requests("POST /sandboxes")} == {"spec-key"}


def test_unknown_constructor_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="apikey"):
        E2BSandboxProvider(apikey="x")  # type: ignore[call-arg]  # what is tested


# --- creating fails -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handled", [True, False])
def test_creation_whose_answer_is_lost_leaves_nothing(emulator: Emulator, handled: bool) -> None:  # I-28, K8
    emulator.faults.add(Fault(effect=Reset(handled=handled), method="POST", path=CREATE))

    with pytest.raises(SandboxException) as caught:
        provider_of(emulator).create_session()

    assert emulator.sandboxes() == []
    assert asked(emulator).count("POST /sandboxes") == 1
    assert caught.value.may_still_exist is not handled  # found and removed, or perhaps still being made


def test_creation_with_an_answer_that_is_no_json_leaves_nothing(emulator: Emulator) -> None:
    class Garbling(RequestsSender):
        def __call__(self, request: HttpRequest, deadline: Any) -> HttpReply:
            reply = super().__call__(request, deadline)
            page = HttpReply(status=200, headers={"content-type": "text/html"}, body=b"<html>")
            return page if request.method == "POST" else reply

    with pytest.raises(SandboxProtocolError) as caught:
        provider_of(emulator, send=Garbling()).create_session()

    assert emulator.sandboxes() == []
    assert not caught.value.may_still_exist


def test_interrupted_creation_leaves_nothing(emulator: Emulator) -> None:
    class Interrupted(RequestsSender):
        def __call__(self, request: HttpRequest, deadline: Any) -> HttpReply:
            reply = super().__call__(request, deadline)
            if request.method == "POST":
                raise KeyboardInterrupt
            return reply

    with pytest.raises(KeyboardInterrupt):
        provider_of(emulator, send=Interrupted()).create_session()

    assert emulator.sandboxes() == []


def test_sandbox_that_cannot_be_opened_is_destroyed(emulator: Emulator) -> None:
    with pytest.raises(SandboxException):
        provider_of(emulator).create_session(SandboxSpec(workspace_id="/etc/passwd/work"))

    assert emulator.sandboxes() == []


def test_sandbox_that_can_be_neither_opened_nor_destroyed_is_told_by_its_id() -> None:
    answers = {"POST /filesystem.Filesystem/MakeDir": answer({}, 500), "DELETE /sandboxes/sid123": answer({}, 401)}
    with E2BStub(answers) as stub, pytest.raises(SandboxCleanupError, match="sid123") as caught:
        stub.provider().create_session(SandboxSpec(workspace_id="/work"))

    assert (caught.value.session_id, caught.value.may_still_exist) == ("sid123", True)


def test_refused_creation_is_not_looked_for() -> None:
    with E2BStub({"POST /sandboxes": answer({"code": 401}, 401)}) as stub, pytest.raises(SandboxAuthError) as caught:
        stub.provider().create_session()

    assert stub.asked == ["POST /sandboxes"]
    assert (caught.value.outcome, caught.value.may_still_exist) == (Outcome.NOT_STARTED, False)


def test_creation_that_nobody_answers_is_sent_once_and_may_have_left_something() -> None:  # N03
    with E2BStub({"POST /sandboxes": Reply(ending=Ending.SILENCE)}) as stub, pytest.raises(SandboxException) as caught:
        stub.provider(read_timeout_millis=200).create_session()

    assert stub.asked.count("POST /sandboxes") == 1
    assert stub.asked.count("GET /v2/sandboxes") == 3
    assert (caught.value.outcome, caught.value.may_still_exist) == (Outcome.UNKNOWN, True)


def test_service_without_room_has_made_nothing() -> None:
    answers = {"POST /sandboxes": answer({"code": 503, "message": "full"}, 503)}
    with E2BStub(answers) as stub, pytest.raises(SandboxCapacityError) as caught:
        stub.provider().create_session()

    assert not caught.value.may_still_exist


@pytest.mark.parametrize(
    "reply",
    [
        answer({"message": "bad gateway"}, 502),
        Reply(status=502, headers={"Content-Type": "text/html"}, body=b"<html><title>502</title></html>"),
        Reply(status=201, body=b"x" * 20, ending=Ending.CUT),
        Reply(status=201, body=b"x" * 20, ending=Ending.RESET),
    ],
    ids=["json", "html", "cut", "reset"],
)
def test_creation_in_doubt_is_sent_once_and_may_have_left_something(reply: Reply) -> None:
    with E2BStub({"POST /sandboxes": reply}) as stub, pytest.raises(SandboxConnectionError) as caught:
        stub.provider().create_session()

    error = caught.value
    assert (error.outcome, error.retryable, error.may_still_exist) == (Outcome.UNKNOWN, False, True)
    assert (stub.asked.count("POST /sandboxes"), stub.asked.count("GET /v2/sandboxes")) == (1, 3)


# --- connecting ---------------------------------------------------------------------------------------------------


def test_attaching_never_shortens_a_life(emulator: Emulator) -> None:  # I01
    owner = provider_of(emulator)
    with owner.create_session(SandboxSpec(config={"timeoutSeconds": 1800})) as session:
        (before,) = [sandbox.lifetime.ends_at for sandbox in emulator.sandboxes()]
        with owner.connect(session.session_id):
            pass
        with provider_of(emulator, timeout_seconds=60).connect(session.session_id):
            pass
        (after,) = [sandbox.lifetime.ends_at for sandbox in emulator.sandboxes()]

    assert before is not None
    assert after is not None
    assert before <= after < before + 5


@pytest.mark.parametrize(
    ("left", "config", "asked_for"),
    [(1800, {}, 1801), (1800, {"timeoutSeconds": 60}, 1801), (10, {"timeoutSeconds": 60}, 60)],
)
def test_life_that_is_asked_for_when_attaching(left: int, config: dict[str, Any], asked_for: int) -> None:  # I01
    ends_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_000_000 + left))
    answers = {
        "GET /sandboxes/sid123": answer({**CREATED, "state": "running", "endAt": ends_at}),
        "POST /sandboxes/sid123/connect": answer(CREATED),
    }
    with E2BStub(answers) as stub:
        stub.provider(wall_clock=lambda: 1_000_000.0).connect("sid123", SandboxSpec(config=config)).close()

    (request,) = stub.requests("POST /sandboxes/sid123/connect")
    assert json.loads(request.body) == {"timeout": asked_for}


def test_attaching_wakes_a_paused_sandbox(provider: E2BSandboxProvider) -> None:
    with provider.create_session() as session:
        session.execute(SandboxCommand(command="echo kept > ~/kept"))
        session.pause()
        with provider.connect(session.session_id) as attached:
            assert attached.execute(SandboxCommand(command="cat ~/kept")).stdout == "kept\n"


def test_attaching_to_what_is_not_there_creates_nothing(emulator: Emulator) -> None:  # I-29, K9
    with pytest.raises(SandboxNotFoundError, match="i0000000000000000000"):
        provider_of(emulator).connect("i0000000000000000000")

    assert asked(emulator) == ["GET /sandboxes/i0000000000000000000"]


@pytest.mark.parametrize("arguments", [{}, {"delete_on_close": True}])
def test_attached_sandbox_lives_on(emulator: Emulator, arguments: dict[str, Any]) -> None:  # I-30, K10
    with provider_of(emulator).create_session() as session:
        with provider_of(emulator, **arguments).connect(session.session_id) as attached:
            assert not attached.owned

        assert session.execute(SandboxCommand(command="echo alive")).stdout == "alive\n"


def test_attached_sandbox_is_destroyed_when_its_spec_says_so(emulator: Emulator) -> None:
    provider = provider_of(emulator)
    session = provider.create_session()

    provider.connect(session.session_id, SandboxSpec(config={"deleteOnClose": True})).close()

    assert emulator.sandboxes() == []
    session.close()


def test_closing_an_attached_session_ends_its_commands_and_not_the_detached_ones(provider: E2BSandboxProvider) -> None:
    with provider.create_session() as session:
        attached = provider.connect(session.session_id)
        attached.start(SandboxCommand(command="sleep 301", command_id="mine"))
        attached.start(SandboxCommand(command="sleep 302", command_id="server")).detach()
        attached.close()

        # Killed is not yet reaped.
        assert eventually(lambda: [process.command_id for process in session.list_processes()] == ["server"])


def test_attaching_with_the_spec_of_another_provider_is_refused(emulator: Emulator) -> None:  # I-60
    with pytest.raises(SandboxAdmissionError, match="daytona"):
        provider_of(emulator).connect("s", SandboxSpec(provider_id="daytona"))

    assert asked(emulator) == []


# --- closing ------------------------------------------------------------------------------------------------------


def test_closing_sends_one_delete_and_nothing_before_it() -> None:  # I16
    with E2BStub() as stub:
        session = stub.provider().create_session()
        session.close()
        session.close()

    assert stub.asked == ["POST /sandboxes", "DELETE /sandboxes/sid123"]


def test_closing_from_ten_threads_sends_one_delete() -> None:  # H06
    with E2BStub() as stub:
        session = stub.provider().create_session()
        with ThreadPoolExecutor(10) as pool:
            closings = [pool.submit(session.close) for _ in range(10)]

    assert [closing.exception() for closing in closings] == [None] * 10
    assert stub.asked == ["POST /sandboxes", "DELETE /sandboxes/sid123"]


def test_sandbox_is_kept_when_told() -> None:  # H23
    with E2BStub() as stub:
        session = stub.provider().create_session(SandboxSpec(config={"deleteOnClose": False}))
        session.close()

    assert stub.asked == ["POST /sandboxes"]
    assert session.status is SandboxStatus.CLOSED


@pytest.mark.parametrize("status", [404, 410])
def test_closing_what_is_gone_is_fine(status: int) -> None:  # I-33, I03
    with E2BStub({"DELETE /sandboxes/sid123": answer({"code": status}, status)}) as stub:
        session = stub.provider().create_session()
        session.close()

    assert session.status is SandboxStatus.CLOSED


@pytest.mark.parametrize("refusal", [answer({}, 401), answer({}, 500), Reply(ending=Ending.RESET)])
def test_closing_that_fails_says_so_refuses_commands_and_can_be_tried_again(refusal: Reply) -> None:  # I04, K7
    with E2BStub({"DELETE /sandboxes/sid123": refusal}) as stub:
        session = stub.provider().create_session()
        with pytest.raises(SandboxCleanupError, match="sid123") as caught:
            session.close()
        assert (session.status, caught.value.may_still_exist) == (SandboxStatus.FAILED, True)
        with pytest.raises(SandboxSessionClosedError):
            session.execute(SandboxCommand(command="true"))

        stub.answers["DELETE /sandboxes/sid123"] = Reply(status=204)
        session.close()

    assert session.status is SandboxStatus.CLOSED
    assert stub.starts() == []


# --- without a session ----------------------------------------------------------------------------------------------


def test_listing_is_by_label_and_shows_no_secret(provider: E2BSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(labels={"task": "list-me"})) as session:
        (summary,) = provider.list_sessions({"task": "list-me"})
        session.pause()
        (paused,) = provider.list_sessions({"task": "list-me"})

    assert (summary.session_id, summary.status, summary.state) == (session.session_id, SandboxStatus.RUNNING, "running")
    assert (summary.labels["task"], summary.labels["ai4jOwner"], summary.image) == ("list-me", "ai4j", "base")
    assert (paused.status, paused.state) == (SandboxStatus.CREATED, "paused")
    assert summary.expires_at_epoch_ms is not None


def test_destroying_by_id_is_idempotent(emulator: Emulator) -> None:
    provider = provider_of(emulator)
    session = provider.create_session()

    provider.destroy(session.session_id)
    provider.destroy(session.session_id)

    assert emulator.sandboxes() == []
    session.close()


def test_health_of_a_service_that_does_not_accept_the_key() -> None:
    with E2BStub({"GET /v2/sandboxes": answer({"code": 401, "message": "bad key"}, 401)}) as stub:
        health = stub.provider().health()

    assert not health.healthy
    assert "bad key" in health.summary
    assert "E2B_API_KEY" in health.advice[0]


def test_health_without_a_key_names_it() -> None:
    health = E2BSandboxProvider(environ={}).health()

    assert not health.healthy
    assert "E2B API key is required" in health.summary


def test_health_of_a_service_that_hangs_is_an_answer_in_time(emulator: Emulator) -> None:
    emulator.faults.add(Fault(effect=Hang(), path="/v2/sandboxes", times=None))
    started = time.monotonic()

    health = provider_of(emulator, read_timeout_millis=300).health()

    assert not health.healthy
    assert time.monotonic() - started < 6


def test_health_of_a_service_behind_a_sign_in_page(emulator: Emulator) -> None:
    page = Answer(status=200, body="<html><title>Sign in</title></html>", content_type="text/html")
    emulator.faults.add(Fault(effect=page, path="/v2/sandboxes", times=None))

    health = provider_of(emulator).health()

    assert not health.healthy
    assert health.advice == ("check the service's URL; a proxy or a sign-in page may have answered",)


# --- answers that prove nothing -----------------------------------------------------------------------------------

SIGN_IN = Reply(headers={"Content-Type": "text/html"}, body=b"<html><title>Sign in</title></html>")
FOREIGN = pytest.mark.parametrize("foreign", [SIGN_IN, answer([])], ids=["html", "list"])


@FOREIGN
def test_sandbox_is_not_called_destroyed_because_something_answered(foreign: Reply) -> None:
    with E2BStub({"DELETE /sandboxes/sid123": in_turn(foreign, foreign, Reply(status=204))}) as stub:
        provider = stub.provider()
        session = provider.create_session()
        with pytest.raises(SandboxCleanupError, match="sid123") as closing:
            session.close()
        with pytest.raises(SandboxCleanupError, match="sid123") as destroying:
            provider.destroy("sid123")
        session.close()

    assert session.status is SandboxStatus.CLOSED
    for caught in (closing, destroying):
        error = caught.value
        assert (error.session_id, error.provider_id, error.may_still_exist) == ("sid123", provider.provider_id, True)


@FOREIGN
def test_pause_that_something_else_answered_is_none(foreign: Reply) -> None:
    with (
        E2BStub({"POST /sandboxes/sid123/pause": foreign}) as stub,
        stub.provider().create_session() as session,
        pytest.raises(SandboxProtocolError, match="was expected"),
    ):
        session.require(SupportsPause).pause()


@FOREIGN
def test_health_that_something_else_answers_is_none(foreign: Reply) -> None:
    answers = {"GET /v2/sandboxes": foreign if foreign is SIGN_IN else answer({})}
    with E2BStub(answers) as stub:
        assert not stub.provider().health().healthy


# --- certificates -------------------------------------------------------------------------------------------------


def test_service_with_a_private_authority_is_used_with_its_bundle(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    spec = SandboxSpec(config={"caBundle": authority.bundle})
    with E2BStub(tls=authority.server) as stub, stub.provider().create_session(spec) as session:
        assert session.execute(SandboxCommand(command="true")).exit_code == 0

    assert {f"POST {path}" for path in ("/sandboxes", "/process.Process/Start")} <= set(stub.asked)


def test_certificate_that_is_not_trusted_names_the_setting(tmp_path: Path) -> None:
    with E2BStub(tls=Authority(tmp_path).server) as stub, pytest.raises(SandboxConnectionError) as caught:
        stub.provider().create_session()

    assert "config.caBundle" in str(caught.value)
    assert (caught.value.outcome, caught.value.retryable, stub.asked) == (Outcome.NOT_STARTED, False, [])


def test_certificate_of_the_sandbox_is_checked_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with (
        E2BStub(tls=authority.server) as envd,
        E2BStub() as stub,
        E2BSandboxProvider(environ=stub.environ(E2B_SANDBOX_URL=envd.http.url)).create_session() as session,
        pytest.raises(SandboxConnectionError, match=r"config\.caBundle"),
    ):
        session.files.read("/a")

    assert envd.asked == []


@pytest.mark.parametrize("content", [None, "no certificate"], ids=["missing", "nonsense"])
def test_bundle_that_cannot_be_read_is_a_wrong_setting(tmp_path: Path, content: str | None) -> None:
    bundle = tmp_path / "ca.pem"
    if content is not None:
        bundle.write_text(content)
    with (
        E2BStub(tls=Authority(tmp_path).server) as stub,
        pytest.raises(SandboxConfigError, match=r"config\.caBundle.*: .* cannot be read"),
    ):
        stub.provider().create_session(SandboxSpec(config={"caBundle": str(bundle)}))


# --- ids ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session_id", [None, "", 5])
def test_id_that_is_no_text_is_refused_before_anything_is_sent(session_id: Any) -> None:
    with E2BStub() as stub:
        for call in (stub.provider().connect, stub.provider().destroy):
            with pytest.raises(SandboxConfigError, match="session_id must"):
                call(session_id)

    assert stub.asked == []
