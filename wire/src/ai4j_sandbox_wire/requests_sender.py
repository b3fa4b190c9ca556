"""Sending a request to a control plane with `requests`, without everything in it that acts on its own.

The adapter is used without a ``Session``: no cookies, no redirects, no ``.netrc``, no proxy or CA variables from the
environment, no retries. It is thread-safe, and a forked child makes its own.
"""

from __future__ import annotations

import os

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import NameResolutionError, NewConnectionError, ReadTimeoutError

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxConnectionError,
    SandboxException,
    SandboxOutputLimitError,
    SandboxProtocolError,
    SandboxTimeoutError,
)

from .errors import StreamCutError
from .message import HttpReply, HttpRequest
from .trust import Trust

_CHUNK_BYTES = 64 * 1024


class RequestsSender:
    """Sends requests with `requests`; a `message.Send`.

    The limit for one read is set when the request is sent and never longer than the deadline is away; between reads
    the deadline itself is looked at.

    Args:
        ca_bundle: File with the certificates to trust instead of the usual ones.
        ca_setting: The knob that names this file, for error messages.
        setting: The knob that names the host, for error messages.
    """

    def __init__(
        self, *, ca_bundle: str | None = None, ca_setting: str | None = None, setting: str | None = None
    ) -> None:
        self._trust = Trust(ca_bundle=ca_bundle, setting=ca_setting)
        self._bundle_read = False
        self._setting = setting
        self._adapter = HTTPAdapter(pool_maxsize=32)
        self._pid = os.getpid()

    def __call__(self, request: HttpRequest, deadline: Deadline) -> HttpReply:
        """Send a request, once, and return the whole answer, whatever its status.

        Raises:
            SandboxConfigError: The CA bundle cannot be read.
            SandboxConnectionError: No connection (``outcome`` not started), or it broke (unknown).
            SandboxTimeoutError: No connection, or no whole answer, in time.
            SandboxOutputLimitError: The answer is longer than ``request.limits.body_bytes``.
            SandboxProtocolError: The answer is not HTTP.
        """
        try:
            return self._send(request, deadline)
        except (requests.RequestException, OSError) as error:
            # The foreign text may quote the whole URL or a header, so only our own words go on.
            raise self._mapped(error, request) from None

    def close(self) -> None:
        """Close the idle connections."""
        self._adapter.close()

    def _send(self, request: HttpRequest, deadline: Deadline) -> HttpReply:
        prepared = requests.Request(
            request.method,
            f"{request.origin}{request.target}",
            headers={"Accept-Encoding": "identity", **request.headers},
            data=request.body,
        ).prepare()
        limits = request.limits
        timeout = (_bounded(deadline, limits.connect_seconds), _bounded(deadline, limits.read_seconds))
        with self._own_adapter().send(prepared, stream=True, timeout=timeout, verify=self._verify()) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            body = _read(response, request, deadline)
            return HttpReply(status=response.status_code, headers=headers, body=body)

    def _verify(self) -> str | bool:
        """What `requests` is to check certificates with. Of a file it cannot read it says nothing that helps."""
        bundle = self._trust.ca_bundle
        if bundle is None:
            return True
        if not self._bundle_read:
            self._trust.context()
            self._bundle_read = True
        return bundle

    def _own_adapter(self) -> HTTPAdapter:
        if self._pid != os.getpid():  # a forked child must not talk on its parent's connections
            self._adapter = HTTPAdapter(pool_maxsize=32)
            self._pid = os.getpid()
        return self._adapter

    def _mapped(self, error: Exception, request: HttpRequest) -> SandboxException:
        origin = request.origin
        cause = _innermost(error)
        check = f"check {self._setting}" if self._setting else "check the URL setting"
        if isinstance(cause, NameResolutionError):
            return SandboxConnectionError(
                f"the host name {origin.host!r} could not be resolved", hint=check, outcome=Outcome.NOT_STARTED
            )
        if isinstance(error, requests.exceptions.SSLError):
            return SandboxConnectionError(
                f"no trusted TLS connection to {origin}",
                hint=f"{check}; {self._trust.hint}",
                retryable=False,
                outcome=Outcome.NOT_STARTED,
            )
        if isinstance(error, requests.exceptions.ConnectTimeout):
            return SandboxTimeoutError(f"connecting to {origin} took too long", hint=check, outcome=Outcome.NOT_STARTED)
        if isinstance(cause, NewConnectionError):
            return SandboxConnectionError(
                f"could not connect to {origin}",
                hint=f"{check}; the service must run and be reachable from here",
                outcome=Outcome.NOT_STARTED,
            )
        if isinstance(error, requests.exceptions.Timeout) or isinstance(cause, ReadTimeoutError):
            return SandboxTimeoutError(f"{request.place} was sent and not answered in time")
        if isinstance(error, requests.exceptions.ContentDecodingError):
            return SandboxProtocolError(f"{request.place}: the answer's compression is broken")
        return StreamCutError(f"{request.place}: the connection broke before the whole answer had come")


def _read(response: requests.Response, request: HttpRequest, deadline: Deadline) -> bytes:
    limit = request.limits.body_bytes
    parts: list[bytes] = []
    total = 0
    for part in response.iter_content(_CHUNK_BYTES):
        total += len(part)
        if total > limit:
            raise SandboxOutputLimitError(f"{request.place}: the answer is longer than {limit} bytes")
        if deadline.expired:
            raise SandboxTimeoutError(f"{request.place}: the answer began but did not end in time")
        parts.append(part)
    return b"".join(parts)


def _bounded(deadline: Deadline, seconds: float) -> float:
    return max(deadline.bound(seconds), 0.001)  # 0 would mean "do not block"


def _innermost(error: BaseException) -> BaseException:
    """The reason inside a requests error: its first argument, and that one's ``reason``."""
    while True:
        inner = getattr(error, "reason", None) or next(iter(error.args), None)
        if not isinstance(inner, BaseException):
            return error
        error = inner
