"""Our own terminal, lent to a command: raw mode and window size. POSIX only."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from ai4j_sandbox import SandboxException, TerminalSize

if TYPE_CHECKING:
    from ai4j_sandbox import SandboxProcess


def terminal_size(descriptor: int) -> TerminalSize:
    """Return the size of a terminal; one that does not know its size counts as 24 by 80."""
    size = os.get_terminal_size(descriptor)
    return TerminalSize(rows=size.lines or 24, columns=size.columns or 80)


@contextmanager
def mode_kept(descriptor: int) -> Iterator[None]:
    """Give the terminal back its mode afterwards, whatever happened to it and however it ends."""
    import termios

    saved = termios.tcgetattr(descriptor)
    try:
        yield
    finally:
        with suppress(termios.error):  # it was closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, saved)


@contextmanager
def raw_mode(descriptor: int) -> Iterator[None]:
    """Hand every key through as typed, Ctrl-C included; the old mode is back afterwards, whatever happened."""
    import termios
    import tty

    with mode_kept(descriptor):
        tty.setraw(descriptor, termios.TCSADRAIN)  # the default would throw away what was typed meanwhile
        yield


@contextmanager
def following_size(descriptor: int, process: SandboxProcess) -> Iterator[None]:
    """Give the command's terminal the size of ours, whenever that changes."""

    def resize() -> None:
        with suppress(SandboxException):  # it has ended
            process.resize(terminal_size(descriptor))

    def changed(number: int, frame: FrameType | None) -> None:
        # Not here: the main thread may hold the very lock that `resize` needs.
        threading.Thread(target=resize, daemon=True).start()

    previous = signal.signal(signal.SIGWINCH, changed)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, previous)
