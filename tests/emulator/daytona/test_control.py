"""The control API: what a sandbox goes through, and what is refused meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox_emulator import Emulator
from ai4j_sandbox_emulator.daytona.face import DaytonaFace
from ai4j_sandbox_emulator.faults import Answer as AnswerInstead
from ai4j_sandbox_emulator.faults import Fault
from ai4j_sandbox_emulator.server import FACES
from support.daytona_calls import DaytonaBox, DaytonaCalls

from .conftest import Clock


def refusal(answer: Any) -> tuple[int, str]:
    """Status and message of a refusal, whose other members must fit to them."""
    document = answer.json
    assert set(document) == {"path", "timestamp", "statusCode", "error", "message"}
    assert document["statusCode"] == answer.status
    return answer.status, document["message"]


# --- the states -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "states"),
    [
        ([], ["creating", "started"]),
        (["stop"], ["stopping", "stopped"]),
        (["stop", "start"], ["starting", "started"]),
        (["stop", "archive"], ["archiving", "archived"]),
        (["stop", "archive", "start"], ["restoring", "started"]),
    ],
)
def test_every_change_shows_on_its_way(slow: DaytonaCalls, clock: Clock, steps: list[str], states: list[str]) -> None:
    box = slow.create()
    for step in steps:
        clock.change_is_over()
        assert box.control("POST", f"/{step}").status == 200
    before = box.state
    clock.change_is_over()

    assert [before, box.state] == states


@pytest.mark.parametrize(
    ("steps", "states"),
    [(["pause"], ["pausing", "paused"]), (["pause", "start"], ["resuming", "started"])],
)
def test_machine_is_paused_and_resumed(slow: DaytonaCalls, clock: Clock, steps: list[str], states: list[str]) -> None:
    machine = slow.call("GET", "/api/snapshots").json["items"][1]["name"]
    box = slow.create(snapshot=machine)
    for step in steps:
        clock.change_is_over()
        assert box.control("POST", f"/{step}").status == 200
    before = box.state
    clock.change_is_over()

    assert [before, box.state] == states


@pytest.mark.parametrize(("method", "suffix"), [("POST", "/stop"), ("POST", "/start"), ("DELETE", "")])
def test_sandbox_that_is_changing_takes_no_other_change(slow: DaytonaCalls, method: str, suffix: str) -> None:
    box = slow.create()

    assert refusal(box.control(method, suffix)) == (409, "Sandbox state change in progress")


def test_archiving_is_called_off_by_a_start(slow: DaytonaCalls, clock: Clock) -> None:
    box = slow.create()
    for step in ("stop", "archive"):
        clock.change_is_over()
        box.control("POST", f"/{step}")

    answer = box.control("POST", "/start")
    clock.change_is_over()

    assert (answer.status, box.state) == (200, "started")


@pytest.mark.parametrize(
    ("steps", "last", "expected"),
    [
        ([], "archive", (400, "Sandbox is not stopped")),
        ([], "recover", (400, "Sandbox is not recoverable")),
        ([], "pause", (422, "Sandbox class does not support pausing")),
        (["stop"], "stop", (400, "Sandbox is not in a stoppable state")),
        (["stop", "archive"], "archive", (400, "Sandbox is not stopped")),
    ],
)
def test_change_that_does_not_fit_the_state_is_refused(
    calls: DaytonaCalls, steps: list[str], last: str, expected: tuple[int, str]
) -> None:
    box = calls.create()
    for step in steps:
        box.control("POST", f"/{step}")

    assert refusal(box.control("POST", f"/{last}")) == expected


def test_start_of_what_runs_is_fine(calls: DaytonaCalls) -> None:
    box = calls.create()

    assert (box.control("POST", "/start").status, box.state) == (200, "started")


def test_ephemeral_sandbox_is_gone_when_it_stops(calls: DaytonaCalls) -> None:
    box = calls.create(autoDeleteInterval=0)

    stopped = box.control("POST", "/stop")

    assert (stopped.json["state"], box.control("GET").status) == ("destroying", 404)


def test_deleted_sandbox_says_so_frees_its_name_and_is_unknown_afterwards(calls: DaytonaCalls) -> None:
    box = calls.create(name="work")

    deleted = box.control("DELETE").json

    assert (deleted["state"], deleted["desiredState"]) == ("destroying", "destroyed")
    assert deleted["name"].startswith("DESTROYED_work_")
    assert refusal(box.control("GET")) == (404, f"Sandbox with ID or name {box.sandbox_id} not found")
    assert box.control("DELETE").status == 404
    calls.create(name="work")


def condition(box: DaytonaBox) -> tuple[str, str | None, bool]:
    shown = box.control("GET").json
    return shown["state"], shown["errorReason"], shown["recoverable"]


def fault(calls: DaytonaCalls, path: str, **effect: Any) -> None:
    """Let the next change by a request to this path fail."""
    assert calls.call("POST", "/_emulator/faults", {"effect": "fail", "path": path, **effect}).status == 201


def test_creation_that_fails_while_it_is_waited_for_is_refused_and_leaves_a_sandbox(calls: DaytonaCalls) -> None:
    fault(calls, "/api/sandbox", reason="disk full")

    refused = refusal(calls.call("POST", "/api/sandbox", {"labels": {"team": "a"}}))
    (left,) = calls.call("GET", "/api/sandbox").json["items"]

    assert refused == (400, "Sandbox failed to start: disk full")
    assert (left["state"], left["errorReason"], left["recoverable"]) == ("error", "disk full", False)
    assert calls.call("DELETE", f"/api/sandbox/{left['id']}").status == 200


@pytest.mark.parametrize(("steps", "passing"), [(["stop"], "stopping"), (["stop", "start"], "starting")])
def test_change_that_fails_ends_in_an_error_with_its_reason(
    slow: DaytonaCalls, clock: Clock, steps: list[str], passing: str
) -> None:
    box = slow.create()
    fault(slow, f"*/{steps[-1]}", reason="runner lost")
    for step in steps:
        clock.change_is_over()
        assert box.control("POST", f"/{step}").status == 200
    before = box.state
    clock.change_is_over()

    assert (before, condition(box)) == (passing, ("error", "runner lost", False))
    assert refusal(box.control("POST", "/start")) == (400, "Sandbox is in an errored state")
    assert refusal(box.control("POST", "/recover")) == (400, "Sandbox is not recoverable")


@pytest.mark.parametrize("step", ["start", "stop"])
def test_sandbox_that_can_be_mended_starts_again(slow: DaytonaCalls, clock: Clock, step: str) -> None:
    box = slow.create()
    for each in ("stop", "start")[: ("stop", "start").index(step) + 1]:
        clock.change_is_over()
        if each == step:
            fault(slow, f"*/{step}", reason="disk full", recoverable=True)
        box.control("POST", f"/{each}")
    clock.change_is_over()
    broken = condition(box)

    mended = box.control("POST", "/recover")
    clock.change_is_over()

    assert broken == ("error", "disk full", True)
    assert (mended.status, mended.json["state"], condition(box)) == (200, "starting", ("started", None, False))


def test_image_that_cannot_be_built_ends_in_a_state_of_its_own(calls: DaytonaCalls, clock: Clock) -> None:
    fault(calls, "/api/sandbox", state="build_failed", reason="no such base")
    box = calls.create(buildInfo={"dockerfileContent": "FROM nowhere\n"})
    before = box.state
    clock.now += 1

    assert (before, condition(box)) == ("pending_build", ("build_failed", "no such base", False))


def test_failure_that_fits_a_request_without_a_change_is_told(calls: DaytonaCalls) -> None:
    box = calls.create()
    fault(calls, "/api/sandbox/*", reason="disk full")

    assert box.control("GET").status == 501
    assert box.state == "started"


def test_image_is_built_before_it_starts(calls: DaytonaCalls, clock: Clock) -> None:
    box = calls.create(buildInfo={"dockerfileContent": "FROM debian:12\n"})
    states = []
    while not states or states[-1] != "started":
        states.append(box.state)
        clock.now += 0.21

    assert states == ["pending_build", "building_snapshot", "creating", "started"]
    logs = box.control("GET", "/build-logs-url").json["url"]
    assert b"FROM debian:12" in calls.call("GET", logs.partition("/api")[1] + logs.partition("/api")[2]).body


# --- create and find --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"cpu": 2}, "Cannot specify Sandbox resources when using a snapshot"),
        ({"snapshot": "a", "buildInfo": {}}, "Cannot specify both a snapshot and a build info entry"),
        ({"snapshot": "none"}, "Snapshot none not found. Did you add it through the Daytona Dashboard?"),
        ({"autoStopInterval": -1}, "autoStopInterval must not be less than 0"),
        ({"env": []}, "env must be a object"),
        ([], "body must be an object"),
    ],
)
def test_creation_that_does_not_fit_is_refused_in_the_validators_words(
    calls: DaytonaCalls, body: Any, message: str
) -> None:
    assert refusal(calls.call("POST", "/api/sandbox", body)) == (400, message)


def test_name_is_taken_once(calls: DaytonaCalls) -> None:
    box = calls.create(name="work")

    assert refusal(calls.call("POST", "/api/sandbox", {"name": "work"})) == (
        409,
        "Sandbox with name work already exists",
    )
    assert calls.call("GET", "/api/sandbox/work").json["id"] == box.sandbox_id


def test_list_filters_and_pages(calls: DaytonaCalls) -> None:
    ids = {calls.create(labels={"team": "a"}).sandbox_id for _ in range(3)}
    calls.create(labels={"team": "b"})
    query = f"labels={json.dumps({'team': 'a'}).replace(' ', '')}&limit=2"

    first = calls.call("GET", f"/api/sandbox?{query}").json
    second = calls.call("GET", f"/api/sandbox?{query}&cursor={first['nextCursor']}").json

    assert {item["id"] for item in first["items"] + second["items"]} == ids
    assert (len(first["items"]), second["nextCursor"]) == (2, None)
    assert "env" not in first["items"][0]


def test_list_filters_by_state(calls: DaytonaCalls) -> None:
    running, stopped = calls.create(), calls.create()
    stopped.control("POST", "/stop")

    found = calls.call("GET", "/api/sandbox?states=stopped").json["items"]

    assert [item["id"] for item in found] == [stopped.sandbox_id]
    assert running.state == "started"


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "labels={", "cursor=x"])
def test_list_that_does_not_fit_is_refused(calls: DaytonaCalls, query: str) -> None:
    assert refusal(calls.call("GET", f"/api/sandbox?{query}"))[0] == 400


# --- what can be changed ----------------------------------------------------------------------------------------------


def test_intervals_labels_and_publicity_are_set_and_shown(calls: DaytonaCalls) -> None:
    box = calls.create(labels={"old": "1"})

    statuses = [
        box.control("POST", "/autostop/30").status,
        box.control("POST", "/autoarchive/40").status,
        box.control("POST", "/autodelete/-1").status,
        box.control("POST", "/public/true").status,
        box.control("POST", "/last-activity").status,
        box.control("PUT", "/labels", {"labels": {"new": "2"}}).status,
    ]

    shown = box.control("GET").json
    assert statuses == [201, 201, 201, 201, 201, 200]
    assert [shown[name] for name in ("autoStopInterval", "autoArchiveInterval", "autoDeleteInterval", "public")] == [
        30,
        40,
        -1,
        True,
    ]
    assert shown["labels"] == {"new": "2"}


@pytest.mark.parametrize("suffix", ["/autostop/-1", "/autostop/x", "/autoarchive/-1"])
def test_interval_that_does_not_fit_is_refused(calls: DaytonaCalls, suffix: str) -> None:
    assert refusal(calls.create().control("POST", suffix))[0] == 400


def test_addresses_are_told_and_a_start_changes_the_token(calls: DaytonaCalls) -> None:
    box = calls.create()
    before = box.control("GET", "/ports/8080/preview-url").json
    box.control("POST", "/stop")
    box.control("POST", "/start")
    after = box.control("GET", "/ports/8080/preview-url").json

    assert box.control("GET", "/toolbox-proxy-url").json["url"].endswith("/toolbox")
    assert (before["sandboxId"], before["url"]) == (box.sandbox_id, after["url"])
    assert before["token"] != after["token"]


@pytest.mark.parametrize(("seconds", "status"), [(1, 200), (86400, 200), (0, 400), (86401, 400)])
def test_signed_address_lives_at_most_a_day(calls: DaytonaCalls, seconds: int, status: int) -> None:
    path = f"/ports/8080/signed-preview-url?expiresInSeconds={seconds}"

    assert calls.create().control("GET", path).status == status


def test_signed_address_opens_until_it_expires(calls: DaytonaCalls, clock: Clock) -> None:
    signed = calls.create().control("GET", "/ports/8080/signed-preview-url").json
    path = "/preview/" + signed["url"].partition("/preview/")[2]

    before = calls.call("GET", path).status
    clock.now += 61

    assert (before, calls.call("GET", path).status) == (502, 403)  # nobody listens; nobody may ask


# --- snapshots and volumes --------------------------------------------------------------------------------------------


def test_snapshots_are_listed_found_and_unknown_ones_are_not(calls: DaytonaCalls) -> None:
    listed = calls.call("GET", "/api/snapshots").json
    first = listed["items"][0]["name"]

    assert listed["total"] == len(listed["items"]) == 2
    assert calls.call("GET", f"/api/snapshots/{first}").json["state"] == "active"
    assert calls.call("GET", "/api/snapshots/none").status == 404
    assert calls.call("DELETE", "/api/snapshots/none").status == 404


def test_volumes_are_made_listed_found_and_removed(calls: DaytonaCalls) -> None:
    made = calls.call("POST", "/api/volumes", {"name": "data"}).json

    assert refusal(calls.call("POST", "/api/volumes", {"name": "data"}))[0] == 409
    assert calls.call("GET", "/api/volumes").json == [made]
    assert calls.call("GET", "/api/volumes/by-name/data").json == made
    assert calls.call("GET", f"/api/volumes/{made['id']}").json == made
    assert calls.call("DELETE", f"/api/volumes/{made['id']}").status == 200
    assert calls.call("DELETE", f"/api/volumes/{made['id']}").status == 404


# --- who may ask, and faults ------------------------------------------------------------------------------------------


def test_wrong_key_is_refused_everywhere_but_for_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FACES, "daytona-keyed", lambda fleet, home: DaytonaFace(fleet, api_key="right"))
    with Emulator(("daytona-keyed",), FakeProvider()) as running:
        url = running.url()
        right, wrong = DaytonaCalls(url, "right"), DaytonaCalls(url, "wrong")
        box = right.create()

        assert refusal(wrong.call("GET", f"/api/sandbox/{box.sandbox_id}")) == (401, "Invalid credentials")
        assert wrong.call("GET", f"/toolbox/{box.sandbox_id}/version").status == 401
        assert wrong.call("GET", "/api/config").status == 200
        assert box.control("DELETE").status == 200


def test_unknown_call_is_named(calls: DaytonaCalls) -> None:
    assert refusal(calls.call("GET", "/api/nothing")) == (404, "Cannot GET /api/nothing")


def test_fault_strikes_once_and_the_next_call_goes_through(clock: Clock) -> None:
    with Emulator(("daytona",), FakeProvider(), clock=clock) as running:
        calls = DaytonaCalls(running.url())
        effect = AnswerInstead(status=429, headers={"Retry-After-sandbox-create": "7"})
        running.faults.add(Fault(effect=effect, method="POST", path="/api/sandbox"))

        first = calls.call("POST", "/api/sandbox", {})

        assert (first.status, first.headers["Retry-After-sandbox-create"]) == (429, "7")
        assert calls.call("POST", "/api/sandbox", {}).status == 200
