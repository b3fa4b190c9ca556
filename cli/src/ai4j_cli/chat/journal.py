"""What happened lately: the sandbox's events as lines, and where the last tool ran."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ai4j_agent import AgentEvent, AgentEventType, AgentExecutionEnvironment, AgentSession
from ai4j_cli.rendering import one_line
from ai4j_sandbox import SandboxEvent

from .probe import PROBE_PREFIX

_KEPT_EVENTS = 1000
_LINE_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A tool call that ran, or runs.

    Attributes:
        place: This machine, or which sandbox.
    """

    tool: str
    place: str


class Journal:
    """Listens to an agent session and to its sandboxes. Every method may be called from any thread.

    Args:
        session: The agent session.
        show_call: Told of each tool call as it starts.
        show_failure: Told of each that failed, or that could not start: the tool, the kind of failure, and why.
    """

    def __init__(
        self,
        session: AgentSession,
        show_call: Callable[[Execution], None] = lambda execution: None,
        show_failure: Callable[[str, str | None, str], None] = lambda tool, kind, reason: None,
    ) -> None:
        self.last_execution: Execution | None = None
        self._session = session
        self._show_call = show_call
        self._show_failure = show_failure
        self._events: deque[SandboxEvent] = deque(maxlen=_KEPT_EVENTS)

    def agent_event(self, event: AgentEvent) -> None:
        """Take an event of the agent session."""
        facts: Any = event.payload
        if event.type == AgentEventType.TOOL_CALL and "environment" in facts:
            self.last_execution = Execution(tool=facts["tool"], place=self._place(facts["environment"]))
            self._show_call(self.last_execution)
        elif event.type == AgentEventType.TOOL_RESULT and not facts.get("ok", True):
            kind = facts.get("error")
            self._show_failure(facts["tool"], kind, facts.get("reason") or kind or "no reason given")

    def sandbox_event(self, event: SandboxEvent) -> None:
        """Take an event of a sandbox session; our own looks at it are not worth a line."""
        if not (event.command_id or "").startswith(PROBE_PREFIX):
            self._events.append(event)

    def lines(self, count: int) -> list[str]:
        """Return the latest events, one line each, safe for a terminal."""
        return [event_line(event) for event in list(self._events)[-count:]]

    def _place(self, environment: str) -> str:
        binding = self._session.sandbox_binding
        if environment == AgentExecutionEnvironment.LOCAL or binding is None:
            return "local (this machine)"
        return f"{binding.provider_id}/{binding.sandbox_session_id}"


def event_line(event: SandboxEvent) -> str:
    """Return an event as one line, safe for a terminal; a long one is cut."""
    clock = time.strftime("%H:%M:%S", time.localtime(event.timestamp_epoch_ms / 1000))
    what = event.message or ""
    if event.data is not None:
        what = f"{event.stream}: {event.data.decode('utf-8', 'replace').rstrip()}"
    line = one_line(f"{clock} {event.type} {what}").rstrip()
    return line if len(line) <= _LINE_CHARACTERS else f"{line[:_LINE_CHARACTERS]}..."
