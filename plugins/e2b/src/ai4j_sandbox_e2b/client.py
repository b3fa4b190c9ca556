"""The control API: sandboxes are created, found, paused and destroyed here.

Both generations of its paths are known. The first that a service does not answer (404, 405, 410: nothing was done) is
left for the other, and remembered.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import SandboxConflictError, SandboxException, SandboxProtocolError
from ai4j_sandbox.model import SandboxSummary
from ai4j_sandbox.redaction import Scrubber
from ai4j_sandbox_wire.base_url import QueryValue, path_segment
from ai4j_sandbox_wire.creation import CREATE_TAG, remove_created
from ai4j_sandbox_wire.http import HttpClient
from ai4j_sandbox_wire.message import Body, HttpReply, Send
from ai4j_sandbox_wire.sandbox_records import PAUSED, RemoteSandbox, parse_sandbox, parse_snapshot_id, parse_summaries

from .config import PROVIDER_ID, E2BSandboxConfig
from .hooks import INFO
from .payloads import explain_control, metadata_query

PROBE_SECONDS = 5.0
"""How long a question may take that is only asked to explain a failure."""

USER_AGENT = f"{INFO.distribution}/{INFO.version}"
"""How we introduce ourselves. Not as a browser: E2B's proxy answers those in HTML."""

_CREATE_PATHS = ("/sandboxes", "/v2/sandboxes")
_LIST_PATHS = ("/v2/sandboxes", "/sandboxes")
_NO_SUCH_PATH = frozenset((404, 405, 410))
_PAGE_SIZE = 100
_DESTROY_PAUSES = (0.2, 0.5, 1.0, 2.0)  # a sandbox that is being paused cannot be destroyed at once


class E2BSandboxClient:
    """Calls the control API of one service. Thread-safe.

    Args:
        send: Sends one request; `requests` by default.
        sleep: How to wait.
    """

    def __init__(
        self, config: E2BSandboxConfig, *, send: Send | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._http = HttpClient(
            config.api_url,
            headers=lambda: {"X-API-Key": config.api_key, "User-Agent": USER_AGENT},
            send=send,
            limits=config.limits,
            explain=explain_control,
            scrubber=lambda: Scrubber((config.api_key,)),
            where={"provider_id": PROVIDER_ID},
            sleep=sleep,
        )
        self._sleep = sleep
        self._answered: dict[str, int] = {}  # operation to the path that the service answered

    def __repr__(self) -> str:
        return f"E2BSandboxClient({self._http.base_url})"

    # --- one sandbox --------------------------------------------------------------------------------------------

    def create(self, body: Mapping[str, Any]) -> RemoteSandbox:
        """Create a sandbox; the request takes effect at most once.

        Raises:
            SandboxException: As `HttpClient.call`; `outcome` tells whether a sandbox may exist.
            SandboxProtocolError: One was created, but the answer does not say which.
        """
        headers = {"Idempotency-Key": str(body["metadata"][CREATE_TAG])}
        reply = self._first_answered("create", "POST", _CREATE_PATHS, json=body, headers=headers)
        return parse_sandbox(reply.json())

    def describe(self, sandbox_id: str, deadline: Deadline | None = None) -> RemoteSandbox:
        """Return a sandbox as the service knows it.

        Raises:
            SandboxNotFoundError: It does not exist, or no longer.
        """
        with _about(sandbox_id):
            return parse_sandbox(self._http.json("GET", _path(sandbox_id), deadline=deadline, operation="describe"))

    def connect(self, sandbox_id: str, timeout_seconds: int) -> RemoteSandbox:
        """Wake a sandbox if it is paused, and let it live at least `timeout_seconds` from now.

        Raises:
            SandboxNotFoundError: It does not exist, or no longer.
        """
        path = f"{_path(sandbox_id)}/connect"
        body = {"timeout": timeout_seconds}
        # Asking twice does no more than asking once: a life is only ever prolonged.
        with _about(sandbox_id):
            reply = self._first_answered("connect", "POST", (path, f"/v2{path}"), json=body, idempotent=True)
            return parse_sandbox(reply.json())

    def pause(self, sandbox_id: str) -> None:
        """Freeze a sandbox; one that is paused already is fine."""
        with _about(sandbox_id):
            try:
                path = f"{_path(sandbox_id)}/pause"
                self._http.call("POST", path, json={}, expect=Body.ACKNOWLEDGEMENT, operation="pause")
            except SandboxConflictError:
                if self.describe(sandbox_id).state != PAUSED:
                    raise

    def snapshot(self, sandbox_id: str, name: str | None = None) -> str:
        """Keep a sandbox's state; return the id of the template it became."""
        body = {} if name is None else {"name": name}
        with _about(sandbox_id):
            return parse_snapshot_id(
                self._http.json("POST", f"{_path(sandbox_id)}/snapshots", json=body, operation="snapshot")
            )

    def destroy(self, sandbox_id: str, deadline: Deadline | None = None) -> None:
        """Destroy a sandbox.

        Raises:
            SandboxNotFoundError: It does not exist, or no longer.
            SandboxConflictError: It was in the middle of a change, and stayed there.
        """
        deadline = deadline or Deadline(self._http.limits.call_seconds)
        with _about(sandbox_id):
            for pause in _DESTROY_PAUSES:
                try:
                    return self._delete(sandbox_id, deadline)
                except SandboxConflictError:
                    if deadline.bound(pause) < pause:
                        raise
                    self._sleep(pause)
            self._delete(sandbox_id, deadline)

    def _delete(self, sandbox_id: str, deadline: Deadline) -> None:
        self._http.call(
            "DELETE", _path(sandbox_id), deadline=deadline, expect=Body.ACKNOWLEDGEMENT, operation="destroy"
        )

    def remove_created(self, tag: str) -> bool:
        """Destroy what a creation whose answer is unknown made; whether there was something."""
        return remove_created(self, tag, self._sleep)

    # --- many ---------------------------------------------------------------------------------------------------

    def find(self, metadata: Mapping[str, str], deadline: Deadline | None = None) -> list[SandboxSummary]:
        """Return all sandboxes that carry all of `metadata`."""
        query: dict[str, QueryValue] = {"metadata": metadata_query(metadata), "limit": _PAGE_SIZE}
        found: list[SandboxSummary] = []
        seen: set[str] = set()
        while True:
            reply = self._list(query, deadline)
            found += parse_summaries(reply.json(), PROVIDER_ID, metadata)
            token = reply.headers.get("x-next-token")
            if not token:
                return found
            if token in seen:
                raise SandboxProtocolError("the service's list of sandboxes goes round in circles")
            seen.add(token)
            query["nextToken"] = token

    def probe(self) -> None:
        """Return when the service answers and accepts the key.

        Raises:
            SandboxException: It does not.
        """
        self._list({"limit": 1}, Deadline(PROBE_SECONDS))

    # --- how ----------------------------------------------------------------------------------------------------

    def _list(self, query: Mapping[str, QueryValue], deadline: Deadline | None) -> HttpReply:
        return self._first_answered("list", "GET", _LIST_PATHS, query=query, deadline=deadline, expect=Body.LIST)

    def _first_answered(self, operation: str, method: str, paths: Sequence[str], **call: Any) -> HttpReply:
        known = self._answered.get(operation)
        failures: list[SandboxException] = []
        for index, path in enumerate(paths):
            if known not in (None, index):
                continue
            try:
                reply = self._http.call(method, path, operation=operation, **call)
            except SandboxException as error:
                if error.http_status not in _NO_SUCH_PATH:
                    raise
                failures.append(error)
            else:
                self._answered[operation] = index
                return reply
        raise failures[0]  # the first may speak of a template or sandbox, the next only of its path


@contextlib.contextmanager
def _about(sandbox_id: str) -> Iterator[None]:
    """Let every error name the sandbox."""
    try:
        yield
    except SandboxException as error:
        error.located(session_id=sandbox_id)
        raise


def _path(sandbox_id: str) -> str:
    return f"/sandboxes/{path_segment(sandbox_id, 'sandbox id')}"
