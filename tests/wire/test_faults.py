from __future__ import annotations

import json
from email.utils import formatdate

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxCapacityError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxRateLimitError,
    SandboxTimeoutError,
)
from ai4j_sandbox_wire.faults import ERROR_BY_STATUS, Fault, error_for, read_fault, retry_after
from ai4j_sandbox_wire.message import HttpReply


def reply(status: int, body: object = b"", **headers: str) -> HttpReply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpReply(
        status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}, body=data
    )


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"code": 404, "message": "no such sandbox"}, None, "no such sandbox"),
        ({"code": "not_found", "message": "gone"}, "not_found", "gone"),
        ({"error_code": "sandbox_capacity_unavailable", "code": 503, "message": "full"},
         "sandbox_capacity_unavailable", "full"),
        ({"statusCode": 400, "error": "Bad Request", "message": ["a must be set", "b too"]}, None,
         "a must be set; b too"),
        ({"error": "gone"}, None, "gone"),
        ({"error": {"code": "unavailable", "message": "later"}}, "unavailable", "later"),
        ({"code": 17, "message": {"a": 1}}, None, '{"code": 17, "message": {"a": 1}}'),
        (b"null", None, "no explanation was given"),
        (b"", None, "no explanation was given"),
        (b"404 page not found\n", None, "404 page not found"),
        (b"<html><head><title>502 Bad Gateway</title></head></html>", None, "an HTML page titled '502 Bad Gateway'"),
        (b'["a"]', None, '["a"]'),
    ],
)  # fmt: skip
def test_fault_is_read_from_any_kind_of_body(body: object, code: str | None, message: str) -> None:
    assert read_fault(reply(418, body), "GET /x") == Fault(place="GET /x", status=418, code=code, message=message)


@pytest.mark.parametrize(("status", "kind"), sorted(ERROR_BY_STATUS.items()))
def test_each_status_becomes_its_most_specific_error(status: int, kind: type[SandboxException]) -> None:
    error = error_for(reply(status, {"message": "m"}, x_request_id="r-1"), "GET http://h/x")

    assert type(error) is kind
    assert (error.http_status, error.request_id) == (status, "r-1")
    assert f"GET http://h/x was answered with {status}: m" in error.message


@pytest.mark.parametrize("status", [404, 410])
def test_web_page_proves_nothing_gone(status: int) -> None:
    page = HttpReply(status=status, headers={"content-type": "text/html; charset=x"}, body=b"<html>nginx</html>")

    error = error_for(page, "DELETE /sandboxes/a")

    assert (type(error), error.http_status, error.outcome) == (SandboxProtocolError, status, Outcome.NOT_STARTED)


def test_unknown_status_is_a_plain_sandbox_error() -> None:
    assert type(error_for(reply(500), "GET /x")) is SandboxException


def test_redirect_is_refused_without_the_query_of_its_target() -> None:
    error = error_for(reply(302, location="https://evil.example/in?token=abcdef"), "POST http://h/x")

    assert isinstance(error, SandboxProtocolError)
    assert "https://evil.example/in" in error.message
    assert "abcdef" not in str(error)


def test_provider_explains_first_and_the_rest_is_filled_in() -> None:
    def explain(answer: HttpReply, fault: Fault) -> SandboxException | None:
        return SandboxConflictError("transitioning") if "transition" in fault.message else None

    error = error_for(reply(400, {"message": "still in transition"}, retry_after="2"), "GET /x", explain)

    assert isinstance(error, SandboxConflictError)
    assert (error.http_status, error.retry_after) == (400, 2.0)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after": formatdate(1030, usegmt=True)}, 30.0),
        ({"retry_after": formatdate(900, usegmt=True)}, 0.0),
        ({"retry_after_sandbox_create": "9", "retry_after_authenticated": "3"}, 9.0),
        ({"retry_after": "9" * 400}, 86_400.0),
        ({"retry_after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 86_400.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-1"}, None),
        ({}, None),
    ],
)
def test_retry_after_as_number_date_or_throttler_variant(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(reply(429, **headers), now=lambda: 1000.0) == seconds


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, SandboxAuthError),
        (404, SandboxNotFoundError),
        (408, SandboxTimeoutError),
        (429, SandboxRateLimitError),
        (502, SandboxConnectionError),
        (503, SandboxCapacityError),
    ],
)
def test_empty_body_is_judged_by_its_status(status: int, kind: type[SandboxException]) -> None:
    assert isinstance(error_for(reply(status), "GET /x"), kind)
