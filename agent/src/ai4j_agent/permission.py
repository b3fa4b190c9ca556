"""Whether a tool call may run: the layer above "where" (provider) and "how" (session), see docs/security.md.

A policy answers a request with allow, deny or "somebody has to approve". `PermissionGate` is the one door: it asks the
policy, then the host's approval callback, and raises unless the call may go on. A policy that fails denies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol, TypeAlias, TypeVar

from ai4j_sandbox.binding import AgentSessionSandboxBinding
from ai4j_sandbox.model import SandboxCommand

from .conversation import ToolCall
from .errors import AgentApprovalRequiredError, AgentConfigError, AgentPermissionError

_log = logging.getLogger(__name__)

Word = TypeVar("Word", bound=StrEnum)


def word_of(kind: type[Word], value: str, what: str) -> Word:
    """Return the member that `value` is or spells: what is compared later must not be a look-alike.

    Raises:
        AgentConfigError: It is none of them.
    """
    try:
        return kind(value)
    except ValueError:
        raise AgentConfigError(f"{what} must be one of {', '.join(kind)}, got {value!r}") from None


class AgentExecutionEnvironment(StrEnum):
    """Where a tool call would really run."""

    LOCAL = "LOCAL"
    SANDBOX = "SANDBOX"
    REMOTE_SANDBOX = "REMOTE_SANDBOX"


class CallOrigin(StrEnum):
    """How a tool call came about."""

    MODEL = "model"
    ROUTED = "routed"
    DELEGATED = "delegated"
    BACKGROUND = "background"
    HOST = "host"


class ToolEffect(StrEnum):
    """The most that a tool call does."""

    READS = "reads"
    WRITES = "writes"
    EXECUTES = "executes"


CONVENTIONAL_EFFECTS: Mapping[str, ToolEffect] = MappingProxyType(
    {
        "write_file": ToolEffect.WRITES,
        "apply_patch": ToolEffect.WRITES,
        "edit": ToolEffect.WRITES,
        "bash": ToolEffect.EXECUTES,
    }
)
"""What the contract's tools do, for a tool of such a name that does not say it itself."""


class AgentPermissionDecisionType(StrEnum):
    """The three answers, from mild to strict."""

    ALLOW = "ALLOW"
    REQUIRE_APPROVAL = "REQUIRE_APPROVAL"
    DENY = "DENY"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPermissionDecision:
    """A policy's answer, and why."""

    type: AgentPermissionDecisionType
    reason: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", word_of(AgentPermissionDecisionType, self.type, "decision type"))

    @classmethod
    def allow(cls) -> AgentPermissionDecision:
        """Return "go ahead"."""
        return _ALLOW

    @classmethod
    def deny(cls, reason: str | None = None) -> AgentPermissionDecision:
        """Return "never"."""
        return cls(type=AgentPermissionDecisionType.DENY, reason=reason)

    @classmethod
    def require_approval(cls, reason: str | None = None) -> AgentPermissionDecision:
        """Return "only if somebody says so"."""
        return cls(type=AgentPermissionDecisionType.REQUIRE_APPROVAL, reason=reason)


_ALLOW = AgentPermissionDecision(type=AgentPermissionDecisionType.ALLOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPermissionRequest:
    """What a policy is asked.

    Attributes:
        tool_call: The call as it would run, after interception.
        environment: Where it would run.
        origin: How it came about.
        effect: What it does, as the tool says; a routed call executes. ``None`` when the tool does not say.
        session_id: In which agent session.
        sandbox: Summary of the sandbox it would run in; ``None`` for a local call and before a sandbox is made.
        command: For a routed call: the command that would run instead. Hidden from ``repr``.
    """

    tool_call: ToolCall
    environment: AgentExecutionEnvironment = AgentExecutionEnvironment.LOCAL
    origin: CallOrigin = CallOrigin.MODEL
    effect: ToolEffect | None = None
    session_id: str | None = None
    sandbox: AgentSessionSandboxBinding | None = None
    command: SandboxCommand | None = field(default=None, repr=False)

    @property
    def tool_name(self) -> str:
        """Name of the tool."""
        return self.tool_call.name

    @property
    def arguments(self) -> str:
        """The arguments, JSON text."""
        return self.tool_call.arguments

    @property
    def call_id(self) -> str:
        """Id of the call."""
        return self.tool_call.call_id


class AgentPermissionPolicy(Protocol):
    """Decides whether a tool call may run. Called for every call, from any thread; must not have side effects."""

    def evaluate(self, request: AgentPermissionRequest) -> AgentPermissionDecision:
        """Return the decision. Whatever else comes back, an exception included, counts as a denial."""


Evaluate: TypeAlias = Callable[[AgentPermissionRequest], AgentPermissionDecision]

ApprovalCallback: TypeAlias = Callable[[AgentPermissionRequest, AgentPermissionDecision], bool]
"""Asks somebody; ``True`` means approved."""


@dataclass(frozen=True, slots=True)
class FunctionPolicy:
    """A policy made of a function."""

    function: Evaluate

    def evaluate(self, request: AgentPermissionRequest) -> AgentPermissionDecision:
        """Return what the function decides."""
        return self.function(request)


# --- policies -------------------------------------------------------------------------------------------------------


def allow_all() -> AgentPermissionPolicy:
    """Return a policy that allows everything."""
    return FunctionPolicy(lambda request: AgentPermissionDecision.allow())


def deny_all(reason: str | None = None) -> AgentPermissionPolicy:
    """Return a policy that denies everything."""
    return FunctionPolicy(lambda request: AgentPermissionDecision.deny(reason))


def allow_tools(names: Iterable[str]) -> AgentPermissionPolicy:
    """Return a policy that denies every tool but these."""
    allowed = _names(names)
    denial = AgentPermissionDecision.deny("not in the allow list")
    return FunctionPolicy(lambda request: AgentPermissionDecision.allow() if request.tool_name in allowed else denial)


def deny_tools(names: Iterable[str], reason: str | None = None) -> AgentPermissionPolicy:
    """Return a policy that denies these tools and allows the others."""
    return _for_tools(names, AgentPermissionDecision.deny(reason))


def require_approval_for_tools(names: Iterable[str], reason: str | None = None) -> AgentPermissionPolicy:
    """Return a policy that wants these tools approved and allows the others."""
    return _for_tools(names, AgentPermissionDecision.require_approval(reason))


def safe_mode() -> AgentPermissionPolicy:
    """Return the default policy: calls that write files or run commands need approval, wherever they run.

    Which do is the tool's own statement (`ToolEffect`); one that makes none is judged by `CONVENTIONAL_EFFECTS`.
    """
    approval = AgentPermissionDecision.require_approval("safe mode: it changes files or runs commands")

    def evaluate(request: AgentPermissionRequest) -> AgentPermissionDecision:
        effect = request.effect or CONVENTIONAL_EFFECTS.get(request.tool_name, ToolEffect.READS)
        return AgentPermissionDecision.allow() if effect is ToolEffect.READS else approval

    return FunctionPolicy(evaluate)


def strictest(*policies: AgentPermissionPolicy) -> AgentPermissionPolicy:
    """Return a policy that asks all of these and gives the strictest answer, the first of equals."""
    if not policies:
        raise AgentConfigError("strictest() needs at least one policy")

    def evaluate(request: AgentPermissionRequest) -> AgentPermissionDecision:
        return max((decide(policy, request) for policy in policies), key=_strictness)

    return FunctionPolicy(evaluate)


def by_environment(
    policies: Mapping[AgentExecutionEnvironment, AgentPermissionPolicy], otherwise: AgentPermissionPolicy
) -> AgentPermissionPolicy:
    """Return a policy that asks the one for the environment of the call, else `otherwise`.

    Raises:
        AgentConfigError: A key is no environment: its policy would never be asked.
    """
    chosen = {
        word_of(AgentExecutionEnvironment, name, "by_environment key"): policy for name, policy in policies.items()
    }
    return FunctionPolicy(lambda request: decide(chosen.get(request.environment, otherwise), request))


def decide(policy: AgentPermissionPolicy, request: AgentPermissionRequest) -> AgentPermissionDecision:
    """Return a policy's decision; a policy that fails, or decides nothing, denies."""
    try:
        decision: object = policy.evaluate(request)
    # Foreign code that must fail closed, whatever it raises; its text may quote the arguments.
    except Exception as error:  # noqa: BLE001
        _log.warning("permission policy failed with %s, which denies", type(error).__name__)
        return AgentPermissionDecision.deny(f"the policy failed with {type(error).__name__}")
    if isinstance(decision, AgentPermissionDecision):
        return decision
    return AgentPermissionDecision.deny("the policy gave no decision")


# --- the door -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionGate:
    """What every tool execution passes.

    Attributes:
        policy: Decides.
        approve: Asked where the policy wants approval; without it the run stops and the host decides later.
    """

    policy: AgentPermissionPolicy
    approve: ApprovalCallback | None = None

    def require(self, request: AgentPermissionRequest, *, approved: bool = False) -> AgentPermissionDecision:
        """Return the decision that lets the call run.

        Args:
            request: What would run.
            approved: The host approved it beforehand. A denial stays one.

        Raises:
            AgentPermissionError: The policy denies it, or whoever was asked did.
            AgentApprovalRequiredError: Somebody has to approve it, and there is nobody to ask.
        """
        decision = decide(self.policy, request)
        if decision.type is AgentPermissionDecisionType.ALLOW:
            return decision
        if decision.type is not AgentPermissionDecisionType.REQUIRE_APPROVAL:
            raise AgentPermissionError(request, decision)
        if approved is True:
            return decision
        if self.approve is None:
            raise AgentApprovalRequiredError(request, decision)
        if self.approve(request, decision) is not True:
            raise AgentPermissionError(request, AgentPermissionDecision.deny("not approved"))
        return decision

    def restricted_by(self, other: PermissionGate) -> PermissionGate:
        """Return a gate that lets through what both let through; `other` is asked for approval first."""
        return PermissionGate(policy=strictest(other.policy, self.policy), approve=other.approve or self.approve)


def _names(names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise AgentConfigError("tool names must be a collection of names, got one text")
    return frozenset(names)


def _for_tools(names: Iterable[str], decision: AgentPermissionDecision) -> AgentPermissionPolicy:
    chosen = _names(names)
    return FunctionPolicy(lambda request: decision if request.tool_name in chosen else AgentPermissionDecision.allow())


_ORDER = tuple(AgentPermissionDecisionType)


def _strictness(decision: AgentPermissionDecision) -> int:
    return _ORDER.index(decision.type)
