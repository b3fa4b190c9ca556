"""Our own standard streams, as this process was given them.

Bytes are moved by file descriptor. A stream that has none (a test's), and every one on Windows, which cannot poll
pipes, is read and written through its ``buffer``.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from typing import BinaryIO, TextIO


def standard_input() -> BinaryIO:
    """Return our standard input for bytes; an empty one when it was closed before we started."""
    return io.BytesIO() if sys.stdin is None else sys.stdin.buffer


def descriptor_of(stream: TextIO | BinaryIO | None) -> int | None:
    """Return the file descriptor of a stream if it has one that can be polled."""
    if stream is None or not hasattr(select, "poll"):
        return None
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is there and is a terminal."""
    return stream is not None and stream.isatty()


def holds_input(stream: TextIO | None) -> bool:
    """Whether a standard input is meant for the command: neither a terminal nor the null device."""
    if stream is None or stream.isatty():
        return False
    descriptor = descriptor_of(stream)
    return descriptor is None or not _is_null_device(os.fstat(descriptor))


def _is_null_device(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev


def open_missing_streams() -> None:
    """Open the null device where a standard stream was closed, so that no file we open takes its number.

    An output that was closed can only be read, so that what is written to it is an error, as it is on a full disk. What
    there is to say on stderr is lost without one.
    """
    while (descriptor := os.open(os.devnull, os.O_RDONLY)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as below
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - ours for as long as we live


def discard_output(*streams: TextIO | None) -> None:
    """Send what is still buffered for a broken pipe nowhere, so that the interpreter does not stumble over it later."""
    for stream in streams:
        descriptor = descriptor_of(stream)
        if descriptor is not None:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, descriptor)
            os.close(null)


def survive_any_encoding(*streams: TextIO | None) -> None:
    """Write what a stream's encoding lacks as an escape, instead of failing (``PYTHONIOENCODING=ascii``)."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
