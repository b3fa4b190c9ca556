from __future__ import annotations

import math
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    SandboxAuthError,
    SandboxException,
    SandboxProtocolError,
    SandboxQuotaError,
    SandboxSessionLostError,
)
from ai4j_sandbox.model import SandboxStatus, SandboxSummary
from ai4j_sandbox.spi import PortUrl
from ai4j_sandbox_daytona.config import CreateOptions
from ai4j_sandbox_daytona.payloads import (
    RemoteSandbox,
    Stage,
    create_body,
    explain_control,
    explain_toolbox,
    parse_page,
    parse_port,
    parse_sandbox,
    summary_of,
)
from ai4j_sandbox_wire.faults import Fault
from ai4j_sandbox_wire.message import HttpReply

STAGES = {
    Stage.READY: ("started",),
    Stage.RESTING: ("stopped", "archived", "archiving", "paused"),
    Stage.FAILED: ("error", "build_failed"),
    Stage.GONE: ("destroyed", "destroying"),
    Stage.MOVING: (
        "creating",
        "restoring",
        "starting",
        "stopping",
        "pending_build",
        "building_snapshot",
        "unknown",
        "pulling_snapshot",
        "resizing",
        "snapshotting",
        "forking",
        "pausing",
        "resuming",
        "quantum",
    ),
}


@pytest.mark.parametrize(("state", "stage"), [(state, stage) for stage, states in STAGES.items() for state in states])
def test_each_of_the_22_states_and_an_unknown_one_has_a_stage(state: str, stage: Stage) -> None:
    assert parse_sandbox({"id": "id-1", "state": state.upper()}).stage is stage


def test_image_is_sent_as_build_info_and_a_snapshot_as_snapshot() -> None:
    assert create_body(None, CreateOptions(image="debian:12"), {}) == {
        "buildInfo": {"dockerfileContent": "FROM debian:12\n"},
        "labels": {},
    }
    assert create_body("work", CreateOptions(snapshot="snap"), {"a": "b"}) == {
        "name": "work",
        "snapshot": "snap",
        "labels": {"a": "b"},
    }


def test_every_option_has_its_field() -> None:
    options = CreateOptions(
        user="me",
        target="eu",
        environment={"A": "1"},
        public=False,
        cpu=2,
        memory=4,
        disk=8,
        gpu=0,
        gpu_type=("h100",),
        auto_stop_minutes=0,
        auto_archive_minutes=60,
        auto_delete_minutes=-1,
        volumes=({"volumeId": "v", "mountPath": "/v"},),
        network_block_all=False,
        network_allow_list=("10.0.0.0/8", "1.1.1.1/32"),
        domain_allow_list=("example.org",),
        linked_sandbox="other",
    )

    assert create_body(None, options, {}) == {
        "user": "me",
        "target": "eu",
        "env": {"A": "1"},
        "labels": {},
        "public": False,
        "cpu": 2,
        "memory": 4,
        "disk": 8,
        "gpu": 0,
        "gpuType": ["h100"],
        "autoStopInterval": 0,
        "autoArchiveInterval": 60,
        "autoDeleteInterval": -1,
        "volumes": [{"volumeId": "v", "mountPath": "/v"}],
        "networkBlockAll": False,
        "networkAllowList": "10.0.0.0/8,1.1.1.1/32",
        "domainAllowList": "example.org",
        "linkedSandbox": "other",
    }


@pytest.mark.parametrize("document", [None, [], "x", {}, {"id": ""}, {"id": None}, {"id": 7}, {"id": "../evil"}])
def test_answer_that_names_no_sandbox_is_an_error(document: Any) -> None:
    with pytest.raises(SandboxProtocolError):
        parse_sandbox(document)


@pytest.mark.parametrize(
    ("minutes", "read"),
    [(15, 15), (15.0, 15), (0, 0), (1.5, None), (math.inf, None), (math.nan, None), (True, None), ("15", None)],
)
def test_minutes_are_whole_or_not_known(minutes: Any, read: int | None) -> None:
    assert parse_sandbox({"id": "id-1", "autoStopInterval": minutes}).auto_stop_minutes == read


@pytest.mark.parametrize("when", ["yesterday", "0001-01-01T00:00:00", "9999-12-31T23:59:59-23:59", 5, None])
def test_time_that_is_none_is_not_known_or_far_away(when: Any) -> None:
    known = parse_sandbox({"id": "id-1", "createdAt": when}).created_at_epoch_ms

    assert known is None or abs(known) > 10**12


@pytest.mark.parametrize("document", [None, {"items": None}, {"items": [{}]}])
def test_answer_that_is_no_page_is_an_error(document: Any) -> None:
    with pytest.raises(SandboxProtocolError):
        parse_page(document)


def test_summary_shows_no_sensitive_label() -> None:
    sandbox = RemoteSandbox(
        sandbox_id="id-1",
        name="work",
        state="stopped",
        snapshot="snap",
        labels={"task": "t", "apiToken": "x"},
        created_at_epoch_ms=1000,
    )

    assert summary_of(sandbox) == SandboxSummary(
        session_id="id-1",
        provider_id="daytona",
        status=SandboxStatus.CLOSED,
        state="stopped",
        name="work",
        image="snap",
        labels={"task": "t"},
        created_at_epoch_ms=1000,
    )


def test_port_has_its_token_in_a_header() -> None:
    port = parse_port({"url": "https://3000-id.example", "token": "tok"})

    assert port == PortUrl(url="https://3000-id.example", headers={"x-daytona-preview-token": "tok"})
    assert "tok" not in repr(port).replace("token", "")


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "Invalid credentials", SandboxAuthError),
        (403, "Total CPU quota exceeded", SandboxQuotaError),
        (400, "Sandbox limit exceeded", SandboxQuotaError),
        (400, "Sandbox failed to start: disk full", SandboxException),
    ],
)
def test_refusals_of_the_control_api(status: int, message: str, kind: type[SandboxException]) -> None:
    fault = Fault(place="POST x", status=status, code=None, message=message)

    assert type(explain_control(HttpReply(status=status), fault)) is kind


def test_toolbox_of_a_sandbox_that_does_not_run() -> None:
    message = "bad request: no IP address found. Is the Sandbox started?"
    fault = Fault(place="POST x", status=400, code=None, message=message)

    assert type(explain_toolbox(HttpReply(status=400), fault)) is SandboxSessionLostError
