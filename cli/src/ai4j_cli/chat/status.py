"""What ``/sandbox status`` says: facts looked up, and the same facts as lines."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from ai4j_agent import AgentSession, SandboxAttachment
from ai4j_cli.application import Application
from ai4j_cli.fleet import span
from ai4j_sandbox import SandboxCommand, SandboxException, SandboxSession, SessionState
from ai4j_sandbox.spi import SupportsListing

from .journal import PROBE_PREFIX, Execution, Journal
from .link import LiveSandbox, SandboxLink

_PROBE_MILLIS = 10_000
_CLIPPED = 32

_PROVIDER_DEFAULT = "(provider default)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A look at a live sandbox.

    Attributes:
        problem: Why it does not answer; ``None`` when it does.
        milliseconds: How long the answer took.
        lost: Whether the sandbox is known to be gone.
        expires_at_epoch_ms: When it ends by itself, where the service tells.
    """

    milliseconds: int = 0
    problem: str | None = None
    lost: bool = False
    expires_at_epoch_ms: int | None = None


def probe(application: Application, sandbox: SandboxSession) -> Probe:
    """Run nothing in the sandbox, to see that it can, and ask its provider how long it has."""
    started = time.monotonic()
    try:
        result = sandbox.execute(_probe_command())
    except SandboxException as error:
        return Probe(problem=error.message, lost=error.session_state is SessionState.LOST)
    milliseconds = round((time.monotonic() - started) * 1000)
    if result.timed_out:
        return Probe(problem=f"no answer within {_PROBE_MILLIS // 1000} seconds", milliseconds=milliseconds)
    return Probe(milliseconds=milliseconds, expires_at_epoch_ms=_end_of(application, sandbox))


def _probe_command() -> SandboxCommand:
    return SandboxCommand(
        command=("true",), command_id=f"{PROBE_PREFIX}{uuid.uuid4().hex}", timeout_millis=_PROBE_MILLIS
    )


def _end_of(application: Application, sandbox: SandboxSession) -> int | None:
    try:
        provider = application.registry.provider(sandbox.provider_id)
        known = provider.list_sessions({}) if isinstance(provider, SupportsListing) else []
    except SandboxException:
        return None  # it answers; how long it lives is only nice to know
    ends = (item.expires_at_epoch_ms for item in known if item.session_id == sandbox.session_id)
    return next(ends, None)


# --- lines ------------------------------------------------------------------------------------------------------


def status_lines(
    session: AgentSession, link: SandboxLink, journal: Journal, seen: Probe | None, now_ms: int
) -> list[str]:
    """Return the lines below ``sandbox:``.

    Args:
        session: The agent session.
        link: Its sandbox.
        journal: What ran last.
        seen: What a look at the live sandbox gave.
        now_ms: Milliseconds since 1970.
    """
    if link.live is not None:
        lines = _live(link.live, seen or Probe(), now_ms)
    elif session.sandbox_attachment is SandboxAttachment.DETACHED:
        lines = _detached(session)
    else:
        lines = iter(direct_host_lines())
    unclosed = ["closeWarning=a sandbox could not be closed; /sandbox disable tries again"] if link.has_unclosed else []
    return [f"- {line}" for line in (*lines, f"lastExecution={_execution(journal.last_execution)}", *unclosed)]


def direct_host_lines() -> list[str]:
    """Return what is true without a sandbox."""
    return [
        "mode=direct-host",
        "runtime=none",
        "provider=(none)",
        "shellExec=local",
        "scope=commands, files, git and background processes work on this machine",
    ]


def short_status(session: AgentSession, link: SandboxLink) -> str:
    """Return where the chat works, in one word: ``direct-host`` or ``provider/status/id``."""
    binding = session.sandbox_binding
    if binding is None:
        return "direct-host"
    status = link.live.sandbox.status if link.live else "detached"
    return f"{binding.provider_id}/{status.lower()}/{(binding.sandbox_session_id or '')[:_CLIPPED]}"


def _live(live: LiveSandbox, seen: Probe, now_ms: int) -> Iterator[str]:
    sandbox = live.sandbox
    yield "mode=attached-live" if live.attached else "mode=sandbox"
    yield "runtime=live-session"
    yield f"provider={sandbox.provider_id}"
    yield f"session={sandbox.session_id}"
    yield f"workspace={sandbox.spec.workspace_id or _PROVIDER_DEFAULT}"
    yield f"image={sandbox.spec.image or _PROVIDER_DEFAULT}"
    yield f"status={'LOST' if seen.lost else sandbox.status if seen.problem is None else 'UNREACHABLE'}"
    yield f"probe=answered in {seen.milliseconds} ms" if seen.problem is None else f"probe={seen.problem}"
    if seen.expires_at_epoch_ms is not None:
        yield f"remaining={span(max(0, seen.expires_at_epoch_ms - now_ms))}"
    yield f"deleteOnClose={_word(live.delete_on_close)}"
    yield f"createIfMissing={_word(live.create_if_missing)}"
    yield f"isolation={sandbox.isolation.name}"
    yield f"artifacts={len(sandbox.list_artifacts())}"
    yield "shellExec=remote-sandbox"
    yield "scope=commands, files, git and background processes work in the sandbox"


def _detached(session: AgentSession) -> Iterator[str]:
    binding = session.sandbox_binding
    provider, sandbox_id = (binding.provider_id, binding.sandbox_session_id) if binding else (None, None)
    yield "mode=detached"
    yield "runtime=none"
    yield f"provider={provider}"
    yield f"session={sandbox_id}"
    yield f"status={binding.status if binding else None}"
    yield "shellExec=refused"
    yield f"scope=nothing is executed until /sandbox attach {provider} {sandbox_id}, or /sandbox disable"


def _execution(execution: Execution | None) -> str:
    return "(none yet)" if execution is None else f"{execution.tool} in {execution.place}"


def _word(value: bool | None) -> str:
    return _PROVIDER_DEFAULT if value is None else str(value).lower()
