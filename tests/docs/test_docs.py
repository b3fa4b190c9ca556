"""The documentation says what the code does: settings tables, links, the example of the README."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("*/README.md"),
        *ROOT.glob("plugins/*/README.md"),
    )
    if ".venv" not in page.parts
)


def test_settings_tables_of_the_provider_pages_are_up_to_date() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))

    assert generate["stale_pages"](write=False) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_python_example_of_the_readme_runs_as_written() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr, done.returncode) == ("0 42\n\n", "", 0)
    assert len(example.strip().splitlines()) <= 10


def test_every_target_of_the_makefile_is_explained_by_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())

    assert phony == set(re.findall(r"^([a-z]+):.*##", makefile, re.MULTILINE))
