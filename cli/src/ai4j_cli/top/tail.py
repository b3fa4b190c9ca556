"""The latest output of one running command."""

from __future__ import annotations

import codecs
import threading
from collections import deque

from ai4j_sandbox import OutputStream, SandboxException, SandboxProcess

_LINES = 12


class Tail:
    """Follows a command from now on, in a thread of its own. Letting go does not stop the command."""

    def __init__(self, process: SandboxProcess) -> None:
        self._process = process
        self._lines: deque[str] = deque([""], maxlen=_LINES)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._follow, name="ai4j-top-tail", daemon=True)
        self._thread.start()

    @property
    def lines(self) -> tuple[str, ...]:
        """What was said last."""
        with self._lock:
            return tuple(line for line in self._lines if line)

    def let_go(self) -> None:
        """Follow it no longer."""
        self._process.detach()
        self._thread.join(timeout=1)

    def _follow(self) -> None:
        decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in OutputStream}
        try:
            for chunk in self._process.output():
                self._add(decoders[chunk.stream].decode(chunk.data))
        except SandboxException:
            pass  # let go, or the sandbox ended; the next look at it tells

    def _add(self, text: str) -> None:
        first, *others = text.split("\n")
        with self._lock:
            self._lines[-1] += first
            self._lines.extend(others)
