"""The real program on a real terminal, with the real local provider."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ai4j_sandbox import default_registry
from support.terminal import Terminal

PROGRAM = [sys.executable, "-m", "ai4j_cli"]


def _usable() -> bool:
    if "local" not in default_registry().ids():
        return False
    return default_registry().provider("local").health().healthy  # type: ignore[attr-defined]  # local has it


pytestmark = pytest.mark.skipif(not _usable(), reason="the local provider cannot isolate commands on this machine")


def on_terminal(*arguments: str, **options: int) -> Terminal:
    """Run ``ai4j sandbox run`` on a terminal."""
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color"}
    return Terminal([*PROGRAM, "sandbox", "run", *arguments], environment=environment, **options)


def test_the_command_gets_a_terminal_of_the_size_of_ours_and_its_kind():
    with on_terminal("-it", "-c", "stty size; tty; echo kind=$TERM; exit 7", rows=40, columns=100) as terminal:
        terminal.expect(b"40 100\r\n/dev/")
        terminal.expect(b"kind=xterm-256color\r\n")

        assert terminal.wait() == 7


def test_a_new_size_of_the_window_reaches_the_command():
    line = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"

    with on_terminal("-it", "-c", line, rows=24, columns=80) as terminal:
        terminal.expect(b"ready")
        terminal.resize(50, 132)

        terminal.expect(b"50 132")
        assert terminal.wait() == 0


def test_keys_go_to_the_command_ctrl_c_included():
    line = "trap 'echo interrupted inside; exit 3' INT; echo ready; while :; do sleep 0.05; done"

    with on_terminal("-it", "-c", line) as terminal:
        terminal.expect(b"ready")
        terminal.type(b"\x03")

        terminal.expect(b"interrupted inside")
        assert terminal.wait() == 3


def test_what_is_typed_is_echoed_once_by_the_terminal_inside():
    with on_terminal("-it", "-c", "echo ready; exec cat") as terminal:
        terminal.expect(b"ready\r\n")
        terminal.type("größe\n".encode())
        terminal.expect("größe\r\ngröße\r\n".encode())
        terminal.type(b"\x04")

        assert terminal.wait() == 0


def test_what_was_typed_before_the_command_started_is_not_lost():
    with on_terminal("-it", "-c", "read line; echo got=$line") as terminal:
        terminal.type(b"early\n")

        terminal.expect(b"got=early")
        assert terminal.wait() == 0


def test_the_terminal_is_as_before_afterwards():
    with on_terminal("-it", "-c", "stty -echo raw; echo ready; exit 1") as terminal:
        before = terminal.settings
        terminal.wait()

        assert terminal.settings == before


def test_without_tty_ctrl_c_cancels_the_command():
    with on_terminal("-c", "echo ready; sleep 60") as terminal:
        terminal.expect(b"ready")
        terminal.type(b"\x03")

        assert terminal.wait() == 130
        assert b"ai4j: the command was canceled" in terminal.shown


def test_without_tty_nobody_waits_for_keys():
    with on_terminal("--", "cat") as terminal:
        assert terminal.wait() == 0


def test_artifacts_are_told_to_whoever_watches():
    with on_terminal("--artifact", "*.txt", "-c", "echo hello > a.txt") as terminal:
        terminal.wait()

        assert b"artifact /workspace/a.txt (6 bytes, sha256 5891b5b5" in terminal.shown


def test_binary_input_reaches_a_command_in_a_local_sandbox():
    done = subprocess.run([*PROGRAM, "sandbox", "run", "--", "wc", "-c"], input=b"\0\1\2\xff", capture_output=True)

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"4", b"")
