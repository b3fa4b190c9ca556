"""The page of the provider `cubesandbox`: its examples run as written, its table is the one in force."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from collections.abc import Iterator

import pytest

from ai4j_sandbox_cubesandbox import CubeSandboxProvider
from ai4j_sandbox_cubesandbox.config import SETTINGS
from support.distributions import ROOT
from support.emulator_command import emulator_started

PAGE = (ROOT / "docs" / "providers" / "cubesandbox.md").read_text()
README = (ROOT / "plugins" / "cubesandbox" / "README.md").read_text()


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
        exec(compile(program, "cubesandbox.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own page
    assert CubeSandboxProvider().list_sessions() == []
    return output.getvalue()


@pytest.mark.parametrize(
    ("program", "printed"), [*zip(examples(PAGE), ["0\nai4j-cubesandbox-ok\n", "/tmp\nalive\n"], strict=True)]
)
def test_example_runs_as_written(
    program: str, printed: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert printed_by(program, variables, monkeypatch) == printed


def test_readme_runs_as_written(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = examples(README)

    assert printed_by(program, variables, monkeypatch).startswith("Linux")


def test_table_of_settings_is_up_to_date() -> None:
    with_table = runpy.run_path(str(ROOT / "docs" / "generate.py"))["with_table"]

    assert with_table(PAGE, SETTINGS) == PAGE, "run make docs"


def test_every_setting_of_the_environment_is_explained_on_the_page() -> None:
    assert all(f"`{name}" in PAGE for setting in SETTINGS for name in setting.env)
