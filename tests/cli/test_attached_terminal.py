"""`ai4j sandbox exec` and `shell` as the real program on a real terminal, in a sandbox that exists."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from ai4j_sandbox import SandboxCommand, SandboxSession, default_registry
from ai4j_sandbox_emulator import Emulator
from support.terminal import Terminal


def _usable() -> bool:
    registry = default_registry()
    if not {"local", "e2b"} <= set(registry.ids()):
        return False
    return registry.provider("local").health().healthy  # type: ignore[attr-defined]  # local has it


pytestmark = pytest.mark.skipif(not _usable(), reason="the emulator cannot run commands on this machine")


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator() as running:
        yield running


@pytest.fixture
def sandbox(emulator: Emulator) -> Iterator[SandboxSession]:
    with default_registry().provider("e2b", environ=emulator.environment).create_session() as session:
        yield session


def on_terminal(emulator: Emulator, *arguments: str) -> Terminal:
    """Run ``ai4j sandbox`` on a terminal."""
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **emulator.environment}
    return Terminal([sys.executable, "-m", "ai4j_cli", "sandbox", *arguments], environment=environment)


def test_ctrl_c_cancels_the_command_and_leaves_the_sandbox(emulator, sandbox):
    line = "echo $$ > pid; echo ready; sleep 300"

    with on_terminal(emulator, "exec", "-c", line, f"e2b/{sandbox.session_id}") as terminal:
        terminal.expect(b"ready")
        terminal.type(b"\x03")

        assert terminal.wait() == 130
    assert sandbox.execute(SandboxCommand(command="kill -0 $(cat pid)")).exit_code != 0


def test_a_shell_is_open_until_it_is_left_and_its_exit_code_counts(emulator, sandbox):
    with on_terminal(emulator, "shell", f"e2b/{sandbox.session_id}") as terminal:
        terminal.type(b"stty size; echo $((6 * 7))-here; exit 5\n")
        terminal.expect(b"24 80")
        terminal.expect(b"42-here")

        assert terminal.wait() == 5
    assert sandbox.execute(SandboxCommand(command="echo alive")).stdout == "alive\n"


def test_a_shell_follows_the_window_takes_ctrl_c_and_any_byte_and_ends_with_ctrl_d(emulator, sandbox):
    with on_terminal(emulator, "shell", f"e2b/{sandbox.session_id}") as terminal:
        terminal.type(
            b"echo re$((1))dy; until [ \"$(stty size)\" = '50 132' ]; do sleep 0.05; done; echo res$((1))zed\r"
        )
        terminal.expect(b"re1dy")
        terminal.resize(50, 132)
        terminal.expect(b"res1zed")
        terminal.type(b"echo sle$((1))p; sleep 300\r")
        terminal.expect(b"sle1p")
        terminal.type(b"\x03")
        terminal.type(b"printf '\\200\\377\\303'; echo al$((1))ve\r")
        terminal.expect(b"\x80\xff\xc3al1ve")
        terminal.type(b"\x04")

        assert terminal.wait() == 0


def test_a_window_that_is_closed_ends_what_ran_in_it_and_leaves_the_sandbox(emulator, sandbox):
    with on_terminal(emulator, "shell", f"e2b/{sandbox.session_id}") as terminal:
        terminal.type(b"echo $$ > pid; echo re$((1))dy; sleep 300\r")
        terminal.expect(b"re1dy")
        terminal.hang_up()

        assert terminal.wait() == 129
    assert sandbox.execute(SandboxCommand(command="kill -0 $(cat pid)")).exit_code != 0


def test_a_transfer_shows_a_bar_with_its_size(emulator, sandbox, tmp_path):
    (tmp_path / "big").write_bytes(bytes(5_000_000))

    with on_terminal(emulator, "cp", str(tmp_path / "big"), f"e2b/{sandbox.session_id}:big") as terminal:
        terminal.expect(b"copying ")
        terminal.expect(b"5.0 MB")
        assert terminal.wait() == 0
        assert b"copied 5000000 bytes to big" in terminal.shown


@pytest.mark.parametrize(("keys", "code", "alive"), [(b"y\r", 0, False), (b"n\r", 0, True), (b"\r", 0, True)])
def test_cleanup_asks_first_and_no_answer_means_no(emulator, sandbox, keys, code, alive):
    with on_terminal(emulator, "cleanup", "--provider", "e2b") as terminal:
        terminal.expect(f"e2b/{sandbox.session_id[:8]}".encode())
        terminal.expect(b"Destroy 1 sandboxes? [y/N]: ")
        terminal.type(keys)

        assert terminal.wait() == code
    assert (sandbox.session_id in {item.sandbox_id for item in emulator.sandboxes()}) is alive


def test_a_question_that_is_left_destroys_nothing(emulator, sandbox):
    with on_terminal(emulator, "cleanup", "--provider", "e2b") as terminal:
        terminal.expect(b"Destroy 1 sandboxes? [y/N]: ")
        terminal.type(b"\x04")

        assert terminal.wait() == 130
        assert terminal.shown.endswith(b"ai4j: interrupted\r\n")
    assert sandbox.session_id in {item.sandbox_id for item in emulator.sandboxes()}
