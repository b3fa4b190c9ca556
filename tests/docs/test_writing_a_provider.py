"""The page shows the files as they are, and every hook as it is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import FunctionType

import pytest

from ai4j_sandbox import hookspecs
from ai4j_sandbox.plugin import DISABLED_VARIABLE
from support.distributions import ROOT

SAMPLE = ROOT / "tests/packaging/sample_plugin"
PAGE = (ROOT / "docs/writing-a-provider.md").read_text()
SNIPPETS = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)


def test_every_code_block_says_which_file_it_is_from() -> None:
    assert len(SNIPPETS) == PAGE.count("```") // 2 > 0


@pytest.mark.parametrize(("path", "snippet"), SNIPPETS)
def test_a_snippet_is_a_part_of_its_file(path: str, snippet: str) -> None:
    assert snippet in (SAMPLE / path).read_text()


def test_every_source_file_of_the_sample_is_shown() -> None:
    sources = {path.name for path in (SAMPLE / "src").rglob("*.py")} - {"__init__.py"}

    assert sources <= {Path(path).name for path, _ in SNIPPETS}


@pytest.mark.parametrize("hook", [hookspecs.ai4j_sandbox_providers, hookspecs.ai4j_sandbox_event])
def test_every_hook_appears_with_its_exact_signature(hook: FunctionType) -> None:
    signature = str(inspect.signature(hook)).replace("'", "")

    assert f"`{hook.__name__}{signature}`" in PAGE


def test_the_switch_for_support_cases_is_named() -> None:
    assert f"`{DISABLED_VARIABLE}`" in PAGE
