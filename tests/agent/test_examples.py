"""The agent examples run as they stand, and the guide quotes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ai4j_agent
import ai4j_sandbox
from ai4j_sandbox import default_registry
from support.chat_server import asked, base_url, chat_server, text_answer, tool_answer

ROOT = Path(__file__).parents[2]


def local_works() -> bool:
    if "local" not in default_registry().ids():
        return False
    return default_registry().provider("local").health().healthy  # type: ignore[attr-defined, no-any-return]  # local has it


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
def test_the_agent_computes_in_the_sandbox() -> None:
    answers = tool_answer(("run_python", {"code": "print(6 * 7)"})), text_answer("It is 42.")
    with chat_server(*answers) as server:
        said = run("agent_react.py", "What is 6 * 7?", OPENAI_API_KEY="k", OPENAI_BASE_URL=base_url(server))

    assert said == "It is 42.\n[answered after 2 steps and 1 tool calls]\n"
    assert b'"content": "42\\n"' in server.requests[-1].body


@needs_local
def test_the_agent_acts_by_writing_programs() -> None:
    program = "<execute>\nprint(sum(n > 1 and all(n % d for d in range(2, n)) for n in range(100)))\n</execute>"
    with chat_server(text_answer(program), text_answer("There are 25.")) as server:
        said = run(
            "agent_codeact.py", "How many primes below 100?", OPENAI_API_KEY="k", OPENAI_BASE_URL=base_url(server)
        )

    assert said.splitlines()[1:] == ["There are 25.", "[answered after 2 steps and 1 programs]"]
    assert asked(server)["messages"][-1] == {"role": "user", "content": "<output>\n25\n</output>"}


@needs_local
def test_a_session_remembers_its_sandbox_and_never_replaces_it() -> None:
    assert run("agent_session.py").splitlines() == [
        "bound: LIVE {'team': 'core'}",
        "restored: DETACHED intact",
        "refused: call reattach(registry), or clear_sandbox() to go on without it",
        "cleared: NONE ['SANDBOX_BOUND', 'SANDBOX_CLEARED']",
    ]


def test_a_policy_decides_by_environment_and_asks() -> None:
    assert run("agent_policy.py").splitlines() == [
        "  asked about bash in LOCAL (it runs on the host): True",
        "bash in LOCAL: allowed",
        "  asked about bash in LOCAL (it runs on the host): False",
        "bash in LOCAL: Tool permission denied: bash (not approved)",
        "bash in REMOTE_SANDBOX: allowed",
        "browser in REMOTE_SANDBOX: Tool permission denied: browser (no browser in this team)",
    ]


def test_a_blueprint_gets_what_the_host_permits() -> None:
    said = run("agent_blueprint.py").splitlines()

    assert said[0].endswith("$.sandbox.enable: unknown field; did you mean 'enabled'?")
    assert [line.partition(":")[0] for line in said[1:3]] == [
        "line 11, blueprint.sandbox.unsupported",
        "line 16, blueprint.sandbox.address.refused",
    ]
    assert said[3] == "made: ('read_file',) SANDBOX"


def test_the_guide_quotes_the_examples() -> None:
    guide = (ROOT / "docs" / "agent.md").read_text()
    examples = [_compact(path.read_text()) for path in (ROOT / "examples").glob("agent_*.py")]

    snippets = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)

    assert len(snippets) >= 4
    for snippet in snippets:
        assert any(_compact(snippet) in example for example in examples), snippet


def test_the_docs_name_only_what_exists() -> None:
    guide = (ROOT / "docs" / "agent.md").read_text() + (ROOT / "docs" / "security.md").read_text()

    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", guide))
    assert {name for name in named if name.startswith(("Agent", "Sandbox", "Chat", "Sql", "File"))} <= (
        set(ai4j_agent.__all__) | set(ai4j_sandbox.__all__)
    )


def _compact(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())
