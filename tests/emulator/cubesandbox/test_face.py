"""CubeAPI and CubeProxy over the wire: what clients of different ages meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox_emulator import Emulator
from ai4j_sandbox_emulator.cubesandbox.face import CubeFace
from ai4j_sandbox_emulator.server import FACES
from support.emulator_client import Answer, EmulatorClient
from support.waiting import eventually


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(faces=("cubesandbox",), provider=FakeProvider()) as running:
        yield running


@pytest.fixture(scope="module")
def older() -> Iterator[Emulator]:
    with Emulator(faces=("cubesandbox-older",), provider=FakeProvider()) as running:
        yield running


@pytest.fixture
def client(emulator: Emulator) -> EmulatorClient:
    return EmulatorClient(emulator.url())


def create(client: EmulatorClient, **document: Any) -> Any:
    answer = client.call("POST", "/sandboxes", {"templateID": "tpl", **document})
    assert answer.status == 201, answer
    return answer.json


def inside(client: EmulatorClient, sandbox_id: str, path: str = "/health", port: int = 49983, **headers: str) -> Answer:
    """What CubeProxy answers for a port of a sandbox."""
    return client.call("GET", path, headers={"Host": f"{port}-{sandbox_id}.cube.app", **headers})


# --- CubeAPI ------------------------------------------------------------------------------------------------------


def test_statuses_are_those_of_the_server(client: EmulatorClient) -> None:
    sandbox_id = create(client)["sandboxID"]
    one = f"/sandboxes/{sandbox_id}"

    calls = [
        ("GET", one, None, 200),
        ("POST", f"{one}/connect", {}, 200),
        ("POST", f"{one}/timeout", {"timeout": 60}, 204),
        ("POST", f"{one}/refreshes", {}, 204),
        ("PUT", f"{one}/network", {}, 204),
        ("POST", f"{one}/resume", {}, 409),
        ("POST", f"{one}/pause", None, 204),
        ("POST", f"{one}/resume", {}, 201),
        ("DELETE", one, None, 204),
        ("DELETE", one, None, 404),
        ("GET", one, None, 404),
        ("POST", "/v2/sandboxes", {}, 405),
        ("GET", "/no/such/path", None, 404),
    ]
    assert [(method, path, client.call(method, path, body).status) for method, path, body, _ in calls] == [
        (method, path, status) for method, path, _, status in calls
    ]


def test_refusals_have_the_form_of_the_server(client: EmulatorClient) -> None:
    unknown = client.call("GET", f"/sandboxes/{'0' * 32}")
    missing = client.call("POST", "/sandboxes", {})
    mislabelled = client.call("POST", "/sandboxes", b"{}")
    wrong_method = client.call("POST", "/v2/sandboxes", {})

    assert unknown.json["code"] == 404
    assert (missing.status, missing.headers["Content-Type"].partition(";")[0]) == (422, "text/plain")
    assert mislabelled.status == 415
    assert wrong_method.body == b""
    assert all(answer.headers["x-request-id"] for answer in (unknown, missing, mislabelled, wrong_method))


def test_created_sandbox_is_told_as_by_the_server(client: EmulatorClient) -> None:
    created = create(client, timeout=60, metadata={"a": "b"})
    detail = client.call("GET", f"/sandboxes/{created['sandboxID']}").json

    assert len(created["sandboxID"]) == 32
    assert (created["templateID"], created["domain"]) == ("tpl", "cube.app")
    assert "trafficAccessToken" not in created
    assert "envdAccessToken" not in created
    assert (detail["state"], detail["metadata"], "endAt" in detail) == ("running", {"a": "b"}, True)


def test_sandbox_that_never_ends_has_no_end(client: EmulatorClient) -> None:
    for document in ({}, {"timeout": -1}):
        created = create(client, **document)
        assert "endAt" not in client.call("GET", f"/sandboxes/{created['sandboxID']}").json


def test_metadata_in_a_filter_is_compared_as_it_stands(client: EmulatorClient) -> None:
    sandbox_id = create(client, metadata={"who": "a b"})["sandboxID"]

    def found(query: str) -> list[str]:
        return [item["sandboxID"] for item in client.call("GET", f"/sandboxes?metadata={query}").json]

    assert found("who%3Da%20b") == [sandbox_id]
    assert found("who%3Da%2520b") == []


def test_paused_sandboxes_are_in_the_second_list_only(client: EmulatorClient) -> None:
    sandbox_id = create(client, metadata={"for": "lists"})["sandboxID"]
    client.call("POST", f"/sandboxes/{sandbox_id}/pause")

    states = {
        path: [item["state"] for item in client.call("GET", f"{path}?metadata=for%3Dlists").json]
        for path in ("/sandboxes", "/v2/sandboxes")
    }

    assert states == {"/sandboxes": [], "/v2/sandboxes": ["paused"]}


def test_key_is_compared_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FACES, "keyed", lambda fleet, home: CubeFace(fleet, home=home, api_key="right"))
    with Emulator(faces=("keyed",), provider=FakeProvider()) as running:
        client = EmulatorClient(running.url())
        sent = [{"X-API-Key": "wrong"}, {"X-API-Key": "right"}, {"Authorization": "Bearer right"},
                {"Authorization": "Bearer wrong", "X-API-Key": "right"}]  # fmt: skip

        assert running.environment["CUBE_API_KEY"] == "right"
        assert client.call("GET", "/health").status == 200
        assert [client.call("GET", "/sandboxes", headers=headers).status for headers in sent] == [401, 200, 200, 401]


# --- CubeProxy ----------------------------------------------------------------------------------------------------


def test_proxy_tells_what_never_was_from_what_is_no_more(client: EmulatorClient) -> None:
    sandbox_id = create(client)["sandboxID"]
    alive = inside(client, sandbox_id)
    client.call("DELETE", f"/sandboxes/{sandbox_id}")

    never, gone = inside(client, "0" * 32), inside(client, sandbox_id)

    assert alive.status == 204
    assert (never.status, never.json) == (404, {"error": "not found"})
    assert (gone.status, gone.json) == (410, {"error": "gone"})


def test_sandbox_is_reached_by_its_path_too(client: EmulatorClient) -> None:
    sandbox_id = create(client)["sandboxID"]

    assert client.call("GET", f"/sandbox/{sandbox_id}/49983/health").status == 204
    assert client.call("GET", f"/sandbox/{sandbox_id}/49983/nothing").status == 404


def test_closed_port_is_a_page_of_the_web_server(client: EmulatorClient) -> None:
    answer = inside(client, create(client)["sandboxID"], port=49999)

    assert (answer.status, answer.headers["Content-Type"]) == (502, "text/html")


def test_traffic_token_is_told_once_and_asked_for_always(client: EmulatorClient) -> None:
    created = create(client, network={"allowPublicTraffic": False})
    sandbox_id, token = created["sandboxID"], created["trafficAccessToken"]

    assert "trafficAccessToken" not in client.call("POST", f"/sandboxes/{sandbox_id}/connect", {}).json
    assert inside(client, sandbox_id).json == {"error": "forbidden"}
    for header in ("e2b-traffic-access-token", "cube-traffic-access-token"):
        assert inside(client, sandbox_id, **{header: token}).status == 204


def test_paused_sandbox_answers_503_and_wakes_only_if_it_may(client: EmulatorClient) -> None:
    asleep = create(client)["sandboxID"]
    light = create(client, lifecycle={"onTimeout": "pause", "autoResume": True})["sandboxID"]
    for sandbox_id in (asleep, light):
        client.call("POST", f"/sandboxes/{sandbox_id}/pause")

    refused, woken = inside(client, asleep), inside(client, light)

    assert (refused.status, refused.headers["Retry-After"]) == (503, "2")
    assert woken.status == 204


def test_idle_window_slides_with_every_finished_request(client: EmulatorClient, emulator: Emulator) -> None:
    sandbox_id = create(client, timeout=60)["sandboxID"]
    (sandbox,) = [item for item in emulator.sandboxes() if item.sandbox_id == sandbox_id]
    before = sandbox.lifetime.ends_at or 0

    inside(client, sandbox_id)

    assert eventually(lambda: (sandbox.lifetime.ends_at or 0) > before)


def test_connecting_only_lengthens(client: EmulatorClient, emulator: Emulator) -> None:
    sandbox_id = create(client, timeout=600)["sandboxID"]
    (sandbox,) = [item for item in emulator.sandboxes() if item.sandbox_id == sandbox_id]
    before = sandbox.lifetime.ends_at

    for document in ({}, {"timeout": 60}):
        client.call("POST", f"/sandboxes/{sandbox_id}/connect", document)
    assert sandbox.lifetime.ends_at == before
    client.call("POST", f"/sandboxes/{sandbox_id}/connect", {"timeout": -1})
    assert sandbox.lifetime.ends_at is None


# --- older servers ------------------------------------------------------------------------------------------------


def test_older_server(older: Emulator) -> None:
    client = EmulatorClient(older.url())
    created = create(client, envVars={"A": "1"})
    one = f"/sandboxes/{created['sandboxID']}"
    (sandbox,) = [item for item in older.sandboxes() if item.sandbox_id == created["sandboxID"]]

    assert created["envdVersion"] == "0.2.0"
    assert dict(sandbox.request.environment) == {}
    assert client.call("GET", "/v2/sandboxes").status == 404
    refused = client.call("POST", f"{one}/connect", {})
    assert (refused.status, b"missing field `timeout`" in refused.body) == (422, True)
    assert client.call("POST", f"{one}/connect", {"timeout": 60}).status == 200
    assert client.call("POST", f"{one}/pause").status == 204
    assert client.call("DELETE", one).status == 500
    assert client.call("POST", f"{one}/connect", {"timeout": 60}).status == 200
    assert client.call("DELETE", one).status == 204
