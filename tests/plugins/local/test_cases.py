"""Bug reports of other projects, as they would show here. The names carry the report."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox_local import LocalProvider


def test_b14_shell_that_kills_itself_ends_with_137(session: SandboxSession) -> None:
    result = session.execute(SandboxCommand(command="kill -9 $$"))

    assert (result.exit_code, result.signal, result.timed_out) == (137, "SIGKILL", False)


def test_c09_timeout_ends_the_shell_s_children_too(session: SandboxSession) -> None:
    result = session.execute(SandboxCommand(command="sleep 250 & echo $!; wait", timeout_millis=100))

    assert result.timed_out
    pid = result.stdout.strip()
    assert session.execute(SandboxCommand(command=f"sleep 0.1; kill -0 {pid}")).exit_code != 0


def test_f13_bash_env_of_the_host_is_not_executed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    start_file = tmp_path / "be"
    start_file.write_text("echo X\n")
    monkeypatch.setenv("BASH_ENV", str(start_file))

    with LocalProvider().create_session() as session:
        assert session.execute(SandboxCommand(command="echo hi")).stdout == "hi\n"


def test_g02_seventy_thousand_characters_arrive(session: SandboxSession) -> None:
    result = session.execute(SandboxCommand(command="head -c 70000 /dev/zero | tr '\\0' a"))

    assert result.stdout == "a" * 70_000


def test_h04_background_child_does_not_hold_the_command_back(session: SandboxSession) -> None:
    started = monotonic()

    result = session.execute(SandboxCommand(command="sleep 5 & echo started"))

    assert monotonic() - started < 2
    assert (result.stdout, result.exit_code) == ("started\n", 0)
