from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from ai4j_sandbox.capability import NATIVE, Capabilities, Capability
from ai4j_sandbox.errors import (
    SandboxAdmissionError,
    SandboxCapacityError,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
    SandboxSessionLostError,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.files import FileInfo, FileKind
from ai4j_sandbox.model import (
    OutputStream,
    SandboxCommand,
    SandboxEventType,
    SandboxSpec,
    SandboxStatus,
    SandboxSummary,
    TerminalSize,
)
from ai4j_sandbox.process import OutputChunk
from ai4j_sandbox.testing import FakeProvider, FakeResult, FakeSession, MemoryFiles
from ai4j_sandbox.testing.fake import FAKE_INFO


def session_of(result: FakeResult) -> FakeSession:
    """Return a session in which every command does the same."""
    session = FakeProvider(lambda command: result).create_session()
    assert isinstance(session, FakeSession)
    return session


def test_fake_needs_no_pytest() -> None:
    program = "import sys, ai4j_sandbox.testing; sys.exit('pytest' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == 0


# --- the acceptance list of the Java original, 1 to 5 -------------------------------------------------------------


def test_session_runs_for_the_spec_it_was_made_from() -> None:
    spec = SandboxSpec(provider_id="fake", profile="default", image="java8", workspace_id="task-123")
    provider = FakeProvider()

    session = provider.create_session(spec)

    assert provider.supports(spec)
    assert (session.provider_id, session.status) == ("fake", SandboxStatus.RUNNING)
    assert (session.spec.workspace_id, session.spec.image) == ("task-123", "java8")


def test_command_reaches_the_provider_with_all_its_fields_and_the_result_comes_back() -> None:
    provider = FakeProvider({"mvn test": FakeResult(stdout="ran mvn test", files={"target/report.xml": "<r/>"})})
    session = provider.create_session()
    command = SandboxCommand(
        command="mvn test",
        working_directory="/workspace",
        timeout_millis=120_000,
        environment={"CI": "true"},
        metadata={"tool": "project-test"},
        artifacts=["target/*.xml"],
    )

    result = session.execute(command)

    assert provider.commands == [command]
    assert (result.command_id, result.exit_code) == (command.command_id, 0)
    assert "mvn test" in result.stdout
    assert [artifact.path for artifact in result.artifacts] == ["/workspace/target/report.xml"]
    assert [event.type for event in result.events] == [
        SandboxEventType.COMMAND_STARTED,
        SandboxEventType.ARTIFACT_CREATED,
        SandboxEventType.COMMAND_FINISHED,
    ]
    assert session.list_artifacts() == list(result.artifacts)


def test_changing_what_a_session_returned_changes_nothing() -> None:
    session = FakeProvider({"x": FakeResult(files={"a": "1"})}).create_session(SandboxSpec(labels={"task": "t"}))
    session.execute(SandboxCommand(command="x", artifacts=["a"]))

    session.list_artifacts().clear()
    dict(session.spec.labels).clear()

    assert len(session.list_artifacts()) == 1
    assert dict(session.spec.labels) == {"task": "t"}


def test_cancel_is_true_for_a_running_command_and_false_for_an_unknown_one() -> None:
    session = session_of(FakeResult(blocks=True))
    process = session.start(SandboxCommand(command="serve", command_id="known"))

    assert not session.cancel("unknown")
    assert session.cancel("known")
    assert process.wait().canceled
    session.close()
    assert session.status is SandboxStatus.CLOSED
    with pytest.raises(SandboxException, match="closed"):
        session.execute(SandboxCommand(command="serve"))


# --- what can be scripted -----------------------------------------------------------------------------------------


def test_mapping_answers_lines_and_argument_lists_and_nothing_else() -> None:
    session = FakeProvider({"a": "out a", ("git", "log"): FakeResult(stderr="err", exit_code=2)}).create_session()

    results = [session.execute(SandboxCommand(command=command)) for command in ("a", ["git", "log"], "other")]

    assert [(result.exit_code, result.stdout, result.stderr) for result in results] == [
        (0, "out a", ""),
        (2, "", "err"),
        (127, "", "other: not scripted\n"),
    ]


def test_output_comes_in_the_scripted_chunks() -> None:
    chunks = (
        OutputChunk(OutputStream.STDOUT, b"\xc3"),
        OutputChunk(OutputStream.STDERR, b"e"),
        OutputChunk(OutputStream.STDOUT, b"\xa9"),
    )
    process = session_of(FakeResult(output=chunks)).start(SandboxCommand(command="x"))

    assert tuple(process.output()) == chunks
    assert process.wait().stdout == "é"


def test_command_that_blocks_runs_into_its_time_limit() -> None:
    session = session_of(FakeResult(stdout="partial", blocks=True))

    result = session.execute(SandboxCommand(command="x", timeout_millis=20))

    assert (result.timed_out, result.stdout, result.exit_code, result.signal) == (True, "partial", 143, "SIGTERM")


def test_command_can_survive_a_polite_signal() -> None:
    session = session_of(FakeResult(blocks=True, survives=["SIGTERM"]))

    result = session.execute(SandboxCommand(command="x", timeout_millis=20))

    assert (result.timed_out, result.exit_code, result.signal) == (True, 137, "SIGKILL")


def test_command_that_blocks_can_be_canceled_from_another_thread() -> None:
    session = session_of(FakeResult(blocks=True))
    process = session.start(SandboxCommand(command="x"))
    results = []
    waiting = threading.Thread(target=lambda: results.append(process.wait()))
    waiting.start()

    session.cancel(process.command_id)
    waiting.join(5)

    assert [result.canceled for result in results] == [True]


def test_stdin_can_be_echoed() -> None:
    session = session_of(FakeResult(stdout="> ", echoes_stdin=True))

    known = session.execute(SandboxCommand(command="cat", stdin="known"))
    with session.start(SandboxCommand(command="cat", stdin="one", keep_stdin_open=True)) as process:
        process.write_stdin(" two")
        process.close_stdin()
        written = process.wait()

    assert (known.stdout, written.stdout) == ("> known", "> one two")


def test_stream_can_break() -> None:
    session = session_of(FakeResult(stdout="partial", breaks=True))

    with pytest.raises(SandboxOutcomeUnknownError) as caught:
        session.execute(SandboxCommand(command="x"))

    assert caught.value.result is not None
    assert (caught.value.result.stdout, caught.value.result.exit_code) == ("partial", None)


def test_start_can_fail() -> None:
    session = session_of(FakeResult(raises=SandboxCapacityError("no room")))

    with pytest.raises(SandboxCapacityError, match="no room") as caught:
        session.execute(SandboxCommand(command="x", command_id="c"))

    assert (caught.value.provider_id, caught.value.session_id, caught.value.command_id) == (
        "fake",
        session.session_id,
        "c",
    )


@pytest.mark.parametrize("exit_code", [0, 3, None])
def test_end_is_the_scripted_one(exit_code: int | None) -> None:
    result = session_of(FakeResult(exit_code=exit_code, status_text="words")).execute(SandboxCommand(command="x"))

    assert (result.exit_code, result.status_text, result.signal) == (exit_code, "words", None)


def test_fake_can_claim_less_and_then_refuses_it() -> None:
    info = replace(FAKE_INFO, capabilities=Capabilities({Capability.STREAMING: NATIVE}))
    session = FakeProvider(info=info).create_session()

    for fields in ({"stdin": "x"}, {"timeout_millis": 5}, {"terminal": TerminalSize()}, {"keep_stdin_open": True}):
        with pytest.raises(UnsupportedCapabilityError, match=r"'fake' does not support .* it can do: streaming"):
            session.execute(SandboxCommand(command="x", **fields))


# --- sandboxes ----------------------------------------------------------------------------------------------------


def test_unknown_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(SandboxAdmissionError, match="did you mean 'deleteOnClose'"):
        FakeProvider().create_session(SandboxSpec(config={"deletOnClose": True}))


def test_closing_ends_the_sandbox_unless_told_otherwise() -> None:
    provider = FakeProvider()
    kept = provider.create_session(SandboxSpec(config={"deleteOnClose": False}))
    ended = provider.create_session()

    kept.close()
    ended.close()

    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [True, False]


def test_attached_session_shares_the_files_and_leaves_the_sandbox_alive() -> None:
    provider = FakeProvider()
    first = provider.create_session()
    first.files.write("note", "shared")

    with provider.connect(first.session_id) as attached:
        assert (attached.files.read("note"), attached.owned) == (b"shared", False)

    assert first.files.exists("note")
    assert provider.sandboxes[first.session_id].alive


def test_sandboxes_are_listed_by_label_until_they_are_destroyed() -> None:
    provider = FakeProvider()
    session = provider.create_session(SandboxSpec(image="i", labels={"team": "a", "apiKey": "x"}))
    provider.create_session(SandboxSpec(labels={"team": "b"}))

    listed = provider.list_sessions({"team": "a"})

    assert listed == [
        SandboxSummary(
            session_id=session.session_id,
            provider_id="fake",
            status=SandboxStatus.RUNNING,
            image="i",
            labels={"team": "a"},
        )
    ]
    provider.destroy(session.session_id)
    provider.destroy("never existed")
    assert len(provider.list_sessions()) == 1


def test_destroyed_sandbox_is_lost_to_its_sessions() -> None:
    provider = FakeProvider({"x": FakeResult(blocks=True)})
    session = provider.create_session()

    provider.destroy(session.session_id)

    with pytest.raises(SandboxSessionLostError, match="was destroyed"):
        session.execute(SandboxCommand(command="x"))
    with pytest.raises(SandboxNotFoundError):
        provider.connect(session.session_id)


def test_fake_is_always_well() -> None:
    assert FakeProvider().health().healthy


# --- files in memory ----------------------------------------------------------------------------------------------


def test_memory_files_know_files_and_directories() -> None:
    files = MemoryFiles()

    files.write("a/b/c.txt", "ü")
    files.make_dir("/elsewhere")

    assert files.read_text("/workspace/a/b/c.txt") == "ü"
    assert files.list("a", depth=2) == [
        FileInfo(path="a/b", kind=FileKind.DIRECTORY, size_bytes=0, mode=0o755),
        FileInfo(path="a/b/c.txt", kind=FileKind.FILE, size_bytes=2, mode=0o644),
    ]
    assert [info.path for info in files.list("/")] == ["/elsewhere", "/workspace"]


def test_memory_files_move_and_remove_trees() -> None:
    files = MemoryFiles()
    files.write("a/b/c", "1")
    files.write("ab", "untouched")

    files.move("a", "x/y")

    assert sorted(files.entries) == [
        *("/", "/workspace", "/workspace/ab", "/workspace/x", "/workspace/x/y", "/workspace/x/y/b"),
        "/workspace/x/y/b/c",
    ]
    files.remove("x", recursive=True)
    assert sorted(files.entries) == ["/", "/workspace", "/workspace/ab"]


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda files: files.read("missing"), SandboxNotFoundError),
        (lambda files: files.read("dir"), SandboxFileError),
        (lambda files: files.write("dir", "x"), SandboxFileError),
        (lambda files: files.write("dir/file/below", "x"), SandboxFileError),
        (lambda files: files.list("missing"), SandboxNotFoundError),
        (lambda files: files.list("dir/file"), SandboxFileError),
        (lambda files: files.stat("missing"), SandboxNotFoundError),
        (lambda files: files.make_dir("dir/file"), SandboxFileError),
        (lambda files: files.remove("missing"), SandboxNotFoundError),
        (lambda files: files.remove("dir"), SandboxFileError),
        (lambda files: files.move("missing", "x"), SandboxNotFoundError),
        (lambda files: files.move("dir/file", "dir"), SandboxFileError),
    ],
)
def test_memory_files_fail_as_real_ones_do(act: object, error: type[SandboxException]) -> None:
    files = MemoryFiles()
    files.write("dir/file", "x")
    before = dict(files.entries)

    with pytest.raises(error):
        act(files)  # type: ignore[operator] # a function

    assert files.entries == before
