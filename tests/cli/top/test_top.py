"""`ai4j top`: one look as text and as JSON, and the real program on a terminal over two services."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ai4j_sandbox import (
    SandboxAuthError,
    SandboxCommand,
    SandboxConfigError,
    SandboxSession,
    SandboxSpec,
    default_registry,
)
from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox.testing.fake import FAKE_INFO
from ai4j_sandbox_emulator import Emulator
from support.command_line import document_of, invoke, registry_of
from support.terminal import Terminal

OURS = SandboxSpec(labels={"ai4jOwner": "ai4j"})
FACES = ("cubesandbox", "e2b")


def test_one_look_shows_ours_of_every_provider_and_leaves_them_alive():
    one, two = (FakeProvider(info=replace(FAKE_INFO, provider_id=name)) for name in ("one", "two"))
    first, second = one.create_session(OURS).session_id, two.create_session(OURS).session_id
    foreign = two.create_session(SandboxSpec()).session_id

    result = invoke("top", registry=registry_of(one, two))

    assert result.exit_code == 0
    assert f"one/{first}" in result.stdout
    assert f"two/{second}" in result.stdout
    assert foreign not in result.stdout
    assert (one.sandboxes[first].alive, two.sandboxes[second].alive) == (True, True)


def test_json_tells_what_could_not_be_looked_into():
    class Closed(FakeProvider):
        def connect(self, session_id, spec=None):
            raise SandboxAuthError("no")

    provider = Closed()
    sandbox = provider.create_session(OURS).session_id

    (told,) = document_of(invoke("top", "--json", registry=registry_of(provider)))["sandboxes"]

    assert (told["sessionId"], told["problem"], told["processes"]) == (sandbox, "no", [])


def test_a_provider_that_cannot_be_asked_shows_in_the_exit_code():
    class Refused(FakeProvider):
        def list_sessions(self, labels=None):
            raise SandboxAuthError("the key is not accepted")

    result = invoke("top", "--once", registry=registry_of(Refused()))

    assert result.exit_code == 125
    assert "fake: the key is not accepted" in result.stdout


def test_a_setting_that_is_wrong_shows_in_the_exit_code_as_it_does_for_ls():
    class Misconfigured(FakeProvider):
        def list_sessions(self, labels=None):
            raise SandboxConfigError("FAKE_URL must be a URL")

    registry = registry_of(Misconfigured())

    assert invoke("top", "--once", registry=registry).exit_code == 2
    assert invoke("sandbox", "ls", registry=registry).exit_code == 2


# --- on a terminal ------------------------------------------------------------------------------------------------


def _usable() -> bool:
    registry = default_registry()
    if not {"local", *FACES} <= set(registry.ids()):
        return False
    return registry.provider("local").health().healthy  # type: ignore[attr-defined]  # local has it


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    if not _usable():
        pytest.skip("the emulator cannot run commands on this machine")
    with Emulator(FACES) as running:
        yield running


@pytest.fixture
def sandboxes(emulator: Emulator) -> Iterator[list[SandboxSession]]:
    """One sandbox of each service."""
    sessions = [default_registry().provider(name, environ=emulator.environment).create_session() for name in FACES]
    yield sessions
    for session in sessions:
        session.close()


def test_commands_of_two_services_are_shown_followed_and_canceled(emulator, sandboxes):
    line = "while :; do echo said-by-$NAME; sleep 0.1; done"
    processes = [
        session.start(SandboxCommand(command=line, environment={"NAME": session.provider_id})) for session in sandboxes
    ]
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **emulator.environment}
    command = [sys.executable, "-m", "ai4j_cli", "top", "--interval", "0.3"]

    with Terminal(command, environment=environment, columns=160, rows=40) as terminal:
        settings = terminal.settings
        terminal.expect(b"said-by-cubesandbox")
        terminal.type(b"\x1b[B")
        terminal.expect(b"said-by-e2b")
        terminal.type(b"c")
        terminal.expect(b"is canceled")
        terminal.type(b"q")

        assert terminal.wait() == 0
        assert terminal.settings == settings
        assert b"\x1b[?1049h" in terminal.everything  # a screen of its own
    result = processes[1].wait()
    assert (result.exit_code, result.signal) == (143, "SIGTERM")
    assert sandboxes[0].cancel(processes[0].command_id)


def on_terminal(emulator: Emulator, **variables: str) -> Terminal:
    """Run ``ai4j top`` on a terminal."""
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **emulator.environment, **variables}
    return Terminal([sys.executable, "-m", "ai4j_cli", "top", "--interval", "0.3"], environment=environment)


def test_a_dumb_terminal_gets_one_look_without_ansi_sequences(emulator, sandboxes):
    with on_terminal(emulator, TERM="dumb", COLUMNS="120") as terminal:
        assert terminal.wait() == 0
        assert b"COMMAND" in terminal.everything
        assert b"\x1b" not in terminal.everything


def test_no_color_leaves_the_screen_without_colors(emulator, sandboxes):
    with on_terminal(emulator, NO_COLOR="1") as terminal:
        terminal.expect(b"cubesandbox/")
        terminal.type(b"q")
        assert terminal.wait() == 0
        assert re.findall(rb"\x1b\[[0-9;]*m", terminal.everything) == []
