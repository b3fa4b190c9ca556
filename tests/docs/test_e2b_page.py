"""The page of the provider `e2b`: its example runs as written, its table is the one in force."""

from __future__ import annotations

import contextlib
import io
import re
import runpy

import pytest

from ai4j_sandbox_e2b.config import SETTINGS
from ai4j_sandbox_emulator import Emulator
from support.distributions import ROOT

PAGE = (ROOT / "docs" / "providers" / "e2b.md").read_text()
README = (ROOT / "plugins" / "e2b" / "README.md").read_text()


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def printed_by(program: str, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, "e2b.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own page
    return output.getvalue()


def test_minimal_usage_runs_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = examples(PAGE)
    with Emulator() as emulator:
        assert printed_by(program, emulator, monkeypatch) == "0\nai4j-e2b-ok\n"
        assert emulator.sandboxes() == []


def test_readme_runs_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = examples(README)
    with Emulator() as emulator:
        assert "uid=" in printed_by(program, emulator, monkeypatch)
        assert emulator.sandboxes() == []


def test_table_of_settings_is_up_to_date() -> None:
    with_table = runpy.run_path(str(ROOT / "docs" / "generate.py"))["with_table"]

    assert with_table(PAGE, SETTINGS) == PAGE, "run make docs"
