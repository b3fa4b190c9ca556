"""Limits are enforced, or refused; never ignored."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ai4j_sandbox.errors import SandboxAdmissionError, SandboxConfigError
from ai4j_sandbox.model import SandboxCommand, SandboxResult, SandboxSpec
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox_local import LocalProvider
from ai4j_sandbox_local.isolation.cgroup import memory_group
from ai4j_sandbox_local.isolation.layout import interpreter_home

TIERS = pytest.mark.parametrize("tier", ["namespace", "syscall-filter"])


def run(session: SandboxSession, command: str | list[str]) -> SandboxResult:
    return session.execute(SandboxCommand(command=command, timeout_millis=30_000))


def memory_limit_possible() -> bool:
    group = memory_group(64)
    if group is not None:
        group.remove()
    return group is not None


needs_memory_group = pytest.mark.skipif(not memory_limit_possible(), reason="no memory cgroup can be made here")


def test_private_workspace_has_the_size_asked_for(create: Callable) -> None:
    session = create(workspaceMegabytes=4)

    result = run(session, "head -c 5000000 /dev/zero > big; stat -c %s big")

    assert "No space left" in result.stderr
    assert int(result.stdout) <= 4 * 1024 * 1024


@TIERS
def test_files_have_the_largest_size_asked_for(create: Callable, tier: str) -> None:
    session = create(isolation=tier, maxFileMegabytes=1)

    result = run(session, "head -c 5000000 /dev/zero > big; stat -c %s big")

    assert result.stdout == "1048576\n"


@TIERS
@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root: the syscall-filter tier cannot count a shared user's processes"
)
def test_processes_are_limited_and_the_sandbox_stays_usable(create: Callable, tier: str) -> None:
    session = create(isolation=tier, maxProcesses=10)
    program = """
import os, time
started = 0
try:
    for _ in range(50):
        if os.fork() == 0:
            time.sleep(60)
        started += 1
except OSError as error:
    print(started, error.strerror)
"""
    result = run(session, ["python3", "-c", program])

    assert result.stdout == "9 Resource temporarily unavailable\n"


@TIERS
def test_processor_time_is_limited_per_process(create: Callable, tier: str) -> None:
    session = create(isolation=tier, cpuSeconds=1)

    result = run(session, "while :; do :; done")

    assert result.exit_code == 137
    assert run(session, "echo alive").stdout == "alive\n"


@TIERS
def test_open_files_are_limited(create: Callable, tier: str) -> None:
    session = create(isolation=tier, maxOpenFiles=64)

    assert run(session, "ulimit -n; ulimit -Hn").stdout == "64\n64\n"


@needs_memory_group
@TIERS
def test_memory_is_limited_for_the_whole_sandbox(create: Callable, tier: str) -> None:
    session = create(isolation=tier, memoryMegabytes=96)

    result = run(session, ["python3", "-c", "x = bytearray(200_000_000)"])

    assert result.exit_code == 137
    assert run(session, "echo alive").stdout == "alive\n"


@needs_memory_group
def test_memory_group_ends_with_the_session() -> None:
    session = LocalProvider().create_session(SandboxSpec(config={"memoryMegabytes": 64}))
    path = Path(session._sandbox.group.path)
    assert path.exists()

    session.close()

    assert not path.exists()


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"isolation": "syscall-filter", "workspaceMegabytes": 10}, "config.workspaceMegabytes"),
        ({"isolation": "none", "maxProcesses": 10}, "config.maxProcesses"),
        ({"isolation": "none", "network": False}, "config.network"),
        ({"isolation": "none", "mounts": [{"source": "/opt", "target": "/opt"}]}, "config.mounts"),
        ({"isolation": "syscall-filter", "mounts": [{"source": "/opt", "target": "/other"}]}, "config.mounts"),
        ({"workspaceMode": "ro"}, "config"),
        ({"workspaceDir": "/tmp", "workspaceMegabytes": 10}, "config"),
    ],
)
def test_setting_that_would_be_ignored_is_refused(config: dict[str, object], field: str) -> None:
    spec = SandboxSpec(config=config)

    assert field in [decision.field for decision in LocalProvider().check(spec).refusals]
    with pytest.raises(SandboxAdmissionError):
        LocalProvider().create_session(spec)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root steps down to another user")
def test_directory_that_commands_could_not_change_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxConfigError, match="could not change") as caught:
        LocalProvider().create_session(SandboxSpec(config={"workspaceDir": str(tmp_path)}))

    assert "chown" in str(caught.value)


@TIERS
def test_limit_on_files_leaves_the_agent_s_long_answers_whole(create: Callable, tier: str) -> None:
    session = create(isolation=tier, maxFileMegabytes=1)
    run(session, "mkdir many; cd many; seq -f '%0100g' 4500 | xargs touch")

    assert len(session.files.list("many")) == 4500


@pytest.mark.skipif(interpreter_home().startswith("/usr"), reason="needs a Python outside of /usr")
def test_workspace_that_would_hide_the_python_is_refused_by_name() -> None:
    with pytest.raises(SandboxConfigError, match="would hide the Python installation"):
        LocalProvider().create_session(SandboxSpec(workspace_id=interpreter_home(), config={"isolation": "namespace"}))
