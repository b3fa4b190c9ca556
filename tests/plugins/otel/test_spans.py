from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from ai4j_sandbox import SandboxCommand, SandboxConnectionError, SandboxException, SandboxSession, SandboxSpec
from ai4j_sandbox.observers import register_observer
from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox_otel.spans import SandboxSpans
from support.secrets import CANARY, assert_no_secret


class Recorder:
    """The plugin's spans as they are exported."""

    def __init__(self, **options: int) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider()
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = SandboxSpans(self._provider.get_tracer("test"), **options)

    @property
    def finished(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def commands(self) -> list[ReadableSpan]:
        return [span for span in self.finished if span.name == "sandbox.command"]

    def close(self) -> None:
        self._provider.shutdown()


@contextmanager
def recording(**options: int) -> Iterator[Recorder]:
    one = Recorder(**options)
    remove = register_observer(one.spans.observe)
    try:
        yield one
    finally:
        remove()
        one.close()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with recording() as one:
        yield one


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return {key.removeprefix("ai4j.sandbox."): value for key, value in (span.attributes or {}).items()}


SCRIPT: dict[str | tuple[str, ...], FakeResult | str] = {
    "make": FakeResult(stdout="12345", stderr="123", exit_code=2),
    "wait": FakeResult(blocks=True),
    "odd": FakeResult(exit_code=None, status_text="exit code 0, timed out"),
    "cut": FakeResult(stdout="abc", breaks=True),
    "down": FakeResult(raises=SandboxConnectionError("down")),
}


def session() -> SandboxSession:
    return FakeProvider(SCRIPT).create_session(SandboxSpec(provider_id="fake", profile="p"))


def test_a_session_and_its_command_are_two_spans_one_below_the_other(recorder: Recorder) -> None:
    with session() as one:
        result = one.execute(SandboxCommand(command="make"))

    command, whole = recorder.finished
    assert (command.name, whole.name) == ("sandbox.command", "sandbox.session")
    assert command.parent is not None
    assert whole.context is not None
    assert command.parent.span_id == whole.context.span_id
    assert attributes(whole) == {
        "provider": "fake",
        "profile": "p",
        "session.id": one.session_id,
        "status": "CLOSED",
    }
    told = dict(attributes(command))
    assert told.pop("command.duration_ms") >= 0
    assert told == {
        "provider": "fake",
        "session.id": one.session_id,
        "command.id": result.command_id,
        "command.exit_code": 2,
        "command.timed_out": False,
        "command.canceled": False,
        "command.stdout_bytes": 5,
        "command.stderr_bytes": 3,
    }
    assert command.status.status_code is StatusCode.UNSET


def test_a_timeout_is_told(recorder: Recorder) -> None:
    with session() as one:
        one.execute(SandboxCommand(command="wait", timeout_millis=20))

    (command,) = recorder.commands()
    told = attributes(command)
    assert (told["command.timed_out"], told["command.canceled"], told["command.exit_code"]) == (True, False, 143)
    assert told["command.duration_ms"] >= 10


def test_a_cancellation_is_told(recorder: Recorder) -> None:
    with session() as one:
        process = one.start(SandboxCommand(command="wait"))
        process.cancel()

    (command,) = recorder.commands()
    told = attributes(command)
    assert (told["command.timed_out"], told["command.canceled"]) == (False, True)


def test_the_services_own_words_do_not_count(recorder: Recorder) -> None:
    with session() as one:
        one.execute(SandboxCommand(command="odd"))

    (command,) = recorder.commands()
    assert "command.exit_code" not in attributes(command)


@pytest.mark.parametrize("line", ["cut", "down"])
def test_a_failing_sandbox_is_an_error_of_the_command(recorder: Recorder, line: str) -> None:
    with session() as one, pytest.raises(SandboxException):
        one.execute(SandboxCommand(command=line))

    (command,) = recorder.commands()
    assert command.status.status_code is StatusCode.ERROR
    assert command.status.description is None
    assert attributes(command)["command.stdout_bytes"] == (3 if line == "cut" else 0)


def test_a_command_whose_artifacts_could_not_be_collected_is_one_span_with_its_exit_code(recorder: Recorder) -> None:
    def script(command: SandboxCommand) -> FakeResult:
        return FakeResult(stdout="built") if command.command == "make" else FakeResult(stderr="broken", exit_code=9)

    with FakeProvider(script, shell_files=True).create_session() as one:
        result = one.execute(SandboxCommand(command="make", artifacts=("out/*",)))

    (command,) = recorder.commands()
    told = attributes(command)
    assert result.artifacts_error is not None
    assert (told["command.exit_code"], told["command.stdout_bytes"]) == (0, 5)
    assert command.status.status_code is StatusCode.ERROR


def test_commands_in_parallel_are_told_apart(recorder: Recorder) -> None:
    with session() as one:
        first, second = (one.start(SandboxCommand(command="make")) for _ in range(2))
        second.wait()
        first.wait()

    assert [attributes(span)["command.stdout_bytes"] for span in recorder.commands()] == [5, 5]
    assert {attributes(span)["command.id"] for span in recorder.commands()} == {first.command_id, second.command_id}


def test_what_is_open_at_the_end_of_the_process_is_ended(recorder: Recorder) -> None:
    one = session()
    process = one.start(SandboxCommand(command="wait"))

    recorder.spans.end_all()

    assert [span.name for span in recorder.finished] == ["sandbox.command", "sandbox.session"]
    process.cancel()
    one.close()


def test_sessions_that_are_never_closed_are_bounded() -> None:
    with recording(most_open=3) as recorder:
        opened = [session() for _ in range(5)]

        assert [attributes(span)["session.id"] for span in recorder.finished] == [one.session_id for one in opened[:2]]


def test_attaching_a_second_time_ends_the_first_span(recorder: Recorder) -> None:
    provider = FakeProvider(SCRIPT)
    one = provider.create_session()

    provider.connect(one.session_id).execute(SandboxCommand(command="make"))

    assert [span.name for span in recorder.finished] == ["sandbox.session", "sandbox.command"]


def test_no_span_holds_anything_that_was_said(recorder: Recorder) -> None:
    def script(command: SandboxCommand) -> FakeResult:
        if command.command == "fail":
            return FakeResult(raises=SandboxException(f"500 {CANARY}"))
        return FakeResult(stdout=CANARY, stderr=CANARY, status_text=CANARY, exit_code=1)

    spec = SandboxSpec(provider_id="fake", workspace_id="private-words", labels={"note": "private-words"})
    with FakeProvider(script).create_session(spec) as one:
        one.execute(SandboxCommand(command=f"echo {CANARY}", environment={"A": CANARY}, stdin=CANARY))
        with pytest.raises(SandboxException):
            one.execute(SandboxCommand(command="fail"))

    everything = "\n".join(span.to_json() for span in recorder.finished)
    assert len(recorder.finished) == 3
    assert_no_secret(everything)
    assert "private-words" not in everything


def test_a_secret_in_the_hosts_own_names_is_masked(recorder: Recorder) -> None:
    token = "ghp_" + "a1B2" * 9

    with FakeProvider(SCRIPT).create_session(SandboxSpec(provider_id="fake", profile=f"p-{token}")) as one:
        one.execute(SandboxCommand(command="make", command_id=f"https://u:{CANARY}@host/1"))

    command, session = recorder.finished
    assert attributes(session)["profile"] == "p-[redacted]"
    assert attributes(command)["command.id"] == "https://[redacted]@host/1"
    assert_no_secret(command.to_json(), session.to_json())


def test_the_plugin_is_found_by_its_entry_point_and_installed_with_pip_alone() -> None:
    code = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ai4j_sandbox import SandboxCommand
from ai4j_sandbox.testing import FakeProvider
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
with FakeProvider({"ls": "a"}).create_session() as session:
    session.execute(SandboxCommand(command="ls"))
print([span.name for span in exporter.get_finished_spans()])
"""

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "['sandbox.command', 'sandbox.session']\n"
