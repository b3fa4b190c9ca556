"""Waiting for something that must happen, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], *, seconds: float = 10.0) -> bool:
    """Whether the condition comes true within the bound."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
