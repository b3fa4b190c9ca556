"""The control API: sandboxes are created, found, started, stopped and deleted here."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxCleanupError,
    SandboxConflictError,
    SandboxException,
    SandboxNotFoundError,
    SandboxPausedError,
    SandboxRateLimitError,
    SandboxSessionLostError,
    SandboxTimeoutError,
    SessionState,
)
from ai4j_sandbox.model import SandboxSummary
from ai4j_sandbox.redaction import Scrubber
from ai4j_sandbox.spi import PortUrl
from ai4j_sandbox_wire.base_url import path_segment
from ai4j_sandbox_wire.creation import remove_created
from ai4j_sandbox_wire.http import HttpClient
from ai4j_sandbox_wire.message import Body, Send

from .config import PROVIDER_ID, SETTINGS, DaytonaSandboxConfig
from .hooks import INFO
from .payloads import (
    RemoteSandbox,
    Stage,
    explain_control,
    parse_page,
    parse_port,
    parse_sandbox,
    parse_url,
    says_gone,
    summary_of,
)

PROBE_SECONDS = 5.0
"""How long a question may take that is only asked to explain or to clean up after a failure."""

DELETE_SECONDS = 30.0
"""How long a deletion may take: a sandbox that is starting or stopping cannot be deleted at once."""

USER_AGENT = f"{INFO.distribution}/{INFO.version}"

_FIRST_PAUSE_SECONDS = 0.1
_PAUSE_GROWTH = 1.5
_PAGE_SIZE = 100


class DaytonaSandboxClient:
    """Calls the control API of one service. Thread-safe.

    Args:
        send: Sends one request.
        sleep: How to wait.
    """

    def __init__(
        self, config: DaytonaSandboxConfig, *, send: Send, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._config = config
        self._http = HttpClient(
            config.api_url,
            headers=lambda: service_headers(config),
            send=send,
            limits=config.limits,
            explain=explain_control,
            scrubber=lambda: Scrubber((config.api_key,)),
            sleep=sleep,
            where={"provider_id": PROVIDER_ID},
        )
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"DaytonaSandboxClient({self._http.base_url})"

    # --- one sandbox --------------------------------------------------------------------------------------------

    def describe(self, name_or_id: str, deadline: Deadline | None = None) -> RemoteSandbox:
        """Return a sandbox as the service knows it.

        Raises:
            SandboxNotFoundError: It does not exist.
        """
        return parse_sandbox(self._http.json("GET", _path(name_or_id), deadline=deadline, operation="describe"))

    def create(self, body: Mapping[str, Any], deadline: Deadline | None = None) -> RemoteSandbox:
        """Create a sandbox; sent at most once. It need not run yet.

        Raises:
            SandboxConflictError: The name is taken.
            SandboxException: As `HttpClient.call`; `outcome` tells whether a sandbox may exist.
        """
        document = self._http.json("POST", "/sandbox", json=dict(body), deadline=deadline, operation="create")
        return parse_sandbox(document)

    def start(self, sandbox: RemoteSandbox, deadline: Deadline) -> RemoteSandbox:
        """Return the sandbox once it runs, starting, waking or mending it where needed.

        Raises:
            SandboxNotFoundError: It is gone, or going.
            SandboxException: It failed; the message has the service's reason.
            SandboxTimeoutError: It does not run in time; the message has its last state.
        """
        asked: set[Stage] = set()
        pause = min(_FIRST_PAUSE_SECONDS, self._config.poll_seconds)
        while sandbox.stage is not Stage.READY:
            if sandbox.stage is Stage.GONE:
                raise SandboxNotFoundError(f"the sandbox {sandbox.sandbox_id} is {sandbox.condition}")
            if sandbox.stage is Stage.FAILED and (not sandbox.recoverable or Stage.FAILED in asked):
                raise _failed(sandbox)
            if sandbox.stage in (Stage.RESTING, Stage.FAILED) and sandbox.stage not in asked:
                if self._set_going(sandbox, deadline):
                    asked.add(sandbox.stage)
            else:
                self._wait(sandbox, pause, deadline)
                pause = min(pause * _PAUSE_GROWTH, self._config.poll_seconds)
            sandbox = self._look_again(sandbox, deadline)
        return sandbox

    def destroy(self, sandbox_id: str, deadline: Deadline | None = None) -> None:
        """Delete a sandbox; one that is on its way to another state, as soon as it has arrived there.

        Raises:
            SandboxNotFoundError: It does not exist.
            SandboxCleanupError: The service took the order, and the sandbox is still there.
            SandboxException: It could not be deleted.
        """
        deadline = deadline or Deadline(DELETE_SECONDS)
        if not says_gone(self._delete(sandbox_id, deadline)):
            self._require_gone(sandbox_id, deadline)

    def _delete(self, sandbox_id: str, deadline: Deadline) -> Any:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return self._order("DELETE", sandbox_id, deadline=deadline, operation="destroy")
            except SandboxConflictError:
                left = deadline.remaining()
                if left is not None and left <= pause:
                    raise
                self._sleep(pause)
                pause = min(pause * 2, 1.0)

    def _require_gone(self, sandbox_id: str, deadline: Deadline) -> None:
        """Look, because the answer to the deletion proves nothing."""
        try:
            sandbox = self.describe(sandbox_id, deadline)
        except SandboxNotFoundError:
            return
        if sandbox.stage is not Stage.GONE:
            raise SandboxCleanupError(
                f"the service took the order to delete the sandbox {sandbox_id}, which is still {sandbox.condition}",
                operation="destroy",
                session_id=sandbox_id,
            )

    def act(self, sandbox_id: str, action: str, **query: bool) -> None:
        """Have the service do something with a sandbox: ``stop``, ``archive``, ``pause``.

        Raises:
            SandboxConflictError: It is on its way to another state.
            SandboxException: It cannot be done.
        """
        self._order("POST", sandbox_id, f"/{action}", query=query, operation=action)

    def await_state(self, sandbox_id: str, *states: str, may_be_gone: bool = False) -> None:
        """Return once a sandbox is in one of the states, or gone, if it may be.

        Raises:
            SandboxSessionLostError: It is gone.
            SandboxException: It failed, or did not get there in time.
        """
        deadline, pause = Deadline(self._config.start_seconds), _FIRST_PAUSE_SECONDS
        try:
            sandbox = self.describe(sandbox_id, deadline)
            while sandbox.state not in states and sandbox.stage is not Stage.GONE:
                if sandbox.stage is Stage.FAILED:
                    raise _failed(sandbox)
                self._wait(sandbox, pause, deadline)
                pause = min(pause * _PAUSE_GROWTH, self._config.poll_seconds)
                sandbox = self._look_again(sandbox, deadline)
        except SandboxNotFoundError:
            gone = True
        else:
            gone = sandbox.stage is Stage.GONE
        if gone and not may_be_gone:
            raise SandboxSessionLostError("the sandbox is gone: it was deleted", session_id=sandbox_id)

    def why_unreachable(self, sandbox_id: str, cause: SandboxException) -> SandboxException:
        """Return what became of a sandbox whose toolbox does not answer as it should.

        That is `cause` itself when nobody knows, and when the sandbox runs, which it then says (`SessionState.INTACT`).
        """
        context: dict[str, Any] = {"http_status": cause.http_status, "outcome": cause.outcome}
        try:
            sandbox = self.describe(sandbox_id, Deadline(PROBE_SECONDS))
        except SandboxNotFoundError:
            return SandboxSessionLostError("the sandbox is gone: it was deleted", **context)
        except SandboxException:
            return cause
        if sandbox.stage is Stage.READY:
            cause.session_state = SessionState.INTACT
            return cause
        if sandbox.is_paused:
            kind = SandboxConflictError if cause.outcome is Outcome.NOT_STARTED else SandboxPausedError
            return kind("the sandbox is paused", hint="call session.resume()", retryable=False, **context)
        return SandboxSessionLostError(
            f"the sandbox does not run; it is {sandbox.condition}",
            hint=f"call session.resume(), or raise {SETTINGS['auto_stop_minutes'].knobs}",
            **context,
        )

    def keep_alive(self, sandbox_id: str) -> None:
        """Let the sandbox's time of rest begin anew."""
        self._order("POST", sandbox_id, "/last-activity", idempotent=True, operation="extend")

    def set_auto_stop(self, sandbox_id: str, minutes: int) -> None:
        """Say after how many minutes of rest a sandbox stops; 0 for never."""
        self._order("POST", sandbox_id, f"/autostop/{minutes}", idempotent=True, operation="extend")

    def set_labels(self, sandbox_id: str, labels: Mapping[str, str]) -> None:
        """Replace all labels of a sandbox."""
        self._order("PUT", sandbox_id, "/labels", json={"labels": dict(labels)}, idempotent=True, operation="label")

    def toolbox_proxy_url(self, sandbox_id: str, deadline: Deadline | None = None) -> str:
        """Return where the proxy in front of a sandbox's toolbox is."""
        path = f"{_path(sandbox_id)}/toolbox-proxy-url"
        return parse_url(self._http.json("GET", path, deadline=deadline, operation="create"))

    def port_url(self, sandbox_id: str, port: int) -> PortUrl:
        """Return where a port can be reached with a token."""
        return parse_port(self._http.json("GET", f"{_path(sandbox_id)}/ports/{port}/preview-url", operation="port_url"))

    def signed_port_url(self, sandbox_id: str, port: int, seconds: int) -> str:
        """Return where a port can be reached without anything else, for so many seconds."""
        path = f"{_path(sandbox_id)}/ports/{port}/signed-preview-url"
        return parse_url(self._http.json("GET", path, query={"expiresInSeconds": seconds}, operation="port_url"))

    def snapshot(self, sandbox_id: str, name: str) -> None:
        """Keep a sandbox's state as a snapshot; returns once the service has taken the order."""
        self._order("POST", sandbox_id, "/snapshot", json={"name": name}, operation="snapshot")

    # --- many sandboxes -----------------------------------------------------------------------------------------

    def find(self, labels: Mapping[str, str], deadline: Deadline | None = None) -> list[SandboxSummary]:
        """Return the sandboxes that carry all of `labels` and are not gone."""
        return [summary_of(sandbox) for sandbox in self._find(labels, deadline)]

    def probe(self) -> None:
        """Ask for one sandbox: proves address, certificate and key."""
        deadline = Deadline(PROBE_SECONDS)
        parse_page(self._http.json("GET", "/sandbox", query={"limit": 1}, deadline=deadline, operation="health"))

    def remove_created(self, tag: str) -> bool:
        """Delete the sandbox of a creation whose answer was lost; whether there was one."""
        return remove_created(self, tag, self._sleep)

    def _find(self, labels: Mapping[str, str], deadline: Deadline | None) -> list[RemoteSandbox]:
        deadline = deadline or Deadline(self._http.limits.call_seconds)
        wanted = json.dumps(dict(labels)) if labels else None
        found: list[RemoteSandbox] = []
        cursor: str | None = None
        while True:
            query = {"limit": _PAGE_SIZE, "labels": wanted, "cursor": cursor}
            page, cursor = parse_page(
                self._http.json("GET", "/sandbox", query=query, deadline=deadline, operation="list")
            )
            # A service that ignores the filter must not make us delete somebody else's sandbox.
            found += [item for item in page if item.stage is not Stage.GONE and labels.items() <= item.labels.items()]
            if cursor is None or not page:
                return found

    # --- how ---------------------------------------------------------------------------------------------------

    def _order(self, method: str, sandbox_id: str, path: str = "", **call: Any) -> Any:
        """Make a call that changes a sandbox; what it has changed, if that matters, is looked at afterwards."""
        return self._http.json(method, f"{_path(sandbox_id)}{path}", expect=Body.ACKNOWLEDGEMENT, **call)

    # --- waiting ------------------------------------------------------------------------------------------------

    def _set_going(self, sandbox: RemoteSandbox, deadline: Deadline) -> bool:
        """Ask the service to start or mend a sandbox; ``False`` when it is busy with it and must be asked again."""
        action = "recover" if sandbox.stage is Stage.FAILED else "start"
        try:
            self._order("POST", sandbox.sandbox_id, f"/{action}", deadline=deadline, operation="start")
        except SandboxConflictError:
            self._wait(sandbox, self._config.poll_seconds, deadline)
            return False
        except SandboxTimeoutError as error:
            if error.outcome is Outcome.NOT_STARTED:
                raise
        except SandboxException as error:
            # What failed may be mended, and its state has the reason.
            if error.http_status != 400 or self._look_again(sandbox, deadline).stage is not Stage.FAILED:
                raise
        return True

    def _look_again(self, sandbox: RemoteSandbox, deadline: Deadline) -> RemoteSandbox:
        """Return how a sandbox is now; as before, when the service cannot say for the moment."""
        try:
            return self.describe(sandbox.sandbox_id, deadline)
        except SandboxException as error:
            left = deadline.remaining()
            hopeless = isinstance(error, SandboxRateLimitError) and (error.retry_after or 0) >= (left or 0)
            if not error.retryable or (hopeless and not deadline.expired):
                raise
            return sandbox  # if there is no time left, the next pause says so, with this state

    def _wait(self, sandbox: RemoteSandbox, seconds: float, deadline: Deadline) -> None:
        """Pause; no longer than the deadline allows.

        Raises:
            SandboxTimeoutError: It has passed.
        """
        if deadline.expired:
            raise SandboxTimeoutError(
                f"the change of the sandbox {sandbox.sandbox_id} took too long; it is {sandbox.condition}",
                hint=f"raise {SETTINGS['start_timeout_millis'].knobs}",
                session_id=sandbox.sandbox_id,
            )
        self._sleep(deadline.bound(seconds))


def service_headers(config: DaytonaSandboxConfig) -> dict[str, str]:
    """Return what every call to the service carries."""
    headers = {"Authorization": f"Bearer {config.api_key}", "User-Agent": USER_AGENT}
    if config.organization_id is not None:
        headers["X-Daytona-Organization-ID"] = config.organization_id
    return headers


def _failed(sandbox: RemoteSandbox) -> SandboxException:
    return SandboxException(
        f"the sandbox {sandbox.sandbox_id} is in the state {sandbox.condition}",
        hint="look at it in the Daytona dashboard" if not sandbox.recoverable else "it could not be recovered",
        session_id=sandbox.sandbox_id,
        retryable=False,
    )


def _path(name_or_id: str) -> str:
    return f"/sandbox/{path_segment(name_or_id, 'sandbox id')}"
