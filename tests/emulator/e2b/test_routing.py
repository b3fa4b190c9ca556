"""Which sandbox and port a request is for."""

from __future__ import annotations

import pytest

from ai4j_sandbox_emulator.e2b.routing import RoutingError, Target, plain_id, target_of

HEADERS = {"E2b-Sandbox-Id": "i1", "E2b-Sandbox-Port": "49983"}


@pytest.mark.parametrize(
    ("host", "headers", "target"),
    [
        ("127.0.0.1:3000", HEADERS, Target("i1", 49983)),
        ("localhost", HEADERS, Target("i1", 49983)),
        ("[::1]:3000", HEADERS, Target("i1", 49983)),
        ("sandbox.e2b.app", HEADERS, Target("i1", 49983)),
        ("127.0.0.1:3000", {**HEADERS, "E2b-Sandbox-Id": "i1-client"}, Target("i1", 49983)),
        ("127.0.0.1:3000", {}, None),
        ("8080-i2.e2b.app", HEADERS, Target("i2", 8080)),
        ("8080-i2-client.e2b.app", {}, Target("i2", 8080)),
        ("8080-i2.localhost:3000", {}, Target("i2", 8080)),
        ("api.e2b.app", HEADERS, None),
    ],
)
def test_the_target_is_in_the_headers_or_in_the_host(host: str, headers: dict[str, str], target: Target | None) -> None:
    assert target_of(host, headers) == target


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"E2b-Sandbox-Id": "i1"}, "missing header"),
        ({"E2b-Sandbox-Port": "80"}, "missing header"),
        ({**HEADERS, "E2b-Sandbox-Port": "http"}, "invalid sandbox port"),
        ({**HEADERS, "E2b-Sandbox-Port": "65536"}, "invalid sandbox port"),
        ({**HEADERS, "E2b-Sandbox-Id": "UPPER"}, "Invalid sandbox ID"),
        ({**HEADERS, "E2b-Sandbox-Id": "a-b-c"}, "Invalid sandbox ID"),
    ],
)
def test_headers_that_cannot_be_meant_are_refused(headers: dict[str, str], reason: str) -> None:
    with pytest.raises(RoutingError, match=reason):
        target_of("127.0.0.1", headers)


def test_an_id_may_carry_a_client_id() -> None:
    assert plain_id("i1-client") == "i1"
