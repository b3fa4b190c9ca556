"""A memory limit for a whole sandbox, by a control group, where one can be made (version 1 and 2)."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass

ROOT = "/sys/fs/cgroup"
_REMOVE_SECONDS = 2.0
_NAME = re.compile(r"ai4j-(\d+)-[0-9a-f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """A control group of one sandbox.

    Attributes:
        events: File that counts what the kernel killed for want of memory.
    """

    path: str
    events: str

    def kills(self) -> int:
        """Return how many processes the kernel killed because the limit was reached."""
        try:
            with open(os.path.join(self.path, self.events)) as file:
                counts = dict(line.split() for line in file)
        except OSError:
            return 0
        return int(counts.get("oom_kill", 0))

    def remove(self) -> None:
        """Remove it once its last process is gone, which the kernel tells a little late."""
        until = time.monotonic() + _REMOVE_SECONDS
        while time.monotonic() < until:
            try:
                os.rmdir(self.path)
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.005)
            else:
                return


def memory_group(megabytes: int) -> ControlGroup | None:
    """Make a control group with this much memory and no swap; ``None`` where that is not possible."""
    with open("/proc/self/cgroup") as file:
        places = memory_places(file.read())
    for parent, limits, events in places:
        if not _usable(parent, limits):
            continue
        _remove_abandoned(parent)
        path = os.path.join(parent, f"ai4j-{os.getpid()}-{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            os.mkdir(path)
            _write_limits(path, limits, megabytes * 1024 * 1024)
            return ControlGroup(path=path, events=events)
    return None


_Limits = tuple[tuple[str, bool], ...]  # file, and whether it takes the limit (else 0)
_VERSION_1: _Limits = (("memory.limit_in_bytes", True), ("memory.memsw.limit_in_bytes", True))
_VERSION_2: _Limits = (("memory.max", True), ("memory.swap.max", False))


def memory_places(own_groups: str) -> Iterator[tuple[str, _Limits, str]]:
    """Yield the directories in which a memory group could be made, nearest first, with its files.

    Args:
        own_groups: Text of ``/proc/self/cgroup``: number, controllers, path.
    """
    for line in own_groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            for directory in _upwards(f"{ROOT}/memory", path):
                yield directory, _VERSION_1, "memory.oom_control"
        elif not controllers:
            for directory in _upwards(ROOT, path):
                yield directory, _VERSION_2, "memory.events"


def _upwards(root: str, path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts), -1, -1):
        yield "/".join((root, *parts[:depth]))


def _usable(parent: str, limits: _Limits) -> bool:
    if not os.access(parent, os.W_OK):
        return False
    if limits is _VERSION_1:
        return os.path.exists(os.path.join(parent, "memory.limit_in_bytes"))
    try:
        with open(os.path.join(parent, "cgroup.subtree_control")) as file:
            return "memory" in file.read().split()
    except OSError:
        return False


def _write_limits(path: str, limits: _Limits, size: int) -> None:
    for name, takes_limit in limits:
        target = os.path.join(path, name)
        if os.path.exists(target):  # the files about swap depend on the kernel's configuration
            with open(target, "w") as file:
                file.write(str(size if takes_limit else 0))


def _remove_abandoned(parent: str) -> None:
    """Remove groups whose host process is gone, and with it everything that was in them."""
    for name in os.listdir(parent):
        match = _NAME.fullmatch(name)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(parent, name))
