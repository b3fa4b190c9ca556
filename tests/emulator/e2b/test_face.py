"""The proxy in front of every sandbox."""

from __future__ import annotations

import http.client

import pytest

from support.emulator_client import Box, EmulatorClient
from support.waiting import eventually

SERVE = "import http.server as h;h.HTTPServer(('127.0.0.1',8080),h.SimpleHTTPRequestHandler).serve_forever()"


def not_found(sandbox_id: str) -> dict[str, object]:
    return {"sandboxId": sandbox_id, "message": "The sandbox was not found", "code": 502}


@pytest.mark.parametrize(("method", "path"), [("GET", "/health"), ("POST", "/process.Process/List"), ("GET", "/files")])
def test_a_sandbox_that_is_gone_is_502_in_json_whatever_is_asked(box: Box, method: str, path: str) -> None:
    box.control("DELETE")

    answer = box.call(method, path)

    assert (answer.status, answer.json) == (502, not_found(box.sandbox_id))


def test_a_paused_sandbox_looks_like_a_dead_one(box: Box) -> None:
    box.control("POST", "/pause")

    answer = box.call("GET", "/health")

    assert (answer.status, answer.json) == (502, not_found(box.sandbox_id))


def test_half_of_the_routing_headers_is_an_error(client: EmulatorClient) -> None:
    answer = client.call("GET", "/health", headers={"E2b-Sandbox-Id": "i1"})

    assert (answer.status, answer.body) == (400, b"missing header")


def test_the_first_label_of_the_host_routes_too(box: Box) -> None:
    headers = {"Host": f"49983-{box.sandbox_id}.sandboxes.test", "X-Access-Token": box.token or ""}

    assert box.client.call("GET", "/envs", headers=headers).json["E2B_SANDBOX_ID"] == box.sandbox_id


def test_internal_routes_are_for_the_control_plane(box: Box) -> None:
    answer = box.call("POST", "/init", {})

    assert (answer.status, answer.json["path"]) == (404, "/init")


def test_a_kill_resets_the_streams_of_the_sandbox(box: Box) -> None:
    stream = box.start("/bin/sleep", "30")
    stream.pid()

    box.control("DELETE")

    with pytest.raises(ConnectionResetError):
        stream.read()
    stream.close()


def test_a_pause_resets_streams_and_the_command_goes_on_afterwards(box: Box) -> None:
    stream = box.start("/bin/sh", "-c", "sleep 0.3; echo went-on > went-on")
    pid = stream.pid()

    box.control("POST", "/pause")
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        stream.read()
    stream.close()
    box.control("POST", "/connect", {"timeout": 60})
    list(box.open("process.Process/Connect", {"process": {"pid": pid}}))

    assert box.run("/bin/cat", "went-on").stdout == b"went-on\n"


def test_traffic_wakes_a_sandbox_that_allows_it_and_only_with_the_token(client: EmulatorClient) -> None:
    box = client.create(timeout=60, autoPause=True, autoResume={"enabled": True})
    box.control("POST", "/pause")

    refused = box.call("GET", "/health", X_Access_Token="wrong")
    woken = box.call("GET", "/health")
    box.control("DELETE")

    assert (refused.status, refused.json["code"]) == (403, 403)
    assert woken.status == 204


# --- other ports ------------------------------------------------------------------------------------------------------


def port_headers(box: Box, port: int, **headers: str) -> dict[str, str]:
    return {**box.headers, "E2b-Sandbox-Port": str(port), **headers}


def test_a_closed_port_is_told(box: Box) -> None:
    answer = box.client.call("GET", "/", headers=port_headers(box, 8081))

    assert (answer.status, answer.json) == (
        502,
        {
            "sandboxId": box.sandbox_id,
            "message": "The sandbox is running but port is not open",
            "port": 8081,
            "code": 502,
        },
    )


def test_a_server_inside_is_reached_on_its_port(box: Box) -> None:
    box.run("/bin/sh", "-c", "echo served > served.txt")
    stream = box.start("python3", "-u", "-c", SERVE)
    stream.pid()

    def served() -> bytes:
        return box.client.call("GET", "/served.txt", headers=port_headers(box, 8080)).body

    assert eventually(lambda: served() == b"served\n")
    stream.close()


def test_a_port_that_is_not_public_demands_its_own_token(client: EmulatorClient) -> None:
    answer = client.call("POST", "/v2/sandboxes", {"templateID": "base", "network": {"allowPublicTraffic": False}})
    box = Box(client, answer.json["sandboxID"], answer.json["envdAccessToken"])
    token = answer.json["trafficAccessToken"]

    refused = client.call("GET", "/", headers=port_headers(box, 8080))
    admitted = client.call("GET", "/", headers=port_headers(box, 8080, **{"e2b-traffic-access-token": token}))
    box.control("DELETE")

    assert (refused.status, admitted.status) == (403, 502)
    assert "e2b-traffic-access-token" in refused.json["message"]
