"""One figure of one side, in a process of its own: ``<program> ours|theirs first|no-op|keep|limit [repeat]``.

Imports next to nothing, so that what it takes to start is what the side takes.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping

LIMIT_BYTES = 1_000_000

Side = tuple[Callable[[str], object], Callable[[str], int], Callable[[str], int], Callable[[], object]]
"""Run a line; run it keeping all output, and keeping little, and return how much there was; close."""


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
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def take(sides: Mapping[str, Callable[[], Side]]) -> None:
    """Take the figure that the command line names and print it as JSON."""
    name, what, *rest = sys.argv[1:]
    repeat = rest[0] if rest else "1"
    run, keep, limit, close = sides[name]()
    run("true")
    if what == "no-op":
        print(f'{{"seconds": {median_seconds(lambda: run("true"), int(repeat))}}}')
    elif what in ("keep", "limit"):
        idle, cpu, began = peak_megabytes(), time.process_time(), time.perf_counter()
        megabytes = (keep if what == "keep" else limit)("flood") / 1e6
        taken, cpu = time.perf_counter() - began, (time.process_time() - cpu) / megabytes
        memory = peak_megabytes() - idle
        print(f'{{"seconds": {taken}, "cpu": {cpu}, "memory": {memory}, "megabytes": {megabytes}}}')
    close()
