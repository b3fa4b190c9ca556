from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox_emulator.cubesandbox.errors import ApiError
from ai4j_sandbox_emulator.cubesandbox.requests import (
    connect_window,
    create_request,
    fork_request,
    network_update,
    refresh_seconds,
    timeout_window,
)
from ai4j_sandbox_emulator.cubesandbox.servers import CURRENT, OLDER

LEAST = {"templateID": "t"}


@pytest.mark.parametrize(
    ("document", "server", "seconds"),
    [
        ({}, CURRENT, None),
        ({}, OLDER, 15),
        ({"timeout": 60}, CURRENT, 60),
        ({"timeout": -1}, CURRENT, None),
    ],
)
def test_idle_window_depends_on_the_server(document: dict[str, Any], server: Any, seconds: int | None) -> None:
    assert create_request(LEAST | document, server).seconds == seconds


def test_camel_case_of_internet_access_is_ignored_as_by_the_real_server() -> None:
    assert create_request(LEAST | {"allowInternetAccess": False}, CURRENT).allow_internet_access is None
    assert create_request(LEAST | {"allow_internet_access": False}, CURRENT).allow_internet_access is False
    assert network_update({"allowInternetAccess": False}) == ({}, False)


@pytest.mark.parametrize(
    ("document", "pause", "resume"),
    [
        ({"autoPause": True}, True, False),
        ({"lifecycle": {"onTimeout": "pause", "autoResume": True}}, True, True),
        ({"lifecycle": {"on_timeout": "kill"}, "autoPause": True}, False, False),
        ({"autoPause": True, "autoResume": {"enabled": True}}, True, True),
    ],
)
def test_lifecycle_is_read_in_all_its_spellings(document: dict[str, Any], pause: bool, resume: bool) -> None:
    asked = create_request(LEAST | document, CURRENT)

    assert (asked.auto_pause, asked.auto_resume) == (pause, resume)


def test_aliases_and_unknown_keys() -> None:
    asked = create_request(
        LEAST | {"envs": {"A": "1"}, "network": {"allow_out": ["10.0.0.0/8"], "odd": 1}, "secure": True}, CURRENT
    )

    assert (dict(asked.environment), dict(asked.network)) == ({"A": "1"}, {"allowOut": ("10.0.0.0/8",)})


@pytest.mark.parametrize(
    ("document", "status", "plain"),
    [
        ({}, 422, True),
        ([], 422, True),
        ({"templateID": 1}, 422, True),
        (LEAST | {"timeout": "60"}, 422, True),
        (LEAST | {"metadata": {"a": 1}}, 422, True),
        (LEAST | {"lifecycle": {"onTimeout": "Pause"}}, 422, True),
        (LEAST | {"timeout": 0}, 400, False),
        (LEAST | {"timeout": -2}, 400, False),
        (LEAST | {"envVars": {"PATH": "/x"}}, 400, False),
        (LEAST | {"envVars": {"1A": "x"}}, 400, False),
        (LEAST | {"envVars": {"A": "x\ny"}}, 400, False),
        (LEAST | {"envVars": {"A": "x" * 4097}}, 400, False),
        (LEAST | {"network": {"allowOut": ["example.org"]}}, 400, False),
    ],
)
def test_what_the_server_refuses(document: Any, status: int, plain: bool) -> None:
    with pytest.raises(ApiError) as caught:
        create_request(document, CURRENT)

    assert (caught.value.status, caught.value.plain) == (status, plain)


@pytest.mark.parametrize("denied", [{"allow_internet_access": False}, {"network": {"denyOut": ["0.0.0.0/0"]}}])
def test_domain_is_fine_when_the_rest_is_denied(denied: dict[str, Any]) -> None:
    network = {"allowOut": ["example.org"], **denied.get("network", {})}

    assert create_request(LEAST | denied | {"network": network}, CURRENT).network["allowOut"] == ("example.org",)


def test_connecting_needs_a_timeout_only_on_older_servers() -> None:
    assert connect_window({}, CURRENT) is None
    assert connect_window({"timeout": 5}, OLDER) == 5
    with pytest.raises(ApiError, match="missing field `timeout`"):
        connect_window({}, OLDER)
    for seconds, server in ((0, CURRENT), (-2, CURRENT), (-1, OLDER)):
        with pytest.raises(ApiError, match="positive"):
            connect_window({"timeout": seconds}, server)


def test_timeouts_refreshes_and_forks() -> None:
    assert [timeout_window({"timeout": seconds}, CURRENT) for seconds in (0, 5, -1)] == [0, 5, -1]
    assert refresh_seconds({}) == 60
    assert fork_request({"count": 3, "timeout": 9}) == (3, 9)
    for call in (
        lambda: timeout_window({"timeout": -1}, OLDER),
        lambda: refresh_seconds({"duration": 0}),
        lambda: refresh_seconds({"duration": 3601}),
        lambda: fork_request({"count": 101}),
    ):
        with pytest.raises(ApiError):
            call()
