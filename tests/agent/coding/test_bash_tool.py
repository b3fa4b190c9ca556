"""The `bash` tool: section H 90 to 107, cases A10, A11, B13, C16, F01 to F03, F14, H05."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ai4j_agent import AgentSession
from ai4j_agent.coding import (
    CodingLimits,
    CodingToolset,
    LocalWorkspace,
    PathRules,
    SandboxWorkspace,
    Workspace,
)
from ai4j_agent.coding.background import CommandLog
from ai4j_agent.coding.bash_tool import command_facts
from ai4j_sandbox import OutputStream, SandboxCommand, SandboxException, SandboxSpec
from ai4j_sandbox.testing import FakeProvider, FakeResult
from support.coding_bench import Bench
from support.waiting import eventually


def execute(bench: Bench, command: str, **arguments: Any) -> dict[str, Any]:
    return bench.call("bash", action="exec", command=command, **arguments)  # type: ignore[no-any-return]


def command_facts_of(bench: Bench, command: SandboxCommand) -> dict[str, Any]:
    return command_facts(bench.workbench, command, bench.workbench.execute(command))


def start(bench: Bench, command: str, **arguments: Any) -> str:
    return str(bench.call("bash", action="start", command=command, **arguments)["processId"])


def logs(bench: Bench, process_id: str, **arguments: Any) -> dict[str, Any]:
    return bench.call("bash", action="logs", processId=process_id, **arguments)  # type: ignore[no-any-return]


def status(bench: Bench, process_id: str) -> str:
    return str(bench.call("bash", action="status", processId=process_id)["status"])


# --- in the foreground ----------------------------------------


def test_an_action_is_not_needed_to_run_a_command(bench: Bench) -> None:
    agent_tools = {tool.name: tool for tool in CodingToolset().tools()}

    assert "action" not in agent_tools["bash"].parameters["required"]
    assert bench.call("bash", command="echo out")["stdout"] == "out\n"
    assert bench.call("bash", action="", command="echo out")["stdout"] == "out\n"


def test_a_result_has_every_fact(bench: Bench) -> None:
    facts = execute(bench, "echo out; echo err >&2; exit 3")

    duration = facts.pop("durationMillis")
    assert duration >= 0
    assert facts == {
        "artifacts": [],
        "canceled": False,
        "command": "echo out; echo err >&2; exit 3",
        "exitCode": 3,
        "stderr": "err\n",
        "stdout": "out\n",
        "timedOut": False,
        "truncated": False,
        "workingDirectory": bench.workspace.root,
        **bench.workspace.place,
    }
    assert list(facts) == sorted(facts)


@pytest.mark.parametrize(
    ("command", "stdin", "stdout", "exit_code"),
    [
        ("cat # copy it", "x", "x", 0),
        ("cat <<'EOF'\nhi\nEOF", "x", "hi\n", 0),
        ("printf foo\\&", None, "foo&", 0),
        ("cd /tmp && exit 4", "x", "", 4),
        ("exec echo hi", "x", "hi\n", 0),
        ("printf '\\n\\nfoo\\r\\nbar\\n\\n'", None, "\n\nfoo\r\nbar\n\n", 0),
        ("echo a\\ ", None, "a \n", 0),
        ("cat", None, "", 0),
        ("no-such-program-anywhere", None, "", 127),
    ],
)
def test_a_line_reaches_the_shell_as_it_is(
    bench: Bench, command: str, stdin: str | None, stdout: str, exit_code: int
) -> None:
    facts = execute(bench, command, input=stdin)

    assert (facts["stdout"], facts["exitCode"]) == (stdout, exit_code)


def test_the_environment_is_added_and_its_secrets_are_masked(bench: Bench) -> None:
    facts = execute(bench, 'echo "$COLOUR"', environment={"COLOUR": "red", "API_TOKEN": "canary-4711"})

    assert facts["stdout"] == "red\n"
    assert bench.session.scrubber.text("canary-4711") == "[redacted]"


def test_a_timeout_keeps_the_output_and_says_what_to_do(bench: Bench) -> None:
    facts = execute(bench, "echo begun; sleep 30 | cat", timeoutMs=200)

    assert (facts["timedOut"], facts["stdout"], facts["exitCode"] == 0) == (True, "begun\n", False)
    assert "bash action=start" in facts["hint"]
    assert facts["durationMillis"] < 5000
    assert execute(bench, "echo ok")["stdout"] == "ok\n"


def test_a_grandchild_that_holds_the_output_open_delays_nobody(bench: Bench) -> None:
    started = time.monotonic()

    facts = execute(bench, "(sleep 20 &) ; echo started")

    assert (facts["stdout"], facts["exitCode"]) == ("started\n", 0)
    assert time.monotonic() - started < 5


def test_death_by_signal_is_told(bench: Bench) -> None:
    facts = execute(bench, "kill -9 $$")

    assert (facts["exitCode"], facts.get("signal")) == (137, "SIGKILL")


def test_much_output_is_cut_in_the_middle(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(limits=CodingLimits(output_bytes=4096))

    facts = execute(bench, "seq 100000")

    assert facts["truncated"]
    assert facts["stdout"].startswith("1\n2\n")
    assert facts["stdout"].endswith("99999\n100000\n")
    assert "[... truncated" in facts["stdout"]


def test_artifacts_that_could_not_be_collected_are_told_beside_the_exit_code() -> None:
    provider = FakeProvider(
        lambda command: FakeResult() if command.command == "make" else FakeResult(stderr="find: broken", exit_code=9),
        shell_files=True,
    )
    bench = Bench(SandboxWorkspace(provider.create_session(SandboxSpec()), "/work"), rules=PathRules())

    facts = command_facts_of(bench, SandboxCommand(command="make", artifacts=("reports/*",)))

    assert (facts["exitCode"], facts["artifacts"]) == (0, [])
    assert "find: broken" in facts["artifactsError"]


def test_artifacts_are_described(bench: Bench) -> None:
    facts = execute(bench, "mkdir reports; printf 42 > reports/answer.txt", artifacts=["reports/*"])

    assert facts["artifacts"] == [
        {
            "name": "answer.txt",
            "path": bench.at("reports/answer.txt"),
            "mimeType": "text/plain",
            "sizeBytes": 2,
            "sha256": "73475cb40a568e8da8a045ced110137e159f890ac4da883b6b17dc651b3a8049",
        }
    ]


def test_two_commands_run_side_by_side(bench: Bench) -> None:
    results: list[str] = []
    meeting = "for i in $(seq 200); do [ -e {other} ] && echo met && exit; sleep 0.05; done"
    lines = [f"touch a; {meeting.format(other='b')}", f"touch b; {meeting.format(other='a')}"]
    threads = [
        threading.Thread(target=lambda line=line: results.append(execute(bench, line)["stdout"])) for line in lines
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert results == ["met\n", "met\n"]


def test_progress_is_shown_as_it_stood_at_the_end(bench: Bench) -> None:
    assert execute(bench, "printf '10%%\\r50%%\\r100%%\\ndone\\n'")["stdout"] == "100%\ndone\n"


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"action": "exec"}, "needs command"),
        ({"action": "exec", "command": " "}, "needs command"),
        ({"action": "start"}, "needs command"),
        ({"action": "status"}, "needs processId"),
        ({"action": "stop", "processId": "proc_unknown"}, "no background process 'proc_unknown'"),
        ({"action": "dance"}, "unknown action 'dance'; there are: exec, start"),
        ({"action": "exec", "command": "ls", "timeoutMs": "5"}, 'timeoutMs must be of type integer, got "5"'),
        ({"action": "exec", "command": "ls", "cwd": 5}, "cwd must be of type string"),
        ({"action": "exec", "command": "ls", "artifacts": [1]}, "artifacts must hold only texts"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused(bench: Bench, arguments: dict[str, Any], refusal: str) -> None:
    assert refusal in bench.refusal("bash", **arguments)


def test_the_action_may_be_blank(bench: Bench) -> None:
    assert bench.call("bash", action="", command="echo hi")["stdout"] == "hi\n"


# --- in the background ----------------------------------------


def test_a_background_command_is_followed_to_its_end(bench: Bench) -> None:
    process_id = start(bench, "echo out; echo err >&2; exit 5", cwd=".")

    assert process_id.startswith("proc_")
    assert eventually(lambda: status(bench, process_id) == "EXITED")
    assert sorted(logs(bench, process_id)["content"].splitlines()) == ["[stderr] err", "[stdout] out"]
    info = bench.call("bash", action="list")["processes"][0]
    assert (info["exitCode"], info["restored"], info["workingDirectory"]) == (5, False, bench.workspace.root)


def test_a_background_command_reads_what_is_written_to_it(bench: Bench) -> None:
    process_id = start(bench, 'read name; echo "hello $name"; sleep 30')

    written = bench.call("bash", action="write", processId=process_id, input="wörld\n")

    assert (written["bytesWritten"], written["process"]["status"]) == (7, "RUNNING")
    assert eventually(lambda: "hello wörld" in logs(bench, process_id)["content"])


def test_logs_go_on_where_they_ended(bench: Bench) -> None:
    process_id = start(bench, "echo one; read next; echo two")
    assert eventually(lambda: "one" in logs(bench, process_id)["content"])
    first = logs(bench, process_id)

    bench.call("bash", action="write", processId=process_id, input="\n")

    assert eventually(lambda: logs(bench, process_id, offset=first["nextOffset"])["content"] == "[stdout] two\n")
    assert logs(bench, process_id, limit=4)["content"] == "[std"


def test_stopping_ends_the_command_and_its_children(bench: Bench) -> None:
    process_id = start(bench, "sleep 60 & echo $! > child; wait")
    assert eventually(lambda: bench.exists("child") and bench.bytes("child").endswith(b"\n"))

    info = bench.call("bash", action="stop", processId=process_id)

    assert info["status"] == "STOPPED"
    child = bench.bytes("child").decode().strip()
    assert eventually(lambda: "Z" in bench.sh(f"cat /proc/{child}/stat 2>/dev/null | cut -d' ' -f3 || true; echo Z"))
    assert bench.call("bash", action="stop", processId=process_id)["status"] == "STOPPED"


def test_closing_the_session_stops_what_runs_and_nothing_starts_afterwards(workspace: Workspace) -> None:
    session = AgentSession()
    bench = Bench(workspace, session=session)
    session.on_close(bench.background.close)
    process_id = start(bench, "sleep 60")

    session.close()

    assert bench.background.list()[0]["status"] == "STOPPED"
    assert process_id == bench.background.list()[0]["processId"]
    assert bench.refusal("bash", action="start", command="true") == "the session is closed"


def test_a_restored_session_knows_its_commands_as_metadata(workspace: Workspace) -> None:
    before = AgentSession()
    first = Bench(workspace, session=before)
    process_id = start(first, "exit 0")
    assert eventually(lambda: status(first, process_id) == "EXITED")

    bench = Bench(workspace, session=AgentSession().restore(before.snapshot()))

    info = bench.call("bash", action="list")["processes"][0]
    assert (info["processId"], info["status"], info["restored"], info["controlAvailable"]) == (
        process_id,
        "EXITED",
        True,
        False,
    )
    assert "metadata only" in bench.refusal("bash", action="stop", processId=process_id)
    assert "metadata only" in bench.refusal("bash", action="write", processId=process_id, input="x")


def test_a_sandbox_gives_a_restored_session_its_commands_back(shared_sandbox: Any) -> None:
    workspace = SandboxWorkspace(shared_sandbox)
    before = AgentSession()
    first = Bench(workspace, session=before)
    process_id = start(first, "while :; do echo tick; sleep 0.05; done")
    snapshot = before.snapshot()
    shared_sandbox._processes[process_id].detach()  # as if this program had ended

    bench = Bench(workspace, session=AgentSession().restore(snapshot))

    assert eventually(lambda: "tick" in logs(bench, process_id)["content"])
    assert bench.call("bash", action="stop", processId=process_id)["status"] == "STOPPED"


# --- what needs a sandbox that plays a part ----------------------------------------


def fake_bench(result: FakeResult, **limits: int) -> tuple[Bench, FakeProvider]:
    provider = FakeProvider({"make": result})
    session = provider.create_session(SandboxSpec(workspace_id="/workspace/project"))
    return Bench(SandboxWorkspace(session), limits=CodingLimits(**limits)), provider


def test_exec_is_one_command_in_the_workspace_of_the_spec() -> None:
    bench, provider = fake_bench(FakeResult(stdout="ok\n"), command_timeout_millis=1234)

    facts = execute(bench, "make")

    assert (facts["executionEnvironment"], facts["workingDirectory"]) == ("sandbox", "/workspace/project")
    assert facts["sandboxProviderId"] == "fake"
    sent = provider.commands
    assert [(item.command, item.working_directory, item.timeout_millis) for item in sent] == [
        ("make", "/workspace/project", 1234)
    ]
    assert dict(sent[0].metadata) == {"tool": "bash", "routing": "ai4j-coding"}


@pytest.mark.parametrize("millis", [45_000, 999, 1])
def test_the_timeout_of_a_call_is_sent_as_it_is(millis: int) -> None:
    bench, provider = fake_bench(FakeResult())

    execute(bench, "make", timeoutMs=millis)

    assert provider.commands[0].timeout_millis == millis


def test_an_unknown_exit_is_not_success() -> None:
    bench, _ = fake_bench(FakeResult(stdout="built\n", exit_code=None))

    facts = execute(bench, "make")

    assert facts["exitCode"] is None
    assert "not known" in facts["hint"]


def test_a_service_that_merges_its_streams_still_tells_why_it_failed() -> None:
    bench, _ = fake_bench(FakeResult(stdout="ls: cannot access 'q'\n", exit_code=2))

    facts = execute(bench, "make")

    assert (facts["exitCode"], facts["stdout"], facts["stderr"]) == (2, "ls: cannot access 'q'\n", "")


def test_a_command_that_cannot_be_started_is_not_listed() -> None:
    bench, _ = fake_bench(FakeResult(raises=SandboxException("no room")))

    with pytest.raises(SandboxException, match="no room"):
        start(bench, "make")

    assert bench.background.list() == []


def test_a_background_command_whose_end_never_arrives_is_told_as_lost() -> None:
    bench, _ = fake_bench(FakeResult(stdout="begun", breaks=True))

    process_id = start(bench, "make")

    assert eventually(lambda: status(bench, process_id) == "LOST")
    assert "without an exit" in bench.background.list()[0]["error"]
    assert logs(bench, process_id)["content"] == "[stdout] begun"


def test_a_restored_command_that_nothing_can_attach_to_is_unknown() -> None:
    bench, _ = fake_bench(FakeResult(blocks=True))
    process_id = start(bench, "make")
    snapshot = bench.session.snapshot()
    bench.background.close()

    restored = Bench(bench.workspace, session=AgentSession().restore(snapshot))

    assert status(restored, process_id) == "UNKNOWN"
    assert "metadata only" in restored.refusal("bash", action="stop", processId=process_id)


def test_the_oldest_output_of_a_background_command_is_dropped() -> None:
    log = CommandLog(limit=1024)
    for number in range(500):
        log.feed(OutputStream.STDOUT, b"line %d\n" % number)
    log.feed(OutputStream.STDERR, "é".encode()[:1])
    log.feed(OutputStream.STDERR, "é".encode()[1:])

    page = log.page(0, 10_000)

    assert (page.truncated, len(page.content), page.content.endswith("line 499\n[stderr] é")) == (True, 1024, True)
    assert log.page(page.next_offset, 10).content == ""


# --- what only the host has ----------------------------------------


def test_commands_on_the_host_do_not_see_the_keys_of_this_program(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-host-key")
    monkeypatch.setenv("PLAIN_SETTING", "plain")
    bench = Bench(LocalWorkspace(tmp_path))

    seen = execute(bench, "env")["stdout"]

    assert "PLAIN_SETTING=plain" in seen
    assert "canary-host-key" not in seen


def test_a_descendant_that_goes_on_writing_does_not_keep_a_command_of_the_host_alive(tmp_path: Any) -> None:
    workspace = LocalWorkspace(tmp_path)

    with workspace.start(SandboxCommand(command="yes & echo $! > pid; exit 3")) as process:
        result = process.wait()

    assert result.exit_code == 3
    bench = Bench(workspace)
    bench.sh("kill $(cat pid) 2>/dev/null || true")
