from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.model import (
    DEFAULT_OUTPUT_LIMIT_BYTES,
    CapturedOutput,
    OutputStream,
    SandboxArtifact,
    SandboxCommand,
    SandboxEvent,
    SandboxEventType,
    SandboxResult,
    SandboxSpec,
    SandboxStatus,
    SandboxSummary,
    StreamMode,
    TerminalSize,
)
from support.secrets import CANARY, assert_no_secret

# --- what the contract names --------------------------------------------------------------------------------------


def test_statuses_and_event_types_are_the_contracts() -> None:
    assert list(SandboxStatus) == ["CREATED", "RUNNING", "CLOSED", "FAILED"]
    assert list(SandboxEventType) == [
        "SESSION_CREATED",
        "SESSION_CLOSED",
        "COMMAND_STARTED",
        "COMMAND_OUTPUT",
        "COMMAND_FINISHED",
        "COMMAND_CANCELED",
        "ARTIFACT_CREATED",
        "ERROR",
    ]


# --- spec ---------------------------------------------------------------------------------------------------------


def test_empty_spec_is_legal() -> None:
    spec = SandboxSpec()

    assert (spec.provider_id, spec.profile, spec.image, spec.workspace_id) == (None, None, None, None)
    assert (dict(spec.labels), dict(spec.config)) == ({}, {})


def test_spec_texts_are_trimmed_and_blank_means_not_given() -> None:
    spec = SandboxSpec(provider_id=" e2b ", profile="", image="\t", workspace_id=" w 1 ")

    assert spec == SandboxSpec(provider_id="e2b", workspace_id="w 1")


def test_spec_hides_its_config_and_whatever_looks_secret_but_shows_the_rest() -> None:
    spec = SandboxSpec(
        provider_id="p",
        image=f"https://u:{CANARY}@registry/img",
        labels={"apiToken": CANARY, "task": "t", "note": f"password={CANARY}"},
        config={"apiKey": CANARY},
    )

    assert_no_secret(repr(spec), str(spec))
    assert repr(spec) == (
        "SandboxSpec(provider_id='p', profile=None, image='https://[redacted]@registry/img', workspace_id=None, "
        "labels={'apiToken': '[redacted]', 'task': 't', 'note': 'password=[redacted]'})"
    )


def test_specs_are_compared_by_value() -> None:
    assert SandboxSpec(labels={"a": "b"}, config={"x": [1]}) == SandboxSpec(labels={"a": "b"}, config={"x": (1,)})
    assert SandboxSpec(labels={"a": "b"}) != SandboxSpec(labels={"a": None})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"provider_id": 5}, "spec.provider_id must be text, got int"),
        ({"image": b"x"}, "spec.image must be text, got bytes"),
        ({"labels": ["a"]}, "spec.labels must be a mapping, got list"),
        ({"labels": {"a": 1}}, r"spec.labels\['a'\] must be text, got int"),
        ({"labels": {1: "a"}}, "keys of spec.labels must be text, got int"),
        ({"config": "x=1"}, "spec.config must be a mapping, got str"),
        ({"config": {1: 2}}, "keys of spec.config must be text, got int"),
    ],
)
def test_wrong_spec_is_refused_in_plain_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SandboxConfigError, match=words):
        SandboxSpec(**fields)


# --- nothing can be changed afterwards ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda value: SandboxSpec(config=value), "config"),
        (lambda value: SandboxCommand(command="x", metadata=value), "metadata"),
    ],
)
def test_changing_what_was_given_changes_nothing(make: Any, field: str) -> None:
    """Case K11."""
    hosts = ["a"]
    given: dict[str, Any] = {"hosts": hosts, "deep": {"list": [hosts]}}
    made = make(given)

    hosts.append("evil")
    given["new"] = 1
    given["deep"]["list"].clear()

    assert dict(getattr(made, field)) == {"hosts": ("a",), "deep": {"list": (("a",),)}}


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda value: SandboxSpec(labels=value), "labels"),
        (lambda value: SandboxCommand(command="x", environment=value), "environment"),
    ],
)
def test_changing_the_texts_that_were_given_changes_nothing(make: Any, field: str) -> None:
    """Case K11."""
    given = {"A": "one"}
    made = make(given)

    given["A"] = "evil"
    given["B"] = "new"

    assert dict(getattr(made, field)) == {"A": "one"}


@pytest.mark.parametrize(
    "mapping",
    [
        SandboxSpec(labels={"a": "b"}).labels,
        SandboxSpec(config={"a": {"b": 1}}).config,
        SandboxSpec(config={"a": {"b": 1}}).config["a"],
        SandboxCommand(command="x", environment={"A": "b"}).environment,
        SandboxCommand(command="x", metadata={"a": "b"}).metadata,
        SandboxSpec().labels,
        SandboxSummary(session_id="s", provider_id="p", status=SandboxStatus.RUNNING, labels={"a": "b"}).labels,
    ],
)
def test_what_is_returned_cannot_be_changed(mapping: Mapping[str, Any]) -> None:
    """Case K11."""
    with pytest.raises(TypeError):
        mapping["a"] = "evil"  # type: ignore[index] # what must not work


def test_lists_given_to_a_result_are_its_own() -> None:
    artifacts: list[SandboxArtifact | None] = [SandboxArtifact(path="/a"), None]
    events: list[SandboxEvent | None] = [None, SandboxEvent(type=SandboxEventType.COMMAND_STARTED)]
    result = SandboxResult(artifacts=artifacts, events=events)

    artifacts.clear()
    events.clear()

    assert ([artifact.path for artifact in result.artifacts], len(result.events)) == (["/a"], 1)
    assert isinstance(result.artifacts, tuple)


@pytest.mark.parametrize(
    "value",
    [
        SandboxSpec(),
        SandboxCommand(command="x"),
        SandboxResult(),
        SandboxArtifact(),
        SandboxEvent(type=SandboxEventType.ERROR),
        CapturedOutput(),
        TerminalSize(),
    ],
)
def test_every_type_is_frozen(value: object) -> None:
    name = next(iter(type(value).__dataclass_fields__))  # type: ignore[attr-defined] # all of them are dataclasses

    with pytest.raises(AttributeError):
        setattr(value, name, None)


# --- command ------------------------------------------------------------------------------------------------------


def test_command_has_defaults_that_ask_for_nothing() -> None:
    command = SandboxCommand(command="ls")

    assert uuid.UUID(command.command_id).version == 4
    assert command == SandboxCommand(
        command="ls",
        command_id=command.command_id,
        working_directory=None,
        stdin=None,
        keep_stdin_open=False,
        timeout_millis=None,
        environment={},
        metadata={},
        artifacts=(),
        output_limit_bytes=DEFAULT_OUTPUT_LIMIT_BYTES,
        terminal=None,
    )


@pytest.mark.parametrize("line", ["echo a\\ ", " leading", "a\n", "\ttab", "echo 'x '\n\n"])
def test_command_text_is_never_trimmed(line: str) -> None:
    assert SandboxCommand(command=line).command == line


@pytest.mark.parametrize("command", ["", "   ", "\n\t", (), [], ("",), ["", "x"]])
def test_blank_command_is_refused(command: Any) -> None:
    with pytest.raises(SandboxConfigError, match="must not be blank"):
        SandboxCommand(command=command)


def test_argument_list_is_run_as_it_is_and_a_line_by_the_shell() -> None:
    arguments = SandboxCommand(command=["git", "commit", "-m", "a b", ""])
    line = SandboxCommand(command='git commit -m "a b"')

    assert arguments.argv() == ("git", "commit", "-m", "a b", "")
    assert arguments.shell_line() == "git commit -m 'a b' ''"
    assert line.argv() == ("/bin/sh", "-c", 'git commit -m "a b"')
    assert line.argv(("/bin/bash", "-l", "-c")) == ("/bin/bash", "-l", "-c", 'git commit -m "a b"')
    assert line.shell_line() == 'git commit -m "a b"'


@pytest.mark.parametrize("timeout", ["30", True, float("inf"), float("nan"), 1.5, -5, 0, "x", [1]])
def test_timeout_that_is_no_positive_whole_number_is_refused(timeout: Any) -> None:
    """Case C13."""
    with pytest.raises(SandboxConfigError, match="timeout_millis must be"):
        SandboxCommand(command="x", timeout_millis=timeout)


@pytest.mark.parametrize("timeout", [None, 1, 2**40])
def test_timeout_may_be_any_positive_number_or_none(timeout: int | None) -> None:
    assert SandboxCommand(command="x", timeout_millis=timeout).timeout_millis == timeout


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": "a\0b"}, "command must not contain a NUL"),
        ({"command": ["a", "b\0"]}, "command must not contain a NUL"),
        ({"command": b"ls"}, "command must be text or a sequence of arguments, got bytes"),
        ({"command": 5}, "command must be text or a sequence of arguments, got int"),
        ({"command": None}, "command must be text or a sequence of arguments, got NoneType"),
        ({"command": {"ls"}}, "command must be text or a sequence of arguments, got set"),
        ({"command": ["ls", 5]}, "every argument of command must be text, got int"),
        ({"command": "lone \ud800"}, "command holds a lone surrogate"),
        ({"command_id": 5}, "command_id must be text"),
        ({"working_directory": "/a\0"}, "working_directory must not contain a NUL"),
        ({"working_directory": 5}, "working_directory must be text"),
        ({"stdin": 5}, "stdin must be text or bytes, got int"),
        ({"stdin": "lone \ud800"}, "stdin holds a lone surrogate.*pass bytes"),
        ({"environment": {"1A": "x"}}, "environment name '1A' is not valid"),
        ({"environment": {"A-B": "x"}}, "environment name 'A-B' is not valid"),
        ({"environment": {"A=B": "x"}}, "environment name 'A=B' is not valid"),
        ({"environment": {"": "x"}}, "environment name '' is not valid"),
        ({"environment": {"A\n": "x"}}, "environment name"),
        ({"environment": {"Ä": "x"}}, "environment name"),
        ({"environment": {"A": 1}}, "environment value of A must be text, got int"),
        ({"environment": {"A": None}}, "environment value of A must be text, got NoneType"),
        ({"environment": {"A": "x\0"}}, "environment value of A must not contain a NUL"),
        ({"environment": ["A=x"]}, "environment must be a mapping"),
        ({"artifacts": "*.xml"}, "artifacts must be a sequence of glob patterns"),
        ({"artifacts": [""]}, "artifacts patterns must be non-empty text"),
        ({"artifacts": [5]}, "artifacts patterns must be non-empty text"),
        ({"artifacts": ["a\0"]}, "artifacts must not contain a NUL"),
        ({"artifacts": ["../x"]}, "artifacts pattern '../x' must not contain '..'"),
        ({"artifacts": ["out/"]}, r"artifacts pattern 'out/' names a directory \(write out/\*\*\)"),
        ({"artifacts": ["/a/../x"]}, "must not contain '..'"),
        ({"output_limit_bytes": -1}, "output_limit_bytes must be a whole number of at least 0"),
        ({"output_limit_bytes": "5"}, "output_limit_bytes must be a whole number"),
        ({"terminal": True}, "terminal must be a TerminalSize, got bool"),
    ],
)
def test_wrong_command_is_refused_in_plain_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SandboxConfigError, match=words):
        SandboxCommand(**{"command": "x", **fields})


def test_error_about_an_environment_value_does_not_show_it() -> None:
    with pytest.raises(SandboxConfigError) as caught:
        SandboxCommand(command="x", environment={"API": f"{CANARY}\0"})

    assert_no_secret(str(caught.value), repr(caught.value))


@pytest.mark.parametrize(
    ("stdin", "sent"),
    [
        (None, b""),
        ("", b""),
        ("ü\n", b"\xc3\xbc\n"),
        (b"\xff\0", b"\xff\0"),
        (bytearray(b"a"), b"a"),
        (memoryview(b"b"), b"b"),
    ],
)
def test_stdin_is_kept_as_it_is_and_sent_as_bytes(stdin: Any, sent: bytes) -> None:
    assert SandboxCommand(command="x", stdin=stdin).stdin_bytes == sent


def test_empty_stdin_is_not_the_same_as_none() -> None:
    assert SandboxCommand(command="x", stdin="").stdin == ""
    assert SandboxCommand(command="x").stdin is None


def test_command_hides_what_may_be_secret() -> None:
    command = SandboxCommand(
        command=f"deploy --password {CANARY} https://u:{CANARY}@h/",
        stdin=CANARY,
        environment={"TOKEN": CANARY},
        metadata={"note": CANARY},
        command_id="c",
    )

    assert_no_secret(repr(command), str(command))
    assert "command='deploy --password [redacted] https://[redacted]@h/', command_id='c'" in repr(command)


@pytest.mark.parametrize("command_id", ["", "   ", None])
def test_blank_command_id_becomes_a_new_one(command_id: Any) -> None:
    assert uuid.UUID(SandboxCommand(command="x", command_id=command_id).command_id).version == 4


def test_command_id_and_directory_are_trimmed() -> None:
    command = SandboxCommand(command="x", command_id=" c ", working_directory=" /w ")

    assert (command.command_id, command.working_directory) == ("c", "/w")


@pytest.mark.parametrize(("rows", "columns"), [(0, 80), (24, 0), (-1, 80), ("24", 80), (True, 80)])
def test_terminal_has_a_size(rows: Any, columns: Any) -> None:
    with pytest.raises(SandboxConfigError, match=r"rows|columns"):
        TerminalSize(rows=rows, columns=columns)


# --- events -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [None, "COMMAND_STARTED", 1])
def test_event_needs_a_type(kind: Any) -> None:
    with pytest.raises(SandboxConfigError, match="must not be null"):
        SandboxEvent(type=kind)


def test_event_has_an_id_and_a_time() -> None:
    first, second = (SandboxEvent(type=SandboxEventType.ERROR, event_id=event_id) for event_id in ("", " e "))

    assert uuid.UUID(first.event_id).version == 4
    assert second.event_id == "e"
    assert 0 <= second.timestamp_epoch_ms - first.timestamp_epoch_ms < 1000


def test_event_message_is_kept_verbatim() -> None:
    assert SandboxEvent(type=SandboxEventType.ERROR, message=" two \n").message == " two \n"


# --- results ------------------------------------------------------------------------------------------------------


def test_empty_result_claims_nothing() -> None:
    """Case A18: no output is empty text."""
    result = SandboxResult()

    assert (result.exit_code, result.timed_out, result.canceled, result.succeeded) == (None, False, False, False)
    assert (result.stdout, result.stderr, result.stdout_bytes, result.stderr_bytes) == ("", "", b"", b"")
    assert (result.artifacts, result.events, result.streams) == ((), (), StreamMode.SEPARATE)


@pytest.mark.parametrize(
    ("fields", "succeeded"),
    [
        ({"exit_code": 0}, True),
        ({"exit_code": None}, False),
        ({"exit_code": 1}, False),
        ({"exit_code": 0, "timed_out": True}, False),
        ({"exit_code": 0, "canceled": True}, False),
    ],
)
def test_only_a_known_zero_is_success(fields: dict[str, Any], succeeded: bool) -> None:
    assert SandboxResult(**fields).succeeded is succeeded


def test_streams_are_text_and_bytes_of_the_same_output() -> None:
    result = SandboxResult(stdout=b"a\xff\0", stderr="ü")

    assert (result.stdout, result.stdout_bytes, result.stdout_total_bytes) == ("a\ufffd\0", b"a\xff\0", 3)
    assert (result.stderr, result.stderr_bytes, result.stderr_total_bytes) == ("ü", b"\xc3\xbc", 2)
    assert not result.truncated


def test_result_of_cut_output_tells_which_stream_and_how_much() -> None:
    result = SandboxResult(captured_stdout=CapturedOutput(head=b"a", tail=b"z", total_bytes=26), stderr="whole")

    assert (result.stdout_truncated, result.stderr_truncated, result.truncated) == (True, False, True)
    assert (result.stdout_total_bytes, result.stdout_bytes) == (26, b"az")


@pytest.mark.parametrize("code", [True, "0", 1.0])
def test_exit_code_must_be_a_number(code: Any) -> None:
    with pytest.raises(SandboxConfigError, match="exit_code must be a whole number"):
        SandboxResult(exit_code=code)


def test_repr_of_a_result_shows_sizes_and_not_output() -> None:
    result = SandboxResult(command_id="c", exit_code=1, stdout=CANARY * 1000, stderr=CANARY, artifacts=[])

    assert_no_secret(repr(result))
    assert "exit_code=1" in repr(result)
    assert f"stdout=<{len(CANARY) * 1000} bytes>" in repr(result)
    assert len(repr(result)) < 500


def test_results_are_compared_by_value() -> None:
    assert SandboxResult(exit_code=0, stdout="a") == SandboxResult(exit_code=0, stdout=b"a")
    assert SandboxResult(exit_code=0, stdout="a") != SandboxResult(exit_code=0, stderr="a")


def test_stream_names_are_what_events_say() -> None:
    assert [str(stream) for stream in OutputStream] == ["stdout", "stderr"]


@pytest.mark.parametrize("line", ["-e; echo hi", "+x", "--version"])
def test_a_line_that_begins_like_an_option_reaches_the_shell_as_a_line(line: str) -> None:
    assert SandboxCommand(command=line).argv(("/bin/sh", "-c")) == ("/bin/sh", "-c", "--", line)


def test_spec_nested_without_end_is_refused_by_name() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = {"a": deep}

    with pytest.raises(SandboxConfigError, match=r"spec\.config must not be nested deeper than 200 levels"):
        SandboxSpec(config=deep)


@pytest.mark.parametrize("size", [{"rows": 65536}, {"columns": 70_000}, {"rows": 0}, {"columns": "80"}])
def test_size_that_no_terminal_can_have_is_refused(size: dict[str, Any]) -> None:
    with pytest.raises(SandboxConfigError, match=f"{next(iter(size))} must be"):
        TerminalSize(**size)


def test_mapping_in_the_wrong_place_is_called_a_mapping() -> None:
    with pytest.raises(SandboxConfigError, match=r"spec.labels\['a'\] must be text, got mapping"):
        SandboxSpec(labels={"a": {}})
