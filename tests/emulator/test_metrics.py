"""Measurements as the sandbox's shell prints them."""

from __future__ import annotations

import pytest

from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox_emulator.metrics import Sample, parse_measurement

PRINTED = """2
0.50
MemTotal:        2000 kB
MemAvailable:    1500 kB
Cached:           300 kB
tmpfs              1000      40       960       4% /home/user
"""


def test_a_measurement_is_read() -> None:
    assert parse_measurement(PRINTED, 7.0) == Sample(
        taken_at=7.0,
        cpu_count=2,
        cpu_used_percent=25.0,
        memory_total=2000 * 1024,
        memory_used=500 * 1024,
        memory_cache=300 * 1024,
        disk_total=1000 * 1024,
        disk_used=40 * 1024,
    )


@pytest.mark.parametrize("printed", ["", "sh: df: not found\n", PRINTED.replace("MemTotal", "Total")])
def test_anything_else_is_an_error_that_quotes_it(printed: str) -> None:
    with pytest.raises(SandboxException, match="cannot be measured"):
        parse_measurement(printed, 7.0)
