"""One figure of one side, in a process of its own: ``<program> ours|theirs first|no-op|text|bytes|limit [repeat]``.

Imports next to nothing, so that what it takes to start is what the side takes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

LIMIT_BYTES = 1_000_000


class Side(NamedTuple):
    """What one side can do with a command line. All but `run` and `close` return how much output there was.

    Attributes:
        run: Run it.
        text: Run it, keep all output and read it as text.
        bytes: Run it and keep all output as it came, where the side can.
        limit: Run it and keep little.
        close: End the sandbox.
    """

    run: Callable[[str], object]
    text: Callable[[str], int]
    bytes: Callable[[str], int]
    limit: Callable[[str], int]
    close: Callable[[], object]


def median_seconds(work: Callable[[], object], repeat: int) -> float:
    """Return the median time of one call."""
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return sorted(times)[repeat // 2]


def peak_megabytes() -> float:
    """Return the most memory this process ever had."""
    # Not `ru_maxrss`: Linux lets a new program begin with that of the process that started it.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def take(sides: Mapping[str, Callable[[], Side]]) -> None:
    """Take the figure that the command line names and print it as JSON."""
    name, what, *rest = sys.argv[1:]
    repeat = rest[0] if rest else "1"
    side = sides[name]()
    side.run("true")
    if what == "no-op":
        print(f'{{"seconds": {median_seconds(lambda: side.run("true"), int(repeat))}}}')
    elif what != "first":
        flood = {"text": side.text, "bytes": side.bytes, "limit": side.limit}[what]
        idle, cpu, began = peak_megabytes(), time.process_time(), time.perf_counter()
        megabytes = flood("flood") / 1e6
        taken, cpu = time.perf_counter() - began, (time.process_time() - cpu) / megabytes
        peak = peak_megabytes()
        print(f'{{"seconds": {taken}, "cpu": {cpu}, "memory": {peak - idle}, "peak": {peak}}}')
    side.close()
