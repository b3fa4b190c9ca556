from __future__ import annotations

import pytest

from ai4j_sandbox.deadline import Deadline


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_deadline_expires_when_its_time_has_come() -> None:
    clock = Clock()
    deadline = Deadline.after_millis(1500, clock)

    assert (deadline.expired, deadline.remaining()) == (False, 1.5)
    clock.now += 1.5
    assert (deadline.expired, deadline.remaining()) == (True, 0.0)
    clock.now += 10
    assert deadline.remaining() == 0.0


def test_no_deadline_never_expires() -> None:
    deadline = Deadline.after_millis(None, Clock())

    assert (deadline.expired, deadline.remaining(), deadline.bound(5)) == (False, None, 5)


@pytest.mark.parametrize(("wanted", "given"), [(0.5, 0.5), (5.0, 1.0)])
def test_wait_is_bounded_by_what_is_left(wanted: float, given: float) -> None:
    assert Deadline(1.0, Clock()).bound(wanted) == given
