"""The state machine and lifetimes, without a clock."""

from __future__ import annotations

import pytest

from ai4j_sandbox_emulator.state import Action, Lifetime, Phase, WrongPhaseError, moved

ALLOWED = {
    (Phase.RUNNING, Action.PAUSE): Phase.PAUSING,
    (Phase.PAUSING, Action.PAUSED): Phase.PAUSED,
    (Phase.PAUSING, Action.FAIL): Phase.RUNNING,
    (Phase.PAUSED, Action.RESUME): Phase.RESUMING,
    (Phase.RESUMING, Action.RESUMED): Phase.RUNNING,
    (Phase.RESUMING, Action.FAIL): Phase.PAUSED,
    (Phase.RUNNING, Action.KILL): Phase.KILLED,
    (Phase.PAUSING, Action.KILL): Phase.KILLED,
    (Phase.PAUSED, Action.KILL): Phase.KILLED,
    (Phase.RESUMING, Action.KILL): Phase.KILLED,
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("action", Action)
def test_only_the_moves_of_the_table_are_possible(phase: Phase, action: Action) -> None:
    if (phase, action) in ALLOWED:
        assert moved(phase, action) is ALLOWED[phase, action]
    else:
        with pytest.raises(WrongPhaseError, match=f"that is {phase} cannot take {action}"):
            moved(phase, action)


def test_a_life_can_be_made_shorter_by_reset() -> None:
    assert Lifetime.starting(100, 60).reset(110, 5).ends_at == 115


def test_a_reset_to_less_than_nothing_is_over_now() -> None:
    assert Lifetime.starting(100, 60).reset(110, -5).is_over(110)


@pytest.mark.parametrize(("seconds", "ends_at"), [(5, 160), (100, 210)])
def test_an_extension_never_shortens(seconds: float, ends_at: float) -> None:
    assert Lifetime.starting(100, 60).extended(110, seconds).ends_at == ends_at


def test_a_life_without_end_stays_so() -> None:
    endless = Lifetime.starting(100, None)

    assert endless.extended(110, 60) is endless
    assert not endless.is_over(10**12)
