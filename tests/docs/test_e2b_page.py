"""The page of the provider `e2b`: its example runs as written, its table is the one in force."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from collections.abc import Iterator

import pytest

from ai4j_sandbox_e2b import E2BSandboxProvider
from ai4j_sandbox_e2b.config import SETTINGS
from support.distributions import ROOT
from support.emulator_command import emulator_started

PAGE = (ROOT / "docs" / "providers" / "e2b.md").read_text()
README = (ROOT / "plugins" / "e2b" / "README.md").read_text()


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    """Give the variables of the emulator that the page says to start."""
    command = re.search(r"`(ai4j emulator start[^`]*)`", PAGE)
    assert command is not None
    with emulator_started(command[1]) as variables:
        yield variables


def printed_by(program: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, "e2b.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own page
    assert E2BSandboxProvider().list_sessions() == []
    return output.getvalue()


def test_minimal_usage_runs_as_written(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = examples(PAGE)

    assert printed_by(program, variables, monkeypatch) == "0\nai4j-e2b-ok\n"


def test_readme_runs_as_written(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = examples(README)

    assert "uid=" in printed_by(program, variables, monkeypatch)


def test_table_of_settings_is_up_to_date() -> None:
    with_table = runpy.run_path(str(ROOT / "docs" / "generate.py"))["with_table"]

    assert with_table(PAGE, SETTINGS) == PAGE, "run make docs"
