"""The page of the provider `cubesandbox`: its examples run as written, its table is the one in force."""

from __future__ import annotations

import contextlib
import io
import re
import runpy

import pytest

from ai4j_sandbox_cubesandbox.config import SETTINGS
from ai4j_sandbox_emulator import Emulator
from support.distributions import ROOT

PAGE = (ROOT / "docs" / "providers" / "cubesandbox.md").read_text()
README = (ROOT / "plugins" / "cubesandbox" / "README.md").read_text()


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def printed_by(program: str, monkeypatch: pytest.MonkeyPatch) -> str:
    output = io.StringIO()
    with Emulator(faces=("cubesandbox",), home="/workspace") as emulator:
        for name, value in emulator.environment.items():
            monkeypatch.setenv(name, value)
        with contextlib.redirect_stdout(output):
            exec(compile(program, "cubesandbox.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own page
        assert emulator.sandboxes() == []
    return output.getvalue()


@pytest.mark.parametrize(
    ("program", "printed"), [*zip(examples(PAGE), ["0\nai4j-cubesandbox-ok\n", "/tmp\nalive\n"], strict=True)]
)
def test_example_runs_as_written(program: str, printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed_by(program, monkeypatch) == printed


def test_readme_runs_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = examples(README)

    assert printed_by(program, monkeypatch).startswith("Linux")


def test_table_of_settings_is_up_to_date() -> None:
    with_table = runpy.run_path(str(ROOT / "docs" / "generate.py"))["with_table"]

    assert with_table(PAGE, SETTINGS) == PAGE, "run make docs"


def test_every_setting_of_the_environment_is_explained_on_the_page() -> None:
    assert all(f"`{name}" in PAGE for setting in SETTINGS for name in setting.env)
