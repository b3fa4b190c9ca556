"""Agents that act by writing programs, with a scripted model, and whole: a chat server and a real sandbox."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ai4j_agent import (
    CODEACT_PROMPT,
    PYTHON_TOOL,
    Agent,
    AgentApprovalRequiredError,
    AgentConfigError,
    AgentEventType,
    AgentLimits,
    AgentPermissionDecision,
    AgentPermissionRequest,
    Agents,
    ChatCompletionsClient,
    CodeActWorkflow,
    FunctionPolicy,
    MemorySessionStore,
    Message,
    ModelRequest,
    ModelResponse,
    PythonTool,
    Role,
    StopReason,
    ToolCall,
    ToolEffect,
    agent_from_blueprint,
    allow_all,
    codeact_agent,
    deny_tools,
    load_blueprint,
    tool,
)
from ai4j_agent.coding import LocalWorkspace
from ai4j_sandbox import (
    AgentSessionSandboxBinding,
    SandboxCommand,
    SandboxEvent,
    SandboxEventType,
    SandboxResult,
    default_registry,
    register_observer,
)
from ai4j_sandbox.testing import FakeProvider, FakeResult
from support.chat_server import asked, base_url, chat_server, text_answer
from support.scripted_model import ScriptedModel, call
from support.secrets import CANARY, assert_no_secret

SHORT = AgentLimits(timeout_seconds=0.2)
PROGRAM = "I compute it.\n<execute>\nprint(6 * 7)\n</execute>"


class Interpreter:
    """Plays one result for every program, and keeps the commands."""

    def __init__(self, result: FakeResult | str = "42\n") -> None:
        self.commands: list[SandboxCommand] = []
        self._result = result if isinstance(result, FakeResult) else FakeResult(stdout=result)
        self.provider = FakeProvider(self._run)

    def _run(self, command: SandboxCommand) -> FakeResult:
        self.commands.append(command)
        return self._result


def agent(model: Any, python: Interpreter | None = None, **options: Any) -> Agent:
    options.setdefault("permission_policy", allow_all())
    provider = (python or Interpreter()).provider
    return codeact_agent(model_client=model, model="m", sandbox_provider=provider, **options)


def answer(text: str, **facts: Any) -> ModelResponse:
    return CodeActWorkflow().response(ModelResponse(message=Message(role=Role.ASSISTANT, text=text), **facts))


def program_of(response: ModelResponse) -> str | None:
    calls = response.message.tool_calls
    return json.loads(calls[-1].arguments)["code"] if calls else None


# --- what the model writes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("<execute>print(1)</execute>", "print(1)"),
        ("<execute>\nif x:\n    y\n</execute>", "if x:\n    y"),
        ("<execute>\n    indented\n</execute>", "    indented"),
        ("<execute>\n```python\nprint(1)\n```\n</execute>", "print(1)"),
        ("<execute>\nprint('''```\nx\n```''')\n</execute>", "print('''```\nx\n```''')"),
        ("<execute>\nprint(1)", "print(1)"),
        ("<execute>a</execute> and <execute>b</execute>", "a"),
        ("Say ```python\nprint(1)\n``` to run it.", None),
        ("an answer", None),
    ],
)
def test_the_first_program_between_the_tags_is_run_and_nothing_else(text: str, program: str | None) -> None:
    assert program_of(answer(text)) == program


def test_a_program_that_the_length_limit_cut_is_not_run() -> None:
    assert program_of(answer("<execute>\nprint(", finish_reason="length")) is None
    assert program_of(answer("<execute>\nprint(1)</execute> and", finish_reason="length")) == "print(1)"


def test_what_a_model_imagines_after_its_program_is_dropped() -> None:
    response = answer("First.\n<execute>\nprint(1)\n</execute>\n<output>\n7\n</output>\nIt is 7.")

    assert response.message.text == "First."


# --- the loop ---------------------------------------------------------------------------------------------------------


def test_a_program_runs_in_the_sandbox_and_its_output_goes_back_until_there_is_an_answer() -> None:
    python = Interpreter()

    result = agent(ScriptedModel(PROGRAM, "It is 42."), python).run("6 * 7?")

    assert (result.output, result.stop_reason, result.steps, result.tool_calls) == (
        "It is 42.",
        StopReason.ANSWERED,
        2,
        1,
    )
    (command,) = python.commands
    assert (command.argv(), command.stdin) == (("python3", "-u", "-"), "print(6 * 7)")


def test_the_model_is_asked_in_text_with_the_rules_before_the_conversation() -> None:
    model = ScriptedModel(PROGRAM, "It is 42.")

    agent(model, system_prompt="be brief").run("6 * 7?")

    request = model.requests[-1]
    assert request.tools == ()
    assert [(message.role, message.text, message.tool_calls) for message in request.messages] == [
        (Role.SYSTEM, "be brief", ()),
        (Role.SYSTEM, CODEACT_PROMPT, ()),
        (Role.USER, "6 * 7?", ()),
        (Role.ASSISTANT, PROGRAM.replace("\n<execute>", "\n\n<execute>"), ()),
        (Role.USER, "<output>\n42\n</output>", ()),
    ]


def test_other_tools_are_called_as_usual_beside_programs() -> None:
    @tool
    def look_up(word: str) -> str:
        """Look up."""
        return f"about {word}"

    mixed = Message(role=Role.ASSISTANT, text=PROGRAM, tool_calls=(call("look_up", "c1", word="x"),))

    class Model(ScriptedModel):
        def complete(self, request: ModelRequest, **options: Any) -> ModelResponse:
            response = super().complete(request, **options)
            return replace(response, message=mixed) if len(self.requests) == 1 else response

    model = Model("fine")

    agent(model, tools=[look_up]).run("go")

    assert [item.name for item in model.requests[-1].tools] == ["look_up"]
    said = model.requests[-1].messages[2:]
    assert [(message.role, message.text) for message in said[1:]] == [
        (Role.TOOL, "about x"),
        (Role.USER, "<output>\n42\n</output>"),
    ]
    assert [one.name for one in said[0].tool_calls] == ["look_up"]


def test_a_program_called_by_the_tool_protocol_is_run_too() -> None:
    model = ScriptedModel(ToolCall(name=PYTHON_TOOL, arguments='{"code": 5}'), call(PYTHON_TOOL, code="x"), "fine")

    agent(model).run("go")

    assert [message.text for message in model.requests[-1].messages[2:]] == [
        '<execute>\n{"code": 5}\n</execute>',
        '<output>\nTOOL_ERROR: {"errorType":"ToolError","error":"code must be of type string, got 5",'
        f'"tool":"run_python","callId":"{_call_id(model)}"}}\n</output>',
        "<execute>\nx\n</execute>",
        "<output>\n42\n</output>",
    ]


def _call_id(model: ScriptedModel) -> str:
    said = model.requests[-1].messages[3].text
    found: str = json.loads(said.partition("TOOL_ERROR: ")[2].partition("\n")[0])["callId"]
    return found


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (FakeResult(stdout="a\n", stderr="warning\n"), "a\n[stderr]\nwarning"),
        (FakeResult(stderr="NameError: x\n", exit_code=1), "[stderr]\nNameError: x\n[exit code 1]"),
        (FakeResult(), "(no output)"),
    ],
)
def test_the_model_reads_what_a_program_said_and_how_it_ended(result: FakeResult, said: str) -> None:
    model = ScriptedModel(PROGRAM, "fine")

    agent(model, Interpreter(result)).run("go")

    assert model.requests[-1].messages[-1].text == f"<output>\n{said}\n</output>"


def test_limits_end_a_run_as_in_the_other_workflow() -> None:
    endless = ScriptedModel(PROGRAM)

    steps = agent(endless, limits=AgentLimits(max_steps=3)).run("go")
    calls = agent(endless, limits=AgentLimits(max_tool_calls=2)).run("go")

    assert (steps.stop_reason, steps.tool_calls) == (StopReason.MAX_STEPS, 3)
    assert (calls.stop_reason, calls.tool_calls) == (StopReason.MAX_TOOL_CALLS, 2)


def test_a_program_gets_at_most_its_own_time_and_the_runs() -> None:
    python = Interpreter()

    agent(ScriptedModel(PROGRAM, "ok"), python, code_timeout_seconds=2.5).run("go")
    agent(ScriptedModel(PROGRAM, "ok"), python, limits=AgentLimits(timeout_seconds=1)).run("go")

    own, of_the_run = (command.timeout_millis for command in python.commands)
    assert own == 2_500
    assert of_the_run is not None
    assert of_the_run <= 1_000


@pytest.mark.parametrize("seconds", [0, -1, True, float("nan"), float("inf")])
def test_a_time_limit_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(AgentConfigError, match="timeout_seconds must be positive"):
        PythonTool(timeout_seconds=seconds)


@pytest.mark.parametrize(
    ("limit", "stopped"), [({"code_timeout_seconds": 0.05}, "answered"), ({"limits": SHORT}, "timeout")]
)
def test_a_program_that_does_not_end_is_stopped_and_what_it_said_is_kept(limit: dict[str, Any], stopped: str) -> None:
    one = agent(ScriptedModel(PROGRAM, "ok"), Interpreter(FakeResult(stdout="begun\n", blocks=True)), **limit)

    with one.new_session() as session:
        result = one.run("go", session=session)
        (output,) = (message.text for message in session.messages if message.role is Role.TOOL)

    assert (result.stop_reason, output) == (stopped, "begun\n[stopped: it took too long]")


def test_closing_the_session_ends_the_program_that_runs() -> None:
    said = threading.Event()

    def listen(event: SandboxEvent, binding: AgentSessionSandboxBinding) -> None:
        if event.type is SandboxEventType.COMMAND_OUTPUT:
            said.set()

    model = ScriptedModel(PROGRAM, "ok")
    one = agent(model, Interpreter(FakeResult(stdout="begun\n", blocks=True)))
    session = one.new_session()
    run = threading.Thread(target=one.run, args=["go"], kwargs={"session": session})
    stop_listening = register_observer(listen)
    try:
        run.start()
        assert said.wait(60)
        session.close()
    finally:
        stop_listening()
        session.close()
        run.join(60)

    told = model.requests[-1].messages[-1].text
    assert told in [f"<output>\nbegun\n[{ending}]\n</output>" for ending in ("canceled", "ended by SIGKILL")]


# --- permission -------------------------------------------------------------------------------------------------------


def test_every_program_passes_the_policy_which_is_told_that_it_executes_and_where() -> None:
    asked_about: list[AgentPermissionRequest] = []

    def note(request: AgentPermissionRequest) -> AgentPermissionDecision:
        asked_about.append(request)
        return AgentPermissionDecision.allow()

    agent(ScriptedModel(PROGRAM, "ok"), permission_policy=FunctionPolicy(note)).run("go")

    (one,) = asked_about
    assert (one.tool_name, one.environment, one.effect) == (PYTHON_TOOL, "REMOTE_SANDBOX", ToolEffect.EXECUTES)
    assert json.loads(one.arguments) == {"code": "print(6 * 7)"}


def test_a_denied_program_does_not_run_and_the_model_is_told() -> None:
    model, python = ScriptedModel(PROGRAM, "then not"), Interpreter()

    result = agent(model, python, permission_policy=deny_tools([PYTHON_TOOL], "not here")).run("go")

    assert (result.output, python.commands, dict(python.provider.sandboxes)) == ("then not", [], {})
    assert "not here" in model.requests[-1].messages[-1].text


def test_by_default_a_program_waits_for_approval_and_is_resumed_also_from_the_store() -> None:
    store, model = MemorySessionStore(), ScriptedModel(PROGRAM, "It is 42.")
    one = codeact_agent(model_client=model, model="m", sandbox_provider=Interpreter().provider, session_store=store)
    session = one.new_session("s")
    with pytest.raises(AgentApprovalRequiredError) as caught:
        one.run("go", session=session)

    with one.resume_session("s") as later:
        result = one.resume(later, {caught.value.request.call_id: True})

    assert result.output == "It is 42."
    assert model.requests[-1].messages[-1].text == "<output>\n42\n</output>"


def test_without_a_sandbox_programs_are_refused_and_never_run_here() -> None:
    model = ScriptedModel(PROGRAM, "then not")

    codeact_agent(model_client=model, model="m", permission_policy=allow_all()).run("go")

    assert "needs a sandbox and this session has none" in model.requests[-1].messages[-1].text


def test_a_host_may_run_programs_on_this_machine_and_the_policy_sees_that(tmp_path: Any) -> None:
    seen: list[str] = []

    def note(request: AgentPermissionRequest) -> AgentPermissionDecision:
        seen.append(request.environment)
        return AgentPermissionDecision.allow()

    workspace = LocalWorkspace(tmp_path)
    model = ScriptedModel("<execute>\nimport os; print(os.getcwd())\n</execute>", "ok")

    codeact_agent(
        model_client=model, model="m", code_host=workspace.execute, permission_policy=FunctionPolicy(note)
    ).run("go")

    assert (seen, model.requests[-1].messages[-1].text) == (["LOCAL"], f"<output>\n{workspace.root}\n</output>")


def test_with_a_sandbox_nothing_runs_on_the_host() -> None:
    def never(command: SandboxCommand) -> SandboxResult:
        raise AssertionError("on the host")

    model = ScriptedModel(PROGRAM, "ok")

    agent(model, code_host=never).run("go")

    assert model.requests[-1].messages[-1].text == "<output>\n42\n</output>"


# --- what is stored ---------------------------------------------------------------------------------------------------


def test_events_and_snapshot_know_the_program_as_a_call_and_no_secret() -> None:
    text = f"<execute>\ntoken = '{CANARY}'\n</execute>"
    one = agent(ScriptedModel(text, "ok"), Interpreter(f"seen {CANARY}"))

    with one.new_session() as session:
        session.protect(CANARY)
        one.run("go", session=session)
        stored = session.snapshot()

    kinds = [(entry.event.type, entry.event.payload) for entry in stored.events]
    ran = [payload for kind, payload in kinds if kind == AgentEventType.TOOL_RESULT]
    assert [(item["tool"], item["ok"]) for item in ran if isinstance(item, Mapping)] == [(PYTHON_TOOL, True)]
    assert_no_secret(stored.to_json())


def test_the_builder_makes_the_same_agent() -> None:
    model, python = ScriptedModel(PROGRAM, "It is 42."), Interpreter()

    built = (
        Agents.codeact(model="m").model_client(model).sandbox_provider(python.provider).permission_policy(allow_all())
    )

    assert built.code_timeout_seconds(3).build().run("go").output == "It is 42."
    assert [command.timeout_millis for command in python.commands] == [3_000]


# --- whole ------------------------------------------------------------------------------------------------------------

BLUEPRINT = """\
version: ai4j.agent/v1
id: computer
model: {provider: openai, model: m-1}
sandbox: {enabled: true, provider: local}
workflow: {mode: codeact, maxTurns: 5}
"""


def local_works() -> bool:
    if "local" not in default_registry().ids():
        return False
    return default_registry().provider("local").health().healthy  # type: ignore[attr-defined, no-any-return]  # local has it


@pytest.mark.skipif(not local_works(), reason="the local provider cannot isolate commands on this machine")
def test_a_blueprint_computes_in_a_local_sandbox_over_several_programs() -> None:
    answers = (
        text_answer("<execute>\nopen('n', 'w').write('6')\nprint(undefined)\n</execute>"),
        text_answer("<execute>\nprint(int(open('n').read()) * 7)\n</execute>"),
        text_answer("It is 42."),
    )
    with chat_server(*answers) as server:
        one = agent_from_blueprint(
            load_blueprint(BLUEPRINT),
            model_client=ChatCompletionsClient(base_url=base_url(server), api_key="k"),
            allow_sandbox=True,
            sandbox_providers=["local"],
            permission_policy=allow_all(),
        )
        result = one.run("What is 6 * 7?")
        said = [message["content"] for message in asked(server)["messages"]]

    assert (result.output, result.steps, one.limits) == ("It is 42.", 3, AgentLimits(max_steps=5))
    assert "tools" not in asked(server)
    assert said[:2] == [CODEACT_PROMPT, "What is 6 * 7?"]
    assert "NameError: name 'undefined' is not defined\n[exit code 1]\n</output>" in said[3]
    assert said[5] == "<output>\n42\n</output>"
