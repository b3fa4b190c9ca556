"""CubeAPI, the control plane: sandboxes are created, found, paused, copied and destroyed here.

* Only what is safe to repeat is repeated. A creation is sent once.
* A sandbox in the middle of a change answers 409, or 503 with ``Retry-After``: that is waited for, within bounds.
* Older servers are met: one that demands a timeout when connecting, one that cannot destroy a paused sandbox, one that
  lists only under the first version's path.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import SandboxConfigError, SandboxConflictError, SandboxException, SandboxTimeoutError
from ai4j_sandbox.model import SandboxSummary
from ai4j_sandbox.redaction import Scrubber
from ai4j_sandbox_wire.base_url import path_segment
from ai4j_sandbox_wire.creation import remove_created
from ai4j_sandbox_wire.http import HttpClient
from ai4j_sandbox_wire.message import Body, HttpLimits, HttpReply, Send
from ai4j_sandbox_wire.sandbox_records import PAUSED, RemoteSandbox, parse_sandbox, parse_snapshot_id, parse_summaries

from .config import DEFAULT_TIMEOUT_SECONDS, NEVER, PROVIDER_ID, CubeSandboxConfig
from .hooks import INFO
from .payloads import explain_control, metadata_query

PROBE_SECONDS = 5.0
"""How long a question may take that is only asked to explain a failure."""

USER_AGENT = f"{INFO.distribution}/{INFO.version}"

# What the server itself allows these to take; 5 s more, so that its answer comes before we stop waiting.
_CHANGE_SECONDS = 125.0
_COPY_SECONDS = 245.0

_CHANGE_PAUSES = (0.2, 0.5, 1.0, 2.0, 2.0)
_STATE_PAUSES = (0.05, 0.1, 0.2, 0.5)  # and then the last one again
_LIST_PATHS = ("/v2/sandboxes", "/sandboxes")
_NO_SUCH_PATH = frozenset((404, 405, 410))

T = TypeVar("T")


class CubeSandboxClient:
    """Calls the CubeAPI of one cluster. Thread-safe.

    Args:
        send: Sends one request.
        sleep: How to wait.
    """

    def __init__(self, config: CubeSandboxConfig, *, send: Send, sleep: Callable[[float], None] = time.sleep) -> None:
        self._http = HttpClient(
            config.api_url,
            headers=lambda: _headers(config),
            send=send,
            limits=config.limits,
            explain=explain_control(withheld_key=config.withheld_key),
            scrubber=lambda: Scrubber((config.api_key,)),
            sleep=sleep,
        )
        self._usual_window = DEFAULT_TIMEOUT_SECONDS if config.timeout_seconds == NEVER else config.timeout_seconds
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"CubeSandboxClient({self._http.base_url})"

    # --- one sandbox --------------------------------------------------------------------------------------------

    def create(self, body: Mapping[str, Any]) -> RemoteSandbox:
        """Create a sandbox; sent once.

        Raises:
            SandboxException: As `HttpClient.call`; `outcome` tells whether a sandbox may exist.
            SandboxProtocolError: One was created, but the answer does not say which.
        """
        return parse_sandbox(self._http.json("POST", "/sandboxes", json=body, operation="create"))

    def describe(self, sandbox_id: str, deadline: Deadline | None = None) -> RemoteSandbox:
        """Return a sandbox as CubeAPI knows it, which need not be how it is: dead ones may be called running.

        Raises:
            SandboxNotFoundError: It does not exist, or no longer.
        """
        return parse_sandbox(self._call("GET", sandbox_id, operation="describe", deadline=deadline).json())

    def connect(self, sandbox_id: str, timeout_seconds: int | None = None) -> RemoteSandbox:
        """Wake a sandbox if it is paused, and say that it will be used.

        Args:
            timeout_seconds: An idle window of at least this; ``None`` leaves it as it is.

        Raises:
            SandboxNotFoundError: It does not exist, or no longer.
        """
        try:
            return self._connect(sandbox_id, {} if timeout_seconds is None else {"timeout": timeout_seconds})
        except SandboxConfigError as refusal:
            if refusal.http_status != 422 or timeout_seconds is not None:
                raise
        # An older server demands a timeout. It looked at nothing else, so that asking again is safe.
        return self._connect(sandbox_id, {"timeout": self._usual_window})

    def pause(self, sandbox_id: str) -> None:
        """Freeze a sandbox and return when it is frozen; one that is paused already is fine.

        Raises:
            SandboxConflictError: It is in the middle of another change, and stayed there.
            SandboxTimeoutError: It did not become paused.
        """
        deadline = Deadline(_CHANGE_SECONDS)
        patient = self._patient(_CHANGE_SECONDS)

        def pause() -> None:
            try:
                self._call("POST", sandbox_id, "/pause", expect=Body.ACKNOWLEDGEMENT, operation="pause", **patient)
            except SandboxConflictError:
                if self.describe(sandbox_id).state not in (PAUSED, "pausing"):
                    raise

        self._settled(pause, deadline)
        self._await_paused(sandbox_id, deadline)

    def snapshot(self, sandbox_id: str, name: str | None = None) -> str:
        """Keep a sandbox's memory and disk; return the id of the template it became."""
        body = {} if name is None else {"name": name}
        call = self._patient(_COPY_SECONDS) | {"json": body, "operation": "snapshot"}
        reply = self._settled(lambda: self._call("POST", sandbox_id, "/snapshots", **call), Deadline(_COPY_SECONDS))
        return parse_snapshot_id(reply.json())

    def rollback(self, sandbox_id: str, snapshot_id: str) -> None:
        """Put a sandbox back, in place, to where it was when a snapshot of it was made."""
        call = self._patient(_COPY_SECONDS) | {"json": {"snapshotID": snapshot_id}, "operation": "rollback"}
        call["expect"] = Body.ACKNOWLEDGEMENT
        self._settled(lambda: self._call("POST", sandbox_id, "/rollback", **call), Deadline(_COPY_SECONDS))

    def remove_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot.

        Raises:
            SandboxNotFoundError: It does not exist, or no longer.
            SandboxConflictError: A sandbox still needs it.
        """
        path = f"/templates/{path_segment(snapshot_id, 'snapshot id')}"
        call = self._patient(_COPY_SECONDS) | {"expect": Body.ACKNOWLEDGEMENT, "operation": "remove snapshot"}
        self._settled(lambda: self._http.call("DELETE", path, **call), Deadline(self._http.limits.call_seconds))

    def destroy(self, sandbox_id: str, deadline: Deadline | None = None) -> None:
        """Destroy a sandbox.

        Raises:
            SandboxNotFoundError: It does not exist, or no longer.
            SandboxConflictError: It was in the middle of a change, and stayed there.
        """
        deadline = deadline or Deadline(self._http.limits.call_seconds)
        try:
            self._delete(sandbox_id, deadline)
        except SandboxException as failure:
            if type(failure) is not SandboxException or failure.http_status != 500:
                raise
            self._woken(sandbox_id, failure)
            self._delete(sandbox_id, deadline)

    def remove_created(self, tag: str) -> bool:
        """Destroy what a creation whose answer is unknown made; whether there was something."""
        return remove_created(self, tag, self._sleep)

    # --- many ---------------------------------------------------------------------------------------------------

    def find(self, metadata: Mapping[str, str], deadline: Deadline | None = None) -> list[SandboxSummary]:
        """Return all sandboxes that carry all of `metadata`."""
        query = {"metadata": metadata_query(metadata), "state": "running,paused"}
        for path in _LIST_PATHS:
            try:
                document = self._http.json("GET", path, query=query, deadline=deadline, operation="list")
            except SandboxException as error:
                if error.http_status not in _NO_SUCH_PATH or path == _LIST_PATHS[-1]:
                    raise
            else:
                return parse_summaries(document, PROVIDER_ID, metadata)
        raise AssertionError("one of the paths was answered or raised")

    def health(self, deadline: Deadline | None = None) -> Mapping[str, Any]:
        """Return what CubeAPI says about itself; needs no key.

        Raises:
            SandboxException: It does not answer.
        """
        document: Mapping[str, Any] = self._http.json(
            "GET", "/health", deadline=deadline, expect=Body.OBJECT, operation="health"
        )
        return document

    # --- how ----------------------------------------------------------------------------------------------------

    def _call(self, method: str, sandbox_id: str, suffix: str = "", **call: Any) -> HttpReply:
        path = f"/sandboxes/{path_segment(sandbox_id, 'sandbox id')}{suffix}"
        try:
            return self._http.call(method, path, **call)
        except SandboxException as error:
            error.located(session_id=sandbox_id)
            raise

    def _connect(self, sandbox_id: str, body: Mapping[str, Any]) -> RemoteSandbox:
        # Asking twice does no more than asking once: a window only ever becomes longer.
        call = self._patient(_CHANGE_SECONDS) | {"json": body, "operation": "connect", "idempotent": True}
        reply = self._settled(lambda: self._call("POST", sandbox_id, "/connect", **call), Deadline(_CHANGE_SECONDS))
        return parse_sandbox(reply.json())

    def _delete(self, sandbox_id: str, deadline: Deadline) -> None:
        call: dict[str, Any] = {"deadline": deadline, "expect": Body.ACKNOWLEDGEMENT, "operation": "destroy"}
        self._settled(lambda: self._call("DELETE", sandbox_id, **call), deadline)

    def _woken(self, sandbox_id: str, failure: SandboxException) -> None:
        """Wake a sandbox that an older server could not destroy because it is paused."""
        try:
            self.connect(sandbox_id)
        except SandboxException:
            raise failure from None

    def _patient(self, seconds: float) -> dict[str, Any]:
        """Limits of a call that the server may work on for so long."""
        limits: HttpLimits = replace(self._http.limits, read_seconds=max(seconds, self._http.limits.read_seconds))
        return {"limits": limits, "deadline": Deadline(limits.connect_seconds + limits.read_seconds)}

    def _settled(self, call: Callable[[], T], deadline: Deadline) -> T:
        """Make a call, and again while the sandbox is in the middle of a change, as often as there are pauses."""
        pauses = iter(_CHANGE_PAUSES)
        while True:
            try:
                return call()
            except SandboxConflictError as conflict:
                pause = next(pauses, None)
                if pause is None:
                    raise
                wait = max(pause, conflict.retry_after or 0.0)
                if deadline.bound(wait) < wait:
                    raise
                self._sleep(wait)

    def _await_paused(self, sandbox_id: str, deadline: Deadline) -> None:
        pauses = iter(_STATE_PAUSES)
        pause = _STATE_PAUSES[0]
        while (state := self.describe(sandbox_id, deadline).state) not in (PAUSED, None):
            pause = next(pauses, pause)
            if deadline.bound(pause) < pause:
                raise SandboxTimeoutError(f"the sandbox should be paused, but is {state}", session_id=sandbox_id)
            self._sleep(pause)


def _headers(config: CubeSandboxConfig) -> dict[str, str]:
    headers = {"User-Agent": USER_AGENT}
    if config.api_key is None:
        return headers
    headers["Authorization"] = f"Bearer {config.api_key}"
    return headers | {"X-API-Key": config.api_key} if config.send_x_api_key else headers
