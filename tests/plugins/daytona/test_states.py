"""What is done about a sandbox in each of the service's 22 states, and in one that nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    SandboxCleanupError,
    SandboxException,
    SandboxNotFoundError,
    SandboxPausedError,
    SandboxSessionLostError,
    SandboxUnreachableError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxSpec, SandboxStatus
from ai4j_sandbox_daytona import DaytonaSandboxProvider
from ai4j_sandbox_emulator import Emulator, Fail, Fault
from support.daytona_stub import DaytonaStub, answer
from support.http_stub import Reply

GET, START, RECOVER = "GET /sandbox/id-1", "POST /sandbox/id-1/start", "POST /sandbox/id-1/recover"
BY_NAME, CREATE, DELETE = "GET /sandbox/work", "POST /sandbox", "DELETE /sandbox/id-1"
EXECUTE = "POST /id-1/process/execute"

READY = ("started",)
RESTING = ("stopped", "archived", "archiving", "paused")
FAILED = ("error", "build_failed")
GONE = ("destroying", "destroyed")
MOVING = (
    "creating", "restoring", "starting", "stopping", "pending_build", "building_snapshot", "unknown",
    "pulling_snapshot", "resizing", "snapshotting", "forking", "pausing", "resuming",
)  # fmt: skip
ALL = (*READY, *RESTING, *FAILED, *GONE, *MOVING)
UNKNOWN = "quantum"


def test_these_are_the_states_of_the_service() -> None:
    assert len(set(ALL)) == len(ALL) == 22


def attach(stub: DaytonaStub, **config: Any) -> None:
    given = {"sandboxId": "id-1", "pollIntervalMillis": 10, **config}
    stub.provider().create_session(SandboxSpec(provider_id="daytona", config=given)).close()


# --- attaching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "calls"),
    [
        *((state, [GET]) for state in READY),
        *((state, [GET, START, GET]) for state in RESTING),
        *((state, [GET, GET]) for state in (*MOVING, UNKNOWN, None)),
    ],
)
def test_sandbox_in_every_state_that_may_run_is_waited_for(state: str | None, calls: list[str]) -> None:
    with DaytonaStub({START: answer({})}) as stub:
        stub.play(GET, answer(stub.sandbox() | {"state": state}), answer(stub.sandbox()))
        attach(stub)

    assert stub.calls == calls


@pytest.mark.parametrize(("moving", "rests"), [("stopping", "stopped"), ("pausing", "paused"), ("resizing", "stopped")])
def test_sandbox_that_comes_to_rest_is_started_then(moving: str, rests: str) -> None:
    with DaytonaStub({START: answer({})}) as stub:
        stub.play(GET, *(answer(stub.sandbox(state)) for state in (moving, rests, "started")))
        attach(stub)

    assert stub.calls == [GET, GET, START, GET]


@pytest.mark.parametrize("state", GONE)
def test_sandbox_that_is_gone_is_not_found(state: str) -> None:
    with DaytonaStub({}) as stub:
        stub.play(GET, answer(stub.sandbox(state)))
        with pytest.raises(SandboxNotFoundError, match=state):
            attach(stub)

    assert stub.calls == [GET]


@pytest.mark.parametrize("state", GONE)
def test_name_of_a_sandbox_that_is_gone_is_free(state: str) -> None:
    with DaytonaStub({}) as stub:
        stub.play(BY_NAME, answer(stub.sandbox(state)))
        stub.play(CREATE, answer(stub.sandbox()))
        stub.provider().create_session(SandboxSpec(workspace_id="work")).close()

    assert stub.calls == [BY_NAME, CREATE]


@pytest.mark.parametrize("state", FAILED)
def test_sandbox_that_failed_is_told_with_its_reason_at_once(state: str) -> None:
    """Case I11."""
    with DaytonaStub({}) as stub:
        stub.play(GET, answer(stub.sandbox(state, errorReason="disk full")))
        with pytest.raises(SandboxException, match=rf"{state} \(disk full\)") as caught:
            attach(stub, startTimeoutMillis=60_000)

    assert stub.calls == [GET]
    assert "dashboard" in str(caught.value.hint)


@pytest.mark.parametrize(("state", "after"), [("error", "starting"), ("error", "started"), ("build_failed", "started")])
def test_sandbox_that_can_be_mended_is_mended(state: str, after: str) -> None:
    with DaytonaStub({RECOVER: answer({})}) as stub:
        broken = stub.sandbox(state, errorReason="disk full", recoverable=True)
        stub.play(GET, answer(broken), answer(stub.sandbox(after)), answer(stub.sandbox()))
        attach(stub)

    assert stub.calls[:3] == [GET, RECOVER, GET]
    assert stub.calls.count(RECOVER) == 1


@pytest.mark.parametrize("taken", [answer({}), answer({"message": "Sandbox is not recoverable"}, 400)])
def test_sandbox_that_could_not_be_mended_is_told_with_its_reason(taken: Reply) -> None:
    with DaytonaStub({RECOVER: taken}) as stub:
        stub.play(GET, answer(stub.sandbox("error", errorReason="disk full", recoverable=True)))
        with pytest.raises(SandboxException, match=r"\(disk full\)") as caught:
            attach(stub)

    assert stub.calls.count(RECOVER) == 1
    assert caught.value.hint == "it could not be recovered"


# --- looking, deleting, and finding out -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "status"),
    [
        (READY, SandboxStatus.RUNNING),
        (RESTING, SandboxStatus.CLOSED),
        (FAILED, SandboxStatus.FAILED),
        ((*MOVING, UNKNOWN), SandboxStatus.CREATED),
    ],
)
def test_list_tells_every_state_but_those_of_what_is_gone(states: tuple[str, ...], status: SandboxStatus) -> None:
    with DaytonaStub({}) as stub:
        items = [stub.sandbox(state) for state in (*states, *GONE)]
        stub.play("GET /sandbox", answer({"items": items, "nextCursor": None}))
        listed = stub.provider().list_sessions()

    assert [(found.state, found.status) for found in listed] == [(state, status) for state in states]


@pytest.mark.parametrize("state", [*ALL, UNKNOWN])
def test_deletion_is_believed_only_in_a_state_that_says_so(state: str) -> None:
    with DaytonaStub({DELETE: answer({})}) as stub:
        stub.play(GET, answer(stub.sandbox(state)))
        if state in GONE:
            stub.provider().destroy("id-1")
        else:
            with pytest.raises(SandboxCleanupError, match=f"still {state}"):
                stub.provider().destroy("id-1")

    assert stub.calls == [DELETE, GET]


def lost_in(state: str) -> type[SandboxException]:
    if state in READY:
        return SandboxUnreachableError
    return SandboxPausedError if state in ("paused", "pausing") else SandboxSessionLostError


@pytest.mark.parametrize("state", [*ALL, UNKNOWN])
def test_command_whose_answer_is_lost_is_explained_by_the_state(state: str) -> None:
    with DaytonaStub({EXECUTE: Reply(status=502)}) as stub:
        stub.play(GET, answer(stub.sandbox()), answer(stub.sandbox(state)))
        with stub.provider().connect("id-1") as session, pytest.raises(lost_in(state)) as caught:
            session.execute(SandboxCommand(command="true"))

    assert type(caught.value) is lost_in(state)


@pytest.mark.parametrize(("call", "passing", "arrived"), [
    ("stop", "stopping", "stopped"),
    ("stop", "stopping", "destroyed"),
    ("archive", "archiving", "archived"),
    ("pause", "pausing", "paused"),
    ("snapshot", "snapshotting", "started"),
    ("snapshot", "snapshotting", "stopped"),
    ("snapshot", "snapshotting", "paused"),
])  # fmt: skip
def test_change_is_awaited_until_it_has_arrived(call: str, passing: str, arrived: str) -> None:
    with DaytonaStub({f"POST /sandbox/id-1/{call}": answer({})}) as stub:
        machine = stub.sandbox(sandboxClass="linux-vm")
        looks = 2 if call == "pause" else 1  # who pauses looks first whether that is needed
        seen = [*[machine] * looks, machine | {"state": passing}, machine | {"state": arrived}]
        stub.play(GET, *map(answer, seen))
        with stub.provider().connect("id-1") as session:
            getattr(session, call)()

    assert stub.calls.count(GET) == len(seen)


@pytest.mark.parametrize("call", ["stop", "archive", "pause", "snapshot"])
def test_change_that_fails_is_told_with_its_reason(call: str) -> None:
    with DaytonaStub({f"POST /sandbox/id-1/{call}": answer({})}) as stub:
        machine = stub.sandbox(sandboxClass="linux-vm")
        looks = 2 if call == "pause" else 1
        stub.play(GET, *[answer(machine)] * looks, answer(machine | {"state": "error", "errorReason": "disk full"}))
        with stub.provider().connect("id-1") as session, pytest.raises(SandboxException, match=r"error \(disk full\)"):
            getattr(session, call)()


# --- for real ---------------------------------------------------------------------------------------------------------


def test_creation_that_fails_to_start_tells_the_reason_and_leaves_nothing(
    emulator: Emulator, provider: DaytonaSandboxProvider
) -> None:
    emulator.faults.add(Fault(effect=Fail(reason="disk full"), method="POST", path="/api/sandbox"))

    with pytest.raises(SandboxException, match="failed to start: disk full") as caught:
        provider.create_session()

    assert not caught.value.may_still_exist
    assert provider.list_sessions() == []


def test_image_that_cannot_be_built_tells_the_reason_and_leaves_nothing(
    emulator: Emulator, provider: DaytonaSandboxProvider
) -> None:
    effect = Fail(state="build_failed", reason="no such base")
    emulator.faults.add(Fault(effect=effect, method="POST", path="/api/sandbox"))

    with pytest.raises(SandboxException, match=r"build_failed \(no such base\)"):
        provider.create_session(SandboxSpec(config={"image": "nowhere", "pollIntervalMillis": 20}))

    assert provider.list_sessions() == []


def stopped(provider: DaytonaSandboxProvider) -> str:
    """Make a sandbox with a file, stop it, and return its id."""
    with provider.create_session() as session:
        session.files.write("note", "kept")
        session.stop()  # type: ignore[attr-defined]
        return session.session_id


@pytest.mark.parametrize("change", ["start", "stop"])
def test_sandbox_that_failed_and_can_be_mended_runs_again_with_its_files(
    emulator: Emulator, provider: DaytonaSandboxProvider, change: str
) -> None:
    fault = Fault(effect=Fail(reason="disk full", recoverable=True), path=f"*/{change}")
    if change == "start":
        sandbox_id = stopped(provider)
        emulator.faults.add(fault)
    else:
        emulator.faults.add(fault)
        with pytest.raises(SandboxException, match="disk full"):
            stopped(provider)
        sandbox_id = provider.list_sessions()[0].session_id

    with provider.connect(sandbox_id, SandboxSpec(config={"deleteOnClose": True})) as session:
        assert session.files.read("note") == b"kept"


def test_sandbox_that_failed_for_good_tells_the_reason_and_can_be_deleted(
    emulator: Emulator, provider: DaytonaSandboxProvider
) -> None:
    sandbox_id = stopped(provider)
    emulator.faults.add(Fault(effect=Fail(reason="disk full"), path="*/start"))

    for _ in range(2):
        with pytest.raises(SandboxException, match=r"error \(disk full\)"):
            provider.connect(sandbox_id)
    assert [found.status for found in provider.list_sessions()] == [SandboxStatus.FAILED]
    provider.destroy(sandbox_id)

    assert provider.list_sessions() == []


@pytest.mark.parametrize("work", [lambda session: session.execute(SandboxCommand(command="true")),
                                  lambda session: session.files.read("a")])  # fmt: skip
def test_session_whose_sandbox_fails_is_lost(
    emulator: Emulator, provider: DaytonaSandboxProvider, work: Callable[[Any], object]
) -> None:
    emulator.faults.add(Fault(effect=Fail(reason="runner lost"), path="*/stop"))
    with provider.create_session(SandboxSpec(config={"deleteOnClose": True})) as session:
        with pytest.raises(SandboxException):
            session.stop()  # type: ignore[attr-defined]
        with pytest.raises(SandboxSessionLostError, match=r"error \(runner lost\)"):
            work(session)
