"""Running tool calls: the only way from a call to an execution, whoever wants it.

    call -> well-formed? -> interceptor -> permission gate -> tool, or sandbox command -> interceptor -> result

Calls of the model, calls routed to a sandbox, calls of delegates and background calls all come through
`ToolRunner.run`, and none reaches a tool before the gate let it pass in the environment where it really runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from threading import Thread
from typing import Any, Protocol

from ai4j_sandbox.binding import AgentSessionSandboxBinding
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import SandboxException, SessionState
from ai4j_sandbox.model import SandboxCommand, SandboxResult, SandboxSpec, SandboxStatus

from .conversation import ToolCall
from .errors import AgentConfigError, AgentControlFlowError, AgentError, ToolError
from .event import SESSION_TURN, AgentEventType
from .permission import (
    AgentExecutionEnvironment,
    AgentPermissionRequest,
    CallOrigin,
    PermissionGate,
    ToolEffect,
    word_of,
)
from .redacted import without_known_secrets
from .sandbox_source import SandboxPlan
from .session import AgentSession
from .tools import (
    SupportsEffect,
    Tool,
    ToolContext,
    ToolPlacement,
    ToolRegistry,
    ToolResult,
    output_text,
    parsed_arguments,
    within,
)

DEFAULT_OUTPUT_LIMIT = 100_000
"""How many characters of one tool output the model gets."""

LONGEST_REASON = 500
"""How many characters of a failure's reason the events keep; the model gets all of it."""

LEAST_OUTPUT_LIMIT = 200
"""Below this, the note about what was cut would be longer than what was kept."""


class InterceptionType(StrEnum):
    """What an interceptor wants done with a call."""

    ALLOW = "ALLOW"
    BLOCK = "BLOCK"
    MODIFY = "MODIFY"
    ROUTE_TO = "ROUTE_TO"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interception:
    """An interceptor's decision; make it with one of the four methods."""

    type: InterceptionType = InterceptionType.ALLOW
    reason: str | None = None
    call: ToolCall | None = None
    spec: SandboxSpec | None = field(default=None, repr=False)
    command: SandboxCommand | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", word_of(InterceptionType, self.type, "interception type"))
        if self.type is InterceptionType.ROUTE_TO and self.command is None:
            raise AgentConfigError("an interception that routes needs a command", hint="use Interception.route_to")
        if self.type is InterceptionType.MODIFY and self.call is None:
            raise AgentConfigError("an interception that modifies needs a call", hint="use Interception.modify")

    @classmethod
    def allow(cls) -> Interception:
        """Let the call go on as it is."""
        return cls()

    @classmethod
    def block(cls, reason: str | None = None) -> Interception:
        """Do not run it; the model is told why."""
        return cls(type=InterceptionType.BLOCK, reason=reason or "blocked by the tool interceptor")

    @classmethod
    def modify(cls, call: ToolCall) -> Interception:
        """Run another call in its place."""
        return cls(type=InterceptionType.MODIFY, call=call)

    @classmethod
    def route_to(cls, command: SandboxCommand, spec: SandboxSpec | None = None) -> Interception:
        """Run a command in a sandbox instead of the tool.

        Args:
            command: What to run.
            spec: A sandbox of its own for this command; ``None`` means the session's.
        """
        return cls(type=InterceptionType.ROUTE_TO, command=command, spec=spec)


class ToolInterceptor(Protocol):
    """Sees every call before the policy does, and every result. Not a permission policy: it cannot allow anything."""

    def before(self, call: ToolCall, session: AgentSession) -> Interception:
        """Return what to do with the call."""

    def after(self, call: ToolCall, result: ToolResult, session: AgentSession) -> ToolResult:
        """Return the result to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A call that may run: what it is, where, and how."""

    call: ToolCall
    environment: AgentExecutionEnvironment
    effect: ToolEffect | None
    work: Callable[[], Any]
    sandbox: AgentSessionSandboxBinding | None = None
    command: SandboxCommand | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRunner:
    """Runs tool calls.

    Attributes:
        tools: What can be called.
        gate: What every call passes.
        interceptors: Asked in order; the first that does not allow decides.
        routes: Makes the sandboxes for routed commands that bring a spec of their own.
        output_limit: Longest output in characters; the middle of a longer one is left out.
    """

    tools: ToolRegistry
    gate: PermissionGate
    interceptors: tuple[ToolInterceptor, ...] = ()
    routes: SandboxPlan | None = None
    output_limit: int = DEFAULT_OUTPUT_LIMIT

    def run(
        self,
        call: ToolCall,
        session: AgentSession,
        *,
        origin: CallOrigin = CallOrigin.MODEL,
        approved: bool = False,
        deadline: Deadline | None = None,
        turn_id: str = SESSION_TURN,
        step: int = 0,
    ) -> ToolResult:
        """Run one call and return its result; a denial and a failing tool are results too.

        Args:
            call: What to run.
            session: In which session.
            origin: How it came about.
            approved: The host approved it beforehand; the policy can still deny it.
            deadline: When the run is over.
            turn_id, step: Where its events belong.

        Raises:
            AgentApprovalRequiredError: Somebody has to approve it first. Nothing ran.
            SandboxDetachedError: The session's sandbox is not live. Nothing ran.
            SandboxSessionLostError: The sandbox died; the session notes it as failed.
        """
        prepare = partial(self._permitted, call, session, origin, approved, deadline or Deadline(None))
        return self._told(call, session, origin, prepare, turn_id=turn_id, step=step)

    def start(self, call: ToolCall, session: AgentSession) -> Future[ToolResult]:
        """Run one call in the background. The policy is asked now, in this thread.

        Raises:
            AgentApprovalRequiredError, SandboxDetachedError: As `run`.
        """
        permission: Future[_Prepared] = Future()
        try:
            permission.set_result(self._permitted(call, session, CallOrigin.BACKGROUND, False, Deadline(None)))
        except AgentControlFlowError:
            raise
        # A denial, or foreign code that failed: the same as for `run`, told as the result.
        except Exception as error:  # noqa: BLE001
            permission.set_exception(error)
        future: Future[ToolResult] = Future()

        def work() -> None:
            try:
                future.set_result(self._told(call, session, CallOrigin.BACKGROUND, permission.result))
            # Whatever it is, it belongs to whoever waits for the future.
            except BaseException as error:  # noqa: BLE001
                future.set_exception(error)

        Thread(target=work, name=f"tool {call.name}", daemon=True).start()
        return future

    # --- before ---------------------------------------------------------------------------------------------------

    def _permitted(
        self, call: ToolCall, session: AgentSession, origin: CallOrigin, approved: bool, deadline: Deadline
    ) -> _Prepared:
        """Return the call ready to run. Raises `ToolError` and `AgentPermissionError` for the model to read."""
        session.require_attached()
        prepared = self._prepared(call, session, origin, deadline)
        self.gate.require(
            AgentPermissionRequest(
                tool_call=prepared.call,
                environment=prepared.environment,
                origin=CallOrigin.ROUTED if prepared.command is not None else origin,
                effect=prepared.effect,
                session_id=session.session_id,
                sandbox=prepared.sandbox,
                command=prepared.command,
            ),
            approved=approved,
        )
        return prepared

    def _prepared(self, call: ToolCall, session: AgentSession, origin: CallOrigin, deadline: Deadline) -> _Prepared:
        parsed_arguments(self._tool(call), call)
        interception = self._intercepted(call, session)
        if interception.type is InterceptionType.BLOCK:
            raise ToolBlocked(interception.reason or "blocked")
        if interception.type is InterceptionType.ROUTE_TO and interception.command is not None:
            return self._routed(call, interception.command, interception.spec, session, deadline)
        call = interception.call or call
        chosen = self._tool(call)
        arguments = parsed_arguments(chosen, call)
        environment = _environment(chosen, session)
        context = self._context(call, session, environment, origin, deadline)
        return _Prepared(
            call=call,
            environment=environment,
            effect=_effect(chosen, arguments),
            work=lambda: chosen.execute(arguments, context),
            sandbox=None if environment is AgentExecutionEnvironment.LOCAL else session.sandbox_binding,
        )

    def _tool(self, call: ToolCall) -> Tool:
        found = self.tools.find(call.name)
        if found is None:
            raise ToolError(f"there is no tool {call.name!r}; there are: {', '.join(self.tools.names) or 'none'}")
        return found

    def _intercepted(self, call: ToolCall, session: AgentSession) -> Interception:
        for interceptor in self.interceptors:
            interception = interceptor.before(call, session)
            if interception.type is not InterceptionType.ALLOW:
                return interception
        return Interception.allow()

    def _routed(
        self,
        call: ToolCall,
        command: SandboxCommand,
        spec: SandboxSpec | None,
        session: AgentSession,
        deadline: Deadline,
    ) -> _Prepared:
        run: Callable[[ToolContext, SandboxCommand], SandboxResult] = ToolContext.execute
        environment = AgentExecutionEnvironment.LOCAL
        if spec is None:
            environment = session.execution_environment
        elif self.routes is not None:
            plan = self.routes.with_spec(spec)
            environment, run = plan.environment, partial(_executed_apart, plan)
        if environment is AgentExecutionEnvironment.LOCAL:
            raise ToolBlocked("no sandbox provider is registered to route the call to")
        context = self._context(call, session, environment, CallOrigin.ROUTED, deadline)
        return _Prepared(
            call=call,
            environment=environment,
            effect=ToolEffect.EXECUTES,
            work=lambda: _routed_output(call, run(context, command)),
            sandbox=session.sandbox_binding if spec is None else None,
            command=within(command, deadline),
        )

    def _context(
        self,
        call: ToolCall,
        session: AgentSession,
        environment: AgentExecutionEnvironment,
        origin: CallOrigin,
        deadline: Deadline,
    ) -> ToolContext:
        return ToolContext(
            session=session, call=call, environment=environment, origin=origin, deadline=deadline, gate=self.gate
        )

    # --- running --------------------------------------------------------------------------------------------------

    def _told(
        self,
        call: ToolCall,
        session: AgentSession,
        origin: CallOrigin,
        prepare: Callable[[], _Prepared],
        *,
        turn_id: str = SESSION_TURN,
        step: int = 0,
    ) -> ToolResult:
        facts: dict[str, Any] = {"tool": call.name, "callId": call.call_id, "origin": str(origin)}
        started = time.monotonic()
        try:
            prepared = prepare()
            facts |= {"tool": prepared.call.name, "environment": str(prepared.environment)}
            session.publish(AgentEventType.TOOL_CALL, f"tool {call.name}", facts, turn_id=turn_id, step=step)
            result = self._finished(prepared.call, prepared.work(), session)
        except AgentControlFlowError:
            raise
        except SandboxException as error:
            _note_lost_sandbox(error, session)
            result = tool_failure(call, error)
        # A tool is foreign code; its failure is told to the model, its text masked.
        except Exception as error:  # noqa: BLE001
            result = tool_failure(call, error)
        result = self._safe(result, session)
        facts |= {"ok": result.ok, "error": result.error, "outputChars": len(result.output)}
        if result.reason is not None:
            facts["reason"] = result.reason
        facts["durationMillis"] = round((time.monotonic() - started) * 1000)
        session.publish(AgentEventType.TOOL_RESULT, f"tool {call.name}", facts, turn_id=turn_id, step=step)
        return result

    def _finished(self, call: ToolCall, value: Any, session: AgentSession) -> ToolResult:
        result = value if isinstance(value, ToolResult) else None
        if result is None:
            result = ToolResult(name=call.name, call_id=call.call_id, output=output_text(value))
        for interceptor in self.interceptors:
            result = interceptor.after(call, result, session)
        return _checked(result, call)

    def _safe(self, result: ToolResult, session: AgentSession) -> ToolResult:
        output = shortened(without_known_secrets(result.output, session.scrubber), self.output_limit)
        reason = result.reason and shortened(session.scrubber.text(result.reason), LONGEST_REASON)
        return replace(result, output=output, reason=reason)


class ToolBlocked(ToolError):
    """An interceptor does not want the call to run."""


def tool_failure(call: ToolCall, error: Exception) -> ToolResult:
    """Return the result that tells the model what went wrong."""
    kind = type(error).__name__
    known = isinstance(error, AgentError | SandboxException)
    reason = str(error if known else AgentError(f"{kind}: {error}"))
    about = {"tool": call.name, "callId": call.call_id}
    if isinstance(error, ToolBlocked):
        output = f"TOOL_BLOCKED: {output_text({'blocked': True, 'reason': reason, **about})}"
    else:
        output = f"TOOL_ERROR: {output_text({'errorType': kind, 'error': reason, **about})}"
    return ToolResult(name=call.name, call_id=call.call_id, output=output, ok=False, error=kind, reason=reason)


def _checked(result: object, call: ToolCall) -> ToolResult:
    """What foreign code gave is a result, and its output text: nothing else may get into the conversation."""
    if not isinstance(result, ToolResult) or not isinstance(result.output, str):
        raise ToolError(f"{call.name} gave no ToolResult with text as its output")
    return result


def shortened(text: str, limit: int) -> str:
    """Return text of at most about `limit` characters: beginning and end, with a note between."""
    if len(text) <= limit:
        return text
    half = max(limit, LEAST_OUTPUT_LIMIT) // 2
    dropped = len(text) - 2 * half
    if dropped <= 0:
        return text
    return f"{text[:half]}\n[... truncated {dropped} of {len(text)} characters ...]\n{text[-half:]}"


def _effect(tool: Tool, arguments: Mapping[str, Any]) -> ToolEffect | None:
    said = tool.effect_of(arguments) if isinstance(tool, SupportsEffect) else None
    return None if said is None else word_of(ToolEffect, said, f"effect of {tool.name!r}")


def _environment(tool: Tool, session: AgentSession) -> AgentExecutionEnvironment:
    if word_of(ToolPlacement, tool.placement, f"placement of {tool.name!r}") is ToolPlacement.HOST:
        return AgentExecutionEnvironment.LOCAL
    return session.execution_environment


def _executed_apart(plan: SandboxPlan, context: ToolContext, command: SandboxCommand) -> SandboxResult:
    """Run a command in a sandbox made for it, which is destroyed afterwards whatever happens."""
    with plan.open() as sandbox:
        return context.execute_in(sandbox, command)


def _routed_output(call: ToolCall, result: SandboxResult) -> str:
    facts = {
        "routed": True,
        "exitCode": result.exit_code,
        "stdout": result.stdout or None,
        "stderr": result.stderr or None,
        "signal": result.signal,
        "timedOut": result.timed_out or None,
        "canceled": result.canceled or None,
        "truncated": result.truncated or None,
        "tool": call.name,
    }
    known = {key: value for key, value in facts.items() if value is not None or key == "exitCode"}
    return f"SANDBOX_RESULT: {output_text(known)}"


def _note_lost_sandbox(error: SandboxException, session: AgentSession) -> None:
    """A dead sandbox ends the run: nothing the model does can help, and its output must not look like a program's."""
    binding = session.sandbox_binding
    ours = binding is not None and binding.sandbox_session_id == error.session_id
    if ours and error.session_state is SessionState.LOST:
        session.update_sandbox_status(SandboxStatus.FAILED)
        raise error
