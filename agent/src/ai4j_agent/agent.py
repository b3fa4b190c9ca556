"""The agent: a model, its tools, and the loop between them until the model has an answer.

    ask the model -> no tool calls: that is the answer
                  -> tool calls: run each through `ToolRunner`, remember each output at once, ask again

In which form the model sees and makes its calls is the `Workflow`'s business.

An output is remembered before the next call runs, so that nothing that ran is lost or repeated when a later call of
the same batch has to wait for approval: the run stops with `AgentApprovalRequiredError`, and `Agent.resume` goes on
with the calls that have no output yet, also in another process after a restore.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.frozen import empty_mapping, freeze
from ai4j_sandbox.redaction import Scrubber

from .conversation import Message, Role, ToolCall
from .errors import (
    AgentConfigError,
    AgentControlFlowError,
    AgentError,
    ModelClientError,
    ModelTimeoutError,
    SessionStoreError,
)
from .event import AgentEventType
from .event_log import AgentEventLog
from .model_client import ModelClient, ModelRequest, ModelResponse, TextCallback, TokenUsage
from .permission import CallOrigin, PermissionGate
from .routing import ToolRunner
from .sandbox_source import SandboxSource
from .session import AgentSession
from .snapshot import AgentSessionSnapshot
from .store import AgentSessionStore
from .tools import ToolResult
from .workflow import ReactWorkflow, Workflow

_log = logging.getLogger(__name__)
_CUT_OFF = frozenset(("length", "content_filter"))


class StopReason(StrEnum):
    """Why a run ended. ``CUT_OFF`` is an answer that the model's own length limit, or its service's filter, ended."""

    ANSWERED = "answered"
    CUT_OFF = "cut_off"
    MAX_STEPS = "max_steps"
    MAX_TOOL_CALLS = "max_tool_calls"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """What one run may use.

    Attributes:
        max_steps: How often the model is asked.
        max_tool_calls: How many tool calls run; ``None`` for no limit.
        timeout_seconds: Wall-clock limit of the run; ``None`` for no limit. Tools get it as their deadline.
    """

    max_steps: int = 50
    max_tool_calls: int | None = None
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, kind in (("max_steps", int), ("max_tool_calls", int), ("timeout_seconds", int | float)):
            value = getattr(self, name)
            if value is None and name != "max_steps":
                continue
            if isinstance(value, bool) or not isinstance(value, kind) or not value > 0:  # nan is not either
                raise AgentConfigError(f"{name} must be positive, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What came of a run.

    Attributes:
        output: The model's answer; what it had said last when a limit ended the run.
        stop_reason: Whether it is an answer.
        steps, tool_calls: How much it took.
    """

    output: str = field(repr=False)
    stop_reason: StopReason = StopReason.ANSWERED
    steps: int = 0
    tool_calls: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    session_id: str | None = None

    @property
    def answered(self) -> bool:
        """Whether the model came to an answer."""
        return self.stop_reason is StopReason.ANSWERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent; immutable, and free to make. See `builder` for the usual way to make one.

    Attributes:
        model_client, model: Who is asked.
        runner: The tools and what guards them.
        system_prompt, instructions: System messages put before the conversation.
        options: Sampling options for the model.
        workflow: How the model says what it wants done.
        sandbox_source: Where each session's sandbox comes from.
        store: Where sessions are saved after each run.
        seal_key: Makes the seals of event logs unforgeable for whoever can write the store.
    """

    model_client: ModelClient
    model: str
    runner: ToolRunner
    system_prompt: str | None = None
    instructions: str | None = None
    options: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)
    limits: AgentLimits = field(default_factory=AgentLimits)
    workflow: Workflow = field(default_factory=ReactWorkflow)
    sandbox_source: SandboxSource | None = None
    store: AgentSessionStore | None = None
    seal_key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise AgentConfigError("model must not be blank")
        object.__setattr__(self, "options", freeze(self.options))

    # --- sessions -------------------------------------------------------------------------------------------------

    def new_session(
        self,
        session_id: str | None = None,
        *,
        sandbox_source: SandboxSource | None = None,
        scrubber: Scrubber | None = None,
    ) -> AgentSession:
        """Return a fresh session.

        Args:
            session_id: Names it.
            sandbox_source: Where its sandbox comes from, if not from this agent's own source.
            scrubber: Secrets it knows from the start.
        """
        return AgentSession(
            session_id=session_id,
            store=self.store,
            event_log=AgentEventLog(seal_key=self.seal_key, scrubber=scrubber),
            sandbox_source=sandbox_source or self.sandbox_source,
        )

    def restore_session(self, snapshot: AgentSessionSnapshot) -> AgentSession:
        """Return the session of a snapshot, its run id kept; a sandbox it had is detached.

        Raises:
            EventLogTamperedError: The event log was changed.
        """
        session = AgentSession(
            run_id=snapshot.run_id,
            store=self.store,
            event_log=AgentEventLog(seal_key=self.seal_key),
            sandbox_source=self.sandbox_source,
        )
        return session.restore(snapshot)

    def resume_session(self, session_id: str) -> AgentSession:
        """Return a session from the store.

        Raises:
            AgentConfigError: This agent has no store, or the store has no such session.
            SessionStoreError: It could not be read, or another one is in its place.
            EventLogTamperedError: Its event log was changed.
        """
        if self.store is None:
            raise AgentConfigError("this agent has no session store", hint="set session_store")
        snapshot = self.store.load(session_id)
        if snapshot is None:
            raise AgentConfigError(f"session {session_id!r} not found in the store")
        if snapshot.session_id != session_id.strip():
            raise SessionStoreError(f"the store holds session {snapshot.session_id!r} in the place of {session_id!r}")
        return self.restore_session(snapshot)

    # --- running --------------------------------------------------------------------------------------------------

    def run(
        self,
        text: str,
        *,
        session: AgentSession | None = None,
        on_text: TextCallback | None = None,
        deadline: Deadline | None = None,
        origin: CallOrigin = CallOrigin.MODEL,
    ) -> AgentResult:
        """Give the agent something to do and return what came of it.

        Args:
            text: What the user says.
            session: Where to go on; without one a session is made for this run, and its sandbox destroyed at the end.
            on_text: Receives the model's words as they come.
            deadline: An earlier end than the agent's own limit.
            origin: What the policy is told of the calls.

        Raises:
            AgentApprovalRequiredError: A tool call has to be approved; see `resume`.
            SessionBusyError: Another run of the session has not ended.
            SandboxDetachedError: The session's sandbox is not live. The model was not asked.
            ModelClientError: The model could not be asked.
            SandboxSessionLostError, SandboxCleanupError: The sandbox died, or could not be destroyed.
        """
        if session is None:
            with self.new_session() as own:
                return self.run(text, session=own, on_text=on_text, deadline=deadline, origin=origin)
        with session.running():
            session.require_attached()
            for call in session.unanswered_calls():
                note = "HOST_INPUT_REQUIRED: this call was not run; the host went on without it"
                session.remember(Message.tool_output(call.call_id, note))
            session.remember(Message.user(text))
            return _Run(self, session, on_text, self._deadline(deadline), origin).to_its_end()

    def resume(
        self,
        session: AgentSession,
        approvals: Mapping[str, bool] | None = None,
        *,
        on_text: TextCallback | None = None,
        deadline: Deadline | None = None,
    ) -> AgentResult:
        """Go on with a run that stopped for approval: the calls without an output run, then the model goes on.

        Args:
            session: The session, also a restored one.
            approvals: Call id to the host's word. A refused call is answered with a denial; one that is not mentioned
                is put to the policy again. What the policy denies stays denied.

        Raises:
            AgentConfigError: No call waits.
            SessionBusyError: Another run of the session has not ended.
            AgentApprovalRequiredError: Another call has to be approved.
        """
        with session.running():
            session.require_attached()
            if not session.unanswered_calls():
                raise AgentConfigError(f"session {session.session_id} waits for no tool call")
            run = _Run(self, session, on_text, self._deadline(deadline), CallOrigin.MODEL)
            return run.to_its_end(dict(approvals or {}))

    def execute_tool(self, session: AgentSession, call: ToolCall, *, approved: bool = False) -> ToolResult:
        """Run one tool call of the host's own; it passes the policy like any other."""
        return self.runner.run(call, session, origin=CallOrigin.HOST, approved=approved)

    def start_tool(self, session: AgentSession, call: ToolCall) -> Future[ToolResult]:
        """Run one tool call in the background; the policy is asked before this returns."""
        return self.runner.start(call, session)

    def restricted_by(self, gate: PermissionGate) -> Agent:
        """Return the same agent, whose tool calls have to pass `gate` as well."""
        return replace(self, runner=replace(self.runner, gate=self.runner.gate.restricted_by(gate)))

    def _deadline(self, earlier: Deadline | None) -> Deadline:
        seconds = self.limits.timeout_seconds
        left = earlier.remaining() if earlier else None
        known = [value for value in (seconds, left) if value is not None]
        return Deadline(min(known) if known else None)


class _Run:
    """One run: the loop and what it counts."""

    def __init__(
        self,
        agent: Agent,
        session: AgentSession,
        on_text: TextCallback | None,
        deadline: Deadline,
        origin: CallOrigin,
    ) -> None:
        self._agent = agent
        self._session = session
        self._on_text = on_text
        self._deadline = deadline
        self._origin = origin
        self._turn_id = f"turn_{uuid.uuid4().hex}"
        self._steps = 0
        self._tool_calls = 0
        self._usage = TokenUsage()
        self._said = ""

    def to_its_end(self, approvals: dict[str, bool] | None = None) -> AgentResult:
        """Run, and save the session whatever happens."""
        try:
            reason = self._loop(approvals)
        except BaseException as error:
            self._note_failure(error)
            raise
        self._tell(AgentEventType.FINAL_OUTPUT, str(reason), {"chars": len(self._said)})
        self._session.save()
        return AgentResult(
            output=self._said,
            stop_reason=reason,
            steps=self._steps,
            tool_calls=self._tool_calls,
            usage=self._usage,
            session_id=self._session.session_id,
        )

    def _loop(self, approvals: dict[str, bool] | None) -> StopReason:
        if approvals is not None and (reason := self._answer_calls(approvals)):
            return reason
        while True:
            if self._steps >= self._agent.limits.max_steps:
                return StopReason.MAX_STEPS
            if self._out_of_time():
                return StopReason.TIMEOUT
            self._steps += 1
            self._tell(AgentEventType.STEP_START, f"step {self._steps}")
            try:
                response = self._ask()
            except ModelTimeoutError:
                if self._out_of_time():
                    return StopReason.TIMEOUT
                raise
            self._said = response.message.text or self._said
            if not response.message.tool_calls:
                self._tell(AgentEventType.STEP_END, f"step {self._steps}")
                return StopReason.CUT_OFF if response.finish_reason in _CUT_OFF else StopReason.ANSWERED
            reason = self._answer_calls({})
            self._tell(AgentEventType.STEP_END, f"step {self._steps}")
            if reason:
                return reason

    def _out_of_time(self) -> bool:
        return self._deadline.expired

    def _ask(self) -> ModelResponse:
        request = self._request()
        sizes = {"model": request.model, "messages": len(request.messages), "tools": len(request.tools)}
        self._tell(AgentEventType.MODEL_REQUEST, f"model {request.model}", sizes)
        try:
            answer = self._agent.model_client.complete(
                request, on_text=self._on_text, on_retry=self._retrying, deadline=self._deadline
            )
        except ModelClientError as error:  # a service quotes what it was sent
            error.scrubbed(self._session.scrubber)
            raise
        response = self._agent.workflow.response(answer)
        self._usage += response.usage
        self._session.remember(response.message)
        facts = {
            "finishReason": response.finish_reason,
            "inputTokens": response.usage.input_tokens,
            "outputTokens": response.usage.output_tokens,
            "toolCalls": [call.name for call in response.message.tool_calls],
            "chars": len(response.message.text),
            "requestId": response.request_id,
        }
        self._tell(AgentEventType.MODEL_RESPONSE, f"model {request.model}", facts)
        return response

    def _request(self) -> ModelRequest:
        agent = self._agent
        prompts = (agent.system_prompt, agent.instructions, self._session.summary)
        system = [Message(role=Role.SYSTEM, text=text) for text in prompts if text]
        request = ModelRequest(
            model=agent.model,
            messages=(*system, *self._session.messages),
            tools=agent.runner.tools.tools,
            options=agent.options,
        )
        return agent.workflow.request(request)

    def _retrying(self, attempt: int, seconds: float, reason: str) -> None:
        facts = {"attempt": attempt, "delayMillis": round(seconds * 1000)}
        self._tell(AgentEventType.MODEL_RETRY, reason, facts)

    def _answer_calls(self, approvals: dict[str, bool]) -> StopReason | None:
        """Run the calls that have no output, one after the other, and remember each output at once.

        A word of the host is for one call: a model may give the same id to another one.
        """
        limit = self._agent.limits.max_tool_calls
        for call in self._session.unanswered_calls():
            if limit is not None and self._tool_calls >= limit:
                return StopReason.MAX_TOOL_CALLS
            self._tool_calls += 1
            output = self._output_of(call, approvals.pop(call.call_id, None))
            self._session.remember(Message.tool_output(call.call_id, output))
        return None

    def _output_of(self, call: ToolCall, approved: bool | None) -> str:
        if approved is False:
            return f"TOOL_ERROR: the host did not approve {call.name}"
        result = self._agent.runner.run(
            call,
            self._session,
            origin=self._origin,
            approved=approved is True,
            deadline=self._deadline,
            turn_id=self._turn_id,
            step=self._steps,
        )
        return result.output

    def _note_failure(self, error: BaseException) -> None:
        """Record that the run ended early, and save what there is; a failing save must not hide the error."""
        kind = type(error).__name__
        detail = f": {error}" if isinstance(error, AgentControlFlowError) else ""
        self._tell(AgentEventType.ERROR, f"run ended with {kind}{detail}")
        try:
            self._session.save()
        # A store is foreign code; what it says may quote what it was given.
        except Exception as failure:  # noqa: BLE001
            said = failure.message if isinstance(failure, AgentError) else type(failure).__name__
            _log.warning("session %s was not saved: %s", self._session.session_id, said)

    def _tell(self, kind: AgentEventType, message: str, payload: Mapping[str, Any] | None = None) -> None:
        self._session.publish(kind, message, payload, turn_id=self._turn_id, step=self._steps)
