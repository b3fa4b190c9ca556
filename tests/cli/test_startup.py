"""Ctrl-C at the worst moments: while the program is still being imported, and while it ends."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from support.command_line import invoke, registry_of

PATIENCE = 30

# A finder that interrupts the program as it begins to import a module: always the same moment, unlike a timer.
_INTERRUPTED_AT = """
import signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from ai4j_cli.startup import main
sys.argv = ["ai4j", *{arguments!r}]
main()
"""


def interrupted_at(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``ai4j`` and press Ctrl-C when it begins to import `module`."""
    script = _INTERRUPTED_AT.format(module=module, arguments=arguments)
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("module", ["ai4j_cli.main", "click", "click.core", "ai4j_cli.application", "ai4j_cli.streams"])
def test_ctrl_c_before_the_command_is_known_is_quiet(module):
    done = interrupted_at(module, "providers", "list")

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("module", ["ai4j_cli.providers", "ai4j_sandbox.registry", "ai4j_cli.catalog", "rich.console"])
def test_ctrl_c_while_a_command_is_loaded_is_told_in_one_line(module):
    done = interrupted_at(module, "providers", "list")

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ai4j: interrupted\n")


def test_ctrl_c_while_a_failure_is_about_to_be_told_is_quiet():
    done = interrupted_at("ai4j_cli.failures", "--no-such-option")

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_that_was_ignored_stays_ignored():
    script = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    script += _INTERRUPTED_AT.format(module="click", arguments=["--version"])

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert (done.returncode, done.stdout.partition(" ")[0], done.stderr) == (0, "ai4j", "")


def test_whoever_uses_the_command_tree_keeps_the_handler_of_the_interrupt():
    before = signal.getsignal(signal.SIGINT)

    invoke("sandbox", "ls", "--nonsense", registry=registry_of())

    assert signal.getsignal(signal.SIGINT) is before
