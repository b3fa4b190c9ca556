"""Single keys from a terminal."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from ai4j_cli.terminal import mode_kept


class Key(StrEnum):
    """What a key means."""

    UP = "up"
    DOWN = "down"
    CANCEL = "cancel"
    QUIT = "quit"


_MEANINGS = {
    b"\x1b[A": Key.UP,
    b"\x1bOA": Key.UP,
    b"k": Key.UP,
    b"\x1b[B": Key.DOWN,
    b"\x1bOB": Key.DOWN,
    b"j": Key.DOWN,
    b"c": Key.CANCEL,
    b"q": Key.QUIT,
    b"\x03": Key.QUIT,
}

_KEY = re.compile(rb"\x1b[\[O].|.", re.DOTALL)
_MOST_TYPED = 1024


@contextmanager
def single_keys(descriptor: int) -> Iterator[None]:
    """Hand every key over as it is pressed, without showing it; the old mode is back afterwards."""
    import tty

    with mode_kept(descriptor):
        tty.setcbreak(descriptor)
        yield


def keys_of(typed: bytes) -> list[Key]:
    """Return what the keys in `typed` mean; those that mean nothing are left out."""
    return [_MEANINGS[found] for found in _KEY.findall(typed) if found in _MEANINGS]


def pressed(descriptor: int, seconds: float) -> list[Key]:
    """Wait for keys; none when none came. A terminal that was hung up means quit."""
    if not select.select([descriptor], [], [], seconds)[0]:
        return []
    try:
        typed = os.read(descriptor, _MOST_TYPED)
    except OSError:
        return [Key.QUIT]
    return keys_of(typed) if typed else [Key.QUIT]
