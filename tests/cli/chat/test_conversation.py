"""A chat over plain text, with a scripted model and a provider that only plays."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ai4j_agent import AgentConfigError, AgentSession, FileSessionStore, MemorySessionStore, SandboxAttachment, ToolCall
from ai4j_agent.coding import CodingAgentBuilder
from ai4j_cli.application import Application
from ai4j_cli.chat.approval import Approver
from ai4j_cli.chat.console import PlainConsole
from ai4j_cli.chat.conversation import Chat
from ai4j_cli.interruption import Interrupted
from ai4j_sandbox import (
    SandboxAuthError,
    SandboxCleanupError,
    SandboxCommand,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxSpec,
    SandboxStatus,
)
from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox.testing.fake import FAKE_INFO
from support.command_line import registry_of
from support.scripted_model import ScriptedModel, Step, call
from support.secrets import CANARY, assert_no_secret

PWD = call("bash", action="exec", command="whoami")


def answers(command: SandboxCommand) -> FakeResult:
    """What runs in the sandbox."""
    return FakeResult(stdout="/work\n" if command.command == "pwd" else "inside\n")


Line = str | Callable[[], str]


class Typist(PlainConsole):
    """Types prepared lines; one that is a function is made when it is due."""

    def __init__(self, lines: Sequence[Line], target: io.StringIO) -> None:
        super().__init__(io.StringIO(), target)
        self._lines = list(lines)

    def read(self, place: str) -> str | None:
        if not self._lines:
            return None
        line = self._lines.pop(0)
        return line if isinstance(line, str) else line()

    def ask(self, question: str) -> str:
        self.write(f"{question}\n")
        return self.read("") or ""


class Scene:
    """A chat and everything around it.

    Attributes:
        provider: Its id is ``fake``.
        other: A second one, ``other``.
    """

    def __init__(self, tmp_path: Path, *steps: Step) -> None:
        self.model = ScriptedModel(*(steps or ("hello",)))
        self.provider = FakeProvider(answers)
        self.other = FakeProvider(answers, info=replace(FAKE_INFO, provider_id="other"))
        self.store = MemorySessionStore()
        self.directory = tmp_path
        self.application = Application(registry_of(self.provider, self.other))
        self.output = io.StringIO()

    def chat(self, *lines: Line, session: AgentSession | None = None, resume: str | None = None) -> str:
        """Type these lines, one chat; return what was shown. A function is called when its line is due."""
        console = Typist(lines, self.output)
        builder = CodingAgentBuilder(
            model_client=self.model, model="scripted", approve=Approver(console), session_store=self.store
        )
        agent = builder.workspace_root(self.directory).build()
        self.session = session or (agent.resume_session(resume) if resume else agent.new_session())
        start = self.output.tell()
        self.ended_well = Chat(self.application, agent, self.session, console).run()
        return self.output.getvalue()[start:]

    def existing(self) -> str:
        """Make a sandbox at the provider; return its id."""
        return self.provider.create_session(SandboxSpec()).session_id

    @property
    def said_to_model(self) -> str:
        return "\n".join(self.model.heard)


@pytest.fixture
def scene(tmp_path: Path) -> Callable[..., Scene]:
    return lambda *steps: Scene(tmp_path, *steps)


# --- status, enable, disable --------------------------------------------------------------------------------------


def test_status_enable_status_disable_is_told_and_done_once(scene):
    scene = scene()

    shown = scene.chat(
        "/sandbox", "/sandbox enable fake --workspace w --image i", "/status", "/sandbox disable", "/sandbox", "/quit"
    )

    (sandbox,) = scene.provider.sandboxes.values()
    assert shown.count("sandbox:\n- mode=direct-host") == 2
    assert "sandbox enabled:\n- mode=sandbox\n- runtime=live-session\n- provider=fake" in shown
    assert f"sandbox=fake/running/{sandbox.session_id[:32]}\n" in shown
    assert "sandbox disabled:\n- mode=direct-host" in shown
    assert f"- previousSession={sandbox.session_id}" in shown
    assert (sandbox.spec.workspace_id, sandbox.spec.image, sandbox.alive) == ("w", "i", False)


def test_what_was_not_said_is_left_to_the_provider(scene):
    scene = scene()

    scene.chat("/sandbox enable fake")

    (sandbox,) = scene.provider.sandboxes.values()
    assert (dict(sandbox.spec.config), sandbox.alive) == ({}, False)


def test_keep_on_close_keeps(scene):
    scene = scene()

    scene.chat("/sandbox enable fake --keep-on-close", "/sandbox disable")

    (sandbox,) = scene.provider.sandboxes.values()
    assert sandbox.alive


def test_attached_is_live_told_so_and_left_alive(scene):
    scene = scene()
    sandbox = scene.existing()

    shown = scene.chat(f"/SANDBOX ATTACH fake {sandbox} /w", "/sandbox disable")

    assert (
        f"sandbox attached:\n- mode=attached-live\n- runtime=live-session\n- provider=fake\n- session={sandbox}\n"
        "- workspace=/w\n- image=(provider default)\n- status=RUNNING\n- probe=answered in " in shown
    )
    assert scene.provider.sandboxes[sandbox].alive
    assert scene.ended_well


def test_commands_of_the_model_run_in_the_attached_sandbox(scene):
    scene = scene(PWD, "done")
    sandbox = scene.existing()

    shown = scene.chat(f"/sandbox attach fake {sandbox}", "who?", "y", "/sandbox status")

    assert '"executionEnvironment":"sandbox"' in scene.said_to_model
    assert "inside" in scene.said_to_model
    assert f"Run bash in fake/{sandbox}?" in shown
    assert f"- lastExecution=bash in fake/{sandbox}" in shown


def test_a_status_after_the_sandbox_died_tells_it_and_nothing_runs_from_then_on(scene):
    scene = scene(PWD, "done")
    sandbox = scene.existing()

    def status() -> str:
        scene.provider.destroy(sandbox)
        return "/sandbox status"

    shown = scene.chat(f"/sandbox attach fake {sandbox}", status, "/status", "who?", "y")

    assert (
        f"sandbox:\n- mode=detached\n- runtime=none\n- provider=fake\n- session={sandbox}\n"
        f"- workspace=(provider default)\n- status=LOST\n- probe=the fake sandbox {sandbox} was destroyed\n"
        "- shellExec=refused\n" in shown
    )
    assert f"sandbox=fake/detached/{sandbox[:32]}\n" in shown
    assert "has a sandbox that is not live" in shown
    assert scene.model.requests == []


def test_a_sandbox_that_does_not_answer_runs_nothing_until_a_look_finds_it_well(scene):
    scene = scene(PWD, "done")
    sandbox = scene.existing()
    unreachable = SandboxConnectionError("could not connect", hint="check FAKE_URL")

    def cut() -> str:
        scene.provider.script = lambda command: FakeResult(raises=unreachable)
        return "/sandbox status"

    def mended() -> str:
        scene.provider.script = answers
        return "/sandbox status"

    shown = scene.chat(f"/sandbox attach fake {sandbox}", cut, "who?", mended, "who?", "y")

    during, after = shown.split("sandbox:\n")[1:]
    assert "- mode=detached\n- runtime=none\n" in during
    assert "- status=UNREACHABLE\n- probe=could not connect\n- shellExec=refused\n" in during
    assert "hint: /sandbox status looks whether it is well again, /sandbox attach" in during
    assert "- mode=attached-live\n- runtime=live-session\n" in after
    assert len(scene.model.requests) == 2
    assert '"executionEnvironment":"sandbox"' in scene.said_to_model


def test_a_paused_sandbox_is_told_by_the_word_of_its_service(scene):
    scene = scene()
    sandbox = scene.existing()
    summary = scene.provider._summary

    def pause() -> str:
        scene.provider.script = lambda command: FakeResult(raises=SandboxConflictError("the sandbox is paused"))
        scene.provider._summary = lambda item: replace(summary(item), status=SandboxStatus.CREATED, state="paused")
        return "/sandbox status"

    shown = scene.chat(f"/sandbox attach fake {sandbox}", pause)

    assert "- mode=detached\n- runtime=none\n" in shown
    assert "- status=PAUSED\n- probe=the sandbox is paused\n- shellExec=refused\n" in shown


# --- when it goes wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["/sandbox attach fake nope", "/sandbox attach nobody x", "/sandbox enable fake --config nonsense=1"]
)
def test_a_failing_attach_keeps_the_runtime_and_never_falls_back(scene, line):
    """Case O04."""
    scene = scene(PWD, "done")
    sandbox = scene.existing()

    shown = scene.chat(f"/sandbox attach fake {sandbox}", line, "who?", "y")

    assert " failed: " in shown
    assert f"unchanged: sandbox=fake/running/{sandbox[:32]}" in shown
    assert '"executionEnvironment":"sandbox"' in scene.said_to_model


def nowhere(command: SandboxCommand) -> FakeResult:
    """There is no directory ``/nowhere``."""
    if command.working_directory == "/nowhere":
        return FakeResult(raises=SandboxNotFoundError("working directory '/nowhere' does not exist"))
    return answers(command)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "/sandbox attach other {} /nowhere",
            "workspace '/nowhere': working directory '/nowhere' does not exist\nhint",
        ),
        ("/sandbox attach other {} --workspace /nowhere", "workspace '/nowhere': working directory"),
        ("/sandbox enable other --workspace /nowhere", "workspace '/nowhere': working directory"),
        ("/sandbox attach other {} /dead", "the service is down\n"),
        ("/sandbox attach other {} /mute", "it runs no commands: `true` ended with exit code 127\n"),
    ],
)
def test_a_sandbox_that_cannot_be_used_does_not_replace_the_one_in_use(scene, line, told):
    """Case O04."""
    scene = scene(PWD, "done")
    kept, useless = scene.existing(), scene.other.create_session(SandboxSpec()).session_id
    broken = {
        "/dead": FakeResult(raises=SandboxConnectionError("the service is down")),
        "/mute": FakeResult(exit_code=127),
    }
    scene.other.script = lambda command: broken.get(command.working_directory or "") or nowhere(command)

    shown = scene.chat(f"/sandbox attach fake {kept}", line.format(useless), "who?", "y", "/sandbox status")

    action = line.split()[1]
    assert f"Sandbox {action} failed: {told}" in shown
    assert f"unchanged: sandbox=fake/running/{kept[:32]}" in shown
    assert f"- lastExecution=bash in fake/{kept}" in shown
    assert "whoami" not in [item.command for item in scene.other.commands]
    left_alive = {item.session_id for item in scene.other.sandboxes.values() if item.alive}
    assert left_alive == {useless}  # what was attached stays, what was made for it is gone


def test_a_second_handle_that_cannot_be_used_takes_the_sandbox_from_nobody(scene):
    scene = scene(PWD, "done")
    scene.provider.script = nowhere

    def again() -> str:
        (sandbox,) = scene.provider.sandboxes.values()
        return f"/sandbox attach fake {sandbox.session_id} /nowhere"

    shown = scene.chat("/sandbox enable fake", again, "who?", "y")

    assert "Sandbox attach failed: workspace '/nowhere'" in shown
    assert "inside" in scene.said_to_model


def test_a_failing_attach_does_not_make_a_lost_sandbox_live_again(scene):
    scene = scene(PWD, "done")
    sandbox = scene.existing()

    def status() -> str:
        scene.provider.destroy(sandbox)
        return "/sandbox status"

    shown = scene.chat(f"/sandbox attach fake {sandbox}", status, "/sandbox attach other nope", "who?", "y")

    assert f"unchanged: sandbox=fake/detached/{sandbox[:32]}" in shown
    assert scene.model.requests == []


def test_ctrl_c_while_a_sandbox_is_looked_at_leaves_the_one_in_use(scene):
    scene = scene()
    kept, slow = scene.existing(), scene.other.create_session(SandboxSpec()).session_id

    def interrupted(command: SandboxCommand) -> FakeResult:
        raise KeyboardInterrupt

    scene.other.script = interrupted

    shown = scene.chat(f"/sandbox attach fake {kept}", f"/sandbox attach other {slow}", "/status")

    assert "interrupted\n" in shown
    assert f"sandbox=fake/running/{kept[:32]}" in shown


def test_an_option_that_means_nothing_to_a_provider_is_refused_by_its_own_name(scene):
    scene = scene()

    shown = scene.chat("/sandbox enable fake --create-if-missing")

    assert (
        "Sandbox enable failed: provider 'fake' takes no --create-if-missing or --no-create-if-missing\n"
        "hint: leave it out\n" in shown
    )


def test_a_failing_attach_names_cause_and_knob(scene):
    scene = scene()

    def refuse(session_id, spec=None):
        raise SandboxAuthError("the service does not accept the key", hint="set FAKE_API_KEY")

    scene.provider.connect = refuse

    shown = scene.chat("/sandbox attach fake x")

    assert "Sandbox attach failed: the service does not accept the key\nhint: set FAKE_API_KEY\n" in shown


def test_a_provider_that_raises_anything_is_told_by_kind_and_the_chat_goes_on(scene):
    scene = scene()

    def explode(session_id, spec=None):
        raise ValueError(f"bad header {CANARY}")

    scene.provider.connect = explode

    shown = scene.chat("/sandbox attach fake x", "hi")

    assert "Sandbox attach failed: provider 'fake' failed with ValueError" in shown
    assert "hello" in shown
    assert_no_secret(shown)


@pytest.mark.parametrize("option", [f"--api-key {CANARY}", f"--api-key={CANARY}", f"--config apiKey={CANARY}", CANARY])
def test_a_credential_is_refused_and_repeated_nowhere(scene, option):
    scene = scene()

    shown = scene.chat(f"/sandbox enable fake {option}", "hi")

    assert scene.provider.sandboxes == {}
    assert_no_secret(shown, scene.session.snapshot().to_json())


def test_what_cannot_be_bound_is_closed_again_and_the_runtime_before_stays(scene):
    class Choosy(AgentSession):
        def bind_sandbox(self, sandbox):
            if sandbox.provider_id == "other":
                raise AgentConfigError("it cannot be bound")
            return super().bind_sandbox(sandbox)

    scene = scene()
    sandbox = scene.existing()

    shown = scene.chat(f"/sandbox attach fake {sandbox}", "/sandbox enable other", session=Choosy())

    (other,) = scene.other.sandboxes.values()
    assert "Sandbox enable failed: it cannot be bound\nunchanged: sandbox=fake/running/" in shown
    assert (other.alive, scene.provider.sandboxes[sandbox].alive) == (False, True)


def test_a_session_that_let_go_before_binding_failed_gets_its_sandbox_back(scene):
    class Forgetful(AgentSession):
        def bind_sandbox(self, sandbox):
            if sandbox.provider_id == "other":
                self.clear_sandbox()
                raise AgentConfigError("it cannot be bound")
            return super().bind_sandbox(sandbox)

    scene = scene()
    sandbox = scene.existing()
    session = Forgetful()

    scene.chat(
        f"/sandbox attach fake {sandbox}",
        "/sandbox enable other",
        lambda: f"/status {session.live_sandbox.session_id}",
        session=session,
    )

    assert f"sandbox=fake/running/{sandbox[:32]}\n" in scene.output.getvalue().partition("cannot be bound")[2]


def test_ctrl_c_while_one_sandbox_replaces_another_leaves_nothing_halfway(scene):
    class Interrupting(AgentSession):
        def bind_sandbox(self, sandbox):
            signal.raise_signal(signal.SIGINT)
            return super().bind_sandbox(sandbox)

    scene = scene()

    shown = scene.chat(
        "/sandbox enable fake", "/sandbox enable other --keep-on-close", "/status", session=Interrupting()
    )

    (first,), (second,) = scene.provider.sandboxes.values(), scene.other.sandboxes.values()
    assert "interrupted" in shown
    assert f"sandbox=other/running/{second.session_id[:32]}" in shown
    assert (first.alive, second.alive) == (False, True)


def test_a_disable_that_cannot_switch_leaves_the_sandbox_in_use(scene):
    class Clinging(AgentSession):
        def clear_sandbox(self):
            raise SandboxCleanupError("the session cannot let go")

    scene = scene()
    sandbox = scene.existing()

    shown = scene.chat(f"/sandbox attach fake {sandbox}", "/sandbox disable", "/status", session=Clinging())

    assert "Sandbox disable failed; it is still active: the session cannot let go" in shown
    assert f"sandbox=fake/running/{sandbox[:32]}" in shown.partition("still active")[2]


def test_a_sandbox_that_cannot_be_closed_is_told_and_tried_again(scene):
    scene = scene()
    failures = iter([SandboxException("the service is down")])

    class Sticky(type(scene.provider.create_session(SandboxSpec()))):
        def _destroy(self) -> None:
            for failure in failures:
                raise failure
            super()._destroy()

    create = scene.provider._create

    def sticky(spec):
        session = create(spec)
        session.__class__ = Sticky
        return session

    scene.provider._create = sticky
    before = set(scene.provider.sandboxes)

    shown = scene.chat(
        "/sandbox enable fake", "/sandbox disable", "/sandbox status", "/sandbox disable", "/sandbox status"
    )

    (sandbox,) = set(scene.provider.sandboxes) - before
    first, second = shown.split("sandbox disabled:")[1:]
    assert f"- closeWarning=sandbox fake/{sandbox} may still exist: " in first
    assert "- closeWarning=a sandbox could not be closed; /sandbox disable tries again" in first
    assert "closeWarning" not in second
    assert not scene.provider.sandboxes[sandbox].alive


# --- one after the other ------------------------------------------------------------------------------------------


def test_the_sandbox_before_is_closed_once_the_next_is_bound(scene):
    scene = scene()

    scene.chat("/sandbox enable fake", "/sandbox enable other --keep-on-close")

    (first,), (second,) = scene.provider.sandboxes.values(), scene.other.sandboxes.values()
    assert (first.alive, second.alive) == (False, True)


def test_attaching_again_to_the_same_sandbox_takes_it_from_nobody(scene):
    scene = scene()

    def attach_again() -> str:
        (sandbox,) = scene.provider.sandboxes.values()
        return f"/sandbox attach fake {sandbox.session_id}"

    def status() -> str:
        (sandbox,) = scene.provider.sandboxes.values()
        assert sandbox.alive
        return "/sandbox status"

    shown = scene.chat("/sandbox enable fake", attach_again, status)

    (sandbox,) = scene.provider.sandboxes.values()
    assert "- mode=attached-live" in shown
    assert "closeWarning" not in shown
    assert not sandbox.alive  # the chat made it, so it is gone in the end


# --- the end, and resuming ----------------------------------------------------------------------------------------


def test_a_session_that_had_a_sandbox_runs_nothing_after_resuming_until_told(scene):
    scene = scene("hello")
    sandbox = scene.existing()
    scene.chat(f"/sandbox attach fake {sandbox}", "hi")
    session_id = scene.session.session_id

    shown = scene.chat("go on", resume=session_id)

    assert scene.session.sandbox_attachment is SandboxAttachment.DETACHED
    assert "sandbox:\n- mode=detached\n- runtime=none" in shown
    assert "- shellExec=refused" in shown
    assert "hint: /sandbox attach PROVIDER ID goes on in a sandbox, /sandbox disable on this machine" in shown
    assert len(scene.model.requests) == 1


@pytest.mark.parametrize("line", ["/sandbox attach fake {}", "/sandbox disable"])
def test_a_resumed_session_goes_on_once_told(scene, line):
    scene = scene("hello")
    sandbox = scene.existing()
    scene.chat(f"/sandbox attach fake {sandbox}", "hi")

    scene.chat(line.format(sandbox), "go on", resume=scene.session.session_id)

    assert len(scene.model.requests) == 2


def test_the_session_remembers_its_sandbox_as_closed(scene):
    scene = scene("hello")
    sandbox = scene.existing()

    scene.chat(f"/sandbox attach fake {sandbox}", "hi", "/quit", "not read")

    binding = scene.store.load(scene.session.session_id).sandbox_binding
    assert (binding.sandbox_session_id, binding.status) == (sandbox, SandboxStatus.CLOSED)
    assert len(scene.model.requests) == 1


def test_a_chat_in_which_nothing_was_said_is_not_saved(scene):
    scene = scene()

    scene.chat("/help", "/quit")

    assert scene.store.list_session_ids() == []


def test_a_store_that_fails_is_told_and_shows_in_the_outcome(scene, tmp_path):
    scene = scene("hello")
    (tmp_path / "in-the-way").write_text("")
    scene.store = FileSessionStore(tmp_path / "in-the-way")

    shown = scene.chat("hi")

    assert "could not write session file" in shown
    assert not scene.ended_well


# --- talking ------------------------------------------------------------------------------------------------------


def test_answers_are_shown_and_errors_do_not_end_the_chat(scene):
    scene = scene("first answer", AgentConfigError("no model", hint="name one"), "third answer")

    shown = scene.chat("1", "2", "3")

    assert "first answer\nerror: no model\nhint: name one\nthird answer\n" in shown


@pytest.mark.parametrize(("answer", "runs"), [("y", 1), ("yes", 1), ("n", 0), ("", 0), ("a", 1), ("nonsense", 0)])
def test_a_command_runs_only_when_approved(scene, answer, runs):
    scene = scene(PWD, "done")
    sandbox = scene.existing()

    scene.chat(f"/sandbox attach fake {sandbox}", "who?", answer)

    assert [item.command for item in scene.provider.commands].count("whoami") == runs


def test_a_tool_that_fails_and_one_that_does_not_exist_are_shown(scene):
    scene = scene([call("fly", to="moon"), call("read_file", "call_2", path="/nowhere")], "done")
    sandbox = scene.existing()

    shown = scene.chat(f"/sandbox attach fake {sandbox}", "go")

    assert (
        f"[fly failed: there is no such tool]\n[read_file in fake/{sandbox}]\n"
        "[read_file failed: path escapes the workspace root: '/nowhere' (give a path inside of it)]\ndone\n"
    ) in shown


def test_a_tool_that_was_not_allowed_is_shown(scene):
    scene = scene(PWD, "done")

    assert "[bash failed: not allowed]\ndone\n" in scene.chat("who?", "n")


def test_line_breaks_in_what_is_asked_about_cannot_pose_as_another_question(scene):
    raw = '{"action": "exec",\n"command": "whoami"}'
    scene = scene(ToolCall(name="bash", arguments=raw, call_id="call_1"), "done")
    sandbox = scene.existing()

    shown = scene.chat(f"/sandbox attach fake {sandbox}", "who?", "n")

    assert '? {"action": "exec",\\n"command": "whoami"}\n[y]es, [a]lways, [N]o:\n' in shown


def test_always_counts_for_the_tool_and_the_kind_of_place(scene):
    calls: list[Step] = [PWD, "done", ToolCall(name="bash", arguments=PWD.arguments, call_id="call_2"), "done"]
    scene = scene(*calls)
    sandbox = scene.existing()

    shown = scene.chat(f"/sandbox attach fake {sandbox}", "1", "a", "2")

    assert shown.count("Run bash in") == 1
    assert [item.command for item in scene.provider.commands].count("whoami") == 2


def test_control_characters_of_a_sandbox_reach_no_terminal(scene):
    """Case A12."""
    scene = scene()
    scene.provider.script = lambda command: FakeResult(stdout="\x1b]0;owned\x07\x1b[31mred")
    sandbox = scene.existing()

    shown = scene.chat(
        f"/sandbox attach fake {sandbox}", "/sandbox artifacts *.txt", "/sandbox logs 100", "/nope\x1b[31m"
    )

    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "Unknown command /nope\\x1b[31m; /help" in shown


def test_logs_show_what_ran_and_not_our_own_looks(scene):
    scene = scene(PWD, "done")
    sandbox = scene.existing()

    shown = scene.chat(f"/sandbox attach fake {sandbox}", "/sandbox logs", "who?", "y", "/sandbox logs 50")

    before, after = shown.split("sandbox logs:")[1:]
    assert "(nothing happened yet)" in before
    assert "COMMAND_OUTPUT stdout: inside" in after


def test_artifacts_are_looked_for(scene):
    scene = scene()
    sandbox = scene.existing()
    scene.provider.sandboxes[sandbox].files.write("/out/a.xml", "x")

    shown = scene.chat(
        "/sandbox artifacts", f"/sandbox attach fake {sandbox}", "/sandbox artifacts", "/sandbox artifacts /out/*"
    )

    assert "no sandbox is active" in shown
    assert "- none; /sandbox artifacts GLOB looks for files" in shown
    assert "- /out/a.xml (1 bytes, sha256 " in shown
    assert f"ai4j sandbox cp fake/{sandbox}:PATH ." in shown


def test_ctrl_c_at_the_prompt_only_abandons_the_line(scene):
    scene = scene("hello")

    def abandon() -> str:
        raise KeyboardInterrupt

    shown = scene.chat(abandon, "hi")

    assert "interrupted\nhello\n" in shown


def test_a_stop_signal_ends_the_chat_and_closes_what_is_open(scene):
    scene = scene("hello")

    def stop() -> str:
        raise Interrupted(signal.SIGTERM)

    with pytest.raises(Interrupted):
        scene.chat("/sandbox enable fake", "hi", stop, "not read")

    (sandbox,) = scene.provider.sandboxes.values()
    assert not sandbox.alive
    assert scene.store.list_session_ids() == [scene.session.session_id]
