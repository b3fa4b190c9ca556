"""The real program in a process of its own: signals, pipes, encodings, closed streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
PATIENCE = 30

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start ``ai4j sandbox run --provider host`` with the arguments given, in a process group of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, environment: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "support.ai4j_on_host", str(tmp_path), "sandbox", "run", "--provider", "host"]
        process = subprocess.Popen(
            [*command, *arguments],
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
            env={**os.environ, "PYTHONPATH": str(TESTS), **(environment or {})},
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start

    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Wait for the program and return its exit code and what it wrote."""
    stdout, stderr = process.communicate(timeout=PATIENCE)
    return process.returncode, stdout, stderr


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


# --- streams ------------------------------------------------------------------------------------------------------


def test_binary_input_and_output_pass_unchanged(start):
    data = bytes(range(256)) * 4096

    process = start("cat", stdin=subprocess.PIPE)
    stdout, stderr = process.communicate(data, timeout=PATIENCE)

    assert (process.returncode, stdout == data, stderr) == (0, True, b"")


def test_input_of_four_bytes_with_nul_is_counted_as_four(start):
    """Case E11."""
    process = start("--", "wc", "-c", stdin=subprocess.PIPE)
    stdout, _ = process.communicate(b"\x00\x01\x02\xff", timeout=PATIENCE)

    assert stdout.strip() == b"4"


def test_output_arrives_while_the_command_runs(start):
    process = start("-c", "echo first; read line; echo $line", stdin=subprocess.PIPE)

    first = process.stdout.readline()
    stdout, _ = process.communicate(b"second\n", timeout=PATIENCE)

    assert (first, stdout) == (b"first\n", b"second\n")


def test_streams_are_apart(start):
    assert ended(start("-c", "echo out; echo err >&2; exit 7")) == (7, b"out\n", b"err\n")


def test_a_program_that_does_not_exist_is_127(start):
    """Case B16."""
    assert ended(start("--", "no-such-program"))[0] == 127


def test_an_input_that_never_ends_does_not_keep_the_program(start):
    read_end, write_end = os.pipe()
    try:
        code, stdout, _ = ended(start("echo", "done", stdin=read_end))
    finally:
        os.close(read_end)
        os.close(write_end)

    assert (code, stdout) == (0, b"done\n")


def test_an_input_that_cannot_be_read_is_not_taken_for_a_short_one(start, tmp_path):
    with (tmp_path / "write-only").open("wb") as unreadable:
        code, _, stderr = ended(start("-c", "cat; sleep 60", stdin=unreadable))

    assert (code, stderr) == (125, b"ai4j: [Errno 9] Bad file descriptor\n")


@pytest.mark.parametrize(
    ("closed", "line", "code"),
    [
        ("<&-", "echo x; exit 5", 5),
        ("2>&-", "echo x; exit 5", 5),
        ("2>&-", "echo x >&2; exit 5", 5),
        (">&-", "exit 5", 5),
        (">&-", "echo x; exit 5", 125),
        ("<&- >&- 2>&-", "echo x; exit 5", 125),
    ],
)
def test_closed_standard_streams_are_survived_and_output_that_got_nowhere_is_a_failure(closed, line, code, tmp_path):
    arguments = f"{tmp_path} sandbox run --provider host -c '{line}'"
    script = f"exec {sys.executable} -m support.ai4j_on_host {arguments} {closed}"

    done = subprocess.run(["/bin/sh", "-c", script], env={**os.environ, "PYTHONPATH": str(TESTS)}, timeout=PATIENCE)

    assert (done.returncode, (tmp_path / "alive").read_text()) == (code, "0")


WRITING = ["--help", "--version", "sandbox run --help", "providers list", "providers list --json", "completion bash"]
LOOKING = ["providers show local", "sandbox ls", "sandbox ls --json", "top --once"]


@pytest.mark.parametrize("arguments", WRITING + LOOKING)
@pytest.mark.parametrize(("target", "reason"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left")])
def test_whatever_cannot_be_written_is_a_failure_told_in_one_line(arguments, target, reason):
    line = f"exec {sys.executable} -m ai4j_cli {arguments} {target}"
    environment = {"PATH": os.environ["PATH"]}  # no service is configured

    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, env=environment, timeout=PATIENCE)

    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert reason in done.stderr


@pytest.mark.parametrize("arguments", WRITING)
def test_whatever_nobody_reads_ends_without_a_word(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as broken:
        command = [sys.executable, "-m", "ai4j_cli", *arguments.split()]
        done = subprocess.run(command, stdout=broken, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)

    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_ascii_locale_breaks_neither_output_nor_exit_code(start, options):
    """Case O05."""
    environment = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}

    line = r"printf '\342\200\224 \360\237\230\200\n'; exit 9"
    code, stdout, stderr = ended(start(*options, "-c", line, environment=environment))

    text = json.loads(stdout)["result"]["stdout"] if options else stdout.decode()
    assert (code, text, stderr) == (9, "— 😀\n", b"")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_message_with_what_ascii_lacks_is_told_all_the_same(start, options):
    environment = {"PYTHONIOENCODING": "ascii"}

    code, _, stderr = ended(start(*options, "--config", "größe=1", "true", environment=environment))

    assert code == 2
    assert stderr.startswith(b"ai4j: host refuses the spec: config.gr")


# --- broken pipes -------------------------------------------------------------------------------------------------


def test_a_reader_that_leaves_ends_the_command_quietly(start, tmp_path):
    process = start("-c", "echo $$; exec yes")

    pid = int(process.stdout.readline())
    process.stdout.close()
    process.wait(PATIENCE)

    assert (process.returncode, process.stderr.read()) == (141, b"")
    assert not is_running(pid)
    assert (tmp_path / "alive").read_text() == "0"


def test_a_reader_of_json_that_leaves_is_no_error(start):
    process = start("--json", "-c", "head -c 1000000 /dev/zero")

    process.stdout.close()
    process.wait(PATIENCE)

    assert (process.returncode, process.stderr.read()) == (141, b"")


# --- stopping -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_cancels_the_command_and_closes_the_sandbox(start, tmp_path, number, code):
    """Case O02."""
    process = start("-c", "trap 'echo bye; exit 0' TERM; sleep 60 & echo $$; wait")

    pid = int(process.stdout.readline())
    process.send_signal(number)
    returncode, stdout, stderr = ended(process)

    assert (returncode, stdout) == (code, b"bye\n")
    assert stderr.endswith(b"ai4j: the command was canceled\n")
    assert not is_running(pid)
    assert (tmp_path / "alive").read_text() == "0"


def test_a_second_ctrl_c_does_not_skip_the_clean_up(start, tmp_path):
    process = start("-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done")

    pid = int(process.stdout.readline())
    for _ in range(3):
        process.send_signal(signal.SIGINT)
    returncode, _, stderr = ended(process)

    assert (returncode, stderr) == (130, b"ai4j: the command was canceled\n")
    assert not is_running(pid)
    assert (tmp_path / "alive").read_text() == "0"


def test_ctrl_c_has_its_result_in_the_json(start):
    line = "read line; echo half; sleep 60 & echo $! > pid; wait"
    process = start("--json", "-c", line, stdin=subprocess.PIPE)
    process.stdin.write(b"go on\n")
    process.stdin.flush()
    pid_file = Path(process.args[3], "pid")
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert process.poll() is None  # and pytest's own timeout bounds this

    process.send_signal(signal.SIGINT)
    returncode, stdout, _ = ended(process)

    document = json.loads(stdout)
    assert (returncode, document["exitCode"]) == (130, 130)
    assert (document["result"]["canceled"], document["result"]["stdout"]) == (True, "half\n")
    assert not is_running(int(pid_file.read_text()))


def test_a_signal_that_was_ignored_stays_ignored(start):
    nohup = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    process = start("-c", "echo ready; read line; echo done", stdin=subprocess.PIPE, **nohup)

    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    stdout, _ = process.communicate(b"go on\n", timeout=PATIENCE)

    assert (process.returncode, stdout) == (0, b"done\n")


def test_a_timeout_kills_the_whole_tree(start):
    process = start("--timeout", "0.5", "-c", "sleep 60 & echo $!; wait")

    returncode, stdout, stderr = ended(process)

    assert (returncode, stderr) == (124, b"ai4j: the command was stopped: it took longer than --timeout\n")
    assert not is_running(int(stdout))


def test_a_timeout_is_kept_although_nobody_reads_the_output(start):
    process = start("--timeout", "0.5", "--", "yes")

    process.wait(PATIENCE)

    assert process.returncode == 124


def test_ctrl_c_works_although_nobody_reads_the_output(start):
    process = start("-c", "echo ready; exec yes")

    os.read(process.stdout.fileno(), 6)  # and not a byte more
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)

    assert process.returncode == 130


def test_a_document_that_cannot_be_written_is_a_failure_in_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ai4j_cli", "sandbox", "run", "--json", "--", "true"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (125, "ai4j: [Errno 28] No space left on device\n")


def test_a_chat_that_nobody_reads_any_more_ends_without_a_word(tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text("- {tool: nope}\n" * 50 + "- done\n")
    command = [sys.executable, "-m", "ai4j_cli", "chat", "--scripted", str(script), "-C", str(tmp_path)]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    with subprocess.Popen(command, env=environment, **streams) as chat:
        chat.stdout.readline()
        chat.stdout.close()
        chat.stdin.write(b"go\n" * 3)
        chat.stdin.close()
        told = chat.stderr.read()
        chat.wait(PATIENCE)

    assert (chat.returncode, told) == (141, b"")
