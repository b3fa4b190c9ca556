"""Commands that other distributions bring."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ai4j_cli.installed_commands import installed_commands
from ai4j_cli.lazy_group import LazyCommand
from ai4j_cli.main import program
from support.plugin_site import PluginSite


@pytest.fixture
def site(tmp_path: Path) -> PluginSite:
    return PluginSite(tmp_path / "site")


def test_a_command_is_found_in_metadata_without_its_module(site):
    site.distribution("extra-tools", entry_points="[ai4j.commands]\nextra = extra_tools.cli:extra\n")

    assert installed_commands(site.path) == {
        "extra": LazyCommand(module="extra_tools.cli", attribute="extra", summary="Comes with extra-tools.")
    }


def test_a_command_is_listed_with_the_summary_of_its_distribution(site):
    folder = site.distribution("extra-tools", entry_points="[ai4j.commands]\nextra = extra_tools.cli:extra\n")
    (folder / "METADATA").write_text("Metadata-Version: 2.3\nName: extra-tools\nSummary: Does one thing more\n")

    assert installed_commands(site.path)["extra"].summary == "Does one thing more."


def test_an_entry_that_names_no_command_is_left_out(site):
    site.distribution("broken", entry_points="[ai4j.commands]\nbroken = just_a_module\n")

    assert installed_commands(site.path) == {}


def test_of_two_with_one_name_the_first_distribution_counts(site):
    for name in ("b-tools", "a-tools"):
        site.distribution(name, entry_points="[ai4j.commands]\nextra = extra:extra\n")

    assert installed_commands(site.path)["extra"].summary == "Comes with a-tools."


def test_the_emulator_is_a_command_of_the_program():
    listed = CliRunner().invoke(program, ["--help"]).stdout
    shown = CliRunner().invoke(program, ["emulator", "start", "--help"])

    assert "emulator    Loopback servers that speak the protocols of sandbox services" in listed
    assert (shown.exit_code, "--provider" in shown.stdout) == (0, True)


def test_running_a_command_of_our_own_does_not_look_for_others():
    script = (
        "import sys, json\n"
        "from ai4j_cli.main import program\n"
        "program.main(['sandbox', 'run', '--help'], standalone_mode=False)\n"
        "print('\\n' + json.dumps('ai4j_sandbox.discovery' in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert json.loads(done.stdout.splitlines()[-1]) is False
