"""The pure parts; what a session does is shown by the providers' own tests against the emulator."""

from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox.errors import SandboxConnectionError, SandboxException
from ai4j_sandbox.spi import Metrics
from ai4j_sandbox_wire.connect import unary_error
from ai4j_sandbox_wire.envd_session import explain_foreign_answer, first_explanation, parse_metrics
from ai4j_sandbox_wire.faults import Fault, read_fault
from ai4j_sandbox_wire.message import HttpReply


def test_metrics_are_envds() -> None:
    document = {
        "ts": 1,
        "cpu_count": 2,
        "cpu_used_pct": 12.5,
        "mem_total": 1024,
        "mem_used": 512,
        "disk_used": 3.0,
        "disk_total": 4,
    }

    assert parse_metrics(document) == Metrics(
        cpu_percent=12.5, memory_bytes=512, memory_limit_bytes=1024, disk_bytes=3, disk_limit_bytes=4
    )


@pytest.mark.parametrize("value", [None, "much", True, [], {}, float("nan"), float("inf"), 10**400])
def test_metrics_that_are_no_numbers_are_not_told(value: Any) -> None:
    assert parse_metrics({"cpu_used_pct": value, "mem_used": value}) == Metrics()


def reply(status: int, body: bytes, kind: str) -> HttpReply:
    return HttpReply(status=status, headers={"content-type": kind}, body=body)


@pytest.mark.parametrize(
    ("answer", "foreign"),
    [
        (reply(404, b"404 page not found", "text/plain"), True),  # D26
        (reply(404, b"<html><title>Jupyter</title></html>", "text/html"), True),
        (reply(405, b"", ""), True),
        (reply(404, b'{"code":404,"message":"no such file"}', "application/json"), False),
        (reply(404, b'{"code":"not_found","message":"process"}', "application/json"), False),
        (reply(500, b"oops", "text/plain"), False),
    ],
)
def test_answer_of_something_else_than_envd_names_port_and_setting(answer: HttpReply, foreign: bool) -> None:
    error = explain_foreign_answer(49999, "X_PORT / config.port")(answer, read_fault(answer, "POST /"))

    assert isinstance(error, SandboxConnectionError) is foreign
    assert not foreign or ("port 49999" in str(error) and "X_PORT / config.port" in str(error))


def test_first_explanation_that_knows_wins() -> None:
    known = SandboxException("known")
    answer = reply(404, b'{"code":"not_found","message":"m"}', "application/json")
    fault = read_fault(answer, "POST /")

    def nothing(answer: HttpReply, fault: Fault) -> SandboxException | None:
        return None

    def something(answer: HttpReply, fault: Fault) -> SandboxException | None:
        return known

    assert first_explanation(nothing, something, unary_error)(answer, fault) is known
    assert first_explanation(nothing, nothing)(answer, fault) is None
