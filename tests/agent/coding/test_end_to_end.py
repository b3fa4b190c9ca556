"""A model fixes the failing test of `examples/wordcount` in a sandbox; the host gets a patch.

Once in the `local` provider's sandbox, and again through each service's provider against the emulator.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ai4j_agent import allow_all
from ai4j_agent.coding import CodingAgentBuilder, SandboxWorkspace, WorkspaceSync
from ai4j_sandbox import SandboxCommand, SandboxRegistry, SandboxSession, SandboxSpec, default_registry
from support.coding_bench import local_works
from support.scripted_model import ScriptedModel, call

PROJECT = Path(__file__).parents[3] / "examples" / "wordcount"
PACKAGES = "/opt/packages"
HOME = "/home/user"
REMOTE = ("e2b", "cubesandbox", "daytona")

pytestmark = pytest.mark.skipif(not local_works(), reason="the local provider cannot isolate commands on this machine")


def local_spec(**settings: Any) -> SandboxSpec:
    """A sandbox that sees, read-only, the packages of this environment, pytest among them."""
    packages = Path(pytest.__file__).parents[1]
    return SandboxSpec(
        provider_id="local",
        config={
            "mounts": [{"source": str(packages), "target": PACKAGES, "mode": "ro"}],
            "env": {"PYTHONPATH": PACKAGES, "PYTHONDONTWRITEBYTECODE": "1"},
        },
        **settings,
    )


@pytest.fixture(params=["local", *REMOTE])
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxSession]:
    """A sandbox of each provider that is installed; the remote ones talk to the emulator."""
    provider_id = request.param
    if provider_id == "local":
        with default_registry().create_session(local_spec()) as session:
            yield session
        return
    if provider_id not in default_registry().ids():
        pytest.skip(f"the provider {provider_id} is not installed")
    emulator = pytest.importorskip("ai4j_sandbox_emulator")
    with ExitStack() as running:
        spec = local_spec(workspace_id=HOME)
        server = running.enter_context(emulator.Emulator((provider_id,), spec=spec, home=HOME))
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        image = {"cubesandbox": "base"}.get(provider_id)
        spec = SandboxSpec(provider_id=provider_id, image=image)
        yield running.enter_context(SandboxRegistry().create_session(spec))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example on the host."""
    ignored = shutil.ignore_patterns("__pycache__", "results", ".pytest_cache", ".ai4j")
    return Path(shutil.copytree(PROJECT, tmp_path / "wordcount", ignore=ignored))


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_model_fixes_the_failing_test_and_the_host_gets_a_patch(sandbox: SandboxSession, project: Path) -> None:
    before = tree(project)
    model = ScriptedModel(
        call("run_tests", "1"),
        call("grep", "2", pattern=r"_WORD = ", include="*.py"),
        call("read_file", "3", path="src/wordcount/words.py", startLine=9, endLine=12),
        call("edit", "4", path="src/wordcount/words.py", old_string="(?:['-]", new_string="(?:['’-]"),
        call("run_tests", "5"),
        "A typographic apostrophe belongs to its word now.",
    )
    agent = (
        CodingAgentBuilder()
        .workspace_root(project)
        .model_client(model)
        .model("scripted")
        .sandbox(sandbox)
        .permission_policy(allow_all())
        .build()
    )
    with agent.new_session() as session:
        sync = agent.sync(session)
        sync.push()
        result = agent.run("Fix the failing test.", session=session)
        patch = sync.pull()

        assert tree(project) == before
        first, found, _, edited, last = map(json.loads, model.heard)
        assert result.answered
        assert (first["exitCode"], first["tests"]["failed"], first["tests"]["passed"]) == (1, 1, 22)
        assert first["failingTests"][0]["name"].endswith("test_a_typographic_apostrophe_belongs_to_its_word")
        assert {artifact["mimeType"] for artifact in first["artifacts"]} == {"text/xml"}
        assert [match["file"] for match in found["matches"]] == ["src/wordcount/words.py"]
        assert edited["success"]
        assert (last["exitCode"], last["tests"]["failed"], last["tests"]["passed"]) == (0, 0, 23)
        assert [change.path for change in patch.changes] == ["src/wordcount/words.py"]
        assert '+_WORD = re.compile(r"[^\\W_]+(?:[\'’-][^\\W_]+)*")' in patch.diff()

        patch.apply()

    changed = (project / "src/wordcount/words.py").read_text(encoding="utf-8")
    assert "(?:['’-]" in changed
    assert tree(project) == before | {"src/wordcount/words.py": changed.encode()}
    assert sandbox.session_id not in ("", None)


def test_files_of_any_name_and_content_travel_there_and_back(sandbox: SandboxSession, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    names = ("plain", "new\nline", "co:lon", "-dash", "back\\slash", os.fsdecode(b"caf\xe9"), "é")
    for number, name in enumerate(names):
        (project / name).write_bytes(bytes((0, 255, 10, 13, number)))
    sync = WorkspaceSync(project, SandboxWorkspace(sandbox, "/tmp/odd names"))

    assert sync.push().sent == tuple(sorted(names))
    line = 'cd "/tmp/odd names" && for file in *; do printf more >> "./$file"; done'
    assert sandbox.execute(SandboxCommand(command=line)).exit_code == 0
    patch = sync.pull()

    assert (patch.apply(), patch.skipped) == (tuple(sorted(names)), ())
    assert {name: (project / name).read_bytes() for name in names} == {
        name: bytes((0, 255, 10, 13, number)) + b"more" for number, name in enumerate(names)
    }
    assert sync.pull().changes == ()
