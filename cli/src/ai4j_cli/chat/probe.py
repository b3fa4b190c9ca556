"""A look at a sandbox: whether it runs commands in the directory that tools will work in."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from ai4j_cli.application import Application
from ai4j_sandbox import (
    SandboxCommand,
    SandboxException,
    SandboxNotFoundError,
    SandboxSession,
    SandboxStatus,
    SandboxSummary,
    SandboxTimeoutError,
    SessionState,
)
from ai4j_sandbox.spi import SupportsListing

PROBE_PREFIX = "ai4j-probe-"
"""How the ids of commands begin that only look whether a sandbox answers."""

_PROBE_MILLIS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a look at a sandbox gave.

    Attributes:
        status: In one word: ``RUNNING``, ``LOST``, ``UNREACHABLE``, or what its service calls it (``PAUSED``).
        problem: Why nothing can be executed in it now; ``None`` when something can.
        milliseconds: How long the answer took.
        expires_at_epoch_ms: When it ends by itself, where the service tells.
    """

    status: str
    problem: str | None = None
    milliseconds: int = 0
    expires_at_epoch_ms: int | None = None


def probe(application: Application, sandbox: SandboxSession) -> Probe:
    """Run nothing in the sandbox, to see that it can, and ask its provider what is known of it."""
    started = time.monotonic()
    try:
        require_usable(sandbox)
    except SandboxException as error:
        if error.session_state is SessionState.LOST:
            return Probe(status="LOST", problem=error.message)
        return Probe(status=_state(_listed(application, sandbox)), problem=error.message)
    milliseconds = round((time.monotonic() - started) * 1000)
    summary = _listed(application, sandbox)
    return Probe(
        status=sandbox.status,
        milliseconds=milliseconds,
        expires_at_epoch_ms=None if summary is None else summary.expires_at_epoch_ms,
    )


def require_usable(sandbox: SandboxSession) -> None:
    """Run nothing in the sandbox, in the directory that tools will work in.

    Raises:
        SandboxException: It is gone, does not answer, has no such directory, or runs no commands.
    """
    workspace = sandbox.spec.workspace_id or ""
    command = SandboxCommand(
        command=("true",),
        command_id=f"{PROBE_PREFIX}{uuid.uuid4().hex}",
        working_directory=workspace if workspace.startswith("/") else None,  # a name is the provider's to resolve
        timeout_millis=_PROBE_MILLIS,
    )
    try:
        result = sandbox.execute(command)
    except SandboxNotFoundError as error:
        raise _located(error, workspace) from error
    if result.timed_out:
        raise SandboxTimeoutError(f"no answer within {_PROBE_MILLIS // 1000} seconds")
    if not result.succeeded:
        raise SandboxException(f"it runs no commands: `true` ended with exit code {result.exit_code}")


def _located(error: SandboxNotFoundError, workspace: str) -> SandboxNotFoundError:
    """Name the knob: of a sandbox that was just reached it can only be the directory that is missing."""
    if not workspace:
        return error
    return SandboxNotFoundError(
        f"workspace {workspace!r}: {error.message}",
        hint="name a directory that exists in the sandbox as the workspace, or none",
        session_state=error.session_state,
    )


def _listed(application: Application, sandbox: SandboxSession) -> SandboxSummary | None:
    """Return what the provider lists of a sandbox; a failure only means that it does not tell."""
    try:
        provider = application.registry.provider(sandbox.provider_id)
        known = provider.list_sessions({}) if isinstance(provider, SupportsListing) else []
    except SandboxException:
        return None
    return next((item for item in known if item.session_id == sandbox.session_id), None)


def _state(summary: SandboxSummary | None) -> str:
    if summary is None or summary.status is SandboxStatus.RUNNING:
        return "UNREACHABLE"
    return (summary.state or summary.status).upper()
