"""What root does before a sandbox starts, as the shell program it becomes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ai4j_sandbox_local.isolation.identity import Identity
from ai4j_sandbox_local.isolation.staging import closed_directory, hidden_paths, start_program

STRANGER = Identity(uid=1879050000, gid=1879050000, changed=True)
MYSELF = Identity(uid=os.geteuid(), gid=os.getegid(), changed=False)


@pytest.fixture
def closed() -> Iterator[Path]:
    """Give a path below a directory that only its owner may enter, and nothing else on the way closed."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "closed" / "open" / "deep").mkdir(parents=True)
        (top / "closed").chmod(0o700)
        yield top / "closed" / "open" / "deep"


def test_path_below_a_closed_directory_is_hidden_and_the_way_to_it_is_found(closed: Path) -> None:
    assert hidden_paths(["/usr", str(closed)], STRANGER) == [str(closed)]
    assert closed_directory(str(closed), STRANGER) == str(closed.parents[1])
    assert hidden_paths([str(closed)], MYSELF) == []


def test_hidden_path_below_another_needs_no_step_of_its_own(closed: Path) -> None:
    assert hidden_paths([str(closed), str(closed.parent)], STRANGER) == [str(closed.parent)]


def test_program_of_an_ordinary_user_is_started_as_it_is() -> None:
    assert start_program(MYSELF, [], [], ["bwrap", "--args", "3"]) == ["bwrap", "--args", "3"]


def test_program_joins_its_control_group_before_it_exists() -> None:
    arguments = start_program(MYSELF, [], ["/sys/fs/cgroup/a b"], ["bwrap"])

    assert arguments == [
        "/bin/sh",
        "-c",
        "set -e\necho $$ > '/sys/fs/cgroup/a b/cgroup.procs'\nexec \"$@\"",
        "sh",
        "bwrap",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root steps down and may mount")
def test_stranger_sees_a_hidden_file_at_its_own_path_and_nothing_beside_it(closed: Path) -> None:
    (closed / "file").write_text("shown")
    (closed.parents[1] / "secret").write_text("hidden")
    script = 'cat "$1/file"; ls -A "$2"; id -u'

    finished = subprocess.run(
        start_program(
            STRANGER, [str(closed)], [], ["/bin/sh", "-c", script, "sh", str(closed), str(closed.parents[1])]
        ),
        capture_output=True,
        text=True,
        check=True,
    )

    assert finished.stdout == f"shownopen\n{STRANGER.uid}\n"
    assert sorted(os.listdir(closed.parents[1])) == ["open", "secret"]
