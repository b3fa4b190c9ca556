from __future__ import annotations

import inspect
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ai4j_agent import (
    Agent,
    AgentApprovalRequiredError,
    AgentBuilder,
    AgentConfigError,
    AgentLimits,
    AgentPermissionDecision,
    AgentPermissionRequest,
    Agents,
    AgentSession,
    AgentSessionSnapshot,
    DelegateTool,
    EventLogTamperedError,
    FileSessionStore,
    FunctionPolicy,
    Interception,
    MemorySessionStore,
    ModelClientError,
    ModelRequest,
    ModelResponse,
    ModelTimeoutError,
    Role,
    SandboxDetachedError,
    SandboxPlan,
    SessionBusyError,
    SessionStoreError,
    StopReason,
    ToolCall,
    ToolContext,
    ToolPlacement,
    ToolRegistry,
    ToolResult,
    allow_all,
    allow_tools,
    deny_tools,
    react_agent,
    require_approval_for_tools,
    tool,
)
from ai4j_sandbox import (
    ProviderInfo,
    SandboxCommand,
    SandboxLocation,
    SandboxRegistry,
    SandboxSessionLostError,
    SandboxSpec,
)
from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox.testing.fake import FAKE_INFO
from support.scripted_model import ScriptedModel, call
from support.secrets import CANARY, assert_no_secret, everything_said

INFO_HERE = replace(FAKE_INFO, provider_id="docker", location=SandboxLocation.THIS_MACHINE)
"""A third party's provider whose sandboxes run on this machine."""


class Workshop:
    """Tools whose runs are counted."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        def note(name: str) -> str:
            self.ran.append(name)
            return f"{name} done"

        @tool
        def read_file(path: str) -> str:
            """Read."""
            return note(f"read {path}")

        @tool
        def write_file(path: str) -> str:
            """Write."""
            return note(f"write {path}")

        @tool(placement=ToolPlacement.SESSION)
        def bash(context: ToolContext, command: str) -> str:
            """Run."""
            note(f"bash {command}")
            return context.execute(SandboxCommand(command=command)).stdout

        self.tools = (read_file, write_file, bash)


def agent(model: ScriptedModel, shop: Workshop | None = None, **options: Any) -> Agent:
    return react_agent(model_client=model, model="m", tools=(shop or Workshop()).tools, **options)


# --- the loop ---------------------------------------------------------------------------------------------------------


def test_an_answer_in_words_ends_the_run() -> None:
    result = agent(ScriptedModel("hello")).run("hi")

    assert (result.output, result.stop_reason, result.steps, result.tool_calls) == ("hello", StopReason.ANSWERED, 1, 0)


def test_tool_outputs_go_back_to_the_model_in_order() -> None:
    model = ScriptedModel([call("read_file", "c1", path="a"), call("read_file", "c2", path="b")], "fine")

    result = agent(model).run("go")

    assert model.heard == ["read a done", "read b done"]
    assert (result.output, result.steps, result.tool_calls) == ("fine", 2, 2)


def test_prompts_come_first_and_options_go_along() -> None:
    model = ScriptedModel("ok")

    agent(model, system_prompt="be brief", instructions="be kind", options={"temperature": 0}).run("hi")

    request = model.requests[0]
    assert [(message.role, message.text) for message in request.messages] == [
        (Role.SYSTEM, "be brief"),
        (Role.SYSTEM, "be kind"),
        (Role.USER, "hi"),
    ]
    assert (request.model, request.options, len(request.tools)) == ("m", {"temperature": 0}, 3)


def test_a_denial_is_told_to_the_model_and_the_run_ends_well() -> None:
    model, shop = ScriptedModel(call("bash", command="rm"), "done"), Workshop()

    result = agent(model, shop, permission_policy=deny_tools(["bash"], "not here")).run("go")

    assert "Tool permission denied" in model.heard[0]
    assert "not here" in model.heard[0]
    assert (result.output, shop.ran) == ("done", [])


@pytest.mark.parametrize("name", ["write_file", "bash"])
def test_by_default_dangerous_tools_need_approval(name: str) -> None:
    arguments = {"path": "x"} if name == "write_file" else {"command": "x"}
    shop = Workshop()

    with pytest.raises(AgentApprovalRequiredError, match=name):
        agent(ScriptedModel(call(name, **arguments)), shop).run("go")

    assert shop.ran == []


def test_by_default_reading_is_allowed() -> None:
    assert agent(ScriptedModel(call("read_file", path="x"), "ok")).run("go").output == "ok"


def test_allowing_everything_is_the_hosts_choice() -> None:
    shop = Workshop()

    agent(ScriptedModel(call("write_file", path="x"), "ok"), shop, permission_policy=allow_all()).run("go")

    assert shop.ran == ["write x"]


def test_a_service_that_numbers_the_calls_of_each_turn_anew_is_understood() -> None:
    shop = Workshop()
    model = ScriptedModel(call("read_file", "call_0", path="a"), call("read_file", "call_0", path="b"), "ok")

    agent(model, shop).run("go")

    assert (shop.ran, model.heard) == (["read a", "read b"], ["read a done", "read b done"])


def test_the_result_of_a_routed_call_is_what_the_model_reads() -> None:
    class ToSandbox:
        def before(self, call: ToolCall, session: AgentSession) -> Interception:
            return Interception.route_to(SandboxCommand(command="ls"))

        def after(self, call: ToolCall, result: ToolResult, session: AgentSession) -> ToolResult:
            return result

    model, shop, provider = ScriptedModel(call("read_file", path="x"), "done"), Workshop(), FakeProvider({"ls": "a"})

    result = agent(
        model, shop, interceptors=[ToSandbox()], sandbox_provider=provider, permission_policy=allow_all()
    ).run("go")

    assert model.heard == ['SANDBOX_RESULT: {"routed":true,"exitCode":0,"stdout":"a","tool":"read_file"}']
    assert (result.output, shop.ran) == ("done", [])


def test_an_unknown_tool_is_told_to_the_model() -> None:
    model = ScriptedModel(call("fly"), "ok")

    agent(model).run("go")

    assert "there is no tool 'fly'" in model.heard[0]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (AgentLimits(max_steps=3), StopReason.MAX_STEPS),
        (AgentLimits(max_tool_calls=2), StopReason.MAX_TOOL_CALLS),
        (AgentLimits(timeout_seconds=0.000001), StopReason.TIMEOUT),
    ],
)
def test_limits_end_a_run_that_would_go_on(limits: AgentLimits, reason: StopReason) -> None:
    model = ScriptedModel(*(call("read_file", f"c{number}", path="x") for number in range(100)))

    result = agent(model, limits=limits).run("go")

    assert (result.stop_reason, result.answered) == (reason, False)
    assert result.tool_calls <= 3


def test_a_model_that_is_too_slow_for_the_limit_ends_the_run_in_time() -> None:
    class Slow(ScriptedModel):
        def complete(self, request: Any, **options: Any) -> Any:
            while not options["deadline"].expired:
                pass
            raise ModelTimeoutError("too slow")

    assert agent(Slow("x"), limits=AgentLimits(timeout_seconds=0.05)).run("go").stop_reason is StopReason.TIMEOUT


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_answer_the_model_could_not_finish_is_told_apart(reason: str) -> None:
    class Short(ScriptedModel):
        def complete(self, request: Any, **options: Any) -> Any:
            return replace(super().complete(request, **options), finish_reason=reason)

    result = agent(Short("half an ans")).run("go")

    assert (result.output, result.stop_reason, result.answered) == ("half an ans", StopReason.CUT_OFF, False)


def test_a_call_of_the_hosts_own_passes_the_policy_too() -> None:
    shop = Workshop()
    one = agent(ScriptedModel("x"), shop, permission_policy=deny_tools(["write_file"]))
    session = one.new_session()

    results = [one.execute_tool(session, call(name, path="x")) for name in ("write_file", "read_file")]
    started = one.start_tool(session, call("write_file", path="x")).result(10)

    assert [result.ok for result in (*results, started)] == [False, True, False]
    assert shop.ran == ["read x"]


@pytest.mark.parametrize(
    "limit",
    [
        {"max_steps": 0},
        {"max_steps": None},
        {"max_steps": 1.5},
        {"max_tool_calls": "5"},
        {"max_tool_calls": True},
        {"timeout_seconds": float("nan")},
        {"timeout_seconds": -1},
    ],
)
def test_a_limit_that_is_none_is_refused(limit: dict[str, Any]) -> None:
    with pytest.raises(AgentConfigError, match=f"{next(iter(limit))} must be positive"):
        AgentLimits(**limit)


def test_a_session_goes_on_where_it_stopped() -> None:
    model = ScriptedModel("one", "two")
    one = agent(model)
    session = one.new_session()

    one.run("first", session=session)
    one.run("second", session=session)

    assert [message.text for message in model.requests[-1].messages] == ["first", "one", "second"]


def test_a_second_run_of_a_session_at_the_same_time_is_refused_and_no_call_runs_twice() -> None:
    thinking, answer = threading.Event(), threading.Event()

    class Slow(ScriptedModel):
        def complete(self, request: ModelRequest, **options: Any) -> ModelResponse:
            thinking.set()
            assert answer.wait(10)
            return super().complete(request, **options)

    shop = Workshop()
    one = agent(Slow(call("read_file", path="x"), "ok"), shop)
    session = one.new_session()
    first = threading.Thread(target=lambda: one.run("first", session=session))
    first.start()
    assert thinking.wait(10)

    for second in (lambda: one.run("second", session=session), lambda: one.resume(session)):
        with pytest.raises(SessionBusyError, match="in use by another run"):
            second()
    answer.set()
    first.join(10)

    assert shop.ran == ["read x"]
    assert [message.text for message in session.messages if message.role is Role.USER] == ["first"]
    assert one.run("third", session=session).output == "ok"


def test_a_tool_cannot_run_its_own_session() -> None:
    @tool
    def recurse(context: ToolContext) -> str:
        """Run the agent within itself."""
        return one.run("again", session=context.session).output

    model = ScriptedModel(call("recurse"), "ok")
    one = react_agent(model_client=model, model="m", tools=[recurse])

    assert one.run("go").output == "ok"
    assert "SessionBusyError" in model.heard[0]


def test_the_log_tells_the_run_without_its_words() -> None:
    one = agent(ScriptedModel(call("read_file", path="private"), "private answer"))
    session = one.new_session()

    one.run("private question", session=session)

    events = [entry.event for entry in session.event_log.entries]
    assert [str(event.type) for event in events] == [
        "STEP_START",
        "MODEL_REQUEST",
        "MODEL_RESPONSE",
        "TOOL_CALL",
        "TOOL_RESULT",
        "STEP_END",
        "STEP_START",
        "MODEL_REQUEST",
        "MODEL_RESPONSE",
        "STEP_END",
        "FINAL_OUTPUT",
    ]
    assert [event.step for event in events] == [1] * 6 + [2] * 5
    assert len({event.turn_id for event in events}) == 1
    assert "private" not in str([(event.message, event.payload) for event in events])


# --- approval ---------------------------------------------------------------------------------------------------------


def batch() -> ScriptedModel:
    return ScriptedModel(
        [call("read_file", "c1", path="a"), call("write_file", "c2", path="b"), call("read_file", "c3", path="c")],
        "done",
    )


def test_approval_in_the_middle_of_a_batch_loses_no_result_and_repeats_none() -> None:
    model, shop = batch(), Workshop()
    one = agent(model, shop)
    session = one.new_session()
    with pytest.raises(AgentApprovalRequiredError) as caught:
        one.run("go", session=session)
    assert (caught.value.request.call_id, shop.ran) == ("c2", ["read a"])
    assert [waiting.call_id for waiting in session.unanswered_calls()] == ["c2", "c3"]

    result = one.resume(session, {"c2": True})

    assert (result.output, shop.ran) == ("done", ["read a", "write b", "read c"])
    assert model.heard == ["read a done", "write b done", "read c done"]


def test_an_approval_is_for_one_call_whatever_ids_the_model_gives() -> None:
    shop = Workshop()
    batch = [call("write_file", "same", path="harmless"), call("write_file", "same", path="harmful")]
    one = agent(ScriptedModel(batch, "done"), shop)
    session = one.new_session()
    with pytest.raises(AgentApprovalRequiredError):
        one.run("go", session=session)

    with pytest.raises(AgentApprovalRequiredError) as again:
        one.resume(session, {"same": True})

    assert shop.ran == ["write harmless"]
    assert again.value.request.arguments == '{"path": "harmful"}'


def test_a_refused_call_is_answered_and_the_others_run() -> None:
    model, shop = batch(), Workshop()
    one = agent(model, shop)
    session = one.new_session()
    with pytest.raises(AgentApprovalRequiredError):
        one.run("go", session=session)

    one.resume(session, {"c2": False})

    assert shop.ran == ["read a", "read c"]
    assert model.heard == ["read a done", "TOOL_ERROR: the host did not approve write_file", "read c done"]


def test_a_call_nobody_decided_on_stops_the_run_again() -> None:
    one = agent(batch())
    session = one.new_session()
    with pytest.raises(AgentApprovalRequiredError):
        one.run("go", session=session)

    with pytest.raises(AgentApprovalRequiredError):
        one.resume(session)


def test_approval_can_come_in_another_process(tmp_path: Path) -> None:
    shop = Workshop()
    one = agent(batch(), shop, session_store=FileSessionStore(tmp_path))
    session = one.new_session("s")
    with pytest.raises(AgentApprovalRequiredError):
        one.run("go", session=session)

    model = ScriptedModel("done")
    other = agent(model, shop, session_store=FileSessionStore(tmp_path))
    result = other.resume(other.resume_session("s"), {"c2": True})

    assert (result.output, shop.ran) == ("done", ["read a", "write b", "read c"])
    assert model.heard == ["read a done", "write b done", "read c done"]


def test_an_approved_call_the_policy_denies_by_now_does_not_run(tmp_path: Path) -> None:
    shop, store = Workshop(), FileSessionStore(tmp_path)
    one = agent(batch(), shop, session_store=store)
    with pytest.raises(AgentApprovalRequiredError):
        one.run("go", session=one.new_session("s"))

    stricter = agent(ScriptedModel("done"), shop, session_store=store, permission_policy=deny_tools(["write_file"]))
    stricter.resume(stricter.resume_session("s"), {"c2": True})

    assert shop.ran == ["read a", "read c"]


def test_a_new_message_answers_the_calls_that_wait() -> None:
    model = batch()
    one = agent(model)
    session = one.new_session()
    with pytest.raises(AgentApprovalRequiredError):
        one.run("go", session=session)

    one.run("never mind", session=session)

    assert [text.partition(":")[0] for text in model.heard] == [
        "read a done",
        "HOST_INPUT_REQUIRED",
        "HOST_INPUT_REQUIRED",
    ]


def test_resuming_when_nothing_waits_is_refused() -> None:
    one = agent(ScriptedModel("x"))

    with pytest.raises(AgentConfigError, match="waits for no tool call"):
        one.resume(one.new_session())


def test_somebody_can_be_asked_on_the_spot() -> None:
    shop = Workshop()

    agent(batch(), shop, approve=lambda request, decision: request.tool_name == "write_file").run("go")

    assert shop.ran == ["read a", "write b", "read c"]


# --- sandbox ----------------------------------------------------------------------------------------------------------


def sandboxed(model: ScriptedModel, provider: FakeProvider, shop: Workshop | None = None, **options: Any) -> Agent:
    options = {"permission_policy": allow_all(), "sandbox_provider": provider, **options}
    return agent(model, shop, **options)


def test_a_run_without_a_session_makes_a_sandbox_when_needed_and_destroys_it() -> None:
    provider = FakeProvider({"ls": "a.txt"})
    model = ScriptedModel(call("bash", command="ls"), "ok")

    sandboxed(model, provider).run("go")

    assert model.heard == ["a.txt"]
    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_no_sandbox_is_made_when_none_is_needed() -> None:
    provider = FakeProvider()

    sandboxed(ScriptedModel("hi"), provider).run("go")

    assert provider.sandboxes == {}


@pytest.mark.parametrize("failure", [RuntimeError("broken"), KeyboardInterrupt()])
def test_the_sandbox_is_destroyed_when_the_run_fails(failure: BaseException) -> None:
    class Failing(ScriptedModel):
        def complete(self, request: Any, **options: Any) -> Any:
            if self.requests:
                raise failure
            return super().complete(request, **options)

    provider = FakeProvider({"ls": "a"})

    with pytest.raises(type(failure)):
        sandboxed(Failing(call("bash", command="ls")), provider).run("go")

    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_a_session_of_the_hosts_keeps_its_sandbox_between_runs() -> None:
    provider = FakeProvider({"ls": "a"})
    one = sandboxed(ScriptedModel(call("bash", "1", command="ls"), "x", call("bash", "2", command="ls"), "y"), provider)

    with one.new_session() as session:
        one.run("go", session=session)
        one.run("again", session=session)
        alive = [sandbox.alive for sandbox in provider.sandboxes.values()]

    assert (alive, [sandbox.alive for sandbox in provider.sandboxes.values()]) == ([True], [False])


def test_a_provider_is_found_by_its_id_in_the_registry() -> None:
    provider, registry = FakeProvider({"ls": "a"}), SandboxRegistry(path=[])
    registry.register(provider)
    spec = SandboxSpec(provider_id="fake", image="py")

    sandboxed(ScriptedModel(call("bash", command="ls"), "x"), provider, sandbox_provider="fake", registry=registry,
              sandbox_spec=spec).run("go")  # fmt: skip

    assert [sandbox.spec.image for sandbox in provider.sandboxes.values()] == ["py"]


def test_a_spec_for_another_provider_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(AgentConfigError, match="contradicts"):
        sandboxed(ScriptedModel("x"), FakeProvider(), sandbox_spec=SandboxSpec(provider_id="e2b"))


def test_a_resumed_session_that_had_a_sandbox_asks_no_model_and_runs_nothing() -> None:
    provider, store, shop = FakeProvider({"ls": "a"}), MemorySessionStore(), Workshop()
    one = sandboxed(ScriptedModel(call("bash", command="ls"), "x"), provider, session_store=store)
    one.run("go", session=one.new_session("s"))
    model = ScriptedModel(call("read_file", path="x"), "y")
    other = sandboxed(model, provider, shop, session_store=store)

    with pytest.raises(SandboxDetachedError):
        other.run("more", session=other.resume_session("s"))

    assert (model.requests, shop.ran, len(provider.sandboxes)) == ([], [], 1)


def test_a_resumed_session_goes_on_after_reattaching() -> None:
    provider, store = FakeProvider({"ls": "a"}), MemorySessionStore()
    one = sandboxed(ScriptedModel(call("bash", command="ls"), "x"), provider, session_store=store)
    one.run("go", session=one.new_session("s"))
    model = ScriptedModel(call("bash", "2", command="ls"), "y")
    other = sandboxed(model, provider, session_store=store)

    with other.resume_session("s").reattach(provider) as session:
        result = other.run("more", session=session)

    assert (result.output, len(provider.sandboxes), len(provider.commands)) == ("y", 1, 2)
    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_a_lost_sandbox_ends_the_run_and_is_noted() -> None:
    provider = FakeProvider({"ls": FakeResult(stdout="a")})
    one = sandboxed(ScriptedModel(call("bash", "1", command="ls"), call("bash", "2", command="ls")), provider)
    session = one.new_session()

    def expire(command: SandboxCommand) -> FakeResult:
        provider.destroy(session.open_sandbox().session_id)
        return FakeResult(stdout="a")

    provider.script = expire

    with pytest.raises(SandboxSessionLostError, match="destroyed"):
        one.run("go", session=session)

    with pytest.raises(SandboxDetachedError):
        one.run("again", session=session)


# --- store ------------------------------------------------------------------------------------------------------------


def test_a_run_is_saved_also_when_it_fails() -> None:
    store = MemorySessionStore()
    one = agent(ScriptedModel(RuntimeError("down")), session_store=store)

    with pytest.raises(RuntimeError):
        one.run("go", session=one.new_session("s"))

    saved = store.load("s")
    assert saved is not None
    assert [message.text for message in saved.messages] == ["go"]
    assert str(saved.events[-1].event.type) == "ERROR"


def test_a_failing_store_does_not_hide_why_the_run_failed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    one = agent(ScriptedModel(RuntimeError("down")), session_store=FileSessionStore(tmp_path / "file"))

    with pytest.raises(RuntimeError, match="down"):
        one.run("go", session=one.new_session("s"))

    assert "session s was not saved" in caplog.text


def test_a_store_that_breaks_its_promise_does_not_hide_it_either(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemorySessionStore):
        def save(self, snapshot: AgentSessionSnapshot) -> None:
            raise KeyError(CANARY)

    one = agent(ScriptedModel(RuntimeError("down")), session_store=Broken())

    with pytest.raises(RuntimeError, match="down"):
        one.run("go", session=one.new_session("s"))

    assert "session s was not saved: KeyError" in caplog.text
    assert CANARY not in caplog.text


def test_a_failing_store_is_told_when_the_run_went_well(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    one = agent(ScriptedModel("ok"), session_store=FileSessionStore(tmp_path / "file"))

    with pytest.raises(SessionStoreError, match="could not write"):
        one.run("go")


def test_an_unknown_session_and_a_missing_store_are_named() -> None:
    with pytest.raises(AgentConfigError, match="session 'nobody' not found"):
        agent(ScriptedModel("x"), session_store=MemorySessionStore()).resume_session("nobody")
    with pytest.raises(AgentConfigError, match="no session store"):
        agent(ScriptedModel("x")).resume_session("s")


def test_a_session_in_the_place_of_another_is_not_resumed() -> None:
    class Exchanged(MemorySessionStore):
        def load(self, session_id: str) -> AgentSessionSnapshot | None:
            return super().load("other")

    store = Exchanged()
    one = agent(ScriptedModel("x"), session_store=store)
    for session_id in ("mine", "other"):
        one.run("go", session=one.new_session(session_id))

    with pytest.raises(SessionStoreError, match="holds session 'other' in the place of 'mine'"):
        one.resume_session("mine")


def test_a_resumed_session_keeps_its_run_id() -> None:
    store = MemorySessionStore()
    one = agent(ScriptedModel("x"), session_store=store)
    session = one.new_session("s")
    one.run("go", session=session)

    assert one.resume_session("s").run_id == session.run_id


def test_a_changed_file_is_refused_on_resume_and_the_event_named(tmp_path: Path) -> None:
    one = agent(ScriptedModel("x"), session_store=FileSessionStore(tmp_path))
    one.run("go", session=one.new_session("s"))
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace("model m", "model forged"))

    with pytest.raises(EventLogTamperedError, match="event 2"):
        one.resume_session("s")


def test_with_a_seal_key_a_session_without_seals_is_refused() -> None:
    store = MemorySessionStore()
    one = agent(ScriptedModel("x"), session_store=store)
    one.run("go", session=one.new_session("s"))
    saved = store.load("s")
    assert saved is not None
    stripped = tuple(replace(entry, hash=None, previous_hash=None) for entry in saved.events)
    store.save(replace(saved, events=stripped, event_log_head=None))

    one.resume_session("s")
    with pytest.raises(EventLogTamperedError, match="unsealed"):
        agent(ScriptedModel("x"), session_store=store, seal_key=b"k").resume_session("s")


# --- delegates --------------------------------------------------------------------------------------------------------


def delegating(child: Agent, model: ScriptedModel, provider: FakeProvider | None, **options: Any) -> Agent:
    helper = DelegateTool(name="helper", description="Helps.", agent=child)
    return react_agent(model_client=model, model="m", tools=[helper], sandbox_provider=provider, **options)


def test_a_delegate_works_in_the_callers_sandbox_and_leaves_it_alive() -> None:
    provider, shop = FakeProvider({"ls": "a.txt"}), Workshop()
    child_model = ScriptedModel(call("bash", command="ls"), "found a.txt")
    child = agent(child_model, shop, permission_policy=allow_all())
    model = ScriptedModel(call("helper", task="look"), "thanks")
    parent = delegating(child, model, provider, permission_policy=allow_all())

    with parent.new_session() as session:
        result = parent.run("go", session=session)
        alive = [sandbox.alive for sandbox in provider.sandboxes.values()]

    assert (result.output, model.heard, child_model.heard) == ("thanks", ["found a.txt"], ["a.txt"])
    assert alive == [True]
    kinds = [str(entry.event.type) for entry in session.event_log.entries]
    assert "HANDOFF_START" in kinds
    assert "HANDOFF_END" in kinds
    assert kinds.count("SANDBOX_BOUND") == 1


def test_a_delegates_calls_pass_the_callers_policy_too() -> None:
    provider, shop = FakeProvider({"ls": "a.txt"}), Workshop()
    child_model = ScriptedModel(call("bash", command="ls"), "could not")
    child = agent(child_model, shop, permission_policy=allow_all())

    delegating(child, ScriptedModel(call("helper", task="x"), "ok"), provider,
               permission_policy=allow_tools(["helper"])).run("go")  # fmt: skip

    assert "not in the allow list" in child_model.heard[0]
    assert (shop.ran, provider.commands) == ([], [])


@pytest.mark.parametrize(("info", "environment"), [(INFO_HERE, "SANDBOX"), (FAKE_INFO, "REMOTE_SANDBOX")])
def test_the_policy_is_told_where_a_delegates_calls_run(info: ProviderInfo, environment: str) -> None:
    asked = []

    def look(request: AgentPermissionRequest) -> AgentPermissionDecision:
        asked.append((request.tool_name, str(request.environment), str(request.origin)))
        return AgentPermissionDecision.allow()

    child = agent(ScriptedModel(call("bash", command="ls"), "found"), permission_policy=allow_all())
    model = ScriptedModel(call("helper", task="look"), "thanks")
    provider = FakeProvider({"ls": "a.txt"}, info=info)

    delegating(child, model, provider, permission_policy=FunctionPolicy(look)).run("go")

    assert asked == [("helper", environment, "model"), ("bash", environment, "delegated")]


def test_a_delegate_does_not_follow_its_caller_to_another_environment() -> None:
    remote, here = FakeProvider({"ls": "a"}), FakeProvider({"ls": "a"}, info=INFO_HERE)
    session = AgentSession(sandbox_source=SandboxPlan(provider=remote))

    class Swapping(ScriptedModel):
        def complete(self, request: ModelRequest, **options: Any) -> ModelResponse:
            session.bind_sandbox(here.create_session())  # while the delegate thinks
            return super().complete(request, **options)

    child_model = Swapping(call("bash", command="ls"), "could not")
    child = agent(child_model, permission_policy=allow_all())

    delegating(child, ScriptedModel(call("helper", task="x"), "ok"), remote, permission_policy=allow_all()).run(
        "go", session=session
    )

    assert "not where it was" in child_model.heard[0]
    assert (remote.commands, here.commands) == ([], [])


def test_what_nobody_can_approve_now_is_denied_to_a_delegate() -> None:
    shop = Workshop()
    child_model = ScriptedModel(call("write_file", path="x"), "could not")
    child = agent(child_model, shop, permission_policy=require_approval_for_tools(["write_file"]))

    result = delegating(child, ScriptedModel(call("helper", task="x"), "ok"), None).run("go")

    assert (result.output, shop.ran) == ("ok", [])
    assert "not approved" in child_model.heard[0]


def test_a_delegate_asks_whom_its_caller_asks() -> None:
    shop, asked = Workshop(), []
    child = agent(ScriptedModel(call("write_file", path="x"), "ok"), shop)

    def approve(request: Any, decision: Any) -> bool:
        asked.append((request.tool_name, str(request.origin)))
        return True

    delegating(child, ScriptedModel(call("helper", task="x"), "ok"), None, approve=approve).run("go")

    assert (asked, shop.ran) == ([("write_file", "delegated")], ["write x"])


def test_a_delegate_knows_the_callers_secrets() -> None:
    @tool
    def leak() -> str:
        """Leak."""
        return "the key is hunter2-hunter2"

    child_model = ScriptedModel(call("leak"), "ok")
    child = react_agent(model_client=child_model, model="m", tools=[leak])
    parent = delegating(child, ScriptedModel(call("helper", task="x"), "ok"), None)

    parent.run("go", session=parent.new_session().protect("hunter2-hunter2"))

    assert child_model.heard == ["the key is [redacted]"]


def test_a_secret_that_only_the_delegate_knows_does_not_reach_its_caller() -> None:
    @tool(placement=ToolPlacement.SESSION)
    def deploy(context: ToolContext) -> str:
        """Deploy."""
        return context.execute(SandboxCommand(command="ls", environment={"API_TOKEN": CANARY})).stdout

    child = react_agent(
        model_client=ScriptedModel(call("deploy"), f"I used {CANARY}"),
        model="m",
        tools=[deploy],
        permission_policy=allow_all(),
    )
    model = ScriptedModel(call("helper", task="x"), "ok")

    delegating(child, model, FakeProvider({"ls": "a"}), permission_policy=allow_all()).run("go")

    assert model.heard == ["I used [redacted]"]


def test_a_delegate_that_was_stopped_says_so() -> None:
    child = agent(ScriptedModel(call("read_file", path="x")), limits=AgentLimits(max_steps=1))
    model = ScriptedModel(call("helper", task="x"), "ok")

    delegating(child, model, None).run("go")

    assert model.heard == ["[stopped before its task was done: max_steps]"]


# --- builder ----------------------------------------------------------------------------------------------------------


def test_the_builder_makes_the_same_agent_as_the_function() -> None:
    tools = ToolRegistry(Workshop().tools)
    given: dict[str, Any] = {
        "model_client": ScriptedModel("x"),
        "model": "m",
        "system_prompt": "s",
        "instructions": "i",
        "permission_policy": allow_all(),
        "approve": lambda request, decision: True,
        "sandbox_provider": FakeProvider(),
        "sandbox_spec": SandboxSpec(provider_id="fake", image="py"),
        "registry": SandboxRegistry(path=[]),
        "session_store": MemorySessionStore(),
        "limits": AgentLimits(max_steps=3),
        "tool_output_limit": 500,
        "seal_key": b"k",
    }
    builder = Agents.react().tools(*tools.tools).options(temperature=0).interceptors()
    for name, value in given.items():
        getattr(builder, name)(value)

    built, made = builder.build(), react_agent(tools=tools.tools, options={"temperature": 0}, **given)

    assert replace(built, runner=replace(built.runner, tools=made.runner.tools)) == made
    assert built.runner.tools.names == made.runner.tools.names


def test_the_builder_has_a_method_for_every_argument_of_the_function() -> None:
    methods = {name for name in vars(AgentBuilder) if not name.startswith("_")}

    assert methods - {"build"} == set(inspect.signature(react_agent).parameters)


def test_the_builder_takes_keywords_too() -> None:
    assert Agents.react(model_client=ScriptedModel("hi"), model="m").build().run("x").output == "hi"


@pytest.mark.parametrize("missing", ["model_client", "model"])
def test_the_builder_names_what_is_missing(missing: str) -> None:
    given: dict[str, Any] = {"model_client": ScriptedModel("x"), "model": "m"}
    del given[missing]

    with pytest.raises(AgentConfigError, match=f"{missing} is required"):
        Agents.react(**given).build()


def test_setting_no_policy_means_none() -> None:
    shop = Workshop()
    builder = Agents.react(model_client=ScriptedModel(call("write_file", path="x"), "ok"), model="m")

    builder.tools(*shop.tools).permission_policy(None).build().run("go")

    assert shop.ran == ["write x"]


def test_a_provider_that_runs_on_this_machine_is_no_remote_one() -> None:
    provider = FakeProvider({"ls": "a"}, info=INFO_HERE)
    seen: list[str] = []

    def approve(request: Any, decision: Any) -> bool:
        seen.append(str(request.environment))
        return True

    agent(ScriptedModel(call("bash", command="ls"), "ok"), sandbox_provider=provider, approve=approve).run("go")

    assert seen == ["SANDBOX"]


def test_what_the_session_protects_is_masked_in_an_error_that_quotes_it() -> None:
    class Quoting(ScriptedModel):
        def complete(self, request: Any, **options: Any) -> Any:
            raise ModelClientError(f"cannot use {CANARY}", hint=f"not {CANARY}")

    asking = agent(Quoting("x"))
    session = asking.new_session()
    session.protect(CANARY)

    with pytest.raises(ModelClientError, match=r"cannot use \[redacted\]") as caught:
        asking.run("go", session=session)

    assert_no_secret(everything_said(caught.value))
