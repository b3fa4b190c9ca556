"""The real ``ai4j chat`` on a real terminal, with the CubeSandbox provider against the emulator."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ai4j_sandbox import SandboxCommand, SandboxSession, default_registry
from ai4j_sandbox.frozen import EMPTY
from ai4j_sandbox_emulator import Emulator
from support.terminal import Terminal

SCRIPT = """\
- {tool: bash, arguments: {action: exec, command: 'echo from-$(id -u)-in-$PWD'}}
- first answer
- {tool: bash, arguments: {action: exec, command: 'echo $$ > pid; sleep 300'}}
- never said
"""


def _usable() -> bool:
    registry = default_registry()
    if not {"local", "cubesandbox"} <= set(registry.ids()):
        return False
    return registry.provider("local").health().healthy  # type: ignore[attr-defined]  # local has it


pytestmark = pytest.mark.skipif(not _usable(), reason="the emulator cannot run commands on this machine")


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(["cubesandbox"]) as running:
        yield running


@pytest.fixture
def sandbox(emulator: Emulator) -> Iterator[SandboxSession]:
    """A sandbox that exists already."""
    provider = default_registry().provider("cubesandbox", environ=emulator.environment)
    with provider.create_session() as session:
        yield session


class ChatOnTerminal(Terminal):
    """``ai4j chat`` with a scripted model, on a terminal."""

    def __init__(self, emulator: Emulator, home: Path, *options: str, environment: Mapping[str, str] = EMPTY) -> None:
        (home / "script.yaml").write_text(SCRIPT)
        complete = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TERM": "xterm-256color",
            "PROMPT_TOOLKIT_NO_CPR": "1",  # nobody here answers where the cursor is
            "E2B_API_KEY": "e2b_example",
            "E2B_API_URL": "http://127.0.0.1:1",  # nobody listens there
            **emulator.environment,
            **environment,
        }
        command = [sys.executable, "-m", "ai4j_cli", "chat", "--scripted", str(home / "script.yaml"), "-C", str(home)]
        super().__init__([*command, *options], environment=complete, rows=40, columns=200)

    def say(self, line: str) -> None:
        """Type a line once the prompt is there."""
        self.expect(b">\x1b[")
        self.type(line.encode() + b"\r")

    def signal(self, number: int) -> None:
        """Send a signal to the program."""
        self._process.send_signal(number)


def saved_session(home: Path) -> str:
    """Return the id of the only saved session."""
    (file,) = (home / ".local/state/ai4j/sessions").glob("*.json")
    match = re.search(r'"sessionId": "(session_\w+)"', file.read_text())
    assert match
    return match[1]


def test_attach_status_disable_and_the_sandbox_is_still_there(emulator, sandbox, tmp_path):
    directory = sandbox.execute(SandboxCommand(command="pwd")).stdout.strip()
    with ChatOnTerminal(emulator, tmp_path) as terminal:
        terminal.say("/sandbox status")
        terminal.expect(b"- mode=direct-host")
        terminal.say(f"/sandbox attach cube {sandbox.session_id} {directory}")
        terminal.expect(b"- mode=attached-live\r\n- runtime=live-session\r\n- provider=cubesandbox")
        terminal.expect(b"- status=RUNNING")
        terminal.say("who are you")
        terminal.expect(b"Run bash in cubesandbox/")
        terminal.type(b"y\r")
        terminal.expect(b"first answer")
        terminal.say("/sandbox status")
        terminal.expect(f"- lastExecution=bash in cubesandbox/{sandbox.session_id}".encode())
        terminal.say("/sandbox disable")
        terminal.expect(b"sandbox disabled:\r\n- mode=direct-host")
        terminal.say("/quit")

        assert terminal.wait() == 0
    assert sandbox.execute(SandboxCommand(command="echo alive")).stdout == "alive\n"


def test_ctrl_c_stops_the_command_in_the_sandbox_and_gives_the_prompt_back(emulator, sandbox, tmp_path):
    with ChatOnTerminal(emulator, tmp_path, "--yes") as terminal:
        terminal.say(f"/sandbox attach cube {sandbox.session_id}")
        terminal.say("first")
        terminal.expect(b"first answer")
        terminal.say("second")
        terminal.expect(b"[bash in cubesandbox/")
        _wait_for_file(sandbox, "pid")
        terminal.type(b"\x03")
        terminal.expect(b"interrupted")
        terminal.say("/status")
        terminal.expect(b"sandbox=cubesandbox/running/")
        terminal.say("/quit")

        assert terminal.wait() == 0
    assert sandbox.execute(SandboxCommand(command="kill -0 $(cat pid)")).exit_code != 0


def _wait_for_file(sandbox: SandboxSession, name: str) -> None:
    line = f"for i in $(seq 200); do [ -s {name} ] && exit 0; sleep 0.05; done; exit 1"
    assert sandbox.execute(SandboxCommand(command=line)).exit_code == 0


def test_a_resumed_session_refuses_to_run_until_it_is_attached_again(emulator, sandbox, tmp_path):
    with ChatOnTerminal(emulator, tmp_path, "--yes") as terminal:
        terminal.say(f"/sandbox attach cube {sandbox.session_id}")
        terminal.say("first")
        terminal.expect(b"first answer")
        terminal.say("/quit")
        assert terminal.wait() == 0

    with ChatOnTerminal(emulator, tmp_path, "--yes", "--resume", saved_session(tmp_path)) as terminal:
        terminal.expect(b"- mode=detached")
        terminal.say("go on")
        terminal.expect(b"has a sandbox that is not live")
        terminal.say(f"/sandbox attach cube {sandbox.session_id}")
        terminal.expect(b"- mode=attached-live")
        terminal.say("go on")
        terminal.expect(b"first answer")
        terminal.say("/quit")
        assert terminal.wait() == 0


def test_a_wrong_id_and_a_dead_server_leave_the_sandbox_in_use(emulator, sandbox, tmp_path):
    with ChatOnTerminal(emulator, tmp_path, "--yes") as terminal:
        terminal.say(f"/sandbox attach cube {sandbox.session_id}")
        terminal.say("/sandbox attach cube nope")
        terminal.expect(b"Sandbox attach failed: ")
        terminal.expect(b"404")
        terminal.expect(b"unchanged: sandbox=cubesandbox/running/")
        terminal.say("/sandbox attach e2b some-id")
        terminal.expect(b"Sandbox attach failed: ")
        terminal.expect(b"E2B_API_URL")
        terminal.expect(b"unchanged: sandbox=cubesandbox/running/")
        terminal.say("first")
        terminal.expect(b"[bash in cubesandbox/")
        terminal.expect(b"first answer")
        terminal.say("/quit")
        assert terminal.wait() == 0


def test_a_workspace_that_does_not_exist_leaves_the_sandbox_in_use(emulator, sandbox, tmp_path):
    with ChatOnTerminal(emulator, tmp_path, "--yes") as terminal:
        terminal.say(f"/sandbox attach cube {sandbox.session_id}")
        for workspace in ("/nowhere", "--workspace=/nowhere"):
            terminal.say(f"/sandbox attach cube {sandbox.session_id} {workspace}")
            terminal.expect(b"Sandbox attach failed: workspace '/nowhere': ")
            terminal.expect(b"unchanged: sandbox=cubesandbox/running/")
        terminal.say("first")
        terminal.expect(b"[bash in cubesandbox/")
        terminal.expect(b"first answer")
        terminal.say("/quit")
        assert terminal.wait() == 0


def test_a_dumb_terminal_gets_no_ansi_sequences(emulator, tmp_path):
    with ChatOnTerminal(emulator, tmp_path, environment={"TERM": "dumb"}) as terminal:
        terminal.expect(b"direct-host> ")
        terminal.type(b"/help\r")
        terminal.expect(b"/sandbox enable <provider>")
        terminal.expect(b"direct-host> ")
        terminal.type(b"/quit\r")
        assert terminal.wait() == 0
        assert b"\x1b" not in terminal.everything


def test_no_color_is_obeyed(emulator, tmp_path):
    with ChatOnTerminal(emulator, tmp_path, environment={"NO_COLOR": "1"}) as terminal:
        terminal.say("/help")
        terminal.say("/quit")
        assert terminal.wait() == 0
        assert set(re.findall(rb"\x1b\[([0-9;]*)m", terminal.everything)) == {b"0"}


def test_tab_completes_actions_providers_and_the_ids_that_exist(emulator, sandbox, tmp_path):
    with ChatOnTerminal(emulator, tmp_path) as terminal:
        terminal.expect(b">\x1b[")
        terminal.type(b"/sandbox att\t")
        terminal.expect(b"ach\x1b")
        terminal.type(b"cubes\t")
        terminal.expect(b"andbox\x1b")
        terminal.type(b"\t")
        terminal.expect(sandbox.session_id.encode())
        terminal.type(b"\r")
        terminal.expect(b"- mode=attached-live")
        terminal.say("/quit")
        assert terminal.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_leaves_no_sandbox_and_a_usable_terminal(emulator, number, tmp_path):
    before = {item.sandbox_id for item in emulator.sandboxes()}
    with ChatOnTerminal(emulator, tmp_path) as terminal:
        settings = terminal.settings
        terminal.say("/sandbox enable cube")
        terminal.expect(b"- mode=sandbox")
        terminal.expect(b">\x1b[")
        terminal.signal(number)

        assert terminal.wait() == 128 + number
        assert terminal.settings == settings
    assert {item.sandbox_id for item in emulator.sandboxes()} == before


def test_ctrl_d_ends_the_chat(emulator, tmp_path):
    with ChatOnTerminal(emulator, tmp_path) as terminal:
        terminal.expect(b">\x1b[")
        terminal.type(b"\x04")

        assert terminal.wait() == 0


def test_a_credential_that_was_typed_is_not_in_the_history(emulator, tmp_path):
    with ChatOnTerminal(emulator, tmp_path) as terminal:
        terminal.say("/help")
        terminal.say("/sandbox enable cube --api-key hunter22hunter22")
        terminal.expect(b"Credentials must come from environment")
        terminal.say("/quit")
        terminal.wait()

    history = (tmp_path / ".local/state/ai4j/chat-history").read_text()
    assert "/help" in history
    assert "hunter22" not in history
