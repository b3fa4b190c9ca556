from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from ai4j_agent import (
    AgentApprovalRequiredError,
    AgentConfigError,
    AgentExecutionEnvironment,
    AgentPermissionDecision,
    AgentPermissionDecisionType,
    AgentPermissionError,
    AgentPermissionPolicy,
    AgentPermissionRequest,
    FunctionPolicy,
    PermissionGate,
    ToolEffect,
    allow_all,
    allow_tools,
    by_environment,
    deny_all,
    deny_tools,
    require_approval_for_tools,
    safe_mode,
    strictest,
)
from support.scripted_model import call
from support.secrets import CANARY, assert_no_secret

ALLOW, DENY, ASK = (
    AgentPermissionDecisionType.ALLOW,
    AgentPermissionDecisionType.DENY,
    AgentPermissionDecisionType.REQUIRE_APPROVAL,
)
REMOTE = AgentExecutionEnvironment.REMOTE_SANDBOX


def request(tool: str = "bash", environment: AgentExecutionEnvironment = REMOTE) -> AgentPermissionRequest:
    return AgentPermissionRequest(tool_call=call(tool, command="x"), environment=environment)


@pytest.mark.parametrize(
    ("policy", "bash", "read_file"),
    [
        (allow_all(), ALLOW, ALLOW),
        (deny_all("no"), DENY, DENY),
        (allow_tools(["read_file"]), DENY, ALLOW),
        (deny_tools(["bash"], "no"), DENY, ALLOW),
        (require_approval_for_tools(["bash"], "ask"), ASK, ALLOW),
        (safe_mode(), ASK, ALLOW),
        (strictest(allow_all(), require_approval_for_tools(["bash"])), ASK, ALLOW),
        (strictest(require_approval_for_tools(["bash"]), deny_tools(["bash"])), DENY, ALLOW),
        (by_environment({REMOTE: allow_all()}, otherwise=deny_all()), ALLOW, ALLOW),
        (by_environment({AgentExecutionEnvironment.LOCAL: allow_all()}, otherwise=deny_all()), DENY, DENY),
    ],
)
def test_policies_decide(
    policy: AgentPermissionPolicy, bash: AgentPermissionDecisionType, read_file: AgentPermissionDecisionType
) -> None:
    decided = [policy.evaluate(request(name)).type for name in ("bash", "read_file")]

    assert decided == [bash, read_file]


@pytest.mark.parametrize("tool", ["write_file", "apply_patch", "edit", "bash"])
def test_safe_mode_wants_the_contracts_dangerous_tools_approved_even_if_they_do_not_say_what_they_do(tool: str) -> None:
    assert safe_mode().evaluate(request(tool)).type is ASK


@pytest.mark.parametrize(
    ("effect", "decided"), [(ToolEffect.READS, ALLOW), (ToolEffect.WRITES, ASK), (ToolEffect.EXECUTES, ASK)]
)
@pytest.mark.parametrize("tool", ["anything", "bash"])
def test_safe_mode_goes_by_what_a_tool_says_it_does_not_by_its_name(
    tool: str, effect: ToolEffect, decided: AgentPermissionDecisionType
) -> None:
    assert safe_mode().evaluate(replace(request(tool), effect=effect)).type is decided


def test_a_decision_spelled_as_text_counts_as_what_it_says() -> None:
    denial = AgentPermissionDecision(type="DENY")  # type: ignore[arg-type]  # what is tested
    gate = PermissionGate(policy=FunctionPolicy(lambda request: denial), approve=lambda request, decision: True)

    with pytest.raises(AgentPermissionError):
        gate.require(request())


def test_a_word_that_is_no_decision_and_a_key_that_is_no_environment_are_refused() -> None:
    with pytest.raises(AgentConfigError, match=r"decision type must be one of ALLOW, .*, got 'deny'"):
        AgentPermissionDecision(type="deny")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(AgentConfigError, match="by_environment key must be one of LOCAL, SANDBOX, REMOTE_SANDBOX"):
        by_environment({"local": deny_all()}, otherwise=allow_all())  # type: ignore[dict-item]  # what is tested


def test_tool_names_are_exact() -> None:
    assert deny_tools(["bash"]).evaluate(request("Bash")).type is ALLOW


def test_a_changed_name_set_does_not_change_the_policy() -> None:
    names = {"bash"}
    policy = deny_tools(names)

    names.clear()

    assert policy.evaluate(request("bash")).type is DENY


@pytest.mark.parametrize("make", [allow_tools, deny_tools, require_approval_for_tools])
def test_one_text_is_no_collection_of_names(make: Any) -> None:
    with pytest.raises(AgentConfigError, match="tool names"):
        make("bash")


def test_a_denial_says_tool_and_reason_and_carries_the_request() -> None:
    with pytest.raises(AgentPermissionError, match=r"Tool permission denied: bash \(too dangerous\)") as caught:
        PermissionGate(policy=deny_tools(["bash"], "too dangerous")).require(request())

    assert caught.value.request.environment is REMOTE
    assert caught.value.decision == AgentPermissionDecision.deny("too dangerous")


def test_without_anybody_to_ask_approval_leaves_the_run() -> None:
    with pytest.raises(AgentApprovalRequiredError, match=r"Tool requires approval: bash \(ask\)") as caught:
        PermissionGate(policy=require_approval_for_tools(["bash"], "ask")).require(request())

    assert caught.value.request.environment is REMOTE


def test_whoever_is_asked_decides() -> None:
    asked: list[str] = []

    def approve(request: AgentPermissionRequest, decision: AgentPermissionDecision) -> bool:
        asked.append(f"{request.tool_name}: {decision.reason}")
        return len(asked) == 1

    gate = PermissionGate(policy=require_approval_for_tools(["bash"], "why"), approve=approve)

    gate.require(request())
    with pytest.raises(AgentPermissionError, match="not approved"):
        gate.require(request())
    assert asked == ["bash: why", "bash: why"]


def test_only_true_approves() -> None:
    gate = PermissionGate(policy=safe_mode(), approve=lambda request, decision: "yes")  # type: ignore[arg-type, return-value]  # what is tested

    with pytest.raises(AgentPermissionError):
        gate.require(request())


def test_an_approval_given_beforehand_does_not_lift_a_denial() -> None:
    PermissionGate(policy=safe_mode()).require(request(), approved=True)
    with pytest.raises(AgentApprovalRequiredError):
        PermissionGate(policy=safe_mode()).require(request(), approved="no")  # type: ignore[arg-type]  # what is tested

    with pytest.raises(AgentPermissionError):
        PermissionGate(policy=deny_all()).require(request(), approved=True)


def broken(request: AgentPermissionRequest) -> AgentPermissionDecision:
    raise RuntimeError(CANARY)


@pytest.mark.parametrize("policy", [FunctionPolicy(broken), FunctionPolicy(lambda request: None)])  # type: ignore[arg-type, return-value]  # what is tested
def test_a_policy_that_fails_denies_wherever_it_stands(
    policy: AgentPermissionPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    for composed in (policy, strictest(allow_all(), policy), by_environment({REMOTE: policy}, allow_all())):
        with caplog.at_level(logging.WARNING), pytest.raises(AgentPermissionError) as caught:
            PermissionGate(policy=composed).require(request())
        assert_no_secret(str(caught.value), caplog.text)


def test_a_decision_made_into_something_else_denies() -> None:
    decision = AgentPermissionDecision.require_approval()
    object.__setattr__(decision, "type", "WEIRD")
    gate = PermissionGate(policy=FunctionPolicy(lambda request: decision), approve=lambda request, decision: True)

    with pytest.raises(AgentPermissionError):
        gate.require(request())


def test_a_restricted_gate_needs_both_to_agree() -> None:
    gate = PermissionGate(policy=deny_tools(["a"])).restricted_by(PermissionGate(policy=deny_tools(["b"])))

    gate.require(request("c"))
    for tool in ("a", "b"):
        with pytest.raises(AgentPermissionError):
            gate.require(request(tool))


def test_a_request_shows_no_arguments() -> None:
    assert_no_secret(AgentPermissionRequest(tool_call=call("bash", command=CANARY)))


def test_composing_nothing_is_refused() -> None:
    with pytest.raises(AgentConfigError, match="at least one policy"):
        strictest()
