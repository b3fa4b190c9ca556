"""The command tree: quick to start, complete in its help, and one door for whatever goes wrong."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ai4j_cli.failures import ExitCode
from ai4j_cli.main import program
from ai4j_cli.sandbox_run import run
from ai4j_sandbox.testing import FakeProvider
from support.command_line import invoke, registry_of

LISTED = {
    (): ["chat", "sandbox", "top", "providers", "blueprint", "session", "completion"],
    ("sandbox",): [
        "run",
        "ls",
        "info",
        "exec",
        "shell",
        "cp",
        "artifacts",
        "port",
        "pause",
        "resume",
        "extend",
        "rm",
        "cleanup",
    ],
    ("blueprint",): ["check"],
    ("session",): ["show", "verify"],
    ("providers",): ["list", "show", "check", "doctor"],
}
HEAVY = (
    "rich",
    "yaml",
    "marshmallow",
    "requests",
    "prompt_toolkit",
    "ai4j_agent",
    "ai4j_sandbox_local",
    "ai4j_sandbox.registry",
    "ai4j_sandbox.model",
)


def modules_loaded_by(*arguments: str) -> list[str]:
    """Run ``ai4j`` in a fresh interpreter and return the names of all modules that it loaded."""
    script = (
        "import sys, json\n"
        "from ai4j_cli.main import program\n"
        f"program.main({list(arguments)!r}, standalone_mode=False)\n"
        "print('\\n' + json.dumps(list(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["sandbox", "--help"],
        ["providers", "--help"],
        ["chat", "--help"],
        *([*group, name, "--help"] for group, names in LISTED.items() if group for name in names),
    ],
)
def test_help_and_version_load_nothing_that_takes_time(arguments):
    """Case L11."""
    loaded = modules_loaded_by(*arguments)

    assert [name for name in HEAVY if name in loaded] == []


@pytest.mark.parametrize("group", LISTED)
def test_every_command_is_listed_with_a_summary_and_can_be_loaded(group):
    text = CliRunner().invoke(program, [*group, "--help"]).stdout

    for name in LISTED[group]:
        line = next(line for line in text.splitlines() if line.strip().startswith(f"{name} "))
        assert len(line.split()) > 2
        assert CliRunner().invoke(program, [*group, name, "--help"]).exit_code == 0


def test_an_unknown_command_is_a_usage_error():
    result = invoke("sandbox", "fly", registry=registry_of())

    assert (result.exit_code, result.stdout) == (2, "")
    assert "No such command 'fly'" in result.stderr
    assert "ai4j sandbox --help" in result.stderr


def test_a_group_without_a_command_shows_its_help():
    result = invoke("providers", registry=registry_of())

    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ai4j providers")


def test_version_names_the_distributions_that_a_bug_report_needs():
    result = CliRunner().invoke(program, ["--version"])

    assert result.stdout.startswith("ai4j 0.1.0 (ai4j-sandbox 0.1.0, Python 3.")


def test_the_root_has_no_provider_of_its_own():
    assert invoke("providers", "list", "--json", registry=registry_of(FakeProvider())).exit_code == 0


def test_the_documentation_names_every_option_command_and_exit_code():
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    names = [name for parameter in run.params if isinstance(parameter, click.Option) for name in parameter.opts]

    assert [name for name in [*names, *LISTED["providers",]] if f"`{name}" not in text] == []
    assert [code for code in ExitCode if f"| {code.value}" not in text] == []


def test_a_cold_start_costs_little_more_than_python_itself():
    def cpu_seconds(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    bare = min(cpu_seconds("-c", "pass") for _ in range(5))
    whole = min(cpu_seconds("-m", "ai4j_cli", "--help") for _ in range(5))

    assert whole - bare < 0.150
