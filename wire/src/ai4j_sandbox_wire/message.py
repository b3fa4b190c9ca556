"""One HTTP exchange as data: what is sent, and what came back whole."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import SandboxConfigError, SandboxProtocolError
from ai4j_sandbox.frozen import empty_mapping

from .base_url import Origin

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Visible Latin-1, blanks and tabs only inside.
_VALUE = re.compile(r"(?:[\x21-\x7e\xa1-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\xa1-\xff])?)?")
_LINE_ENDS_AND_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-correlation-id", "x-trace-id", "cf-ray")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How long and how much a client is prepared to wait and to hold.

    Attributes:
        connect_seconds: For one connection to stand, TLS included.
        read_seconds: For the answer to begin, and for each further piece of it.
        call_seconds: For a whole call with its retries, when the caller gives no deadline; ``None`` for no limit.
        body_bytes: Longest answer that is read whole.
        error_bytes: How much of a refusal's body is looked at.
    """

    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    call_seconds: float | None = 120.0
    body_bytes: int = 64 * 1024 * 1024
    error_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request, ready to be sent. Headers and body may hold secrets and are hidden from ``repr``.

    Attributes:
        target: Path and query.
        body: Bytes, or chunks that are sent as they come and cannot be sent twice.
    """

    method: str
    origin: Origin
    target: str
    headers: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    body: bytes | Iterable[bytes] | None = field(default=None, repr=False)
    limits: HttpLimits = field(default=HttpLimits(), repr=False)

    @property
    def place(self) -> str:
        """What error messages call this request: method, host and path, no query."""
        return f"{self.method} {self.origin}{self.target.partition('?')[0]}"


class Body(Flag):
    """What the body of a successful answer may be. A status alone proves nothing: sign-in pages answer 200 too."""

    NOTHING = auto()
    OBJECT = auto()
    LIST = auto()
    VALUE = auto()  # any other JSON value
    ACKNOWLEDGEMENT = NOTHING | OBJECT  # services differ in whether they say more than the status
    JSON = NOTHING | OBJECT | LIST | VALUE


_BODY_BY_TYPE: Mapping[type, Body] = {type(None): Body.NOTHING, dict: Body.OBJECT, list: Body.LIST}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """An answer that was read whole.

    Attributes:
        headers: Names in lower case.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    body: bytes = field(default=b"", repr=False)

    @property
    def content_type(self) -> str:
        """Media type without parameters, in lower case; empty when there is none."""
        return media_type(self.headers)

    @property
    def request_id(self) -> str | None:
        """The id by which the service's support finds this call."""
        return next((self.headers[name] for name in _REQUEST_ID_HEADERS if self.headers.get(name)), None)

    def text(self) -> str:
        """Return the body as text: UTF-8, invalid bytes as U+FFFD."""
        return self.body.decode("utf-8", "replace")

    def json(self, *, any_type: bool = False) -> Any:
        """Return the body's JSON value, ``None`` for an empty body.

        Args:
            any_type: Parse whatever the content type says, for a service that mislabels its JSON.

        Raises:
            SandboxProtocolError: The body is not JSON, or not called so.
        """
        if not self.body.strip():
            return None
        if not any_type and "json" not in self.content_type:
            raise self._not_json()
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise self._not_json() from None

    def require(self, expected: Body) -> None:
        """Return if the body is what the call promises; its content type does not matter, JSON proves itself.

        Raises:
            SandboxProtocolError: It is not.
        """
        value = self.json(any_type=True)
        if _BODY_BY_TYPE.get(type(value), Body.VALUE) not in expected:
            raise self._unexpected(f"{_described(expected)} was expected")

    def _not_json(self) -> SandboxProtocolError:
        return self._unexpected("JSON was expected")

    def _unexpected(self, expectation: str) -> SandboxProtocolError:
        return SandboxProtocolError(
            f"{expectation}, but the answer (status {self.status}) is {self.content_type or 'of no type'!r}: "
            f"{excerpt(self.text()) or 'nothing'}",
            hint="check the service's URL; a proxy or a sign-in page may have answered",
            http_status=self.status,
            request_id=self.request_id,
        )


Send = Callable[[HttpRequest, Deadline], HttpReply]
"""Sends one request, once, and returns the whole answer, whatever its status. Follows no redirect."""


def media_type(headers: Mapping[str, str]) -> str:
    """Return the media type of a message's headers without parameters, in lower case."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers if each can be sent as it is.

    Raises:
        SandboxConfigError: A name is no token, or a value holds a line break, a control character or something
            outside Latin-1. The value is not repeated: it may be a credential.
    """
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise SandboxConfigError("a header name is not valid: only letters, digits and !#$%&'*+-.^_`|~ may be used")
        if not _VALUE.fullmatch(value):
            raise _unsendable(name, value)
    return dict(headers)


def _unsendable(name: str, value: str) -> SandboxConfigError:
    if _LINE_ENDS_AND_CONTROLS.search(value):
        return SandboxConfigError(
            f"the value for header {name} holds a line break or a control character",
            hint="a key that was read from a file often ends in one; strip it",
        )
    return SandboxConfigError(
        f"the value for header {name} holds characters that HTTP cannot carry, or outer blanks",
        hint="check the setting it comes from",
    )


def excerpt(text: str, limit: int = 200) -> str:
    """Return the beginning of `text` on one line; of an HTML page only its title."""
    if text.lstrip()[:1] == "<":
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        text = f"an HTML page titled {' '.join(title[1].split())!r}" if title else "an HTML page: " + text
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + "…"


def _described(expected: Body) -> str:
    words = {Body.OBJECT: "a JSON object", Body.LIST: "a JSON list", Body.NOTHING: "no body"}
    return " or ".join(text for body, text in words.items() if body in expected) or "JSON"
