"""`ai4j chat` as a command: its options, its blueprint, its outcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from ai4j_agent import AgentSessionSnapshot
from ai4j_sandbox import SandboxSpec
from ai4j_sandbox.testing import FakeProvider, FakeResult
from support.command_line import invoke, registry_of

SCRIPT = "- {tool: bash, arguments: {action: exec, command: whoami}}\n- done\n"
BLUEPRINT = """\
version: ai4j.agent/v1
id: reviewer
model: {provider: openai, model: m}
tools: [{ref: bash}]
sandbox: {enabled: true, provider: fake}
workflow: {mode: react, maxTurns: 20}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "blueprint.yaml").write_text(BLUEPRINT)
    return tmp_path


def chat(provider: FakeProvider, home: Path, *options: str, typed: str = ""):
    """Run ``ai4j chat`` with the scripted model."""
    script = ("--scripted", str(home / "script.yaml"), "-C", str(home))
    return invoke("chat", *script, *options, registry=registry_of(provider), stdin=typed.encode())


def inside() -> FakeProvider:
    return FakeProvider(lambda command: FakeResult(stdout="/work\n" if command.command == "pwd" else "inside\n"))


def test_a_chat_over_pipes_answers_and_is_saved_where_it_can_be_looked_at(home):
    provider = inside()

    result = chat(provider, home, "--yes", typed="/sandbox enable fake\nwho?\n")

    (file,) = (home / "state/ai4j/sessions").iterdir()
    assert result.exit_code == 0
    assert "done\n" in result.stdout
    assert AgentSessionSnapshot.from_json(file.read_text()).sandbox_binding.provider_id == "fake"
    assert invoke("session", "verify", str(file), registry=registry_of()).exit_code == 0
    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_a_seal_key_is_used_for_the_log(home, monkeypatch):
    monkeypatch.setenv("AI4J_SEAL_KEY", "key")
    chat(inside(), home, typed="who?\nn\n")
    (file,) = (home / "state/ai4j/sessions").iterdir()

    with_key = invoke("session", "verify", str(file), registry=registry_of()).exit_code
    monkeypatch.delenv("AI4J_SEAL_KEY")

    assert (with_key, invoke("session", "verify", str(file), registry=registry_of()).exit_code) == (0, 1)


def test_the_sandbox_of_a_blueprint_needs_a_grant(home):
    provider = inside()

    result = chat(provider, home, "--blueprint", str(home / "blueprint.yaml"), typed="who?\n")

    assert (result.exit_code, provider.sandboxes) == (2, {})
    assert "blueprint.sandbox.unsupported" in result.stderr
    assert "hint: --allow-sandbox PROVIDER grants the sandbox" in result.stderr


def test_a_granted_sandbox_is_there_from_the_start_and_can_be_left(home):
    provider = inside()
    options = ("--blueprint", str(home / "blueprint.yaml"), "--allow-sandbox", "fake", "--yes")

    result = chat(provider, home, *options, typed="/status\nwho?\n/sandbox disable\n/status\n")

    (sandbox,) = provider.sandboxes.values()
    assert f"sandbox=fake/running/{sandbox.session_id[:32]}" in result.stdout
    assert "whoami" in [command.command for command in provider.commands]
    assert result.stdout.rstrip().splitlines()[-2] == "sandbox=direct-host"
    assert not sandbox.alive


def test_without_a_model_it_says_how_to_name_one(home):
    result = invoke("chat", "-C", str(home), registry=registry_of())

    assert result.exit_code == 2
    assert "hint: give --model, set AI4J_MODEL, or use --blueprint" in result.stderr


def test_a_session_that_does_not_exist_is_told(home):
    result = chat(inside(), home, "--resume", "nope")

    assert result.exit_code == 2
    assert "session 'nope' not found" in result.stderr


def test_a_sandbox_that_stays_open_shows_in_the_exit_code(home):
    class Sticky(FakeProvider):
        def _create(self, spec: SandboxSpec):
            session = super()._create(spec)
            session.__class__ = type("StickySession", (type(session),), {"_destroy": _refuse})
            return session

    result = chat(Sticky(), home, typed="/sandbox enable fake\n")

    assert result.exit_code == 125
    assert "warning: sandbox fake/fake-" in result.stdout


def _refuse(session: object) -> None:
    raise RuntimeError("it does not go away")
