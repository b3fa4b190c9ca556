"""A change of a sandbox that fails on purpose: handed from the server to the face that makes the change."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from .faults import Effect, Fail
from .reply import Reply, json_reply


@dataclass(slots=True)
class Failure:
    """What is handed over for one request, and whether the face has taken it."""

    effect: Fail | None


_handed_over: ContextVar[Failure] = ContextVar("ai4j_emulator_failure")


def hand_over(effect: Effect | None) -> Failure:
    """Let the handling of the current request find out whether what it changes is to fail."""
    failure = Failure(effect if isinstance(effect, Fail) else None)
    _handed_over.set(failure)
    return failure


def take_failure() -> Fail | None:
    """Return how the change that the current request makes is to fail, if it is; once."""
    failure = _handed_over.get()
    effect, failure.effect = failure.effect, None
    return effect


def not_taken(failure: Failure) -> Reply | None:
    """Return the answer to a request that was to fail and changes nothing that could."""
    if failure.effect is None:
        return None
    return json_reply({"message": "the fault fits a request that changes no sandbox which can fail"}, 501)
