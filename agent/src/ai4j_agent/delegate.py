"""An agent as another agent's tool. The delegate works in its caller's sandbox, under both policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ai4j_sandbox.frozen import freeze
from ai4j_sandbox.spi import SandboxSession

from .event import AgentEventType
from .permission import (
    AgentExecutionEnvironment,
    AgentPermissionDecision,
    AgentPermissionRequest,
    CallOrigin,
)
from .session import AgentSession
from .tools import ToolContext, ToolPlacement

if TYPE_CHECKING:
    from .agent import Agent

_PARAMETERS: Mapping[str, Any] = freeze(
    {
        "type": "object",
        "properties": {"task": {"type": "string", "description": "What to do, complete: nothing else is known."}},
        "required": ["task"],
        "additionalProperties": False,
    }
)


@dataclass(frozen=True, slots=True)
class BorrowedSandbox:
    """A sandbox source that lends the sandbox of another session, which keeps and closes it."""

    lender: AgentSession

    @property
    def provider_id(self) -> str:
        """Whose sandbox it is."""
        return self.lender.sandbox_provider_id or "unknown"

    @property
    def lends(self) -> bool:
        """The lender closes it."""
        return True

    def open(self) -> SandboxSession:
        """Return the lender's sandbox, made if need be."""
        return self.lender.open_sandbox()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateTool:
    """Hands a task to another agent and returns what it answers.

    The delegate has a session, a conversation and an event log of its own. It shares the caller's sandbox if there is
    one, and each of its tool calls passes the caller's policy as well as its own.
    """

    name: str
    description: str
    agent: Agent = field(repr=False)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """One argument, the task."""
        return _PARAMETERS

    @property
    def placement(self) -> ToolPlacement:
        """Its tools run in the caller's sandbox."""
        return ToolPlacement.SESSION

    def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Run the delegate to its end."""
        caller, facts = context.session, {"callId": context.call.call_id}
        gate = context.gate if context.gate.approve else replace(context.gate, approve=_nobody)
        caller.publish(AgentEventType.HANDOFF_START, f"to {self.name}", facts)
        try:
            with self._session(context) as session:
                delegate = self.agent.restricted_by(gate)
                result = delegate.run(
                    arguments["task"], session=session, deadline=context.deadline, origin=CallOrigin.DELEGATED
                )
                return result.output
        finally:
            caller.publish(AgentEventType.HANDOFF_END, f"from {self.name}", facts)

    def _session(self, context: ToolContext) -> AgentSession:
        scrubber = context.session.scrubber
        if context.environment is AgentExecutionEnvironment.LOCAL:
            return self.agent.new_session(scrubber=scrubber)
        return self.agent.new_session(scrubber=scrubber, sandbox_source=BorrowedSandbox(context.session))


def _nobody(request: AgentPermissionRequest, decision: AgentPermissionDecision) -> bool:
    """A delegate cannot be halted half-way and resumed later: what nobody can approve now is denied."""
    return False
