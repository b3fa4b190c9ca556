"""The control API over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.emulator_client import Box, EmulatorClient


def missing(sandbox_id: str) -> dict[str, object]:
    return {"code": 404, "message": f"Sandbox \"{sandbox_id}\" doesn't exist or you don't have access to it"}


@pytest.fixture
def boxes(client: EmulatorClient) -> Iterator[list[Box]]:
    """Sandboxes a test makes and this fixture ends."""
    made: list[Box] = []
    yield made
    for box in made:
        box.control("DELETE")


# --- doors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "wrong-form"])
def test_a_call_without_a_key_is_401(client: EmulatorClient, key: str) -> None:
    answer = client.call("GET", "/v2/sandboxes", headers={"X-API-Key": key})

    assert (answer.status, answer.json["code"]) == (401, 401)


def test_health_needs_no_key(client: EmulatorClient) -> None:
    assert client.call("GET", "/health", headers={"X-API-Key": ""}).status == 204


def test_an_unknown_path_is_404_and_a_wrong_method_405(client: EmulatorClient) -> None:
    assert client.call("GET", "/nothing").status == 404
    assert client.call("PUT", "/sandboxes").status == 405


@pytest.mark.parametrize(
    ("method", "suffix", "body"),
    [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/pause", {}),
        ("POST", "/connect", {"timeout": 5}),
        ("POST", "/resume", {}),
        ("POST", "/timeout", {"timeout": 5}),
        ("POST", "/refreshes", {}),
        ("PUT", "/network", {}),
        ("POST", "/fork", {}),
        ("POST", "/snapshots", {}),
        ("GET", "/metrics", None),
        ("GET", "/logs", None),
    ],
)
def test_an_unknown_sandbox_is_404_everywhere(client: EmulatorClient, method: str, suffix: str, body: object) -> None:
    answer = client.call(method, f"/sandboxes/iunknown{suffix}", body)

    assert (answer.status, answer.json) == (404, missing("iunknown"))


def test_an_id_that_cannot_be_is_400(client: EmulatorClient) -> None:
    answer = client.call("GET", "/sandboxes/NOT_AN_ID")

    assert (answer.status, answer.json["message"]) == (400, "Invalid sandbox ID")


def test_the_old_composite_id_is_accepted(box: Box) -> None:
    assert box.client.call("GET", f"/sandboxes/{box.sandbox_id}-client").status == 200


def test_a_body_that_is_no_json_is_400(client: EmulatorClient) -> None:
    answer = client.call("POST", "/sandboxes", b"{")

    assert (answer.status, answer.json["message"]) == (400, "validation error: request body is not valid JSON")


# --- create -----------------------------------------------------------------------------------------------------------


def test_the_second_version_is_always_secured_and_the_first_when_asked(
    client: EmulatorClient, boxes: list[Box]
) -> None:
    boxes += [client.create(version=1), client.create(version=1, secure=True), client.create(version=2)]

    tokens = [box.token for box in boxes]

    assert tokens[0] is None
    assert [len(token or "") for token in tokens[1:]] == [64, 64]


def test_an_unsecured_sandbox_needs_no_token(client: EmulatorClient, boxes: list[Box]) -> None:
    boxes.append(client.create(version=1, timeout=60))

    assert boxes[0].run("/bin/echo", "open").stdout == b"open\n"


def test_an_id_has_the_real_form(box: Box) -> None:
    assert box.sandbox_id.startswith("i")
    assert len(box.sandbox_id) == 21
    assert box.sandbox_id.isalnum()
    assert box.sandbox_id.islower()


def test_an_unknown_snapshot_is_404(client: EmulatorClient) -> None:
    assert client.call("POST", "/sandboxes", {"templateID": "nosuchsnapshot:default"}).status == 404


def test_the_same_idempotency_key_makes_one_sandbox(client: EmulatorClient, boxes: list[Box]) -> None:
    headers = {"Idempotency-Key": "one-create"}
    body = {"templateID": "base", "metadata": {"test": "idempotency"}}

    first, second = (client.call("POST", "/v2/sandboxes", body, headers) for _ in range(2))
    other = client.call("POST", "/v2/sandboxes", {"templateID": "other"}, headers)
    boxes.append(Box(client, first.json["sandboxID"], first.json["envdAccessToken"]))

    assert first.json == second.json
    assert (other.status, other.json["error_code"]) == (422, "idempotency_request_mismatch")


# --- life -------------------------------------------------------------------------------------------------------------


def test_everything_recorded_is_told(client: EmulatorClient, boxes: list[Box]) -> None:
    network = {"denyOut": ["0.0.0.0/0"], "egressProxy": {"address": "p:1", "username": "u", "password": "secret"}}
    boxes.append(
        client.create(timeout=60, metadata={"a": "b"}, allow_internet_access=False, network=network, autoPause=True)
    )

    detail = boxes[0].control("GET").json

    assert detail["network"] == {"denyOut": ["0.0.0.0/0"], "egressProxy": {"address": "p:1", "username": "u"}}
    assert detail["lifecycle"] == {"onTimeout": "pause", "autoResume": False}
    assert (detail["allowInternetAccess"], detail["metadata"], detail["state"]) == (False, {"a": "b"}, "running")
    assert detail["envdAccessToken"] == boxes[0].token


def test_connect_is_200_while_running_and_201_after_a_pause(box: Box) -> None:
    running = box.control("POST", "/connect", {"timeout": 60})
    box.control("POST", "/pause")
    resumed = box.control("POST", "/connect", {"timeout": 60})

    assert (running.status, resumed.status) == (200, 201)
    assert running.json == resumed.json


def test_the_second_version_of_connect_needs_no_body(box: Box) -> None:
    assert box.client.call("POST", f"/v2/sandboxes/{box.sandbox_id}/connect", {}).status == 200
    assert box.control("POST", "/connect", {}).status == 400


def test_a_second_pause_and_a_resume_while_running_are_conflicts(box: Box) -> None:
    early = box.control("POST", "/resume", {"timeout": 60})
    first = box.control("POST", "/pause")
    second = box.control("POST", "/pause")
    resumed = box.control("POST", "/resume", {"timeout": 60})

    assert (early.status, first.status, second.status, resumed.status) == (409, 204, 409, 201)


def test_a_paused_sandbox_has_no_timeout_to_set(box: Box) -> None:
    box.control("POST", "/pause")

    assert box.control("POST", "/timeout", {"timeout": 60}).status == 404


def test_a_paused_sandbox_can_be_killed(box: Box) -> None:
    box.control("POST", "/pause")

    assert box.control("DELETE").status == 204
    assert box.control("GET").json == missing(box.sandbox_id)


def test_a_timeout_of_nothing_ends_the_sandbox(client: EmulatorClient) -> None:
    box = client.create(timeout=60)
    stream = box.start("/bin/sleep", "30")
    stream.pid()

    assert box.control("POST", "/timeout", {"timeout": 0}).status == 204
    with pytest.raises(ConnectionResetError):
        stream.read()
    stream.close()
    assert box.control("DELETE").status == 404


def test_a_network_update_replaces_what_was_there(box: Box) -> None:
    box.control("PUT", "/network", {"denyOut": ["10.0.0.0/8"], "allow_internet_access": True})
    first = box.control("GET").json
    box.control("PUT", "/network", {"allowOut": ["1.1.1.1"]})
    second = box.control("GET").json

    assert (first["network"], first["allowInternetAccess"]) == ({"denyOut": ["10.0.0.0/8"]}, True)
    assert (second["network"], second["allowInternetAccess"]) == ({"allowOut": ["1.1.1.1"]}, None)


# --- lists and records ------------------------------------------------------------------------------------------------


def test_a_list_tells_how_many_run_and_where_it_goes_on(client: EmulatorClient, boxes: list[Box]) -> None:
    boxes += [client.create(timeout=60, metadata={"test": "totals"}) for _ in range(3)]
    boxes[0].control("POST", "/pause")
    query = "/v2/sandboxes?metadata=test%3Dtotals"

    first = client.call("GET", f"{query}&limit=2")
    rest = client.call("GET", f"{query}&limit=2&nextToken={first.headers['X-Next-Token']}")
    paused = client.call("GET", f"{query}&state=paused")

    assert first.headers["X-Total-Running"] == "2"
    assert [item["sandboxID"] for item in (*first.json, *rest.json)] == [box.sandbox_id for box in reversed(boxes)]
    assert rest.headers["X-Next-Token"] is None
    assert ([item["state"] for item in paused.json], paused.headers["X-Total-Running"]) == (["paused"], None)


def test_the_oldest_list_knows_only_what_runs(client: EmulatorClient, boxes: list[Box]) -> None:
    boxes += [client.create(timeout=60, metadata={"test": "old-list"}) for _ in range(2)]
    boxes[0].control("POST", "/pause")

    listed = client.call("GET", "/sandboxes?metadata=test%3Dold-list").json

    assert [item["sandboxID"] for item in listed] == [boxes[1].sandbox_id]


def test_metrics_of_several_sandboxes_come_by_id(box: Box) -> None:
    answer = box.client.call("GET", f"/sandboxes/metrics?sandbox_ids={box.sandbox_id},iunknown")

    assert list(answer.json["sandboxes"]) == [box.sandbox_id]


def test_the_log_tells_what_happened(box: Box) -> None:
    box.run("/bin/echo", "logged")

    lines = [line["line"] for line in box.control("GET", "/logs").json["logs"]]
    newest = box.client.call("GET", f"/v2/sandboxes/{box.sandbox_id}/logs?limit=1").json["logs"]

    assert lines[0].startswith("sandbox created")
    assert "logged" in lines[-1]
    assert (newest[0]["message"], newest[0]["level"]) == ("process started", "info")


def test_a_named_snapshot_is_found_by_its_name(box: Box) -> None:
    made = box.control("POST", "/snapshots", {"name": "kept-state"}).json
    listed = box.client.call("GET", "/snapshots?name=kept-state").json
    removed = box.client.call("DELETE", "/templates/emulator%2Fkept-state%3Adefault").status

    assert made == {"snapshotID": "emulator/kept-state:default", "names": ["emulator/kept-state:default"]}
    assert (listed, removed) == ([made], 204)
