"""``ai4j emulator start``, as a user types it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

AI4J = Path(sys.executable).with_name("ai4j")
_PATIENCE_SECONDS = 20


@contextmanager
def emulator_started(command: str) -> Iterator[dict[str, str]]:
    """Run a command line such as ``ai4j emulator start --face e2b`` and yield the variables that it says to set."""
    program, *arguments = shlex.split(command)
    assert program == AI4J.name
    with subprocess.Popen([AI4J, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            yield dict(_exported(iter(process.stdout.readline, "")))
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE_SECONDS)
            finally:
                process.kill()


def _exported(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        if line.startswith("#"):  # it serves now
            return
        (setting,) = shlex.split(line.removeprefix("export "))
        yield setting.split("=", 1)
    raise AssertionError("the emulator ended before it served")
