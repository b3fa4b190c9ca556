"""The parts of the agent that need no sandbox around them."""

from __future__ import annotations

import os
import resource
import signal
import stat
from pathlib import Path

import pytest

from ai4j_sandbox_local.inside.filesystem import create_beside, entries, open_plain, remove
from ai4j_sandbox_local.inside.messages import pack, unpack
from ai4j_sandbox_local.inside.processes import RLIMIT_MARKER, marked, stop_all, usable_marker
from ai4j_sandbox_local.inside.programs import find_program


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for folder, mode in (("plain", 0o644), ("runnable", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").touch(mode)
    return tmp_path


def test_program_is_looked_for_in_order_and_a_runnable_one_wins(programs: Path) -> None:
    path = f"{programs}/missing:{programs}/plain:{programs}/runnable"

    assert find_program("tool", path) == f"{programs}/runnable/tool"
    assert find_program("tool", f"{programs}/plain") == f"{programs}/plain/tool"
    assert find_program("tool", "") is None
    assert find_program("./tool", path) == "./tool"


@pytest.mark.parametrize("text", ["short", "x" * 100_000, "caf\udce9"])
def test_message_comes_out_as_it_went_in_whatever_its_length(text: str) -> None:
    message, carriers = pack({"text": text})

    assert unpack(message, carriers) == {"text": text}
    assert carriers == []


def test_process_is_found_by_the_marker_it_inherited() -> None:
    marker = usable_marker(123456789)
    hard = resource.getrlimit(RLIMIT_MARKER)[1]
    child = os.fork()
    if child == 0:
        resource.setrlimit(RLIMIT_MARKER, (marker, hard))
        os.execv("/bin/sleep", ["sleep", "60"])

    try:
        while marked(marker, marker + 1) != [child]:
            os.sched_yield()
        assert marked(marker + 1, marker + 2) == []
    finally:
        os.kill(child, 9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
    assert marked(marker, marker + 1) == []


def test_new_file_beside_a_link_is_beside_what_it_points_at(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch(0o640)
    (tmp_path / "link").symlink_to("real/file")

    descriptor, temporary, final = create_beside(str(tmp_path / "link"))

    assert (os.path.dirname(temporary), final) == (f"{tmp_path}/real", f"{tmp_path}/real/file")
    assert stat.S_IMODE(os.fstat(descriptor).st_mode) == 0o640
    os.close(descriptor)


def test_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="Not a regular file"):
        open_plain(str(tmp_path / "pipe"))


def test_listing_goes_as_deep_as_asked_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "up").symlink_to("..")

    found = sorted(os.path.relpath(entry["path"], tmp_path) for entry in entries(str(tmp_path), 2))

    assert found == ["a", "a/b", "a/up"]


def test_directory_with_entries_is_removed_only_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "full" / "deeper").mkdir(parents=True)

    with pytest.raises(OSError, match="not empty"):
        remove(str(tmp_path / "full"), recursive=False)
    remove(str(tmp_path / "full"), recursive=True)

    assert list(tmp_path.iterdir()) == []


class Kernel:
    """Processes by number, each with its state; one that waits in the kernel stops when it leaves it."""

    def __init__(self, **states: str) -> None:
        self.states = {int(name.removeprefix("p")): state for name, state in states.items()}
        self.told: set[int] = set()

    def send(self, pids: list[int], number: int) -> None:
        assert number == signal.SIGSTOP
        self.told.update(pids)
        self.states.update(dict.fromkeys((pid for pid in pids if self.states[pid] != "D"), "T"))

    def stop(self, patience: float = 60.0) -> bool:
        return stop_all(lambda: list(self.states), patience, self.states.__getitem__, self.send)


def test_process_that_waits_in_the_kernel_is_told_to_stop_as_well() -> None:
    """Unsignalled it would go on as soon as its page was read or its vforked child had executed."""
    kernel = Kernel(p1="R", p2="D", p3="S", p4="T")

    assert kernel.stop()
    assert (kernel.told, kernel.states) == ({1, 2, 3}, {1: "T", 2: "D", 3: "T", 4: "T"})


def test_stopping_gives_up_on_processes_that_do_not_stand_still() -> None:
    kernel = Kernel(p1="R")
    kernel.send = lambda pids, number: None  # type: ignore[method-assign]

    assert not kernel.stop(patience=0.0)
