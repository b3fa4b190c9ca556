"""Whatever a client sends to an emulated Daytona, it is told so: a status of 4xx in its own shape, never 500."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import pytest

from support.daytona_calls import DaytonaBox, DaytonaCalls

NO_OBJECTS = (
    b"{",
    b"\xff\xfe",
    b"[]",
    b'"text"',
    b"5",
    b'{"unknown": NaN}',
    b'{"unknown": "\\ud800"}',
    b"[" * 100_000 + b"]" * 100_000,
    b'{"timeout": ' + b"9" * 5000 + b"}",
)
ODD_NUMBERS = ("²", "9" * 5000, "--1", "1e5", "x")


@pytest.mark.parametrize("body", NO_OBJECTS)
@pytest.mark.parametrize("path", ["/process/execute", "/process/session", "/process/pty", "/files/move", "/git/clone"])
def test_toolbox_refuses_what_is_no_object(box: DaytonaBox, path: str, body: bytes) -> None:
    assert box.toolbox("POST", path, body).status == 400


@pytest.mark.parametrize("body", NO_OBJECTS)
@pytest.mark.parametrize(("method", "path"), [("POST", "/api/sandbox"), ("POST", "/api/volumes")])
def test_control_api_refuses_what_is_no_object(calls: DaytonaCalls, method: str, path: str, body: bytes) -> None:
    assert calls.call(method, path, body).status == 400


@pytest.mark.parametrize("number", ODD_NUMBERS)
def test_number_that_is_none_is_refused(calls: DaytonaCalls, number: str) -> None:
    written, box = quote(number), calls.create()
    answers = [
        calls.call("GET", f"/api/sandbox?limit={written}"),
        calls.call("GET", f"/api/sandbox/paginated?page={written}"),
        box.control("POST", f"/autostop/{written}"),
        box.control("GET", f"/ports/{written}/preview-url"),
    ]

    assert [answer.status for answer in answers] == [400, 400, 400, 400]


@pytest.mark.parametrize("timeout", ["²", "9" * 5000, -1, 1.5, [5], {"x": 5}])
def test_time_limit_that_is_no_number_is_refused(box: DaytonaBox, timeout: Any) -> None:
    answer = box.toolbox("POST", "/process/execute", {"command": "true", "timeout": timeout})

    assert answer.status == 400


@pytest.mark.parametrize("labels", ["{", "[]", "5", quote('{"a": NaN}'), quote("[" * 5000)])
def test_labels_to_look_for_that_are_no_object_are_refused(calls: DaytonaCalls, labels: str) -> None:
    assert calls.call("GET", f"/api/sandbox?labels={labels}").status == 400


@pytest.mark.parametrize("variables", [b"{", b"[]", b"5", b"\xff"])
def test_variables_of_a_terminal_that_are_no_object_are_refused(newer_box: DaytonaBox, variables: bytes) -> None:
    offer = f"X-Daytona-Pty-Envs~{base64.urlsafe_b64encode(variables).decode().rstrip('=')}"

    answer = newer_box.toolbox("GET", "/process/pty/create-connect?id=p", **{"Sec-WebSocket-Protocol": offer})

    assert answer.status == 400
