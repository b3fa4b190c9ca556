"""Requests and answers, without an agent."""

from __future__ import annotations

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxCapacityError,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxProtocolError,
    SessionState,
)
from ai4j_sandbox.files import FileInfo, FileKind
from ai4j_sandbox.model import SandboxCommand, TerminalSize
from ai4j_sandbox.process import ProcessExit
from ai4j_sandbox_local.config import LocalConfig
from ai4j_sandbox_local.payloads import (
    AgentRefusal,
    exit_of,
    file_error,
    file_info,
    file_path,
    signal_number,
    start_error,
    start_request,
    terminal_size,
)


def test_shell_line_is_run_by_the_configured_shell_with_merged_variables() -> None:
    command = SandboxCommand(command="a && b", command_id="c1", environment={"C": "command"}, stdin="x")
    config = LocalConfig(shell="/bin/bash", environment={"B": "config", "C": "config"})

    assert start_request(command, config, "/workspace", {"A": "session", "B": "session"}) == {
        "do": "start",
        "id": "c1",
        "arguments": ("/bin/bash", "-c", "a && b"),
        "environment": {"A": "session", "B": "config", "C": "command"},
        "directory": "/workspace",
        "stdin": True,
        "terminal": None,
    }


def test_argument_list_on_a_terminal_is_run_directly_with_a_terminal_type() -> None:
    terminal = TerminalSize(rows=10, columns=20)
    command = SandboxCommand(command=["ls", "a b"], command_id="c1", working_directory="sub", terminal=terminal)

    assert start_request(command, LocalConfig(), "/workspace", {}) == {
        "do": "start",
        "id": "c1",
        "arguments": ("ls", "a b"),
        "environment": {"TERM": "xterm-256color"},
        "directory": "sub",
        "stdin": False,
        "terminal": [10, 20],
    }


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (0, ProcessExit(exit_code=0)),
        (255, ProcessExit(exit_code=255)),
        (-9, ProcessExit(exit_code=137, signal="SIGKILL")),
        (-40, ProcessExit(exit_code=168, signal="SIG40")),
    ],
)
def test_end_of_a_command_is_told_as_a_shell_does(code: int, end: ProcessExit) -> None:
    assert exit_of({"exit": code}) == end


@pytest.mark.parametrize("payload", [{}, {"exit": None}, {"exit": "0"}])
def test_end_without_a_code_is_never_a_success(payload: dict[str, object]) -> None:
    with pytest.raises(SandboxProtocolError):
        exit_of(payload)


def test_description_of_a_link() -> None:
    payload = {
        "path": "link",
        "kind": 0o120000,
        "size": 4,
        "mode": 0o777,
        "modified": 5,
        "owner": "sandbox",
        "group": "sandbox",
        "target": "file",
    }

    assert file_info(payload) == FileInfo(
        path="link",
        kind=FileKind.SYMLINK,
        size_bytes=4,
        mode=0o777,
        modified_at_epoch_ms=5,
        owner="sandbox",
        group="sandbox",
        target="file",
    )


@pytest.mark.parametrize(
    ("code", "kind"), [("ENOENT", SandboxNotFoundError), ("EACCES", SandboxFileError), ("EXXX", SandboxFileError)]
)
def test_refused_file_operation_is_the_most_specific_error(code: str, kind: type[SandboxException]) -> None:
    assert type(file_error(AgentRefusal(code, "text"), "path")) is kind


@pytest.mark.parametrize(
    ("code", "directory", "kind"),
    [
        ("ENOENT", "sub", SandboxNotFoundError),
        ("ENOTDIR", "sub", SandboxNotFoundError),
        ("EAGAIN", None, SandboxCapacityError),
        ("EMFILE", None, SandboxException),
    ],
)
def test_command_that_could_not_be_started_did_not_start(
    code: str, directory: str | None, kind: type[SandboxException]
) -> None:
    command = SandboxCommand(command="true", working_directory=directory)

    error = start_error(AgentRefusal(code, "text"), command)

    assert (type(error), error.outcome) == (kind, Outcome.NOT_STARTED)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("x\0y", r"it holds a NUL"),
        ("\ud800", "it holds a lone surrogate"),
        ("a/" * 3000 + "x", "it has 6001 bytes, and may have 4095"),
    ],
)
def test_path_that_no_file_can_have_is_a_file_error(path: str, said: str) -> None:
    with pytest.raises(SandboxFileError, match=said) as caught:
        file_path(path)

    assert (caught.value.outcome, caught.value.session_state) == (Outcome.NOT_STARTED, SessionState.INTACT)


def test_size_is_rows_and_columns() -> None:
    assert terminal_size(TerminalSize(rows=33, columns=99)) == [33, 99]


def test_signal_has_this_machine_s_number() -> None:
    assert signal_number("SIGTERM") == 15


def test_signal_that_this_machine_lacks_is_refused() -> None:
    with pytest.raises(SandboxException, match="'SIGNONE' is not the name of a signal here"):
        signal_number("SIGNONE")
