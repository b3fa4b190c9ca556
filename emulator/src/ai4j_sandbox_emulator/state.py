"""The life of an emulated sandbox as pure data: its phases, which move is allowed when, and when it ends.

Nothing here reads a clock; `now` is always an argument. What a refused move means on the wire (404, 409, 502) is the
face's business.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Phase(StrEnum):
    """Where a sandbox is in its life."""

    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    RESUMING = "resuming"
    KILLED = "killed"


class Action(StrEnum):
    """What can be done to a sandbox."""

    PAUSE = "pause"
    PAUSED = "paused"
    RESUME = "resume"
    RESUMED = "resumed"
    FAIL = "fail"
    KILL = "kill"


class OnTimeout(StrEnum):
    """What happens to a sandbox whose time is up."""

    KILL = "kill"
    PAUSE = "pause"


class WrongPhaseError(Exception):
    """The sandbox is in a phase that forbids the action."""

    def __init__(self, phase: Phase, action: Action) -> None:
        super().__init__(f"a sandbox that is {phase} cannot take {action}")
        self.phase = phase
        self.action = action


_MOVES: dict[tuple[Phase, Action], Phase] = {
    (Phase.RUNNING, Action.PAUSE): Phase.PAUSING,
    (Phase.PAUSING, Action.PAUSED): Phase.PAUSED,
    (Phase.PAUSED, Action.RESUME): Phase.RESUMING,
    (Phase.RESUMING, Action.RESUMED): Phase.RUNNING,
    (Phase.PAUSING, Action.FAIL): Phase.RUNNING,
    (Phase.RESUMING, Action.FAIL): Phase.PAUSED,
    **{(phase, Action.KILL): Phase.KILLED for phase in Phase if phase is not Phase.KILLED},
}


def moved(phase: Phase, action: Action) -> Phase:
    """Return the phase after the action.

    Raises:
        WrongPhaseError: The action is not possible now.
    """
    try:
        return _MOVES[phase, action]
    except KeyError:
        raise WrongPhaseError(phase, action) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """When a sandbox began and when its time is up, in seconds since 1970.

    Attributes:
        ends_at: End of its time; for a paused sandbox, when it was paused; ``None`` for one that never ends.
    """

    started_at: float
    ends_at: float | None

    @classmethod
    def starting(cls, now: float, seconds: float | None) -> Lifetime:
        """Return a life that begins now."""
        return cls(started_at=now, ends_at=None if seconds is None else now + seconds)

    def reset(self, now: float, seconds: float) -> Lifetime:
        """Return a life that ends in `seconds`, sooner or later than before; negative counts as now."""
        return replace(self, ends_at=now + max(0.0, seconds))

    def extended(self, now: float, seconds: float) -> Lifetime:
        """Return a life that lasts at least `seconds` from now; never a shorter one."""
        if self.ends_at is None or self.ends_at >= now + seconds:
            return self
        return replace(self, ends_at=now + seconds)

    def is_over(self, now: float) -> bool:
        """Whether the time is up."""
        return self.ends_at is not None and now >= self.ends_at
