"""Where a memory limit can be set, told from /proc/self/cgroup."""

from __future__ import annotations

from ai4j_sandbox_local.isolation.cgroup import memory_places


def places(text: str) -> list[tuple[str, str]]:
    return [(directory, events) for directory, _, events in memory_places(text)]


def test_version_2_looks_upwards_from_its_own_group() -> None:
    assert places("0::/user.slice/session.scope\n") == [
        ("/sys/fs/cgroup/user.slice/session.scope", "memory.events"),
        ("/sys/fs/cgroup/user.slice", "memory.events"),
        ("/sys/fs/cgroup", "memory.events"),
    ]


def test_version_1_looks_in_the_hierarchy_for_memory() -> None:
    assert places("9:pids:/a\n4:memory:/job\n") == [
        ("/sys/fs/cgroup/memory/job", "memory.oom_control"),
        ("/sys/fs/cgroup/memory", "memory.oom_control"),
    ]


def test_no_group_no_place() -> None:
    assert places("") == []
