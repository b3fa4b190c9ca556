"""`HttpClient`: one set of rules for every call to a service, whatever sends it.

* Headers are checked before anything is sent; redirects are refused; nothing is read from the environment.
* Every call has one wall-clock deadline, retries and pauses included.
* Only safe calls are repeated (GET, HEAD, DELETE, and what the caller declares idempotent), after a pause with
  jitter or as long as the service asks for. Everything else is sent at most once.
* What may have run and was not answered is never called retryable, unless it may be repeated.
* A success is one only with a body that the call can have (`message.Body`).
* A refusal becomes one of the core's errors, with the service's words, its request id and no secret.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from json import JSONEncoder
from typing import Any, Protocol

from ai4j_sandbox.deadline import Clock, Deadline
from ai4j_sandbox.errors import Outcome, SandboxException, SandboxTimeoutError
from ai4j_sandbox.redaction import Scrubber

from .base_url import BaseUrl, QueryValue
from .connection import Dialer
from .direct import DirectTransport, PendingResponse, StreamingResponse
from .faults import Explain, error_for
from .message import Body, HttpLimits, HttpReply, HttpRequest, Send, checked_headers

_JSON = JSONEncoder(separators=(",", ":"))
_REFUSAL_SECONDS = 5.0  # how long a refusal's explanation is waited for
_SAFE_METHODS = frozenset(("GET", "HEAD", "DELETE"))
_PASSING_STATUSES = frozenset((425, 429, 502, 503, 504))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How safe calls are repeated.

    Attributes:
        attempts: How often a call is sent at most.
        first_seconds, longest_seconds: The pause doubles from the first to the longest; jitter takes up to half away.
        patience_seconds: The longest wish of a service (``Retry-After``) that is granted.
    """

    attempts: int = 4
    first_seconds: float = 0.25
    longest_seconds: float = 8.0
    patience_seconds: float = 60.0

    def pause(self, attempt: int, error: SandboxException, jitter: float) -> float | None:
        """Return how long to wait after failed attempt number `attempt` (from 1), or ``None`` to give up.

        Args:
            jitter: A random number from 0 to 1.
        """
        if attempt >= self.attempts or not _may_pass(error):
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.patience_seconds else None
        longest = min(self.longest_seconds, self.first_seconds * 2.0 ** (attempt - 1))
        return longest * (1 - jitter / 2)


class OpenStream(Protocol):
    """Sends one request, once, and returns its answer as a stream, whatever its status."""

    def __call__(self, request: HttpRequest, deadline: Deadline) -> StreamingResponse: ...


class Begin(Protocol):
    """Sends one request, once, and returns before it is answered."""

    def __call__(self, request: HttpRequest, deadline: Deadline) -> PendingResponse: ...


class PendingReply:
    """A call that was sent and not answered yet. `receive` is for one thread at a time, `close` for any."""

    def __init__(
        self,
        pending: PendingResponse,
        deadline: Deadline,
        *,
        finish: Callable[[StreamingResponse], HttpReply],
        telling: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._pending = pending
        self._deadline = deadline
        self._finish = finish
        self._telling = telling

    def receive(self, timeout: float | None) -> HttpReply | None:
        """Return the successful answer; ``None`` after `timeout` seconds without any.

        Not called again after it returned an answer or raised.

        Raises:
            SandboxException: As `HttpClient.call`.
        """
        with self._telling():
            left = self._deadline.remaining()
            response = self._pending.receive(left if timeout is None else self._deadline.bound(timeout))
            if response is not None:
                return self._finish(response)
            if self._deadline.expired:
                self._pending.close()
                raise SandboxTimeoutError("the call was sent and not answered in time")
            return None

    def close(self) -> None:
        """Give up waiting for the answer. Idempotent."""
        self._pending.close()


class HttpClient:
    """Calls one service. Thread-safe.

    Args:
        headers: Called for every request; gives what all of them carry, credentials included, at the moment of use.
        send: Sends one request and returns the whole answer; `requests` by default.
        open_stream: Sends one request and returns its answer as a stream; `DirectTransport` by default.
        begin: Sends one request and returns before it is answered; `DirectTransport` by default.
        explain: The provider's own reading of a refusal.
        scrubber: Masks what must not appear in an error. Asked for every error, so that it can grow.
        where: What every error tells of its place (`SandboxException.located`), such as ``session_id``.
        clock, sleep, jitter: Time and chance.
    """

    def __init__(
        self,
        base_url: BaseUrl,
        *,
        headers: Callable[[], Mapping[str, str]] = dict,
        send: Send | None = None,
        open_stream: OpenStream | None = None,
        begin: Begin | None = None,
        limits: HttpLimits | None = None,
        retries: RetryPolicy | None = None,
        explain: Explain | None = None,
        scrubber: Callable[[], Scrubber] = Scrubber,
        where: Mapping[str, str] | None = None,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._opened: list[Callable[[], None]] = []
        self.base_url = base_url
        self.limits = limits or HttpLimits()
        self._headers = headers
        self._send = send or self._requests()
        self._open_stream = open_stream or self._direct().open
        self._begin = begin or self._direct().begin
        self._retries = retries or RetryPolicy()
        self._explain = explain
        self._scrubber = scrubber
        self._where = dict(where or {})
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, QueryValue] | None = None,
        json: object = None,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: Deadline | None = None,
        limits: HttpLimits | None = None,
        idempotent: bool | None = None,
        expect: Body = Body.JSON,
        operation: str | None = None,
    ) -> HttpReply:
        """Make one call and return its successful answer.

        Args:
            path: Below the base URL, percent-encoded (`base_url.path_segment`).
            json: A JSON document to send; or `body`, bytes to send as they are.
            deadline: For everything, retries included; `HttpLimits.call_seconds` by default.
            limits: For this call instead of the client's.
            idempotent: Whether the call may be repeated; by default GET, HEAD and DELETE may.
            expect: What the body of the answer may be.
            operation: What the caller is doing, for the error (``"create"``).

        Raises:
            SandboxConfigError: A header cannot be sent.
            SandboxConnectionError, SandboxTimeoutError: No answer; `outcome` tells whether it may have run.
            SandboxProtocolError: A redirect, no HTTP, or another body than expected.
            SandboxException: The service refused; the most specific class of its status (`faults`).
        """
        deadline = deadline or Deadline(self.limits.call_seconds, self._clock)
        repeatable = method in _SAFE_METHODS if idempotent is None else idempotent
        with self._telling(operation, repeatable=repeatable):
            request = self.request(method, path, query=query, json=json, body=body, headers=headers, limits=limits)
            if not repeatable or not isinstance(request.body, bytes | None):
                return self._once(request, deadline, expect)
            return self._repeated(request, deadline, expect)

    def json(self, method: str, path: str, **call: Any) -> Any:
        """Make one call (as `call`) and return the JSON value of its answer, ``None`` when it is empty.

        Raises:
            SandboxProtocolError: The answer is not JSON.
            SandboxException: As `call`.
        """
        reply = self.call(method, path, **call)
        with self._telling(call.get("operation"), repeatable=True):
            return reply.json()

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, QueryValue] | None = None,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: Deadline | None = None,
        operation: str | None = None,
    ) -> StreamingResponse:
        """Make one call, sent at most once, and return its successful answer as a stream.

        Raises:
            SandboxException: As `call`.
        """
        deadline = deadline or Deadline(self.limits.call_seconds, self._clock)
        with self._telling(operation, repeatable=method in _SAFE_METHODS):
            request = self.request(method, path, query=query, body=body, headers=headers)
            response = self._open_stream(request, deadline)
            if 200 <= response.status < 300:
                return response
            raise error_for(self._refusal(response, deadline), request.place, self._explain)

    def begin(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        deadline: Deadline | None = None,
        limits: HttpLimits | None = None,
        operation: str | None = None,
    ) -> PendingReply:
        """Send one call, once, and return before it is answered, which may take long.

        Raises:
            SandboxException: It could not be sent; as `call`.
        """
        deadline = deadline or Deadline(self.limits.call_seconds, self._clock)
        limits = limits or self.limits

        def telling() -> contextlib.AbstractContextManager[None]:
            return self._telling(operation, repeatable=method in _SAFE_METHODS)

        with telling():
            request = self.request(method, path, json=json, limits=limits)
            pending = self._begin(request, deadline)

        def finish(response: StreamingResponse) -> HttpReply:
            body = response.read(limits.body_bytes, deadline, limits.read_seconds)
            reply = HttpReply(status=response.status, headers=response.headers, body=body)
            return self._successful(reply, request, Body.JSON)

        return PendingReply(pending, deadline, finish=finish, telling=telling)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, QueryValue] | None = None,
        json: object = None,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        limits: HttpLimits | None = None,
    ) -> HttpRequest:
        """Return the request that a call with these arguments sends.

        Raises:
            SandboxConfigError: A header cannot be sent.
        """
        merged = {"Accept": "application/json", **self._headers(), **(headers or {})}
        if json is not None:
            body = _JSON.encode(json).encode()
            merged.setdefault("Content-Type", "application/json")
        return HttpRequest(
            method=method,
            origin=self.base_url.origin,
            target=self.base_url.target(path, query),
            headers=checked_headers(merged),
            body=body,
            limits=limits or self.limits,
        )

    @contextlib.contextmanager
    def _telling(self, operation: str | None, *, repeatable: bool) -> Iterator[None]:
        """Complete every error that leaves the client: masked, with its place, and inviting to nothing twice."""
        try:
            yield
        except SandboxException as error:
            if not repeatable and error.outcome is Outcome.UNKNOWN:
                error.retryable = False
            error.scrubbed(self._scrubber()).located(**self._where, operation=operation)
            raise

    def close(self) -> None:
        """Close the idle connections of the ways of sending that the client made itself."""
        for close in self._opened:
            close()

    def _repeated(self, request: HttpRequest, deadline: Deadline, expect: Body) -> HttpReply:
        attempt = 1
        while True:
            try:
                return self._once(request, deadline, expect)
            except SandboxException as error:
                pause = self._retries.pause(attempt, error, self._jitter())
                left = deadline.remaining()
                if pause is None or (left is not None and pause >= left):
                    raise
                self._sleep(pause)
                attempt += 1

    def _once(self, request: HttpRequest, deadline: Deadline, expect: Body) -> HttpReply:
        return self._successful(self._send(request, deadline), request, expect)

    def _successful(self, reply: HttpReply, request: HttpRequest, expect: Body) -> HttpReply:
        if 200 <= reply.status < 300:
            reply.require(expect)
            return reply
        raise error_for(reply, request.place, self._explain)

    def _refusal(self, response: StreamingResponse, deadline: Deadline) -> HttpReply:
        """What a refused stream says, as far as it says it soon: the status alone is worth an error."""
        parts: list[bytes] = []
        size = 0
        with response, contextlib.suppress(SandboxException):
            for piece in response.pieces(deadline, min(_REFUSAL_SECONDS, self.limits.read_seconds)):
                parts.append(piece)
                size += len(piece)
                if size >= self.limits.error_bytes:
                    break
        return HttpReply(status=response.status, headers=response.headers, body=b"".join(parts))

    def _requests(self) -> Send:
        # Imported late: `requests` is most of the start-up time of a program that only needs the data plane.
        from .requests_sender import RequestsSender

        sender = RequestsSender(setting=self.base_url.setting)
        self._opened.append(sender.close)
        return sender

    def _direct(self) -> DirectTransport:
        transport = DirectTransport(Dialer(setting=self.base_url.setting))
        self._opened.append(transport.close)
        return transport


def _may_pass(error: SandboxException) -> bool:
    """Whether the failure may be gone at the next attempt."""
    return error.retryable and error.http_status in (None, *_PASSING_STATUSES)
