"""What a refusal means: an answer with an error status becomes one of the core's errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxCapacityError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxPermissionError,
    SandboxProtocolError,
    SandboxQuotaError,
    SandboxRateLimitError,
    SandboxTimeoutError,
    UnsupportedCapabilityError,
)

from .message import HttpReply, excerpt

ERROR_BY_STATUS: Mapping[int, type[SandboxException]] = {
    400: SandboxConfigError,
    401: SandboxAuthError,
    402: SandboxQuotaError,
    403: SandboxPermissionError,
    404: SandboxNotFoundError,
    405: UnsupportedCapabilityError,
    408: SandboxTimeoutError,
    409: SandboxConflictError,
    410: SandboxNotFoundError,
    413: SandboxConfigError,
    415: UnsupportedCapabilityError,
    422: SandboxConfigError,
    423: SandboxConflictError,
    425: SandboxConflictError,
    429: SandboxRateLimitError,
    431: SandboxConfigError,
    501: UnsupportedCapabilityError,
    502: SandboxConnectionError,
    503: SandboxCapacityError,
    504: SandboxTimeoutError,
}
"""The most specific error of each status; other refusals are a plain `SandboxException`."""

_NOT_STARTED = frozenset((400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 422, 423, 425, 429, 431, 501))

_LONGEST_WAIT_SECONDS = 24 * 3600.0  # of what a service asks for: a host may sleep for so long, not for ever

_HINTS = {
    401: "check the API key",
    402: "check the account's plan",
    403: "check what the API key is allowed to do",
    429: "slow down, or ask the service for a higher limit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a refusal says.

    Attributes:
        place: Which call was refused.
        code: The service's own word for it (``"not_found"``, ``"sandbox_capacity_unavailable"``), or ``None``.
        message: For people; one line, bounded.
    """

    place: str
    status: int
    code: str | None
    message: str


Explain = Callable[[HttpReply, Fault], SandboxException | None]
"""A provider's own reading of a refusal; ``None`` leaves it to the status."""


def read_fault(reply: HttpReply, place: str) -> Fault:
    """Return what a refusal says, in whichever form: JSON of any shape, text, HTML or nothing."""
    document = _json_object(reply)
    if document is None:
        text = reply.text().strip()
        message = excerpt(text) if text and text != "null" else "no explanation was given"
        return Fault(place=place, status=reply.status, code=None, message=message)
    inner = document.get("error")
    details = {**document, **inner} if isinstance(inner, dict) else document
    said = _first_text(details, "message", "error", "detail", "error_description", "title", "errorReason")
    code = _first_text(details, "error_code", "errorCode", "code")
    return Fault(place=place, status=reply.status, code=code, message=excerpt(said or reply.text()))


def error_for(reply: HttpReply, place: str, explain: Explain | None = None) -> SandboxException:
    """Return the error that a refusal is.

    Args:
        place: Which call it answers, for the message.
        explain: Asked first.
    """
    if 300 <= reply.status < 400:
        return _redirect(reply, place)
    fault = read_fault(reply, place)
    explained = explain(reply, fault) if explain else None
    error = explained or _from_elsewhere(reply, fault) or _by_status(fault)
    error.retry_after = error.retry_after if error.retry_after is not None else retry_after(reply)
    return error.located(http_status=reply.status, request_id=reply.request_id)


def retry_after(reply: HttpReply, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds the service asks to wait: ``Retry-After`` as number or date, or a throttler's own variant."""
    names = [name for name in reply.headers if name == "retry-after" or name.startswith("retry-after-")]
    waits = [wait for name in names if (wait := _wait_seconds(reply.headers[name], now)) is not None]
    return max(waits, default=None)


def _from_elsewhere(reply: HttpReply, fault: Fault) -> SandboxProtocolError | None:
    """The error for a web page that says "not found": the service does not talk so, and it proves no sandbox gone."""
    if fault.status not in (404, 410) or reply.content_type != "text/html":
        return None
    return SandboxProtocolError(
        f"{fault.place} was answered with {fault.status} by something that is not the service: {fault.message}",
        hint="check the service's URL; a web server or proxy may have answered",
        outcome=Outcome.NOT_STARTED,
    )


def _by_status(fault: Fault) -> SandboxException:
    kind = ERROR_BY_STATUS.get(fault.status, SandboxException)
    code = f" [{fault.code}]" if fault.code and fault.code != str(fault.status) else ""
    return kind(
        f"{fault.place} was answered with {fault.status}{code}: {fault.message}",
        hint=_HINTS.get(fault.status),
        retryable=True if fault.status in (425, 502, 503, 504) else None,
        outcome=Outcome.NOT_STARTED if fault.status in _NOT_STARTED else Outcome.UNKNOWN,
    )


def _redirect(reply: HttpReply, place: str) -> SandboxProtocolError:
    where = reply.headers.get("location", "").partition("?")[0]
    return SandboxProtocolError(
        f"{place} was redirected ({reply.status}) to {excerpt(where) or 'nowhere'!r}; redirects are refused, "
        "because they would carry the credential to another place",
        hint="set the URL setting to the final address",
        http_status=reply.status,
        request_id=reply.request_id,
        outcome=Outcome.NOT_STARTED,
    )


def _json_object(reply: HttpReply) -> dict[str, Any] | None:
    try:
        document = reply.json(any_type=True)
    except SandboxProtocolError:
        return None
    return document if isinstance(document, dict) else None


def _first_text(document: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        value = document.get(name)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            value = "; ".join(value)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _wait_seconds(text: str, now: Callable[[], float]) -> float | None:
    text = text.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), _LONGEST_WAIT_SECONDS)
    from email.utils import parsedate_to_datetime  # late: it loads half of `email`, and services give seconds

    try:
        return min(max(0.0, parsedate_to_datetime(text).timestamp() - now()), _LONGEST_WAIT_SECONDS)
    except (TypeError, ValueError, OverflowError):
        return None
