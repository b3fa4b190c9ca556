"""The kill script on real processes, in every shell that is here."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ai4j_sandbox_wire.process_tree import kill_arguments, marked_environment, marker
from support.waiting import eventually

SHELLS = [shell for shell in (["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(shell[0])]

# Each waits for ever, and says so first.
WAIT = "echo ready; while :; do sleep 60; done"
TREES = {
    "alone": WAIT,
    "child": f"sh -c '{WAIT}' & wait",
    "grandchildren": f"sh -c \"sh -c '{WAIT}' & sh -c '{WAIT}' & wait\" & wait",
    "new session": f"setsid sh -c '{WAIT}' & wait",
    "orphan in a new session": f"(setsid sh -c '{WAIT}' &) ; exec sleep 60",
    "cleared environment": f"env -i PATH=\"$PATH\" sh -c '{WAIT}' & wait",
    "forks meanwhile": 'echo ready; for _ in $(seq 300); do env -i PATH="$PATH" sleep 60 & done; wait',
    "ignores TERM": f"trap '' TERM; {WAIT}",
    "odd name": 'cp "$(command -v sleep)" "$DIR/a) S (b"; "$DIR/a) S (b" 60 & echo ready; wait',
}


@pytest.fixture
def command_id() -> Iterator[str]:
    """An id for one test's processes; whatever of them is left is ended."""
    name = str(uuid.uuid4())
    yield name
    for pid in alive(name):
        os.kill(pid, 9)


def alive(command_id: str) -> list[int]:
    """Every process that carries the marker, found in a way of our own."""
    mark = f"AI4J_COMMAND={marker(command_id)}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def start(command: str, command_id: str, folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **marked_environment(command_id), "DIR": str(folder)}
    process = subprocess.Popen(["sh", "-c", command], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 5)[0], "the command did not begin"
    return process


def kill(shell: list[str], command_id: str, signal: str, pid: int | None, folder: Path) -> bool:
    path = os.environ["PATH"]
    if shell[0] == "busybox":  # and nothing but busybox, as in a small image
        path = str(_busybox_alone(folder / "bin"))
    done = subprocess.run(
        [shutil.which(shell[0]) or shell[0], *shell[1:], *kill_arguments(command_id, signal, pid)],
        env={"PATH": path},
        timeout=20,
        check=False,
    )
    assert done.returncode in (0, 1)
    return done.returncode == 0


def _busybox_alone(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for applet in ("cat", "sed", "tail", "tr"):
        (folder / applet).symlink_to(shutil.which("busybox") or "busybox")
    return folder


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def gone(process: subprocess.Popen[bytes]) -> bool:
    """Whether nobody holds the command's output any more: its pipe ends only when all descendants have."""
    assert process.stdout is not None
    limit = time.monotonic() + 5
    while time.monotonic() < limit and select.select([process.stdout], [], [], 0.5)[0]:
        if not process.stdout.read1(65536):
            return True
    return False


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@pytest.mark.parametrize("tree", TREES)
def test_whole_tree_is_killed(shell: list[str], tree: str, command_id: str, tmp_path: Path) -> None:
    with start(TREES[tree], command_id, tmp_path) as process:
        assert kill(shell, command_id, "SIGKILL", process.pid, tmp_path)
        process.wait(5)

        assert gone(process)
    assert alive(command_id) == []


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_tree_is_found_by_its_marker_alone(shell: list[str], command_id: str, tmp_path: Path) -> None:
    with start(TREES["new session"], command_id, tmp_path) as process:
        assert kill(shell, command_id, "KILL", None, tmp_path)
        process.wait(5)

        assert gone(process)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_stopped_process_gets_its_term(shell: list[str], command_id: str, tmp_path: Path) -> None:
    with start(WAIT, command_id, tmp_path) as process:
        os.kill(process.pid, 19)
        assert kill(shell, command_id, "SIGTERM", process.pid, tmp_path)
        process.wait(5)

        assert gone(process)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_stopping_lasts_until_continuing(shell: list[str], command_id: str, tmp_path: Path) -> None:
    with start(WAIT, command_id, tmp_path) as process:
        for signal, states in (("SIGSTOP", {"T"}), ("SIGCONT", {"S", "R"})):
            assert kill(shell, command_id, signal, process.pid, tmp_path / signal)
            assert eventually(lambda states=states: {state(pid) for pid in alive(command_id)} <= states)
        assert kill(shell, command_id, "SIGKILL", process.pid, tmp_path / "end")
        process.wait(5)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_nobody_left_is_said_and_others_are_left_alone(shell: list[str], command_id: str, tmp_path: Path) -> None:
    with start(WAIT, command_id, tmp_path) as bystander:
        assert not kill(shell, "another command", "SIGKILL", None, tmp_path)
        assert bystander.poll() is None

        bystander.kill()


def test_marker_is_harmless_whatever_the_id_is() -> None:
    assert marker("$(reboot); '\"\n/.*").isalnum()
    assert marker("a") != marker("b")
