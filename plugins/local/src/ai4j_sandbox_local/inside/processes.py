"""Processes of the sandbox, found by what they inherit, and what this process does to itself."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import resource
import signal
import time
from collections.abc import Callable

MARKERS_PER_SESSION = 1 << 24
RESERVED_DESCRIPTORS = 16  # so that a request can still be received, and refused, when nearly all are in use
RLIMIT_MARKER = 10  # RLIMIT_LOCKS: inherited by every descendant, and without any effect since Linux 2.4


def state_of(pid: int) -> str:
    """Return the kernel's letter for a process's state, ``Z`` also for one that is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "Z"


def marked(low: int, high: int) -> list[int]:
    """Return the living processes whose marker is in the range: all descendants, however they detached themselves."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            marker = resource.prlimit(int(name), RLIMIT_MARKER)[0]
        except OSError:  # gone, or somebody else's
            continue
        if low <= marker < high and state_of(int(name)) != "Z":
            found.append(int(name))
    return found


def usable_marker(wanted: int) -> int:
    """Return the marker to begin with: the wanted one, unless the machine limits what is used for it."""
    hard = resource.getrlimit(RLIMIT_MARKER)[1]
    return wanted if hard == resource.RLIM_INFINITY else 1


def signal_all(pids: list[int], number: int) -> None:
    """Send a signal to each; one that is gone meanwhile is fine."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def stop_all(
    find: Callable[[], list[int]],
    patience: float,
    state: Callable[[int], str] = state_of,
    send: Callable[[list[int], int], None] = signal_all,
) -> bool:
    """Stop every process that `find` returns, again and again, because one may fork before its signal arrives.

    One that waits in the kernel (``D``) stops before it does anything else, but only if it was signalled.

    Returns:
        Whether all stand still; ``False`` after `patience` seconds.
    """
    told: set[int] = set()
    until = time.monotonic() + patience
    while running := [pid for pid in find() if state(pid) not in ("TtD" if pid in told else "Tt")]:
        if time.monotonic() > until:
            return False
        send(running, signal.SIGSTOP)
        told.update(running)
        time.sleep(0.001)
    return True


def close_all_but(*kept: int) -> None:
    """Close what we were started with, our own program among it, so that no command inherits it."""
    for descriptor in kept:
        os.set_inheritable(descriptor, False)
    edges = [2, *sorted(kept), resource.getrlimit(resource.RLIMIT_NOFILE)[0]]
    for before, after in itertools.pairwise(edges):
        os.closerange(before + 1, after)


def lower_limits(limits: list[tuple[int, int]]) -> None:
    """Set limits, which cannot be raised again; a lower one that is in force stays."""
    for kind, limit in limits:
        hard = resource.getrlimit(kind)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (value, value))


def require_room(descriptor: int) -> None:
    """Refuse when this descriptor is among the last ones that we may open."""
    if descriptor >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - RESERVED_DESCRIPTORS:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def hide_arguments(shown: str) -> None:
    """Let our command line, which every process may read in ``/proc``, be `shown` instead of paths of the host."""
    import ctypes

    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5): fields 48 and 49; we cut off two
    room = end - start
    ctypes.memmove(start, shown.encode()[: room - 1].ljust(room, b"\0"), room)


def hide_from_commands() -> None:
    """Keep commands, which run as the same user, from tracing us and from reading our memory and descriptors."""
    import ctypes  # after the greeting, since it takes milliseconds to load

    hide_arguments("ai4j-sandbox-agent")
    PR_SET_DUMPABLE = 4
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
