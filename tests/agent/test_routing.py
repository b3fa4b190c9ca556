"""Every way to run a tool call, and that none gets around the policy."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ai4j_agent import (
    AgentApprovalRequiredError,
    AgentConfigError,
    AgentExecutionEnvironment,
    AgentPermissionDecision,
    AgentPermissionRequest,
    AgentSession,
    CallOrigin,
    FunctionPolicy,
    Interception,
    InterceptionType,
    PermissionGate,
    SandboxDetachedError,
    SandboxPlan,
    ToolCall,
    ToolContext,
    ToolEffect,
    ToolError,
    ToolPlacement,
    ToolRegistry,
    ToolResult,
    ToolRunner,
    allow_all,
    allow_tools,
    deny_all,
    deny_tools,
    require_approval_for_tools,
    tool,
)
from ai4j_sandbox import (
    SandboxCommand,
    SandboxLocation,
    SandboxRegistry,
    SandboxSessionLostError,
    SandboxSpec,
    SandboxStatus,
)
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox.testing.fake import FAKE_INFO
from support.scripted_model import call, facts
from support.secrets import CANARY, assert_no_secret
from support.waiting import eventually

LOCAL, SANDBOX, REMOTE = (
    AgentExecutionEnvironment.LOCAL,
    AgentExecutionEnvironment.SANDBOX,
    AgentExecutionEnvironment.REMOTE_SANDBOX,
)


class RecordingPolicy:
    """Decides always the same, and remembers what it was asked."""

    def __init__(self, decision: AgentPermissionDecision | None = None) -> None:
        self.decision = decision or AgentPermissionDecision.allow()
        self.asked: list[AgentPermissionRequest] = []

    def evaluate(self, request: AgentPermissionRequest) -> AgentPermissionDecision:
        self.asked.append(request)
        return self.decision

    @property
    def seen(self) -> list[tuple[str, AgentExecutionEnvironment, CallOrigin]]:
        return [(request.tool_name, request.environment, request.origin) for request in self.asked]


class Route:
    """An interceptor that does the same with every call."""

    def __init__(self, interception: Interception) -> None:
        self.interception = interception

    def before(self, call: ToolCall, session: AgentSession) -> Interception:
        return self.interception

    def after(self, call: ToolCall, result: ToolResult, session: AgentSession) -> ToolResult:
        return result


class Tools:
    """One tool on the host, one in the session; what ran is noted."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool
        def on_host(text: str = "") -> str:
            """Run here."""
            self.ran.append("on_host")
            return text

        @tool(placement=ToolPlacement.SESSION)
        def bash(context: ToolContext, command: str) -> str:
            """Run a command."""
            self.ran.append("bash")
            return context.execute(SandboxCommand(command=command)).stdout

        @tool
        def fail(text: str) -> str:
            """Fail."""
            raise ValueError(text)

        self.registry = ToolRegistry([on_host, bash, fail])


def runner(tools: Tools, policy: Any = None, **options: Any) -> ToolRunner:
    return ToolRunner(tools=tools.registry, gate=PermissionGate(policy=policy or allow_all()), **options)


def provider(script: Any = None, location: SandboxLocation = SandboxLocation.REMOTE) -> FakeProvider:
    return FakeProvider(script or {"ls": "a.txt\n"}, info=replace(FAKE_INFO, location=location))


def planned(made_by: FakeProvider) -> AgentSession:
    return AgentSession(sandbox_source=SandboxPlan(provider=made_by))


# --- the real environment ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "tool_name", "environment"),
    [
        (SandboxLocation.REMOTE, "bash", REMOTE),
        (SandboxLocation.THIS_MACHINE, "bash", SANDBOX),
        (SandboxLocation.THIS_MACHINE, "on_host", LOCAL),
    ],
)
def test_the_policy_sees_where_a_call_really_runs_before_it_runs(
    location: SandboxLocation, tool_name: str, environment: AgentExecutionEnvironment
) -> None:
    policy, made_by = RecordingPolicy(AgentPermissionDecision.deny("no")), provider(location=location)
    tools = Tools()
    arguments = {"command": "ls"} if tool_name == "bash" else {}

    runner(tools, policy).run(call(tool_name, **arguments), planned(made_by))

    assert policy.seen == [(tool_name, environment, CallOrigin.MODEL)]
    assert (tools.ran, made_by.sandboxes) == ([], {})


def test_a_session_tool_without_a_sandbox_is_local_to_the_policy() -> None:
    policy = RecordingPolicy()

    result = runner(Tools(), policy).run(call("bash", command="ls"), AgentSession())

    assert policy.seen == [("bash", LOCAL, CallOrigin.MODEL)]
    assert "needs a sandbox" in result.output


def test_a_host_tool_never_reaches_the_sandbox() -> None:
    @tool
    def sneaky(context: ToolContext) -> str:
        """Try."""
        return context.execute(SandboxCommand(command="ls")).stdout

    made_by = provider()
    one = ToolRunner(tools=ToolRegistry([sneaky]), gate=PermissionGate(policy=allow_all()))

    result = one.run(call("sneaky"), planned(made_by))

    assert (result.ok, made_by.commands) == (False, [])


def test_a_session_tool_runs_in_the_sandbox() -> None:
    made_by = provider()

    result = runner(Tools()).run(call("bash", command="ls"), planned(made_by))

    assert result == ToolResult(name="bash", call_id="call_1", output="a.txt\n")
    assert [command.command for command in made_by.commands] == ["ls"]


def test_a_tool_on_the_allow_list_runs_and_no_other() -> None:
    tools, made_by = Tools(), provider()
    one, session = runner(tools, allow_tools(["bash"])), planned(made_by)

    results = [one.run(call("bash", command="ls"), session), one.run(call("on_host", text="x"), session)]

    assert [result.ok for result in results] == [True, False]
    assert "Tool permission denied: on_host (not in the allow list)" in results[1].output
    assert tools.ran == ["bash"]


# --- nothing gets around the policy -----------------------------------------------------------------------------------


def run_plain(one: ToolRunner, session: AgentSession) -> ToolResult:
    return one.run(call("bash", command="ls"), session)


def run_routed(one: ToolRunner, session: AgentSession) -> ToolResult:
    routed = replace(one, interceptors=(Route(Interception.route_to(SandboxCommand(command="ls"))),))
    return routed.run(call("on_host"), session)


def run_routed_apart(one: ToolRunner, session: AgentSession) -> ToolResult:
    interception = Interception.route_to(SandboxCommand(command="ls"), SandboxSpec(provider_id="fake"))
    routed = replace(one, interceptors=(Route(interception),))
    return routed.run(call("on_host"), session)


def run_modified(one: ToolRunner, session: AgentSession) -> ToolResult:
    modified = replace(one, interceptors=(Route(Interception.modify(call("bash", command="ls"))),))
    return modified.run(call("on_host"), session)


def run_in_background(one: ToolRunner, session: AgentSession) -> ToolResult:
    return one.start(call("bash", command="ls"), session).result(10)


WAYS = [run_plain, run_routed, run_routed_apart, run_modified, run_in_background]


@pytest.mark.parametrize("way", WAYS)
def test_a_denial_holds_for_every_way_and_nothing_runs(way: Callable[[ToolRunner, AgentSession], ToolResult]) -> None:
    tools, made_by = Tools(), provider()
    one = runner(tools, deny_all("no way"), routes=SandboxPlan(provider=made_by))

    result = way(one, planned(made_by))

    assert result.output.startswith("TOOL_ERROR: ")
    assert "no way" in result.output
    assert (result.ok, tools.ran, made_by.commands, made_by.sandboxes) == (False, [], [], {})


@pytest.mark.parametrize("way", WAYS)
def test_approval_is_required_for_every_way_and_nothing_runs(
    way: Callable[[ToolRunner, AgentSession], ToolResult],
) -> None:
    tools, made_by = Tools(), provider()
    policy = require_approval_for_tools(["bash", "on_host"])
    one = runner(tools, policy, routes=SandboxPlan(provider=made_by))

    with pytest.raises(AgentApprovalRequiredError):
        way(one, planned(made_by))

    assert (tools.ran, made_by.sandboxes) == ([], {})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("location", "environment"), [(SandboxLocation.REMOTE, REMOTE), (SandboxLocation.THIS_MACHINE, SANDBOX)]
)
def test_the_policy_sees_where_the_provider_runs_whatever_the_way(
    way: Callable[[ToolRunner, AgentSession], ToolResult],
    location: SandboxLocation,
    environment: AgentExecutionEnvironment,
) -> None:
    policy, made_by = RecordingPolicy(), provider(location=location)

    result = way(runner(Tools(), policy, routes=SandboxPlan(provider=made_by)), planned(made_by))

    assert result.ok
    assert [request.environment for request in policy.asked] == [environment]


@pytest.mark.parametrize("way", WAYS)
def test_a_detached_session_runs_nothing_whatever_the_way(
    way: Callable[[ToolRunner, AgentSession], ToolResult],
) -> None:
    tools, made_by = Tools(), provider()
    session = planned(made_by)
    session.open_sandbox()
    detached = AgentSession(sandbox_source=SandboxPlan(provider=made_by)).restore(session.snapshot())

    with pytest.raises(SandboxDetachedError):
        way(runner(tools, routes=SandboxPlan(provider=made_by)), detached)

    assert (tools.ran, made_by.commands) == ([], [])


def test_the_policy_is_told_how_a_call_came_about() -> None:
    policy, made_by = RecordingPolicy(), provider()
    one = runner(Tools(), policy, routes=SandboxPlan(provider=made_by))
    session = planned(made_by)

    for way in (run_plain, run_routed, run_in_background):
        way(one, session)

    assert [request.origin for request in policy.asked] == [
        CallOrigin.MODEL,
        CallOrigin.ROUTED,
        CallOrigin.BACKGROUND,
    ]
    assert policy.asked[1].command == SandboxCommand(command="ls", command_id=made_by.commands[1].command_id)


def test_background_calls_are_judged_before_start_returns() -> None:
    started, release = threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        started.set()
        assert release.wait(10)
        return "done"

    policy = RecordingPolicy()
    one = ToolRunner(tools=ToolRegistry([wait]), gate=PermissionGate(policy=policy))

    future = one.start(call("wait"), AgentSession())

    assert policy.seen == [("wait", LOCAL, CallOrigin.BACKGROUND)]
    assert started.wait(10)
    assert not future.done()
    release.set()
    assert future.result(10).output == "done"


@pytest.mark.parametrize("way", [run_plain, run_routed, run_modified, run_in_background])
def test_a_call_allowed_for_one_environment_does_not_run_in_another(
    way: Callable[[ToolRunner, AgentSession], ToolResult],
) -> None:
    remote, local = provider(), provider(location=SandboxLocation.THIS_MACHINE)
    session = planned(remote)

    class Swap(RecordingPolicy):
        def evaluate(self, request: AgentPermissionRequest) -> AgentPermissionDecision:
            session.bind_sandbox(local.create_session())  # somebody else's doing, at the worst moment
            return super().evaluate(request)

    result = way(runner(Tools(), Swap()), session)

    assert "not where it was" in result.output
    assert (remote.commands, local.commands) == ([], [])


def test_a_command_routed_to_a_sandbox_of_its_own_is_not_told_as_one_for_the_sessions() -> None:
    policy, made_by = RecordingPolicy(), provider()
    session = planned(made_by)
    session.open_sandbox()

    run_routed_apart(runner(Tools(), policy, routes=SandboxPlan(provider=made_by)), session)

    assert [request.sandbox for request in policy.asked] == [None]


def test_a_call_whose_provider_is_not_installed_is_told_as_failed() -> None:
    policy = RecordingPolicy()
    session = AgentSession(sandbox_source=SandboxPlan(provider="docker", registry=SandboxRegistry(path=())))

    for way in (run_plain, run_in_background):
        assert "ProviderNotFoundError" in way(runner(Tools(), policy), session).output

    assert policy.asked == []


def test_a_denied_background_call_is_in_the_log() -> None:
    session = planned(provider())

    result = run_in_background(runner(Tools(), deny_all("no")), session)

    told = [facts(entry.event.payload) for entry in session.event_log.entries]
    assert [(fact["tool"], fact["origin"], fact["error"]) for fact in told] == [("bash", "background", result.error)]


def test_what_goes_wrong_in_the_background_reaches_whoever_waits() -> None:
    made_by = provider({"ls": FakeResult(raises=SandboxSessionLostError("gone"))})

    future = runner(Tools()).start(call("bash", command="ls"), planned(made_by))

    assert isinstance(future.exception(10), SandboxSessionLostError)


# --- routing ----------------------------------------------------------------------------------------------------------


def test_a_routed_call_runs_in_the_sandbox_and_not_the_tool() -> None:
    tools, made_by = Tools(), provider({"ls": FakeResult(stdout="a\n", stderr="warn\n", exit_code=3)})

    result = run_routed(runner(tools), planned(made_by))

    said = json.loads(result.output.removeprefix("SANDBOX_RESULT: "))
    assert said == {"routed": True, "exitCode": 3, "stdout": "a\n", "stderr": "warn\n", "tool": "on_host"}
    assert tools.ran == []


def test_a_routed_call_with_a_spec_gets_a_sandbox_of_its_own_that_is_destroyed() -> None:
    made_by = provider()
    session = planned(made_by)

    result = run_routed_apart(runner(Tools(), routes=SandboxPlan(provider=made_by)), session)

    assert result.output.startswith("SANDBOX_RESULT: ")
    assert [sandbox.alive for sandbox in made_by.sandboxes.values()] == [False]
    assert session.sandbox_binding is None


def test_the_sandbox_of_a_routed_call_is_destroyed_when_the_command_cannot_run() -> None:
    made_by = provider({"ls": FakeResult(raises=SandboxSessionLostError("gone"))})
    session = planned(made_by)

    result = run_routed_apart(runner(Tools(), routes=SandboxPlan(provider=made_by)), session)

    assert "SandboxSessionLostError" in result.output
    assert [sandbox.alive for sandbox in made_by.sandboxes.values()] == [False]


@pytest.mark.parametrize("spec", [None, SandboxSpec(provider_id="fake")])
def test_without_a_provider_a_routed_call_is_blocked(spec: SandboxSpec | None) -> None:
    tools = Tools()
    one = runner(tools, interceptors=(Route(Interception.route_to(SandboxCommand(command="ls"), spec)),))

    result = one.run(call("on_host"), AgentSession())

    assert result.output.startswith("TOOL_BLOCKED: ")
    assert "no sandbox provider" in result.output
    assert tools.ran == []


def test_a_routed_command_for_another_provider_is_refused() -> None:
    made_by = provider()
    interception = Interception.route_to(SandboxCommand(command="ls"), SandboxSpec(provider_id="elsewhere"))
    one = runner(Tools(), interceptors=(Route(interception),), routes=SandboxPlan(provider=made_by))

    result = one.run(call("on_host"), planned(made_by))

    assert (result.ok, made_by.commands) == (False, [])


def test_an_unknown_exit_code_of_a_routed_command_is_not_zero() -> None:
    result = run_routed(runner(Tools()), planned(provider({"ls": FakeResult(exit_code=None)})))

    assert json.loads(result.output.removeprefix("SANDBOX_RESULT: "))["exitCode"] is None


def test_a_blocked_call_says_why() -> None:
    result = runner(Tools(), interceptors=(Route(Interception.block("not now")),)).run(call("on_host"), AgentSession())

    assert json.loads(result.output.removeprefix("TOOL_BLOCKED: ")) == {
        "blocked": True,
        "reason": "not now",
        "tool": "on_host",
        "callId": "call_1",
    }


def test_a_modified_call_is_what_the_policy_judges() -> None:
    result = run_modified(runner(Tools(), deny_tools(["bash"])), planned(provider()))

    assert not result.ok


def test_the_policy_is_told_what_the_call_does_that_would_run() -> None:
    policy, tools = RecordingPolicy(AgentPermissionDecision.deny("no")), Tools()
    route = Route(Interception.route_to(SandboxCommand(command="ls")))

    @tool(effect=ToolEffect.WRITES)
    def save(path: str) -> None:
        """Save."""

    one = replace(runner(tools, policy), tools=ToolRegistry([*tools.registry.tools, save]))
    one.run(call("save", path="x"), planned(provider()))
    one.run(call("on_host"), planned(provider()))
    replace(one, interceptors=(route,)).run(call("save", path="x"), planned(provider()))

    assert [request.effect for request in policy.asked] == [ToolEffect.WRITES, None, ToolEffect.EXECUTES]


def test_a_tool_that_cannot_say_what_a_call_does_does_not_run() -> None:
    class Odd:
        name, description, placement, ran = "odd", "", "host", False
        parameters: Mapping[str, Any] = {"type": "object"}

        def effect_of(self, arguments: Mapping[str, Any]) -> Any:
            return "nothing much"

        def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
            self.ran = True
            return "ran"

    odd, policy = Odd(), RecordingPolicy()
    result = replace(runner(Tools(), policy), tools=ToolRegistry([odd])).run(call("odd"), AgentSession())  # type: ignore[list-item]  # what is tested

    assert (result.ok, odd.ran, policy.asked) == (False, False, [])


def test_a_placement_spelled_as_text_is_told_to_the_policy_as_what_it_is() -> None:
    class Plain:
        name, description, placement = "plain", "", "host"
        parameters: Mapping[str, Any] = {"type": "object"}

        def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
            return "ran"

    policy = RecordingPolicy()
    replace(runner(Tools(), policy), tools=ToolRegistry([Plain()])).run(call("plain"), planned(provider()))  # type: ignore[list-item]  # what is tested

    assert policy.seen == [("plain", LOCAL, CallOrigin.MODEL)]


@pytest.mark.parametrize("kind", [InterceptionType.ROUTE_TO, InterceptionType.MODIFY])
def test_an_interception_that_lacks_what_it_is_about_is_refused(kind: InterceptionType) -> None:
    with pytest.raises(AgentConfigError, match="needs a c"):
        Interception(type=kind)


def test_an_interception_spelled_as_text_counts_as_what_it_says() -> None:
    tools = Tools()
    block = Interception(type="BLOCK", reason="no")  # type: ignore[arg-type]  # what is tested

    result = runner(tools, interceptors=(Route(block),)).run(call("on_host"), AgentSession())

    assert (result.ok, tools.ran) == (False, [])
    with pytest.raises(AgentConfigError, match="interception type must be one of"):
        Interception(type="block")  # type: ignore[arg-type]  # what is tested


def test_a_result_can_be_replaced() -> None:
    class Replace(Route):
        def after(self, call: ToolCall, result: ToolResult, session: AgentSession) -> ToolResult:
            return replace(result, output=result.output.upper())

    one = runner(Tools(), interceptors=(Replace(Interception.allow()),))

    assert one.run(call("on_host", text="abc"), AgentSession()).output == "ABC"


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_call_that_is_not_well_formed_is_not_put_to_the_policy() -> None:
    policy = RecordingPolicy()
    one = runner(Tools(), policy)

    results = [
        one.run(wrong, AgentSession())
        for wrong in (call("nothing"), ToolCall(name="bash", arguments="{"), ToolCall(name="bash"))
    ]

    assert [result.ok for result in results] == [False] * 3
    assert "there is no tool 'nothing'; there are: on_host, bash, fail" in results[0].output
    assert policy.asked == []


@pytest.mark.parametrize("given", [None, "text", ToolResult(name="x", call_id="y", output=5)])  # type: ignore[arg-type]  # what is tested
def test_an_interceptor_that_gives_no_result_fails_the_call_and_not_the_run(given: Any) -> None:
    class Broken(Route):
        def after(self, call: ToolCall, result: ToolResult, session: AgentSession) -> ToolResult:
            return given  # type: ignore[no-any-return]  # what is tested

    result = runner(Tools(), interceptors=(Broken(Interception.allow()),)).run(call("on_host"), AgentSession())

    assert (result.ok, result.reason) == (False, "on_host gave no ToolResult with text as its output")


def test_a_failing_tool_is_told_to_the_model_with_secrets_masked() -> None:
    session = AgentSession().protect(CANARY)

    result = runner(Tools()).run(call("fail", text=f"no {CANARY} token=abcdef123"), session)

    said = json.loads(result.output.removeprefix("TOOL_ERROR: "))
    assert (said["errorType"], said["tool"], said["callId"]) == ("ValueError", "fail", "call_1")
    assert_no_secret(result.output, session.snapshot().to_json())
    assert "abcdef123" not in result.output


def test_a_failing_sandbox_tells_the_model_what_and_what_to_do() -> None:
    error = ToolError("disk full", hint="delete something")
    made_by = provider({"ls": FakeResult(raises=SandboxSessionLostError("x"))})
    assert str(error) == "disk full (delete something)"

    session = planned(made_by)
    with pytest.raises(SandboxSessionLostError):
        runner(Tools()).run(call("bash", command="ls"), session)

    assert session.sandbox_binding is not None
    assert session.sandbox_binding.status is SandboxStatus.FAILED
    with pytest.raises(SandboxDetachedError):
        runner(Tools()).run(call("bash", command="ls"), session)


@pytest.mark.parametrize("spec", [None, SandboxSpec(provider_id="fake")])
def test_a_value_of_a_secret_variable_of_a_routed_command_is_masked(spec: SandboxSpec | None) -> None:
    made_by = provider({"env": f"API_TOKEN={CANARY}\n"})
    command = SandboxCommand(command="env", environment={"API_TOKEN": CANARY})
    route = Route(Interception.route_to(command, spec))

    result = runner(Tools(), interceptors=(route,), routes=SandboxPlan(provider=made_by)).run(
        call("on_host"), planned(made_by)
    )

    assert json.loads(result.output.removeprefix("SANDBOX_RESULT: "))["stdout"] == "API_TOKEN=[redacted]\n"


def test_a_value_of_a_secret_variable_is_masked_in_what_the_model_and_the_store_see() -> None:
    @tool(placement=ToolPlacement.SESSION)
    def show(context: ToolContext) -> str:
        """Print a secret."""
        command = SandboxCommand(command="env", environment={"API_TOKEN": CANARY, "PLAIN": "plain-value"})
        return context.execute(command).stdout

    made_by = provider({"env": f"API_TOKEN={CANARY}\nPLAIN=plain-value\n"})
    session = planned(made_by)
    one = ToolRunner(tools=ToolRegistry([show]), gate=PermissionGate(policy=allow_all()))

    result = one.run(call("show"), session)

    assert result.output == "API_TOKEN=[redacted]\nPLAIN=plain-value\n"


@pytest.mark.parametrize(("own", "expected"), [(None, 5000), (100, 100), (60_000, 5000)])
@pytest.mark.parametrize("routed", [False, True])
def test_a_command_never_gets_longer_than_the_run_has_left(own: int | None, expected: int, routed: bool) -> None:
    @tool(placement=ToolPlacement.SESSION)
    def build(context: ToolContext) -> str:
        """Build."""
        return context.execute(SandboxCommand(command="ls", timeout_millis=own)).stdout

    made_by = provider()
    route = (Route(Interception.route_to(SandboxCommand(command="ls", timeout_millis=own))),) if routed else ()
    one = ToolRunner(tools=ToolRegistry([build]), gate=PermissionGate(policy=allow_all()), interceptors=route)

    one.run(call("build"), planned(made_by), deadline=Deadline(5, clock=lambda: 0.0))

    assert [command.timeout_millis for command in made_by.commands] == [expected]


def test_code_that_mentions_a_password_reaches_the_model_unchanged() -> None:
    text = 'password = config["password"]\ntoken: str = load()\n'

    assert runner(Tools()).run(call("on_host", text=text), AgentSession()).output == text


def test_a_long_output_is_cut_in_the_middle() -> None:
    result = runner(Tools(), output_limit=1000).run(call("on_host", text="a" * 5000 + "z"), AgentSession())

    assert len(result.output) < 1100
    assert "[... truncated 4001 of 5001 characters ...]" in result.output
    assert result.output.endswith("z")


def test_the_log_tells_that_a_call_ran_and_not_what_was_said() -> None:
    session = planned(provider())

    runner(Tools()).run(call("bash", command="ls"), session)

    events = [entry.event for entry in session.event_log.entries]
    assert [str(event.type) for event in events] == ["TOOL_CALL", "SANDBOX_BOUND", "TOOL_RESULT"]
    told = facts(events[-1].payload)
    assert {key: told[key] for key in ("tool", "callId", "environment", "origin", "ok", "outputChars")} == {
        "tool": "bash",
        "callId": "call_1",
        "environment": "REMOTE_SANDBOX",
        "origin": "model",
        "ok": True,
        "outputChars": 6,
    }
    assert "a.txt" not in str(events)


def test_the_log_and_the_host_are_told_why_a_call_failed() -> None:
    session = AgentSession()

    result = runner(Tools()).run(call("fail", text="no such\x1b[2J branch"), session)

    assert (result.ok, result.error, result.reason) == (False, "ValueError", "ValueError: no such\\x1b[2J branch")
    told = facts(session.event_log.entries[-1].event.payload)
    assert (told["ok"], told["error"], told["reason"]) == (False, "ValueError", result.reason)
    assert json.loads(result.output.removeprefix("TOOL_ERROR: "))["error"] == result.reason


def test_a_call_that_did_not_fail_has_no_reason() -> None:
    session = AgentSession()

    result = runner(Tools()).run(call("on_host"), session)

    assert result.reason is None
    assert "reason" not in facts(session.event_log.entries[-1].event.payload)


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ([CANARY], f"cannot use {CANARY}"),
        ([], f"cannot clone https://u:{CANARY}@host/x"),
        ([], f"refused: token={CANARY}"),
    ],
)
def test_the_reason_of_a_failure_holds_no_secret(known: list[str], text: str) -> None:
    session = AgentSession().protect(*known)

    result = runner(Tools()).run(call("fail", text=text), session)

    assert_no_secret(
        result.reason, result.output, repr(result), [item.event.payload for item in session.event_log.entries]
    )


def test_a_long_reason_is_cut_for_the_log_and_whole_for_the_model() -> None:
    session = AgentSession()

    result = runner(Tools()).run(call("fail", text="x" * 5000), session)

    assert len(facts(session.event_log.entries[-1].event.payload)["reason"]) < 600
    assert "x" * 5000 in result.output


def test_calls_from_many_threads_share_one_sandbox() -> None:
    made_by = provider()
    session = planned(made_by)
    one = runner(Tools())
    futures = [one.start(call("bash", call_id=f"c{number}", command="ls"), session) for number in range(8)]

    assert {future.result(10).output for future in futures} == {"a.txt\n"}
    assert len(made_by.sandboxes) == 1
    assert eventually(lambda: not [item for item in threading.enumerate() if item.name.startswith("tool ")])


def test_a_policy_is_given_the_summary_of_the_sandbox_and_never_the_sandbox() -> None:
    seen: list[object] = []

    def look(request: AgentPermissionRequest) -> AgentPermissionDecision:
        seen.append(request.sandbox)
        return AgentPermissionDecision.allow()

    session = planned(provider())
    sandbox = session.open_sandbox()

    runner(Tools(), FunctionPolicy(look)).run(call("bash", command="ls"), session)

    assert seen == [session.sandbox_binding]
    assert isinstance(sandbox, SandboxSession)
