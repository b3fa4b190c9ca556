"""The host behind the core's interfaces: files as the fallback has them, a directory that must exist."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ai4j_agent import AgentConfigError
from ai4j_agent.coding import LocalWorkspace
from ai4j_agent.coding.host_files import HostFiles
from ai4j_sandbox import (
    SandboxCommand,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
    TerminalSize,
    UnsupportedCapabilityError,
)
from support.waiting import eventually


def test_a_root_must_be_a_directory(tmp_path: Path) -> None:
    with pytest.raises(AgentConfigError, match="is not a directory"):
        LocalWorkspace(tmp_path / "missing")


def test_a_command_that_needs_a_terminal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCapabilityError):
        LocalWorkspace(tmp_path).start(SandboxCommand(command="tty", terminal=TerminalSize()))


def test_a_working_directory_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(SandboxNotFoundError, match="no working directory"):
        LocalWorkspace(tmp_path).execute(SandboxCommand(command="pwd", working_directory="missing"))


def test_cancel_from_another_handle_ends_a_command_that_ignores_term(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    with workspace.start(SandboxCommand(command="trap '' TERM; echo ready; while :; do sleep 0.05; done")) as process:
        next(process.output())
        assert process.cancel()
        result = process.wait()

    assert (result.canceled, result.signal) == (True, "SIGKILL")


def test_input_of_any_size_arrives(tmp_path: Path) -> None:
    data = bytes(range(256)) * 8192

    result = LocalWorkspace(tmp_path).execute(SandboxCommand(command="cat", stdin=data))

    assert result.stdout_bytes == data


def test_input_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    assert LocalWorkspace(tmp_path).execute(SandboxCommand(command="true", stdin=b"x" * 1_000_000)).succeeded


def test_input_is_refused_where_nobody_reads(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    with workspace.start(SandboxCommand(command="cat", keep_stdin_open=True, stdin="given ")) as process:
        process.write_stdin("more")
        process.close_stdin()
        with pytest.raises(SandboxException, match="input is closed"):
            process.write_stdin("late")

        assert process.wait().stdout == "given more"

    with workspace.start(SandboxCommand(command="sleep 0.2")) as process, pytest.raises(SandboxException):
        process.write_stdin("x")


def test_a_detached_command_runs_on(tmp_path: Path) -> None:
    process = LocalWorkspace(tmp_path).start(SandboxCommand(command="sleep 0.2; echo done > file"))

    process.detach()

    assert eventually(lambda: (tmp_path / "file").exists())


def test_files_move_and_go(tmp_path: Path) -> None:
    files = HostFiles()
    files.write(f"{tmp_path}/a/b", "content")
    files.move(f"{tmp_path}/a/b", f"{tmp_path}/c/d")

    with pytest.raises(SandboxFileError):
        files.remove(f"{tmp_path}/c")
    files.remove(f"{tmp_path}/c", recursive=True)

    assert not files.exists(f"{tmp_path}/c/d")
    with pytest.raises(SandboxNotFoundError):
        files.remove(f"{tmp_path}/c")


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    files = HostFiles()
    files.write(f"{tmp_path}/a", "old")

    def broken():
        yield b"new"
        raise OSError("the disk is gone")

    with pytest.raises(SandboxFileError):
        files.write(f"{tmp_path}/a", broken())

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(SandboxFileError, match="not a regular file"):
        HostFiles().read(f"{tmp_path}/pipe")


SECRETS = {
    "PLAIN_LOOKING": "ghp_" + "a1B2" * 9,
    "MODEL_ACCESS": "sk-" + "a1B2c3D4" * 4,
    "PIP_INDEX_URL": "https://someone:canary-4711@packages.example/simple",
    "CI_JOB": "Bearer " + "abcdef123456",
    "MY_API_KEY": "canary-4712",
    "DSN": "host=db user=me password=canary-4713",
    "RESTIC_PASSPHRASE": "canary-4714",
    "MYSQL_PWD": "canary-4715",
    "DOCKER_AUTH_CONFIG": "canary-4716",
    "SSH_AUTH_SOCK": "/run/canary-4717",
}


PLAIN = {
    "GIT_AUTHOR_NAME": "me",
    "XAUTHORITY": "/x",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus,guid=1f2e",
    "HARMLESS": "https://example.org/a?b=c",
    "LS_COLORS": "rs=0:di=01;34",
}


def test_commands_see_no_variable_that_holds_a_secret_by_name_or_by_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        **SECRETS,
        "HARMLESS": "https://example.org/a?b=c",
        "LS_COLORS": "rs=0:di=01;34",
        **PLAIN,
    }.items():
        monkeypatch.setenv(name, value)

    seen = LocalWorkspace(tmp_path, {"GIVEN_TOKEN": "on purpose"}).execute(SandboxCommand(command="env")).stdout

    names = {line.partition("=")[0] for line in seen.splitlines()}
    assert names.isdisjoint(SECRETS)
    assert names.issuperset({"PATH", "HOME", "GIVEN_TOKEN", *PLAIN})
    assert "canary" not in seen
