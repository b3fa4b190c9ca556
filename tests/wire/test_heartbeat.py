"""Keeping alive what is used."""

from __future__ import annotations

import threading

from ai4j_sandbox.errors import SandboxConnectionError
from ai4j_sandbox_wire.heartbeat import Heartbeat
from support.waiting import eventually

NAME = "ai4j-heartbeat"


def beating() -> int:
    return sum(thread.name == NAME for thread in threading.enumerate())


def test_it_beats_while_something_is_under_way_and_then_leaves() -> None:
    beats: list[int] = []
    heartbeat = Heartbeat(lambda: beats.append(1), busy=lambda: len(beats) < 3, every_seconds=0.01)

    heartbeat.start()

    assert eventually(lambda: beating() == 0)
    assert len(beats) == 3


def test_it_begins_again_when_something_is_under_way_again() -> None:
    beats: list[int] = []
    wanted = [1]
    heartbeat = Heartbeat(lambda: beats.append(1), busy=lambda: len(beats) < wanted[0], every_seconds=0.01)
    heartbeat.start()
    assert eventually(lambda: beating() == 0)

    wanted[0] = 2
    heartbeat.start()

    assert eventually(lambda: len(beats) == 2)
    assert eventually(lambda: beating() == 0)


def test_one_thread_is_enough_however_often_it_is_started() -> None:
    heartbeat = Heartbeat(lambda: None, busy=lambda: True, every_seconds=0.01)
    for _ in range(5):
        heartbeat.start()

    assert beating() == 1
    heartbeat.stop()
    assert eventually(lambda: beating() == 0)


def test_stopped_for_good_is_stopped_for_good() -> None:
    heartbeat = Heartbeat(lambda: None, busy=lambda: True, every_seconds=60)
    heartbeat.start()
    heartbeat.stop()
    heartbeat.stop()
    heartbeat.start()

    assert eventually(lambda: beating() == 0)


def test_beat_that_fails_is_followed_by_the_next() -> None:
    beats: list[int] = []

    def failing() -> None:
        beats.append(1)
        raise SandboxConnectionError("away")

    Heartbeat(failing, busy=lambda: len(beats) < 3, every_seconds=0.01).start()

    assert eventually(lambda: len(beats) == 3)
    assert eventually(lambda: beating() == 0)
