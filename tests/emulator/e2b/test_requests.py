"""What the control API accepts, and its words when it does not."""

from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox_emulator.e2b import requests
from ai4j_sandbox_emulator.e2b.errors import ApiError
from ai4j_sandbox_emulator.e2b.requests import CreateRequest


@pytest.mark.parametrize(("version", "seconds", "secure"), [(1, 15, False), (2, 300, True)])
def test_the_versions_have_different_defaults(version: int, seconds: int, secure: bool) -> None:
    assert requests.create_request({"templateID": "base"}, version=version) == CreateRequest(
        template="base", seconds=seconds, secure=secure
    )


def test_every_field_is_read() -> None:
    document = {
        "templateID": "t",
        "timeout": 60,
        "metadata": {"a": "b"},
        "envVars": {"A": "B"},
        "secure": True,
        "allow_internet_access": False,
        "autoPause": True,
        "autoResume": {"enabled": True},
        "network": {"allowPublicTraffic": False, "denyOut": ["0.0.0.0/0"], "allowOut": ["example.com"]},
        "volumeMounts": [{"name": "v", "path": "/v"}],
        "mcp": None,
        "unknown": 1,
    }

    request = requests.create_request(document, version=1)

    assert request == CreateRequest(
        template="t",
        seconds=60,
        secure=True,
        auto_pause=True,
        auto_resume=True,
        metadata={"a": "b"},
        environment={"A": "B"},
        allow_internet_access=False,
        network=document["network"],
        volume_mounts=({"name": "v", "path": "/v"},),
    )
    assert request.allow_public_traffic is False


def test_the_camel_case_spelling_of_internet_access_is_ignored_as_the_server_does() -> None:
    request = requests.create_request({"templateID": "t", "allowInternetAccess": False}, version=2)

    assert request.allow_internet_access is None


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "validation error: request body must be an object"),
        ({}, 'validation error: property "templateID" is missing'),
        ({"templateID": 1}, 'validation error: property "templateID" must be of type str'),
        ({"templateID": "t", "timeout": "5"}, 'validation error: property "timeout" must be of type int'),
        ({"templateID": "t", "timeout": True}, 'validation error: property "timeout" must be of type int'),
        ({"templateID": "t", "timeout": 0}, "Timeout must be greater than 0"),
        ({"templateID": "t", "timeout": 86_401}, "Timeout cannot be greater than 24 hours"),
        ({"templateID": "t", "metadata": {"a": 1}}, 'validation error: property "metadata.a" must be of type str'),
        ({"templateID": "t", "autoPauseMemory": False}, "autoPauseMemory=false requires autoPause"),
        (
            {"templateID": "t", "autoPause": True, "autoPauseMemory": False, "autoResume": {"enabled": True}},
            "autoPauseMemory=false cannot be combined with autoResume",
        ),
        (
            {"templateID": "t", "network": {"allowPublicTraffic": False}},
            "allowPublicTraffic=false requires secure=true",
        ),
        ({"templateID": "t", "network": {"denyOut": ["host.name"]}}, "invalid denied CIDR or IP: host.name"),
        (
            {"templateID": "t", "network": {"allowOut": ["host.name"]}},
            "When specifying allowed domains in allow out, you must include '0.0.0.0/0' in deny out",
        ),
    ],
)
def test_a_create_body_that_does_not_fit_is_refused(document: Any, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        requests.create_request(document, version=1)

    assert (caught.value.status, caught.value.message) == (400, message)


def test_the_first_version_of_connect_demands_a_timeout() -> None:
    with pytest.raises(ApiError, match='property "timeout" is missing'):
        requests.connect_seconds({}, version=1)
    assert requests.connect_seconds({}, version=2) == 300


@pytest.mark.parametrize(("given", "seconds"), [(30, 30), (0, 0), (-5, 0)])
def test_a_timeout_may_be_now(given: int, seconds: int) -> None:
    assert requests.timeout_seconds({"timeout": given}) == seconds


@pytest.mark.parametrize(("document", "seconds"), [({}, 15), ({"duration": 5}, 15), ({"duration": 60}, 60)])
def test_a_refresh_prolongs_by_a_quarter_minute_at_least(document: Any, seconds: int) -> None:
    assert requests.refresh_seconds(document) == seconds


def test_a_network_update_clears_what_it_leaves_out() -> None:
    assert requests.network_update({"denyOut": ["10.0.0.0/8"]}) == ({"denyOut": ["10.0.0.0/8"]}, None)


@pytest.mark.parametrize(("document", "expected"), [({}, (15, 1)), ({"timeout": 9, "count": 3}, (9, 3))])
def test_a_fork_is_read(document: Any, expected: tuple[int, int]) -> None:
    assert requests.fork_request(document) == expected


@pytest.mark.parametrize("count", [0, 101])
def test_forks_are_counted(count: int) -> None:
    with pytest.raises(ApiError, match="between 1 and 100"):
        requests.fork_request({"count": count})


@pytest.mark.parametrize("name", ["UPPER", "a b", "-a", "a:b:c"])
def test_a_snapshot_name_must_be_plain(name: str) -> None:
    with pytest.raises(ApiError, match="Invalid snapshot name"):
        requests.snapshot_name({"name": name})
