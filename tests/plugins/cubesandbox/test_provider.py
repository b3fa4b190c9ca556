"""Creating, connecting, finding, destroying; and that nothing is left when it goes wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAdmissionError,
    SandboxAuthError,
    SandboxCleanupError,
    SandboxConfigError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxSessionClosedError,
    SandboxSessionLostError,
    SandboxTimeoutError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxSpec, SandboxStatus
from ai4j_sandbox.registry import default_registry
from ai4j_sandbox.spi import SupportsPause
from ai4j_sandbox_cubesandbox import CubeSandboxProvider
from ai4j_sandbox_emulator import Emulator
from ai4j_sandbox_emulator.faults import Answer, Fault, Hang, Reset
from ai4j_sandbox_wire.message import HttpReply, HttpRequest
from ai4j_sandbox_wire.requests_sender import RequestsSender
from support.authority import Authority
from support.cube_stub import GONE, CubeStub
from support.e2b_stub import answer, in_turn
from support.http_stub import Ending, Reply
from support.waiting import eventually

CREATE = "POST /sandboxes"


def asked(emulator: Emulator) -> list[str]:
    return [f"{request.method} {request.path}" for request in emulator.requests.all()]


def provider_of(emulator: Emulator, **arguments: Any) -> CubeSandboxProvider:
    return CubeSandboxProvider(environ=emulator.environment, **arguments)


def test_it_is_installed_under_its_name() -> None:
    assert "cubesandbox" in default_registry().ids()
    assert default_registry().provider("cubesandbox").info.display_name == "CubeSandbox"


# --- creating -----------------------------------------------------------------------------------------------------


def test_workspace_is_made_and_commands_run_in_it(provider: CubeSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(workspace_id="/tmp/a b/work")) as session:
        assert session.execute(SandboxCommand(command="pwd")).stdout == "/tmp/a b/work\n"
        assert session.execute(SandboxCommand(command="pwd", working_directory="/tmp")).stdout == "/tmp\n"


def test_owner_and_labels_are_kept_by_the_service(provider: CubeSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(labels={"task": "t-1", "apiToken": "x"})) as session:
        (found,) = provider.list_sessions({"ai4jOwner": "ai4j", "task": "t-1"})

    assert found.session_id == session.session_id
    assert found.labels["ai4jProvider"] == "cubesandbox"
    assert "apiToken" not in found.labels


def test_sandbox_that_needs_a_moment_is_waited_for() -> None:
    starting = Reply(status=502, headers={"Content-Type": "text/html"}, body=b"<html>502</html>")
    with CubeStub({"GET /health": in_turn(starting, starting, Reply(status=204))}) as stub:
        stub.provider().create_session().close()

    assert stub.asked.count("GET /health") == 3


def test_gateway_without_health_counts_as_an_answer() -> None:
    answers = {"GET /health": Reply(status=404, body=b"404 page not found")}
    with CubeStub(answers) as stub, stub.provider(envd_port=49999).create_session() as session:
        assert session.execute(SandboxCommand(command="true")).exit_code == 0


def test_unknown_constructor_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="apikey"):
        CubeSandboxProvider(apikey="x")  # type: ignore[call-arg]  # what is tested


# --- creating fails -------------------------------------------------------------------------------------------------


def test_missing_template_contacts_nobody() -> None:  # H32
    with CubeStub() as stub, pytest.raises(SandboxConfigError, match="templateID"):
        CubeSandboxProvider(environ=stub.environ(CUBE_TEMPLATE_ID="")).create_session()

    assert stub.asked == []


@pytest.mark.parametrize("handled", [True, False])
def test_creation_whose_answer_is_lost_leaves_nothing(emulator: Emulator, handled: bool) -> None:  # I-28, K8
    emulator.faults.add(Fault(effect=Reset(handled=handled), method="POST", path="/sandboxes"))

    with pytest.raises(SandboxException) as caught:
        provider_of(emulator).create_session()

    assert emulator.sandboxes() == []
    assert asked(emulator).count(CREATE) == 1
    assert caught.value.may_still_exist is not handled  # found and removed, or perhaps still being made


def test_empty_408_may_have_left_something_and_is_looked_for(emulator: Emulator) -> None:
    emulator.faults.add(Fault(effect=Answer(status=408), method="POST", path="/sandboxes"))

    with pytest.raises(SandboxTimeoutError):
        provider_of(emulator).create_session()

    assert asked(emulator).count("GET /v2/sandboxes") == 3


def test_creation_with_an_answer_that_is_no_json_leaves_nothing(emulator: Emulator) -> None:
    class Garbling(RequestsSender):
        def __call__(self, request: HttpRequest, deadline: Any) -> HttpReply:
            reply = super().__call__(request, deadline)
            page = HttpReply(status=200, headers={"content-type": "text/html"}, body=b"<html>")
            return page if request.method == "POST" else reply

    with pytest.raises(SandboxException) as caught:
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


def test_sandbox_that_cannot_be_reached_is_destroyed() -> None:
    with CubeStub({"GET /health": GONE}) as stub, pytest.raises(SandboxSessionLostError):
        stub.provider().create_session()

    assert stub.asked == [CREATE, "GET /health", "DELETE /sandboxes/sb1"]


def test_sandbox_that_can_be_neither_opened_nor_destroyed_is_told_by_its_id() -> None:
    answers = {"GET /health": GONE, "DELETE /sandboxes/sb1": answer({}, 401)}
    with CubeStub(answers) as stub, pytest.raises(SandboxCleanupError, match="sb1") as caught:
        stub.provider().create_session()

    assert (caught.value.session_id, caught.value.may_still_exist) == ("sb1", True)


def test_refused_creation_is_not_looked_for() -> None:
    with CubeStub({CREATE: answer({"code": 401}, 401)}) as stub, pytest.raises(SandboxAuthError) as caught:
        stub.provider().create_session()

    assert stub.asked == [CREATE]
    assert (caught.value.outcome, caught.value.may_still_exist) == (Outcome.NOT_STARTED, False)


def test_creation_that_nobody_answers_is_sent_once_and_may_have_left_something() -> None:  # N03
    with CubeStub({CREATE: Reply(ending=Ending.SILENCE)}) as stub, pytest.raises(SandboxException) as caught:
        stub.provider(request_timeout_millis=200).create_session()

    assert stub.asked.count(CREATE) == 1
    assert (caught.value.outcome, caught.value.may_still_exist) == (Outcome.UNKNOWN, True)


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
    with CubeStub({"POST /sandboxes": reply}) as stub, pytest.raises(SandboxConnectionError) as caught:
        stub.provider().create_session()

    error = caught.value
    assert (error.outcome, error.retryable, error.may_still_exist) == (Outcome.UNKNOWN, False, True)
    assert (stub.asked.count("POST /sandboxes"), stub.asked.count("GET /v2/sandboxes")) == (1, 3)


# --- connecting ---------------------------------------------------------------------------------------------------


def test_connecting_neither_shortens_nor_asks_for_a_life(emulator: Emulator) -> None:  # I01
    owner = provider_of(emulator)
    with owner.create_session(SandboxSpec(config={"timeoutSeconds": 1800})) as session:
        (before,) = [sandbox.lifetime.ends_at or 0 for sandbox in emulator.sandboxes()]
        owner.connect(session.session_id).close()
        provider_of(emulator, timeout_seconds=60).connect(session.session_id).close()
        (after,) = [sandbox.lifetime.ends_at or 0 for sandbox in emulator.sandboxes()]

    assert before <= after < before + 5


@pytest.mark.parametrize(
    ("config", "body"), [({}, {}), ({"timeoutSeconds": 60}, {"timeout": 60}), ({"timeout": -1}, {"timeout": -1})]
)
def test_window_is_sent_only_when_somebody_asked_for_one(config: dict[str, Any], body: dict[str, Any]) -> None:
    with CubeStub() as stub:
        stub.provider().connect("sb1", SandboxSpec(config=config)).close()

    assert json.loads(stub.requests("POST /sandboxes/sb1/connect")[0].body) == body


def test_connecting_wakes_a_paused_sandbox(provider: CubeSandboxProvider) -> None:
    with provider.create_session() as session:
        session.execute(SandboxCommand(command="echo kept > ~/kept"))
        session.pause()
        with provider.connect(session.session_id) as attached:
            assert attached.execute(SandboxCommand(command="cat ~/kept")).stdout == "kept\n"


def test_connecting_to_an_older_server(older_emulator: Emulator) -> None:
    provider = provider_of(older_emulator)
    with provider.create_session() as session, provider.connect(session.session_id) as attached:
        assert attached.execute(SandboxCommand(command="echo in")).stdout == "in\n"


def test_connecting_to_what_is_not_there_creates_nothing(emulator: Emulator) -> None:  # I-29, K9
    with pytest.raises(SandboxNotFoundError, match="0000"):
        provider_of(emulator).connect("0" * 32)

    assert asked(emulator) == [f"POST /sandboxes/{'0' * 32}/connect"]


@pytest.mark.parametrize(
    ("health", "kind", "says"),
    [
        (GONE, SandboxSessionLostError, "no longer has"),
        (answer({"error": "not found"}, 404), SandboxSessionLostError, "no longer has"),
        (Reply(status=502, headers={"Content-Type": "text/html"}), SandboxConnectionError, "CubeAPI says .* runs"),
    ],
)
def test_word_of_the_control_plane_is_not_believed(health: Reply, kind: type[SandboxException], says: str) -> None:
    with CubeStub({"GET /health": health}) as stub, pytest.raises(kind, match=says) as caught:
        stub.provider().connect("sb1")

    assert caught.value.session_id == "sb1"
    assert "DELETE /sandboxes/sb1" not in stub.asked


@pytest.mark.parametrize("config", [{}, {"closeDestroysSandbox": True}])
def test_connected_sandbox_lives_on_whatever_the_flag_says(  # H35, I-30, K10
    emulator: Emulator, config: dict[str, Any]
) -> None:
    provider = provider_of(emulator)
    with provider.create_session() as session:
        with provider.connect(session.session_id, SandboxSpec(config=config)) as attached:
            assert not attached.owned

        assert session.execute(SandboxCommand(command="echo alive")).stdout == "alive\n"


def test_closing_a_connected_session_ends_its_commands_and_not_the_detached_ones(
    provider: CubeSandboxProvider,
) -> None:
    with provider.create_session() as session:
        attached = provider.connect(session.session_id)
        attached.start(SandboxCommand(command="sleep 301", command_id="mine"))
        attached.start(SandboxCommand(command="sleep 302", command_id="server")).detach()
        attached.close()

        # Killed is not yet reaped.
        assert eventually(lambda: [process.command_id for process in session.list_processes()] == ["server"])


def test_connecting_with_the_spec_of_another_provider_is_refused(emulator: Emulator) -> None:  # I-60
    with pytest.raises(SandboxAdmissionError, match="daytona"):
        provider_of(emulator).connect("s", SandboxSpec(provider_id="daytona"))

    assert asked(emulator) == []


# --- closing ------------------------------------------------------------------------------------------------------


def test_closing_sends_one_delete_and_nothing_before_it() -> None:  # I16
    with CubeStub() as stub:
        session = stub.provider().create_session()
        session.close()
        session.close()

    assert stub.asked == [CREATE, "GET /health", "DELETE /sandboxes/sb1"]


@pytest.mark.parametrize("key", ["closeDestroysSandbox", "destroyOnClose", "deleteOnClose"])
def test_sandbox_is_kept_when_told(key: str) -> None:
    with CubeStub() as stub:
        session = stub.provider().create_session(SandboxSpec(config={key: False}))
        session.close()

    assert "DELETE /sandboxes/sb1" not in stub.asked
    assert session.status is SandboxStatus.CLOSED


@pytest.mark.parametrize("status", [404, 410])
def test_closing_what_is_gone_is_fine(status: int) -> None:  # I-33, I03
    with CubeStub({"DELETE /sandboxes/sb1": answer({"code": status}, status)}) as stub:
        session = stub.provider().create_session()
        session.close()

    assert session.status is SandboxStatus.CLOSED


def test_closing_in_the_middle_of_a_change_waits_for_it() -> None:  # I03
    busy = answer({"code": 409, "message": "state change in progress"}, 409)
    with CubeStub({"DELETE /sandboxes/sb1": in_turn(busy, Reply(status=204))}) as stub:
        stub.provider().create_session().close()

    assert stub.asked.count("DELETE /sandboxes/sb1") == 2


@pytest.mark.parametrize("refusal", [answer({}, 401), answer({}, 403), Reply(ending=Ending.RESET)])
def test_closing_that_fails_says_so_refuses_commands_and_can_be_tried_again(refusal: Reply) -> None:  # I04, K7
    with CubeStub({"DELETE /sandboxes/sb1": refusal}) as stub:
        session = stub.provider().create_session()
        with pytest.raises(SandboxCleanupError, match="sb1") as caught:
            session.close()
        assert (session.status, caught.value.may_still_exist) == (SandboxStatus.FAILED, True)
        with pytest.raises(SandboxSessionClosedError):
            session.execute(SandboxCommand(command="true"))

        stub.answers["DELETE /sandboxes/sb1"] = Reply(status=204)
        session.close()

    assert session.status is SandboxStatus.CLOSED
    assert stub.starts() == []


# --- without a session ----------------------------------------------------------------------------------------------


def test_listing_is_by_label_and_shows_paused_ones(provider: CubeSandboxProvider) -> None:
    with provider.create_session(SandboxSpec(labels={"task": "list & me"})) as session:
        (summary,) = provider.list_sessions({"task": "list & me"})
        session.pause()
        (paused,) = provider.list_sessions({"task": "list & me"})

    assert (summary.session_id, summary.status, summary.state) == (session.session_id, SandboxStatus.RUNNING, "running")
    assert (summary.image, summary.expires_at_epoch_ms is not None) == ("tpl-emulator", True)
    assert (paused.status, paused.state) == (SandboxStatus.CREATED, "paused")


def test_destroying_by_id_is_idempotent(emulator: Emulator) -> None:
    provider = provider_of(emulator)
    session = provider.create_session()

    provider.destroy(session.session_id)
    provider.destroy(session.session_id)

    assert emulator.sandboxes() == []
    session.close()


def test_health_tells_what_the_service_tells(provider: CubeSandboxProvider) -> None:
    health = provider.health()

    assert (health.healthy, health.details["status"], health.advice) == (True, "ok", ())


def test_health_without_a_template_is_fine_and_says_what_is_missing() -> None:
    with CubeStub() as stub:
        health = CubeSandboxProvider(environ=stub.environ(CUBE_TEMPLATE_ID="")).health()

    assert health.healthy
    assert "CUBE_TEMPLATE_ID" in health.advice[0]


def test_health_of_a_service_that_does_not_accept_the_key() -> None:
    with CubeStub({"GET /v2/sandboxes": answer({"code": 401, "message": "bad key"}, 401)}) as stub:
        health = stub.provider().health()

    assert not health.healthy
    assert "bad key" in health.summary
    assert "CUBE_API_KEY" in health.advice[0]


def test_health_of_a_service_that_hangs_is_an_answer_in_time(emulator: Emulator) -> None:
    emulator.faults.add(Fault(effect=Hang(), path="/health", times=None))
    began = time.monotonic()

    health = provider_of(emulator, request_timeout_millis=300).health()

    assert not health.healthy
    assert time.monotonic() - began < 6


def test_health_of_a_service_that_is_not_there_names_the_setting() -> None:
    health = CubeSandboxProvider(environ={"CUBE_API_URL": "http://127.0.0.1:9"}, request_timeout_millis=300).health()

    assert not health.healthy
    assert "CUBE_API_URL" in health.advice[0]


# --- answers that prove nothing -----------------------------------------------------------------------------------

SIGN_IN = Reply(headers={"Content-Type": "text/html"}, body=b"<html><title>Sign in</title></html>")
FOREIGN = pytest.mark.parametrize("foreign", [SIGN_IN, answer([])], ids=["html", "list"])


@FOREIGN
def test_sandbox_is_not_called_destroyed_because_something_answered(foreign: Reply) -> None:
    with CubeStub({"DELETE /sandboxes/sb1": in_turn(foreign, foreign, Reply(status=204))}) as stub:
        provider = stub.provider()
        session = provider.create_session()
        with pytest.raises(SandboxCleanupError, match="sb1") as closing:
            session.close()
        with pytest.raises(SandboxCleanupError, match="sb1") as destroying:
            provider.destroy("sb1")
        session.close()

    assert session.status is SandboxStatus.CLOSED
    for caught in (closing, destroying):
        error = caught.value
        assert (error.session_id, error.provider_id, error.may_still_exist) == ("sb1", provider.provider_id, True)


@FOREIGN
def test_pause_that_something_else_answered_is_none(foreign: Reply) -> None:
    with (
        CubeStub({"POST /sandboxes/sb1/pause": foreign}) as stub,
        stub.provider().create_session() as session,
        pytest.raises(SandboxProtocolError, match="was expected"),
    ):
        session.require(SupportsPause).pause()


@FOREIGN
def test_health_that_something_else_answers_is_none(foreign: Reply) -> None:
    with CubeStub({"GET /health": foreign}) as stub:
        assert not stub.provider().health().healthy


# --- certificates -------------------------------------------------------------------------------------------------


def test_service_with_a_private_authority_is_used_with_its_bundle(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    spec = SandboxSpec(config={"caBundle": authority.bundle})
    with CubeStub(tls=authority.server) as stub, stub.provider().create_session(spec) as session:
        assert session.execute(SandboxCommand(command="true")).exit_code == 0

    assert {f"POST {path}" for path in ("/sandboxes", "/process.Process/Start")} <= set(stub.asked)


def test_certificate_that_is_not_trusted_names_the_setting(tmp_path: Path) -> None:
    with CubeStub(tls=Authority(tmp_path).server) as stub, pytest.raises(SandboxConnectionError) as caught:
        stub.provider().create_session()

    assert "CUBE_CA_BUNDLE" in str(caught.value)
    assert (caught.value.outcome, caught.value.retryable, stub.asked) == (Outcome.NOT_STARTED, False, [])


def test_certificate_of_the_sandbox_is_checked_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with (
        CubeStub(tls=authority.server) as envd,
        CubeStub() as stub,
        pytest.raises(SandboxConnectionError, match="CUBE_CA_BUNDLE"),
    ):
        CubeSandboxProvider(environ=stub.environ(CUBE_ENVD_BASE_URL=envd.http.url)).create_session()

    assert envd.asked == []


@pytest.mark.parametrize("content", [None, "no certificate"], ids=["missing", "nonsense"])
def test_bundle_that_cannot_be_read_is_a_wrong_setting(tmp_path: Path, content: str | None) -> None:
    bundle = tmp_path / "ca.pem"
    if content is not None:
        bundle.write_text(content)
    with (
        CubeStub(tls=Authority(tmp_path).server) as stub,
        pytest.raises(SandboxConfigError, match=r"CUBE_CA_BUNDLE / config\.caBundle.*: .* cannot be read"),
    ):
        stub.provider().create_session(SandboxSpec(config={"caBundle": str(bundle)}))


# --- ids ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session_id", [None, "", 5])
def test_id_that_is_no_text_is_refused_before_anything_is_sent(session_id: Any) -> None:
    with CubeStub() as stub:
        for call in (stub.provider().connect, stub.provider().destroy):
            with pytest.raises(SandboxConfigError, match="session_id must"):
                call(session_id)

    assert stub.asked == []
