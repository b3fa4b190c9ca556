"""What a sandbox uses, measured inside it with nothing but ``sh``, ``df`` and /proc, so for any provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.spi import SandboxSession, SupportsMetrics

NumberT = TypeVar("NumberT", int, float)

_SCRIPT = (
    "grep -c ^processor /proc/cpuinfo; read load rest < /proc/loadavg; echo $load; "
    "grep -E '^(MemTotal|MemAvailable|Cached):' /proc/meminfo; df -Pk . | tail -n 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement; sizes in bytes."""

    taken_at: float
    cpu_count: int
    cpu_used_percent: float
    memory_total: int
    memory_used: int
    memory_cache: int
    disk_total: int
    disk_used: int


def measure(session: SandboxSession, directory: str, now: float) -> Sample:
    """Return a measurement of a running sandbox; what the provider itself tells has precedence.

    Raises:
        SandboxException: It cannot be measured.
    """
    result = session.execute(SandboxCommand(command=_SCRIPT, working_directory=directory, timeout_millis=10_000))
    sample = parse_measurement(result.stdout, now)
    if not isinstance(session, SupportsMetrics):
        return sample
    told = session.metrics()
    return Sample(
        taken_at=now,
        cpu_count=sample.cpu_count,
        cpu_used_percent=_first(told.cpu_percent, sample.cpu_used_percent),
        memory_total=_first(told.memory_limit_bytes, sample.memory_total),
        memory_used=_first(told.memory_bytes, sample.memory_used),
        memory_cache=sample.memory_cache,
        disk_total=_first(told.disk_limit_bytes, sample.disk_total),
        disk_used=_first(told.disk_bytes, sample.disk_used),
    )


def parse_measurement(text: str, now: float) -> Sample:
    """Return the sample that the script's output describes.

    Raises:
        SandboxException: It is not of the form expected.
    """
    try:
        cpu_count, load, *memory_lines, disk_line = text.split("\n")[:6]
        memory = {name: int(value.split()[0]) * 1024 for name, value in (line.split(":") for line in memory_lines)}
        disk_total, disk_used = (int(value) * 1024 for value in disk_line.split()[1:3])
        return Sample(
            taken_at=now,
            cpu_count=int(cpu_count),
            cpu_used_percent=min(100.0, round(100 * float(load) / int(cpu_count), 2)),
            memory_total=memory["MemTotal"],
            memory_used=memory["MemTotal"] - memory["MemAvailable"],
            memory_cache=memory["Cached"],
            disk_total=disk_total,
            disk_used=disk_used,
        )
    except (ValueError, KeyError, IndexError):
        raise SandboxException(f"the sandbox cannot be measured, its shell said {text[:200]!r}") from None


def _first(told: NumberT | None, measured: NumberT) -> NumberT:
    return measured if told is None else told
