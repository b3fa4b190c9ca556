"""What ``/sandbox status`` says: facts as lines."""

from __future__ import annotations

from collections.abc import Iterator

from ai4j_agent import AgentSession, SandboxAttachment
from ai4j_cli.fleet import span

from .journal import Execution, Journal
from .link import LiveSandbox, SandboxLink
from .probe import Probe

_CLIPPED = 32
_PROVIDER_DEFAULT = "(provider default)"


def status_lines(
    session: AgentSession, link: SandboxLink, journal: Journal, seen: Probe | None, now_ms: int
) -> list[str]:
    """Return the lines below ``sandbox:``.

    Args:
        session: The agent session.
        link: Its sandbox.
        journal: What ran last.
        seen: What a look at its open sandbox gave, if it has one.
        now_ms: Milliseconds since 1970.
    """
    if session.sandbox_attachment is SandboxAttachment.DETACHED:
        lines = _detached(session, seen)
    elif link.live is not None and seen is not None:
        lines = _live(link.live, seen, now_ms)
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
    usable = link.live is not None and session.sandbox_attachment is SandboxAttachment.LIVE
    status = link.live.sandbox.status if link.live is not None and usable else "detached"
    return f"{binding.provider_id}/{status.lower()}/{(binding.sandbox_session_id or '')[:_CLIPPED]}"


def _live(live: LiveSandbox, seen: Probe, now_ms: int) -> Iterator[str]:
    sandbox = live.sandbox
    yield "mode=attached-live" if live.attached else "mode=sandbox"
    yield "runtime=live-session"
    yield f"provider={sandbox.provider_id}"
    yield f"session={sandbox.session_id}"
    yield f"workspace={sandbox.spec.workspace_id or _PROVIDER_DEFAULT}"
    yield f"image={sandbox.spec.image or _PROVIDER_DEFAULT}"
    yield f"status={seen.status}"
    yield f"probe=answered in {seen.milliseconds} ms"
    if seen.expires_at_epoch_ms is not None:
        yield f"remaining={span(max(0, seen.expires_at_epoch_ms - now_ms))}"
    yield f"deleteOnClose={_word(live.delete_on_close)}"
    yield f"createIfMissing={_word(live.create_if_missing)}"
    yield f"isolation={sandbox.isolation.name}"
    yield f"artifacts={len(sandbox.list_artifacts())}"
    yield "shellExec=remote-sandbox"
    yield "scope=commands, files, git and background processes work in the sandbox"


def _detached(session: AgentSession, seen: Probe | None) -> Iterator[str]:
    """Yield what is true of a sandbox in which nothing can be executed: restored and not opened, lost, or paused."""
    binding = session.sandbox_binding
    provider, sandbox_id = (binding.provider_id, binding.sandbox_session_id) if binding else (None, None)
    yield "mode=detached"
    yield "runtime=none"
    yield f"provider={provider}"
    yield f"session={sandbox_id}"
    yield f"workspace={(binding.workspace_id if binding else None) or _PROVIDER_DEFAULT}"
    if seen is None:
        yield f"status={binding.status if binding else None}"
    else:
        yield f"status={seen.status}"
        yield f"probe={seen.problem}"
    yield "shellExec=refused"
    again = "" if seen is None else "/sandbox status finds it well again, "
    yield f"scope=nothing is executed until {again}/sandbox attach {provider} {sandbox_id}, or /sandbox disable"


def _execution(execution: Execution | None) -> str:
    return "(none yet)" if execution is None else f"{execution.tool} in {execution.place}"


def _word(value: bool | None) -> str:
    return _PROVIDER_DEFAULT if value is None else str(value).lower()
