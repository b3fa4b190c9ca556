"""Wall-clock deadlines with an injectable clock."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


class Deadline:
    """A point on a monotonic clock after which waiting is over; `None` seconds means never."""

    __slots__ = ("_at", "_clock")

    def __init__(self, seconds: float | None, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._at = None if seconds is None else clock() + seconds

    @classmethod
    def after_millis(cls, millis: int | None, clock: Clock = time.monotonic) -> Deadline:
        """Return the deadline `millis` milliseconds from now."""
        return cls(None if millis is None else millis / 1000, clock)

    @property
    def expired(self) -> bool:
        """Whether the point has passed."""
        return self._at is not None and self._clock() >= self._at

    def remaining(self) -> float | None:
        """Seconds left, never negative; ``None`` without a limit."""
        if self._at is None:
            return None
        left = self._at - self._clock()
        return left if left > 0 else 0.0

    def bound(self, seconds: float) -> float:
        """Return `seconds`, or what is left when that is less."""
        left = self.remaining()
        return seconds if left is None else min(seconds, left)
