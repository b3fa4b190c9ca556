"""Coding agents as a whole: where their tools run, what the policy sees, what a restored session may do.

Section F, H 90 to 95 and 162, weaknesses I.8 72 to 82, tests K 16 and 17.
"""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ai4j_agent import (
    AgentApprovalRequiredError,
    AgentConfigError,
    AgentExecutionEnvironment,
    AgentPermissionDecision,
    AgentPermissionRequest,
    Agents,
    AgentSession,
    CallOrigin,
    MemorySessionStore,
    SandboxAttachment,
    SandboxDetachedError,
    ToolCall,
    allow_all,
    deny_tools,
)
from ai4j_agent.coding import (
    CodingAgent,
    CodingAgentBuilder,
    CodingLimits,
    CodingSandboxRuntime,
    CodingToolset,
    GitIdentity,
    LocalWorkspace,
    PathRules,
    coding_safe_mode,
    read_only,
)
from ai4j_sandbox import (
    SandboxCommand,
    SandboxEvent,
    SandboxEventType,
    SandboxSession,
    SandboxSpec,
    SandboxStatus,
    default_registry,
)
from ai4j_sandbox.testing import FakeProvider, FakeResult
from support.coding_bench import local_works
from support.scripted_model import ScriptedModel, call
from support.waiting import eventually

SPEC = SandboxSpec(workspace_id="/workspace/project", labels={"team": "core", "apiToken": "never"})
TOOLS = {
    "bash": {"action": "exec", "command": "true"},
    "read_file": {"path": "README.md"},
    "write_file": {"path": "new", "content": "x"},
    "edit": {"path": "README.md", "old_string": "a", "new_string": "b"},
    "apply_patch": {"patch": "*** Begin Patch\n*** Delete File: README.md\n*** End Patch"},
    "glob": {"pattern": "*"},
    "grep": {"pattern": "x"},
    "list": {},
    "git": {"action": "status"},
    "run_tests": {},
    "update_agents_md": {},
    "browser": {"action": "open", "url": "http://127.0.0.1:9/"},
}


def builder(model: ScriptedModel | None = None) -> CodingAgentBuilder:
    return CodingAgentBuilder().model_client(model or ScriptedModel("done")).model("m")


def fake_sandbox(provider: FakeProvider | None = None) -> SandboxSession:
    return (provider or FakeProvider(lambda command: FakeResult(stdout="ran\n"))).create_session(SPEC)


class Recorded:
    """A policy that notes what it was asked."""

    def __init__(self, decide: Callable[[AgentPermissionRequest], AgentPermissionDecision] | None = None) -> None:
        self.requests: list[AgentPermissionRequest] = []
        self._decide = decide or (lambda request: AgentPermissionDecision.allow())

    def evaluate(self, request: AgentPermissionRequest) -> AgentPermissionDecision:
        self.requests.append(request)
        return self._decide(request)

    @property
    def seen(self) -> list[tuple[str, str]]:
        return [(request.tool_name, str(request.environment)) for request in self.requests]


# --- building ----------------------------------------


def test_an_agent_has_every_tool(tmp_path: Path) -> None:
    agent = builder().workspace_root(tmp_path).build()

    assert set(agent.runner.tools.names) == set(TOOLS)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        (lambda it: it, "workspace_root is required without a sandbox"),
        (lambda it: it.sandbox(None), "workspace_root is required without a sandbox"),
        (lambda it: it.sandbox(fake_sandbox()).sandbox_spec(SPEC), "a live sandbox contradicts sandbox_spec"),
        (lambda it: it.workspace_root("/no/such/directory"), "is not a directory"),
        (lambda it: it.sandbox_root("relative"), "must be an absolute path"),
        (lambda it: CodingAgentBuilder().model("m").workspace_root("/tmp"), "model_client is required"),
        (lambda it: CodingAgentBuilder().model_client(ScriptedModel("x")).workspace_root("/tmp"), "model is required"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    settings: Callable[[CodingAgentBuilder], CodingAgentBuilder], refusal: str
) -> None:
    with pytest.raises(AgentConfigError, match=refusal):
        settings(builder()).build()


def test_a_runtime_holds_a_live_session_and_nothing_else() -> None:
    session = fake_sandbox()

    assert CodingSandboxRuntime.of(session).session is session
    assert builder().sandbox_runtime(CodingSandboxRuntime.of(session)).build().sandbox_source
    with pytest.raises(AgentConfigError, match="a live SandboxSession is needed, got NoneType"):
        CodingSandboxRuntime.of(None)


def test_a_builder_can_be_used_twice(tmp_path: Path) -> None:
    it = builder().workspace_root(tmp_path).delegates()

    assert it.build().runner.tools.names == it.build().runner.tools.names


def test_the_built_in_tools_can_be_left_out(tmp_path: Path) -> None:
    assert builder().workspace_root(tmp_path).built_in_tools(False).build().runner.tools.names == ()


# --- where tools run ----------------------------------------


def test_a_given_sandbox_is_bound_from_the_start_without_its_secrets() -> None:
    agent = builder().sandbox(fake_sandbox()).build()

    binding = agent.new_session().sandbox_binding

    assert binding is not None
    assert (binding.provider_id, binding.status, dict(binding.labels)) == (
        "fake",
        SandboxStatus.RUNNING,
        {"team": "core"},
    )


def test_bash_runs_in_the_sandbox_and_the_model_is_told_so() -> None:
    provider = FakeProvider(lambda command: FakeResult(stdout="ran\n"))
    sandbox = fake_sandbox(provider)
    model = ScriptedModel(call("bash", action="exec", command="make"), "done")

    builder(model).sandbox(sandbox).permission_policy(allow_all()).build().run("go")

    assert [command.command for command in provider.commands] == ["make"]
    assert (
        f'"executionEnvironment":"sandbox","exitCode":0,"sandboxProviderId":"fake","sandboxSessionId":"{sandbox.session_id}"'
        in model.heard[0].replace(',"durationMillis":0', "")
    )
    assert sandbox.status is SandboxStatus.RUNNING


@pytest.mark.parametrize("name", TOOLS)
def test_with_a_sandbox_no_tool_touches_the_host(tmp_path: Path, name: str) -> None:
    (tmp_path / "README.md").write_text("a x")
    provider = FakeProvider(lambda command: FakeResult(stdout=""))
    sandbox = fake_sandbox(provider)
    policy = Recorded()
    agent = builder().workspace_root(tmp_path).sandbox(sandbox).permission_policy(policy).build()

    result = agent.execute_tool(agent.new_session(), ToolCall(name=name, arguments=json.dumps(TOOLS[name])))

    assert policy.seen == [(name, "REMOTE_SANDBOX")]
    assert "a x" not in result.output
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("README.md", "a x")]


@pytest.mark.parametrize("name", TOOLS)
def test_without_a_sandbox_every_tool_passes_the_same_policy_as_local(tmp_path: Path, name: str) -> None:
    policy = Recorded(lambda request: AgentPermissionDecision.deny("not today"))
    agent = builder().workspace_root(tmp_path).permission_policy(policy).build()

    result = agent.execute_tool(agent.new_session(), ToolCall(name=name, arguments=json.dumps(TOOLS[name])))

    assert policy.seen == [(name, "LOCAL")]
    assert "Tool permission denied" in result.output


def test_the_sandbox_of_a_spec_is_made_when_it_is_needed_and_ends_with_the_session() -> None:
    provider = FakeProvider(lambda command: FakeResult(stdout="ran\n"))
    agent = builder().sandbox_provider(provider).sandbox_spec(SPEC).permission_policy(allow_all()).build()

    with agent.new_session() as session:
        assert session.sandbox_attachment is SandboxAttachment.NONE
        agent.execute_tool(session, call("bash", action="exec", command="make"))
        assert session.sandbox_attachment is SandboxAttachment.LIVE

    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_background_commands_of_a_lent_sandbox_end_with_the_session_and_the_sandbox_does_not() -> None:
    sandbox = fake_sandbox(FakeProvider(lambda command: FakeResult(blocks=True)))
    agent = builder().sandbox(sandbox).permission_policy(allow_all()).build()
    with agent.new_session() as session:
        started = json.loads(agent.execute_tool(session, call("bash", action="start", command="serve")).output)

    assert sandbox.cancel(started["processId"]) is False
    assert sandbox.status is SandboxStatus.RUNNING


def test_an_agent_keeps_no_session_that_is_gone(tmp_path: Path) -> None:
    agent = (
        builder().sandbox_provider(FakeProvider(lambda command: FakeResult())).permission_policy(allow_all()).build()
    )
    with agent.new_session() as session:
        agent.execute_tool(session, call("bash", action="exec", command="make"))
        sandbox = weakref.ref(session.open_sandbox())

    del session
    gc.collect()

    assert sandbox() is None


def test_what_fails_at_the_end_does_not_keep_the_sandbox_alive() -> None:
    provider = FakeProvider(lambda command: FakeResult())
    agent = builder().sandbox_provider(provider).build()
    session = agent.new_session()
    session.open_sandbox()

    def fail() -> None:
        raise OSError("no luck")

    session.on_close(fail)

    with pytest.raises(OSError, match="no luck"):
        session.close()

    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


@pytest.mark.parametrize("name", TOOLS)
def test_an_agent_with_a_sandbox_never_runs_on_the_host_whatever_session_it_is_given(tmp_path: Path, name: str) -> None:
    agent = builder().workspace_root(tmp_path).sandbox(fake_sandbox()).permission_policy(allow_all()).build()

    result = agent.execute_tool(AgentSession(), call(name, **TOOLS[name]))

    assert f"{name} works in a sandbox, and this session has none" in result.output
    assert list(tmp_path.iterdir()) == []


def test_rules_limits_and_identity_reach_the_tools(tmp_path: Path) -> None:
    agent = (
        builder()
        .workspace_root(tmp_path)
        .path_rules(PathRules(excluded_names=frozenset(["dist"])))
        .tool_limits(CodingLimits(file_bytes=5))
        .git(identity=GitIdentity(name="Robo", email="robo@example.org"))
        .permission_policy(allow_all())
        .build()
    )
    session = agent.new_session()

    def output(name: str, **arguments: Any) -> str:
        return agent.execute_tool(session, call(name, **arguments)).output

    assert "dist is excluded" in output("write_file", path="dist/x", content="")
    assert "would be too large" in output("write_file", path="x", content="123456")
    output("bash", action="exec", command="git init -q . && echo x > x")
    output("git", action="add", paths=["x"])
    output("git", action="commit", message="m")
    assert "Robo <robo@example.org>" in output("git", action="log")


def test_a_workspace_inside_the_sandbox_can_be_named() -> None:
    provider = FakeProvider(lambda command: FakeResult())
    agent = builder().sandbox(fake_sandbox(provider)).sandbox_root("/srv").permission_policy(allow_all()).build()

    agent.execute_tool(agent.new_session(), call("bash", action="exec", command="make"))

    assert provider.commands[0].working_directory == "/srv"


# --- the default policy ----------------------------------------

CHANGING = [
    ("bash", {"action": "exec", "command": "ls"}),
    ("write_file", TOOLS["write_file"]),
    ("edit", TOOLS["edit"]),
    ("apply_patch", TOOLS["apply_patch"]),
    ("run_tests", {}),
    ("browser", {"action": "open"}),
    ("git", {"action": "commit", "message": "x"}),
    ("git", {"action": "clone", "url": "https://example.org/x", "path": "x"}),
    ("git", {}),
    ("update_agents_md", {"action": "write"}),
]
READING = [
    ("read_file", TOOLS["read_file"]),
    ("glob", {}),
    ("grep", {}),
    ("list", {}),
    ("git", {"action": "status"}),
    ("git", {"action": "diff"}),
    ("git", {"action": "log"}),
    ("update_agents_md", {}),
    ("update_agents_md", {"action": "read"}),
]


def decided(policy: Any, name: str, arguments: Any) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return str(policy.evaluate(AgentPermissionRequest(tool_call=ToolCall(name=name, arguments=text))).type)


@pytest.mark.parametrize(("name", "arguments"), CHANGING)
def test_what_changes_or_runs_something_needs_approval_and_is_denied_to_readers(name: str, arguments: Any) -> None:
    assert decided(coding_safe_mode(), name, arguments) == "REQUIRE_APPROVAL"
    assert decided(read_only(), name, arguments) == "DENY"


@pytest.mark.parametrize(("name", "arguments"), READING)
def test_what_only_looks_is_allowed(name: str, arguments: Any) -> None:
    assert decided(coding_safe_mode(), name, arguments) == "ALLOW"
    assert decided(read_only(), name, arguments) == "ALLOW"


@pytest.mark.parametrize("arguments", ["", "[]", "broken", "null"])
def test_arguments_that_cannot_be_read_count_as_changing(arguments: str) -> None:
    assert decided(coding_safe_mode(), "git", arguments) == "REQUIRE_APPROVAL"


def test_the_default_policy_holds_in_a_sandbox_too() -> None:
    agent = builder(ScriptedModel(call("bash", action="exec", command="ls"))).sandbox(fake_sandbox()).build()

    with pytest.raises(AgentApprovalRequiredError):
        agent.run("go")


# --- delegates ----------------------------------------


def delegating(task_tool: ToolCall, name: str = "delegate_general_purpose") -> ScriptedModel:
    return ScriptedModel(call(name, task="do it"), task_tool, "delegate is done", "all done")


def test_a_delegate_works_in_the_sandbox_of_its_caller_under_its_policy(tmp_path: Path) -> None:
    provider = FakeProvider(lambda command: FakeResult(stdout="ran\n"))
    policy = Recorded()
    model = delegating(call("bash", "call_2", action="exec", command="make"))
    agent = (
        builder(model)
        .workspace_root(tmp_path)
        .sandbox(fake_sandbox(provider))
        .permission_policy(policy)
        .delegates()
        .build()
    )

    assert agent.run("go").output == "all done"

    assert [command.command for command in provider.commands] == ["make"]
    assert policy.seen == [("delegate_general_purpose", "REMOTE_SANDBOX"), ("bash", "REMOTE_SANDBOX")]
    assert policy.requests[1].origin is CallOrigin.DELEGATED


def test_what_the_caller_may_not_a_delegate_may_not() -> None:
    provider = FakeProvider(lambda command: FakeResult())
    model = delegating(call("bash", "call_2", action="exec", command="make"))
    policy = deny_tools(["bash"], "no shell here")

    builder(model).sandbox(fake_sandbox(provider)).permission_policy(policy).delegates().build().run("go")

    assert provider.commands == []
    assert "no shell here" in model.requests[2].messages[-1].text


@pytest.mark.parametrize("name", ["delegate_explore", "delegate_plan", "delegate_verification"])
def test_a_reading_delegate_has_no_tool_that_changes_and_is_denied_the_rest(name: str) -> None:
    provider = FakeProvider(lambda command: FakeResult())
    model = delegating(call("git", "call_2", action="commit", message="x"), name)

    builder(model).sandbox(fake_sandbox(provider)).permission_policy(allow_all()).delegates().build().run("go")

    offered = {tool.name for tool in model.requests[1].tools}
    assert offered == {"read_file", "glob", "grep", "list", "git", "update_agents_md"}
    assert provider.commands == []
    assert "not allowed" in model.requests[2].messages[-1].text


def test_a_writing_delegate_has_every_tool(tmp_path: Path) -> None:
    model = delegating(call("list", "call_2"))

    builder(model).workspace_root(tmp_path).permission_policy(allow_all()).delegates().build().run("go")

    assert {tool.name for tool in model.requests[1].tools} == set(TOOLS)


# --- resuming ----------------------------------------


@pytest.fixture
def resumed(tmp_path: Path) -> tuple[CodingAgent, Any, FakeProvider]:
    """A session that had a sandbox, restored in another process whose agent could run on the host as well."""
    store = MemorySessionStore()
    first = builder(ScriptedModel("hello")).sandbox(fake_sandbox()).session_store(store).build()
    session = first.new_session("task-1")
    first.run("hi", session=session)
    provider = FakeProvider(lambda command: FakeResult(stdout="ran\n"))
    agent = builder().workspace_root(tmp_path).session_store(store).permission_policy(allow_all()).build()
    return agent, agent.resume_session("task-1"), provider


@pytest.mark.parametrize("name", TOOLS)
def test_a_session_that_had_a_sandbox_never_runs_on_the_host(
    resumed: tuple[CodingAgent, Any, FakeProvider], tmp_path: Path, name: str
) -> None:
    agent, session, _ = resumed
    arguments = dict(TOOLS[name], **({"command": f"touch {tmp_path}/ran"} if name == "bash" else {}))

    with pytest.raises(SandboxDetachedError, match="nothing is executed"):
        agent.execute_tool(session, call(name, **arguments))

    assert list(tmp_path.iterdir()) == []


def test_a_resumed_session_goes_on_where_the_host_puts_it(resumed: tuple[CodingAgent, Any, FakeProvider]) -> None:
    agent, session, provider = resumed

    session.bind_sandbox(fake_sandbox(provider))
    agent.execute_tool(session, call("bash", action="exec", command="make"))

    assert [command.command for command in provider.commands] == ["make"]


def test_a_sandbox_that_was_closed_is_not_replaced_by_the_host(tmp_path: Path) -> None:
    sandbox = fake_sandbox()
    agent = builder().workspace_root(tmp_path).sandbox(sandbox).permission_policy(allow_all()).build()
    session = agent.new_session()

    sandbox.close()

    with pytest.raises(SandboxDetachedError):
        agent.execute_tool(session, call("bash", action="exec", command="touch ran"))


# --- with real places ----------------------------------------


def test_a_lost_background_command_is_told_as_lost(shared_sandbox: SandboxSession) -> None:
    agent = builder().sandbox(shared_sandbox).permission_policy(allow_all()).build()
    with agent.new_session() as session:
        started = json.loads(agent.execute_tool(session, call("bash", action="start", command="sleep 60")).output)

        shared_sandbox.execute(SandboxCommand(command=f"kill -9 {started['pid']}"))

        def info() -> Any:
            return json.loads(
                agent.execute_tool(session, call("bash", action="status", processId=started["processId"])).output
            )

        assert eventually(lambda: info()["status"] == "EXITED")
        assert (info()["exitCode"], info()["signal"]) == (137, "SIGKILL")


def test_the_environment_of_the_local_provider_is_told_as_sandbox(shared_sandbox: SandboxSession) -> None:
    policy = Recorded()
    agent = builder().sandbox(shared_sandbox).permission_policy(policy).build()

    agent.execute_tool(agent.new_session(), call("glob", pattern="*"))

    assert policy.requests[0].environment is AgentExecutionEnvironment.SANDBOX


def test_a_sync_needs_a_directory_of_the_host() -> None:
    agent = builder().sandbox(fake_sandbox()).build()

    with pytest.raises(AgentConfigError, match="workspace_root is required to move files"):
        agent.sync(agent.new_session())


def test_observers_are_told_of_the_model_s_commands_and_not_of_how_tools_look(tmp_path: Path) -> None:
    if not local_works():
        pytest.skip("the local provider cannot isolate commands on this machine")
    (tmp_path / "a.txt").write_text("x\n")
    told: list[SandboxEvent] = []
    with default_registry().create_session(provider_id="local") as sandbox:
        sandbox.subscribe(told.append)
        agent = builder().workspace_root(tmp_path).sandbox(sandbox).permission_policy(allow_all()).build()
        session = agent.new_session()
        agent.sync(session).push()
        agent.execute_tool(session, call("read_file", path="a.txt"))
        agent.execute_tool(session, call("list"))
        agent.execute_tool(session, call("glob", pattern="*"))
        agent.execute_tool(session, call("grep", pattern="x"))
        agent.sync(session).pull()
        agent.execute_tool(session, call("bash", command="echo seen"))

    started = [event for event in told if event.type is SandboxEventType.COMMAND_STARTED]
    assert len(started) == 1
    assert [event.data for event in told if event.data] == [b"seen\n"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("run_tests", {}),
        ("browser", {"action": "open"}),
        ("git", {"action": "commit"}),
        ("bash", {"action": "list"}),
        ("update_agents_md", {"action": "write"}),
    ],
)
def test_the_plain_builders_safe_mode_knows_what_coding_tools_do(
    name: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    tools = CodingToolset(host=LocalWorkspace(tmp_path)).tools()
    agent = Agents.react(model="m", model_client=ScriptedModel(call(name, **arguments), "x")).tools(*tools).build()

    with pytest.raises(AgentApprovalRequiredError):
        agent.run("go")
