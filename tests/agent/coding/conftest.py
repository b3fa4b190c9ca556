"""Every tool is tested twice with the same expectations: in a directory of the host, and in a `local` sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ai4j_agent.coding import LocalWorkspace, SandboxWorkspace, Workspace
from ai4j_sandbox import SandboxSession, default_registry
from support.coding_bench import Bench, fresh_name, local_works


@pytest.fixture(scope="module")
def shared_sandbox() -> Iterator[SandboxSession]:
    """One sandbox for the tests of a module, each of which works in a directory of its own."""
    if not local_works():
        pytest.skip("the local provider cannot isolate commands on this machine")
    with default_registry().create_session(provider_id="local") as session:
        yield session


@pytest.fixture(params=["host", "sandbox"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    """An empty workspace."""
    if request.param == "host":
        root = tmp_path / "workspace"
        root.mkdir()
        return LocalWorkspace(root)
    session = request.getfixturevalue("shared_sandbox")
    root = f"/workspace/{fresh_name()}"
    session.files.make_dir(root)
    return SandboxWorkspace(session, root)


@pytest.fixture
def bench(workspace: Workspace) -> Iterator[Bench]:
    """The tools on an empty workspace."""
    bench = Bench(workspace)
    yield bench
    bench.background.close()


@pytest.fixture
def make_bench(workspace: Workspace) -> Iterator[Callable[..., Bench]]:
    """Return a function that makes benches with settings of their own."""
    made: list[Bench] = []

    def make(**settings: Any) -> Bench:
        made.append(Bench(workspace, **settings))
        return made[-1]

    yield make
    for bench in made:
        bench.background.close()
