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
from .redacted import without_known_secrets
from .session import AgentSession
from .tools import ToolContext, ToolPlacement

if TYPE_CHECKING:
    from .agent import Agent, AgentResult

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
    """A sandbox source that lends the sandbox of another session, which keeps and closes it.

    Attributes:
        environment: What the policy was told of the lender's call; a sandbox elsewhere is not used.
    """

    lender: AgentSession
    environment: AgentExecutionEnvironment

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
                return _told(result, session)
        finally:
            caller.publish(AgentEventType.HANDOFF_END, f"from {self.name}", facts)

    def _session(self, context: ToolContext) -> AgentSession:
        scrubber = context.session.scrubber
        if context.environment is AgentExecutionEnvironment.LOCAL:
            return self.agent.new_session(scrubber=scrubber)
        borrowed = BorrowedSandbox(context.session, context.environment)
        return self.agent.new_session(scrubber=scrubber, sandbox_source=borrowed)


def _told(result: AgentResult, session: AgentSession) -> str:
    """What the delegate says, without the secrets that only it knows, and that it was stopped if it was."""
    output = without_known_secrets(result.output, session.scrubber)
    if result.answered:
        return output
    return f"{output}\n[stopped before its task was done: {result.stop_reason}]".lstrip()


def _nobody(request: AgentPermissionRequest, decision: AgentPermissionDecision) -> bool:
    """A delegate cannot be halted half-way and resumed later: what nobody can approve now is denied."""
    return False
