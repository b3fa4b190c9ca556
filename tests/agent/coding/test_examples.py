"""The coding examples run as they stand, and the guide quotes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ai4j_agent import coding
from ai4j_agent.coding.toolset import CodingToolset
from support.chat_server import base_url, chat_server, text_answer, tool_answer
from support.coding_bench import local_works

ROOT = Path(__file__).parents[3]

needs_local = pytest.mark.skipif(not local_works(), reason="the local provider cannot isolate commands on this machine")


def run(script: str, *arguments: str, **variables: str) -> str:
    """Run an example as its docstring says; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment | variables,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@needs_local
def test_the_agent_works_in_the_sandbox_and_brings_back_a_patch(tmp_path: Path) -> None:
    (tmp_path / "hello.txt").write_text("helo\n")
    edit = {"path": "hello.txt", "old_string": "helo", "new_string": "hello"}
    with chat_server(tool_answer(("edit", edit)), text_answer("It says hello now.")) as server:
        said = run("coding_agent.py", str(tmp_path), "Fix it.", OPENAI_API_KEY="k", OPENAI_BASE_URL=base_url(server))

    assert said == (
        "pushed 1 files\nIt says hello now.\n"
        "diff --git a/hello.txt b/hello.txt\n--- a/hello.txt\n+++ b/hello.txt\n@@ -1 +1 @@\n-helo\n+hello\n"
    )
    assert (tmp_path / "hello.txt").read_text() == "helo\n"


@needs_local
def test_a_host_calls_the_tools_under_its_policy() -> None:
    assert run("coding_policy.py").splitlines() == [
        "make 0 sandbox 'all good\\n'",
        "Tool permission denied: git (no foreign code)",
        "path escapes the workspace root: '../etc/passwd' (give a path inside of it)",
    ]


def test_the_guide_quotes_the_examples_and_names_every_tool() -> None:
    guide = (ROOT / "docs" / "coding-agent.md").read_text()
    examples = [_compact(path.read_text()) for path in (ROOT / "examples").glob("coding_*.py")]

    snippets = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)

    assert len(snippets) == 2
    for snippet in snippets:
        assert any(_compact(snippet) in example for example in examples), snippet
    assert all(f"`{tool.name}`" in guide for tool in CodingToolset().tools())


def test_the_guide_names_only_what_exists() -> None:
    guide = (ROOT / "docs" / "coding-agent.md").read_text()

    named = set(re.findall(r"`((?:Coding|Local|Sandbox|Workspace|Git|Path|Sync)[A-Za-z]*)", guide))
    assert named <= set(coding.__all__) | {"SandboxDetachedError", "SandboxSpec"}


def _compact(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())
