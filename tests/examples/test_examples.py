"""The examples run as they stand."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from ai4j_sandbox import default_registry

EXAMPLES = Path(__file__).parents[2] / "examples"


def _usable() -> bool:
    if "local" not in default_registry().ids():
        return False
    return default_registry().provider("local").health().healthy  # type: ignore[attr-defined]  # local has it


needs_local = pytest.mark.skipif(not _usable(), reason="the local provider cannot isolate commands on this machine")


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an example as its docstring says."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
    )


@needs_local
def test_the_quickstart_shows_output_exit_code_and_artifact():
    done = run("quickstart.py")

    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "0 computing\n/workspace/answer.txt 2 bytes: 42\n",
        "",
    )


@needs_local
def test_the_main_job_ends_as_it_promises_and_brings_back_report_and_log(tmp_path):
    done = run("run_project_tests.py", str(tmp_path))

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "1 failed, 22 passed" in done.stdout
    assert "22 passed, 1 deselected" in done.stdout
    assert '"status": "CLOSED"' in done.stdout
    assert "secrets    4 planted, none of them in the" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.xml", "tests.log"]
    assert "counted 10 words" in (tmp_path / "tests.log").read_text()


def test_a_secret_that_leaks_is_found():
    canaries = runpy.run_path(str(EXAMPLES / "run_project_tests.py"))["Canaries"]()

    assert canaries.found_in("clean", f"Bearer {canaries.command}!") == ["command"]
