"""The third-party path from end to end: a distribution is installed, found, loaded and keeps the contract."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.registry import SandboxRegistry
from ai4j_sandbox.spi import SandboxProvider
from ai4j_sandbox.testing import SandboxContract
from support.plugin_site import PluginSite

SOURCE = Path(__file__).with_name("sample_plugin")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the sample as pip does, without a network and beside the environment instead of into it."""
    directory = tmp_path_factory.mktemp("sample")
    shutil.copytree(SOURCE, directory / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(directory / "site")]
    subprocess.run([*pip, *offline, str(directory / "source")], check=True, timeout=100)
    return directory / "site"


@pytest.fixture(scope="module")
def sample(installed: Path) -> Iterator[SandboxProvider]:
    """The sample provider as a host gets it: from the registry, by its id."""
    with PluginSite(installed).importable():
        yield SandboxRegistry(path=[str(installed)]).provider("sample")


def printed_by(program: str, installed: Path) -> str:
    """What a host prints in a process of its own, with the sample installed."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout


def test_a_host_lists_it_and_runs_a_command(installed: Path) -> None:
    program = """
import sys
from ai4j_sandbox import SandboxCommand, default_registry

registry = default_registry()
info = registry.info("sample")
print(info.provider_id, info.distribution, info.version, info.isolation.name, info.location)
print("ai4j_sandbox_sample.provider" in sys.modules, "sample" in [problem.name for problem in registry.problems()])
with registry.create_session(provider_id="sample") as session:
    print(session.execute(SandboxCommand(command="echo $((6 * 7))")).stdout, end="")
print("requests" in sys.modules)
"""

    assert printed_by(program, installed).splitlines() == [
        "sample ai4j-sandbox-sample 0.1.0 NONE this-machine",
        "False False",
        "42",
        "False",
    ]


def test_a_host_with_an_isolation_floor_never_gets_it(installed: Path) -> None:
    program = """
from ai4j_sandbox import IsolationLevel, SandboxAdmissionError, default_registry

try:
    default_registry().create_session(provider_id="sample", isolation_floor=IsolationLevel.SYSCALL_FILTER)
except SandboxAdmissionError as error:
    print(error.message)
"""

    said = printed_by(program, installed)

    assert "'sample' isolates at level NONE, the host requires at least SYSCALL_FILTER" in said


class TestSample(SandboxContract):
    """The sample keeps every promise it makes."""

    misspelt_setting = ("shel", "shell")

    @pytest.fixture
    def provider(self, sample: SandboxProvider) -> SandboxProvider:
        return sample


def test_nothing_of_the_hosts_environment_but_the_path_reaches_a_command(
    sample: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setenv("HOST_SECRET", "x")
    with sample.create_session() as session:
        names = session.execute(SandboxCommand(command="env | cut -d= -f1")).stdout.split()

    assert set(names) - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "TMPDIR", "LANG"}


def test_its_workspace_is_gone_after_the_session(sample: SandboxProvider) -> None:

    with sample.create_session() as session:
        workspace = Path(session.execute(SandboxCommand(command="pwd")).stdout.rstrip("\n"))
        there = workspace.is_dir()

    assert (there, workspace.exists()) == (True, False)
