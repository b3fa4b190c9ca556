"""Completion for shells."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import invoke, registry_of

COMPLETE = "import sys; from ai4j_cli.main import main; sys.argv = ['ai4j']; main()"


SOURCED = """
PATH=$1:$PATH
eval "$(ai4j completion bash)"
COMP_WORDS=($2) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_ai4j_completion ai4j
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words: str) -> tuple[list[str], list[str]]:
    """Return what is offered for the last word, and the modules of ours that were loaded for it."""
    script = f"import atexit, sys; atexit.register(lambda: print('loaded', *sys.modules, file=sys.stderr)); {COMPLETE}"
    environment = {
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_AI4J_COMPLETE": "bash_complete",
        "PYTHONPATH": ":".join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()], done.stderr.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_the_program(shell):
    result = invoke("completion", shell, registry=registry_of())

    assert result.exit_code == 0
    assert f"_AI4J_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_the_shell_understands(shell):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = invoke("completion", shell, registry=registry_of()).stdout

    assert subprocess.run([program, "-n"], input=script.encode(), capture_output=True).returncode == 0


def test_another_shell_is_refused():
    assert invoke("completion", "csh", registry=registry_of()).exit_code == 2


def test_commands_are_completed_without_loading_them():
    offered, loaded = completed("ai4j", "sandbox", "e")

    assert offered == ["exec", "extend"]
    assert "ai4j_cli.sandbox_exec" not in loaded


def test_options_are_completed():
    offered, _ = completed("ai4j", "sandbox", "cleanup", "--o")

    assert offered == ["--older-than", "--owner"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("ai4j sandbox r", ["run", "resume", "rm"]),
        ("ai4j sandbox exec e2b/x -- --", [""]),
        ("ai4j completion z", ["zsh"]),
    ],
)
def test_bash_that_sourced_the_script_completes(words, offered):
    program = str(Path(sys.executable).parent)

    done = subprocess.run(["bash", "-c", SOURCED, "bash", program, words], capture_output=True, text=True, check=True)

    assert (done.stdout.splitlines(), done.stderr) == (offered, "")


@pytest.mark.parametrize(
    "words",
    [
        ("sandbox", "run", "--upload"),
        ("sandbox", "run", "--spec"),
        ("sandbox", "cp"),
        ("session", "show"),
        ("blueprint", "check"),
        ("chat", "--scripted"),
    ],
)
def test_a_file_is_left_to_the_shell(words):
    assert completed("ai4j", *words, "/et")[0] == ["/et"]


@pytest.mark.parametrize("words", [("providers", "show"), ("providers", "doctor"), ("chat", "--allow-sandbox")])
def test_providers_are_completed(words):
    assert "local" in completed("ai4j", *words, "loc")[0]
