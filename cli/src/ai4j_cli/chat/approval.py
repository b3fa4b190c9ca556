"""Asking whoever sits there whether a tool call may run."""

from __future__ import annotations

from ai4j_agent import AgentExecutionEnvironment, AgentPermissionDecision, AgentPermissionRequest
from ai4j_cli.rendering import one_line

from .console import ChatConsole

_SHOWN_CHARACTERS = 600


class Approver:
    """An `ApprovalCallback`. An "always" counts for one tool in one kind of place, for this chat."""

    def __init__(self, console: ChatConsole) -> None:
        self._console = console
        self._always: set[tuple[str, AgentExecutionEnvironment]] = set()

    def __call__(self, request: AgentPermissionRequest, decision: AgentPermissionDecision) -> bool:
        """Return whether it may run; no answer means no."""
        key = (request.tool_name, request.environment)
        if key in self._always:
            return True
        answer = self._console.ask(question(request)).strip().lower()
        if answer in ("a", "always"):
            self._always.add(key)
        return answer in ("y", "yes", "a", "always")


def question(request: AgentPermissionRequest) -> str:
    """Return what is asked: what would run, and where."""
    arguments = request.arguments
    if len(arguments) > _SHOWN_CHARACTERS:
        arguments = f"{arguments[:_SHOWN_CHARACTERS]}... ({len(request.arguments)} characters)"
    return f"{one_line(f'Run {request.tool_name} {_place(request)}? {arguments}')}\n[y]es, [a]lways, [N]o:"


def _place(request: AgentPermissionRequest) -> str:
    if request.environment is AgentExecutionEnvironment.LOCAL:
        return "ON THIS MACHINE"
    if request.sandbox is None:
        return "in a new sandbox"
    return f"in {request.sandbox.provider_id}/{request.sandbox.sandbox_session_id}"
