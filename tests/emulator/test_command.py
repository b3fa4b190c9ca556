"""``python -m ai4j_sandbox_emulator start`` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ai4j_sandbox_emulator.command import stop_signals
from support.emulator_client import EmulatorClient
from support.processes import descendants, is_running
from support.waiting import eventually

COMMAND = [sys.executable, "-m", "ai4j_sandbox_emulator", "start"]


@contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The running command and the variables it printed."""
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline().strip().removeprefix("export ") for _ in range(3)]
            yield process, dict(line.split("=", 1) for line in lines)
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_what_clients_need_and_stops_cleanly(number: signal.Signals) -> None:
    with started() as (process, printed):
        client = EmulatorClient(printed["E2B_API_URL"])
        box = client.create(timeout=60)
        output = box.run("/bin/echo", "real").stdout
        box.start("/bin/sleep", "60").close()
        below = descendants(process.pid)

        process.send_signal(number)
        code = process.wait(20)

        assert (output, code, bool(below)) == (b"real\n", 0, True)
        assert eventually(lambda: not _alive(below))
        assert process.stderr is not None
        assert process.stderr.read() == "# serving; interrupt to stop\n"


def test_a_signal_that_comes_before_anybody_waits_for_it_is_not_lost() -> None:
    with stop_signals() as wait_for_one:
        os.kill(os.getpid(), signal.SIGTERM)

        assert wait_for_one()


def _alive(pids: set[int]) -> list[int]:

    return [pid for pid in pids if is_running(pid)]


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--provider", "nosuch"), "nosuch"), (("--face", "nosuch"), "faces must be among e2b")],
)
def test_what_does_not_exist_is_an_error_in_one_line(options: tuple[str, ...], message: str) -> None:
    finished = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=30, check=False)

    assert finished.returncode == 1
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr
