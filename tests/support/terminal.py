"""A program on a terminal of its own, driven like a person would."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

PATIENCE = 30


class Terminal:
    """Runs one program on a pseudo terminal, as the leader of its session. A context manager.

    Attributes:
        shown: What appeared since the last `expect`.
        everything: What appeared since the start.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], rows: int = 24, columns: int = 80
    ) -> None:
        self.shown = self.everything = b""
        self._controller, self._terminal = os.openpty()
        self._gone = os.open(os.devnull, os.O_RDWR)
        self.resize(rows, columns)
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=self._terminal,
            stdout=self._terminal,
            stderr=self._terminal,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._controller, keys)

    def resize(self, rows: int, columns: int) -> None:
        """Change the window; the program is told by SIGWINCH."""
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Close the window."""
        os.dup2(self._gone, self._controller)

    def expect(self, text: bytes) -> None:
        """Wait until something has appeared since the last call, and forget everything before its end."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not appear; there was {self.shown!r}"
            if select.select([self._controller], [], [], left)[0]:
                self._read()
        self.shown = self.shown.partition(text)[2]

    def wait(self) -> int:
        """Return the program's exit code."""
        while self._process.poll() is None:
            if select.select([self._controller], [], [], 0.05)[0]:
                self._read()
        while select.select([self._controller], [], [], 0)[0] and self._read():
            pass
        return self._process.returncode

    def _read(self) -> bytes:
        appeared = os.read(self._controller, 65536)
        self.shown += appeared
        self.everything += appeared
        return appeared

    @property
    def settings(self) -> list[Any]:
        """The terminal's modes, without the input and output of its queues."""
        return termios.tcgetattr(self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for descriptor in (self._controller, self._terminal, self._gone):
            os.close(descriptor)
