"""Cases B14, B16, C09, E01, F13, G02, H04, H05 and others: bug reports of other projects, as they would show here.

The names carry the report.
"""

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


@pytest.mark.parametrize(("line", "exit_code"), [("nosuchcmd_xyz", 127), ("/etc/passwd", 126), ("if", 2)])
def test_b16_line_that_cannot_be_run_has_the_shell_s_exit_code(
    session: SandboxSession, line: str, exit_code: int
) -> None:
    started = monotonic()

    result = session.execute(SandboxCommand(command=line))

    assert (result.exit_code, result.signal, result.timed_out) == (exit_code, None, False)
    assert monotonic() - started < 1


def test_c09_timeout_ends_the_shell_s_children_too(session: SandboxSession) -> None:
    result = session.execute(SandboxCommand(command="sleep 250 & echo $!; wait", timeout_millis=100))

    assert result.timed_out
    pid = result.stdout.strip()
    assert session.execute(SandboxCommand(command=f"sleep 0.1; kill -0 {pid}")).exit_code != 0


def test_e01_command_that_reads_ends_at_once_where_there_is_no_input(session: SandboxSession) -> None:
    result = session.execute(SandboxCommand(command="cat", timeout_millis=3000))

    assert (result.stdout, result.exit_code, result.timed_out) == ("", 0, False)


@pytest.mark.parametrize(
    ("stdin", "count"), [("line1\nline2\n", "12\n"), ("x\0y", "3\n"), (b"\0\1\2\xff", "4\n"), ("-n", "2\n")]
)
def test_e05_e06_e07_e11_input_arrives_byte_for_byte(session: SandboxSession, stdin: str | bytes, count: str) -> None:
    assert session.execute(SandboxCommand(command="wc -c", stdin=stdin)).stdout == count


@pytest.mark.parametrize(
    ("line", "stdout", "exit_code"),
    [
        pytest.param("cat # copy it", "x", 0, id="F01"),
        pytest.param("cat <<'EOF'\nhi\nEOF", "hi\n", 0, id="F02"),
        pytest.param("printf foo\\&", "foo&", 0, id="F03"),
        pytest.param("cd /tmp && exit 4", "", 4, id="F14"),
        pytest.param("exec echo hi", "hi\n", 0, id="F14-exec"),
        pytest.param("cat >/dev/null; exit 3", "", 3, id="E09"),
    ],
)
def test_line_is_run_as_it_is_although_it_has_input(
    session: SandboxSession, line: str, stdout: str, exit_code: int
) -> None:
    result = session.execute(SandboxCommand(command=line, stdin="x"))

    assert (result.stdout, result.exit_code) == (stdout, exit_code)


def test_f04_f09_variables_and_directories_are_not_retyped(session: SandboxSession) -> None:
    workspace = session.execute(SandboxCommand(command="pwd")).stdout.rstrip("\n")
    directory = f"{workspace}/it's a dir"
    session.files.make_dir(directory)

    value = session.execute(SandboxCommand(command='printf %s "$MY_VAR"', environment={"MY_VAR": "two  words "}))
    place = session.execute(SandboxCommand(command="pwd", working_directory=directory))

    assert (value.stdout, place.stdout) == ("two  words ", f"{directory}\n")


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


def test_h05_command_after_one_that_timed_out_runs_at_once(session: SandboxSession) -> None:
    slow = session.execute(SandboxCommand(command="sleep 30", timeout_millis=200))
    started = monotonic()

    result = session.execute(SandboxCommand(command="echo ok"))

    assert (slow.timed_out, result.stdout, result.exit_code) == (True, "ok\n", 0)
    assert monotonic() - started < 2
