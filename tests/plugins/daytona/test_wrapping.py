"""The scripts, fed to every shell there is and run by every ``/bin/sh`` there may be; and what they answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ai4j_sandbox.errors import SandboxProtocolError
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox_daytona.wrapping import (
    BEGIN_OF_OUTPUT,
    Answer,
    Input,
    Running,
    Word,
    kept_bytes,
    kept_ranges,
    list_text,
    parse_answer,
    parse_list,
)
from support.waiting import eventually

SHELLS = {"dash": ["dash"], "bash": ["bash"], "zsh": ["zsh"], "busybox": ["busybox", "sh"]}
INSTALLED = [name for name, words in SHELLS.items() if shutil.which(words[0])]


@pytest.fixture(params=INSTALLED)
def outer(request: pytest.FixtureRequest) -> list[str]:
    """The shell that the service feeds."""
    return SHELLS[request.param]


@pytest.fixture(params=[name for name in INSTALLED if name != "zsh"])
def inner(request: pytest.FixtureRequest) -> str:
    """What ``/bin/sh`` is in the sandbox."""
    program, *applet = SHELLS[request.param]
    return " ".join([str(shutil.which(program)), *applet])


@pytest.fixture
def running() -> Iterator[Running]:
    """A command's names; whatever it leaves behind is an error."""
    command = Running(os.urandom(8).hex())
    yield command
    assert eventually(lambda: not list(Path("/tmp").glob(f".ai4j-{command.mark}.*")))


def fed(shell: list[str], text: str, inner: str = "/bin/sh") -> str:
    """Feed a text to a shell as the service does, and return what it writes."""
    text = text.replace("exec /bin/sh -c", f"exec {inner} -c", 1)
    done = subprocess.run(shell, input=text.encode(), capture_output=True, timeout=30, check=False)
    return done.stdout.decode()


def ran(running: Running, command: SandboxCommand, shell: list[str], inner: str = "/bin/sh") -> Answer | None:
    source = Input.INLINE if command.stdin else Input.NONE
    return parse_answer(running, fed(shell, running.run_text(command, source), inner))


# --- running to the end -----------------------------------------------------------------------------------------------


def test_streams_are_apart_and_the_exit_code_is_the_commands(running: Running, outer: list[str], inner: str) -> None:
    answer = ran(running, SandboxCommand(command="echo out; echo err >&2; exit 3"), outer, inner)

    assert answer == Answer(
        word=Word.DONE,
        exit_code=3,
        stdout_bytes=4,
        stderr_bytes=4,
        stdout=(b"out\n", b""),
        stderr=(b"err\n", b""),
    )


def test_every_byte_comes_back(running: Running, outer: list[str], inner: str) -> None:
    escapes = "".join(f"\\{value:03o}" for value in range(256))

    answer = ran(running, SandboxCommand(command=["printf", escapes]), outer, inner)

    assert answer is not None
    assert answer.stdout == (bytes(range(256)), b"")


def test_input_arrives_whole_and_does_not_mix_with_the_text(running: Running, outer: list[str], inner: str) -> None:
    content = bytes(range(256)) * 40 + b"AI4J_INPUT\n"

    answer = ran(running, SandboxCommand(command="cat", stdin=content), outer, inner)

    assert answer is not None
    assert answer.stdout == (content, b"")


def test_without_input_there_is_end_of_file(running: Running, outer: list[str], inner: str) -> None:
    """Case E01."""
    answer = ran(running, SandboxCommand(command="cat; read line || echo end"), outer, inner)

    assert answer is not None
    assert answer.stdout[0] == b"end\n"


@pytest.mark.parametrize("line", ["exit 7", "exec sh -c 'exit 7'", "set -e; sh -c 'exit 7'; echo not here"])
def test_command_that_ends_its_shell_only_ends_itself(running: Running, outer: list[str], line: str) -> None:
    answer = ran(running, SandboxCommand(command=line), outer)

    assert answer is not None
    assert (answer.exit_code, answer.stdout_bytes) == (7, 0)


def test_opening_the_stream_by_its_name_truncates_nothing(running: Running, outer: list[str], inner: str) -> None:
    line = "echo one >&2; echo two >/dev/stderr; echo three >&2; echo a; echo b >/dev/stdout"

    answer = ran(running, SandboxCommand(command=line), outer, inner)

    assert answer is not None
    assert (answer.stdout[0], answer.stderr[0]) == (b"a\nb\n", b"one\ntwo\nthree\n")


def test_death_by_signal_is_told_and_adds_no_words_of_the_shell(running: Running, outer: list[str], inner: str) -> None:
    answer = ran(running, SandboxCommand(command="kill -9 $$"), outer, inner)

    assert answer is not None
    assert (answer.exit_code, answer.stderr_bytes) == (137, 0)


def test_missing_directory_is_told(running: Running, outer: list[str], inner: str) -> None:
    answer = ran(running, SandboxCommand(command="pwd", working_directory="/no/such"), outer, inner)

    assert answer == Answer(word=Word.NO_DIRECTORY)


@pytest.mark.parametrize("name", ["it's a dir", "-dash", 'with "quotes" $HOME'])
def test_directory_of_any_name(running: Running, tmp_path: Path, outer: list[str], name: str) -> None:
    """Case F09."""
    (tmp_path / name).mkdir()

    answer = ran(running, SandboxCommand(command="pwd", working_directory=str(tmp_path / name)), outer)

    assert answer is not None
    assert answer.stdout[0] == f"{tmp_path / name}\n".encode()


def test_output_over_the_limit_is_cut_inside_the_sandbox(running: Running, outer: list[str], inner: str) -> None:
    command = SandboxCommand(command="seq 1 200000", output_limit_bytes=4096)

    answer = ran(running, command, outer, inner)

    assert answer is not None
    assert answer.stdout_bytes == 1_288_895
    assert [len(part) for part in answer.stdout] == [2048, 2048]
    assert answer.stdout[0].startswith(b"1\n2\n")
    assert answer.stdout[1].endswith(b"199999\n200000\n")


def test_time_limit_keeps_the_output_and_kills_the_tree(running: Running, outer: list[str], inner: str) -> None:
    command = SandboxCommand(command="sleep 300 & echo $!; trap '' TERM; sleep 300; echo no", timeout_millis=200)

    answer = ran(running, command, outer, inner)

    assert answer is not None
    assert answer.late
    pid = answer.stdout[0].decode().split()[0]
    assert eventually(lambda: _is_dead(pid))


def test_grandchild_that_keeps_the_pipes_does_not_hold_up_the_answer(running: Running, outer: list[str]) -> None:
    started = time.monotonic()
    answer = ran(running, SandboxCommand(command="sleep 3 & echo started"), outer)

    assert answer is not None
    assert answer.stdout[0] == b"started\n"
    assert time.monotonic() - started < 2


def test_variables_of_the_script_do_not_reach_the_command(running: Running, outer: list[str]) -> None:
    answer = ran(running, SandboxCommand(command="env; set"), outer)

    assert answer is not None
    words = answer.stdout[0].decode()
    assert "AI4J_COMMAND=" in words  # by which it is found
    assert not any(f"\n{name}=" in words for name in ("base", "killer", "supervisor", "mark"))


# --- starting, following, feeding, killing ---------------------------------------------------------------------------


def test_started_command_is_followed_fed_and_ends(running: Running, outer: list[str], inner: str) -> None:
    command = SandboxCommand(command='while read line; do echo "got $line"; done; exit 5', keep_stdin_open=True)
    first = parse_answer(running, fed(outer, running.start_text(command, Input.OPEN, 0.05), inner))
    assert first is not None
    assert first.word is Word.LIVE

    assert parse_answer(running, fed(outer, running.feed_text(b"one\n"))) == Answer(word=Word.FED)
    news = parse_answer(running, fed(outer, running.follow_text(0, 0, 5)))
    assert news is not None
    assert (news.word, news.stdout[0]) == (Word.LIVE, b"got one\n")
    fed(outer, running.end_input_text())
    end = parse_answer(running, fed(outer, running.follow_text(8, 0, 5)))
    fed(outer, running.clean_text())

    assert end is not None
    assert (end.word, end.exit_code, end.stdout_bytes) == (Word.DONE, 5, 8)


def test_started_command_is_listed_and_killed(running: Running, outer: list[str], inner: str) -> None:
    fed(outer, running.start_text(SandboxCommand(command="sleep 300 & sleep 300"), Input.NONE, 0.1), inner)

    listed = {item.command_id: item.line for item in parse_list(fed(outer, list_text()))}
    killed = parse_answer(running, fed(outer, running.kill_text("SIGKILL"), inner))
    end = parse_answer(running, fed(outer, running.follow_text(0, 0, 5)))
    fed(outer, running.clean_text())

    assert listed[running.command_id] == "sleep 300 & sleep 300"
    assert killed == Answer(word=Word.SENT)
    assert end is not None
    assert (end.word, end.exit_code) == (Word.DONE, 137)


def test_command_that_was_killed_before_it_began_never_begins(running: Running, tmp_path: Path) -> None:
    killed = parse_answer(running, fed(["dash"], running.kill_text("SIGTERM")))
    answer = ran(running, SandboxCommand(command=f"touch {tmp_path}/ran"), ["dash"])

    assert killed == Answer(word=Word.STOPPED)
    assert answer == Answer(word=Word.STOPPED)
    assert not (tmp_path / "ran").exists()


def test_news_of_an_unknown_command_are_that_it_is_gone(running: Running) -> None:
    assert parse_answer(running, fed(["dash"], running.follow_text(0, 0, 0))) == Answer(word=Word.GONE)


def test_terminal_script_marks_where_the_output_begins(running: Running, tmp_path: Path) -> None:
    script = tmp_path / "tty"
    script.write_text(running.terminal_script(SandboxCommand(command="echo shown; exit 4")))

    done = subprocess.run(["dash", str(script)], capture_output=True, timeout=10, check=False)

    assert (done.stdout, done.returncode) == (BEGIN_OF_OUTPUT + b"shown\n", 4)
    assert not script.exists()


# --- pure -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "kept"), [(0, (0, 1)), (5, (5, 1)), (1023, (1023, 1)), (1024, (512, 512)), (2049, (1025, 1024))]
)
def test_kept_bytes_are_what_a_result_keeps(limit: int, kept: tuple[int, int]) -> None:
    assert kept_bytes(limit) == kept


@pytest.mark.parametrize(
    ("total", "ranges"), [(0, ((0, 0), (0, 0))), (2048, ((0, 2048), (2048, 0))), (5000, ((0, 1024), (3976, 1024)))]
)
def test_kept_ranges_are_head_and_tail(total: int, ranges: tuple[tuple[int, int], tuple[int, int]]) -> None:
    assert kept_ranges(total, 2048) == ranges


@pytest.mark.parametrize("text", ["", "hello\n", "ls: cannot access 'q'\n", "AI4J:other:done 0 - 0 0\n----.\n"])
def test_text_that_no_script_of_ours_wrote_is_no_answer(text: str) -> None:
    assert parse_answer(Running("x"), text) is None


def test_words_around_an_answer_are_ignored() -> None:
    running = Running("x")

    answer = parse_answer(running, f"motd\nAI4J:{running.mark}:done 0 - 2 0\naGk=----.\ntrailing")

    assert answer is not None
    assert answer.stdout == (b"hi", b"")


@pytest.mark.parametrize(
    "body", ["aGk=", "aGk=--", "aGk=----", "aGk=---", "a----.", "aG\N{REPLACEMENT CHARACTER}k=----."]
)
def test_answer_that_was_cut_short_or_changed_is_an_error(body: str) -> None:
    running = Running("x")

    with pytest.raises(SandboxProtocolError):
        parse_answer(running, f"AI4J:{running.mark}:done 0 - 2 0\n{body}")


@pytest.mark.parametrize("number", ["9" * 5000, "\N{ARABIC-INDIC DIGIT FIVE}", "-1"])
def test_answer_with_a_number_that_is_none_is_no_answer(number: str) -> None:
    running = Running("x")

    assert parse_answer(running, f"AI4J:{running.mark}:done {number} - 0 0\n----.\n") is None
    assert parse_answer(running, f"AI4J:{running.mark}:done 0 - {number} 0\n----.\n") is None
    assert parse_list(f"{number} aGk=\n") == []


def test_list_that_was_changed_is_an_error() -> None:
    with pytest.raises(SandboxProtocolError):
        parse_list("12 a\n")


@pytest.mark.parametrize(("millis", "centiseconds"), [(1, "1"), (999, "100"), (1500, "150"), (45_000, "4500")])
def test_limit_is_never_rounded_down_to_nothing(millis: int, centiseconds: str) -> None:
    """Case C16."""
    text = Running("x").run_text(SandboxCommand(command="true", timeout_millis=millis), Input.NONE)

    assert f" '' {centiseconds} '' " in text


def _is_dead(pid: str) -> bool:
    try:
        status = Path(f"/proc/{int(pid)}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"
