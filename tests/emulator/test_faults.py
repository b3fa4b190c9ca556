"""Faults: which requests they hit, and what they make of a body."""

from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox_emulator.envelope import Envelope
from ai4j_sandbox_emulator.faults import (
    Answer,
    Cut,
    Drip,
    End,
    Fail,
    Fault,
    FaultBoard,
    FaultError,
    Frames,
    Hang,
    Reset,
    Send,
    Stall,
    Step,
    Wait,
    parse_fault,
)

FIRST, SECOND, LAST = Envelope(b"first"), Envelope(b"second"), Envelope(b"{}", 2)


def steps(effect: Cut | Stall | Drip | Frames, *slices: bytes) -> list[Step]:
    """What becomes of a body, without the empty sends."""
    body_filter = effect.body_filter()
    done = [step for data in slices for step in body_filter.feed(data)] + list(body_filter.finish())
    return [step for step in done if step != Send(b"")]


@pytest.mark.parametrize("slices", [(b"abcdef",), (b"abc", b"def"), (b"a", b"b", b"c", b"d", b"e", b"f")])
def test_a_cut_is_at_its_byte_however_the_body_is_sliced(slices: tuple[bytes, ...]) -> None:
    before = []
    for step in steps(Cut(after=4, how="rst"), *slices):
        if step == End("rst"):
            break
        before.append(step)

    assert b"".join(step.data for step in before if isinstance(step, Send)) == b"abcd"


def test_a_cut_beyond_the_body_is_at_its_end() -> None:
    assert steps(Cut(after=100), b"abc") == [Send(b"abc"), End("fin")]


def test_a_cut_at_byte_zero_sends_nothing() -> None:
    assert steps(Cut(after=0), b"abc")[0] == End("fin")


def test_a_stall_goes_on_afterwards() -> None:
    assert steps(Stall(after=1, seconds=2), b"abc") == [Send(b"a"), Wait(2), Send(b"bc")]


def test_a_drip_pauses_after_each_piece() -> None:
    assert steps(Drip(size=2, seconds=1), b"abc") == [Send(b"ab"), Wait(1), Send(b"c"), Wait(1)]


@pytest.mark.parametrize(
    ("effect", "sent"),
    [
        (Frames(index=0, what="duplicate"), [FIRST, FIRST, SECOND, LAST]),
        (Frames(index=1, what="drop"), [FIRST, LAST]),
        (Frames(index=1, what="late"), [FIRST, SECOND, LAST, SECOND]),
        (Frames(index=9, what="drop"), [FIRST, SECOND, LAST]),
    ],
)
def test_one_frame_is_disturbed(effect: Frames, sent: list[Envelope]) -> None:
    body = b"".join(frame.encoded() for frame in (FIRST, SECOND, LAST))

    assert steps(effect, body[:3], body[3:]) == [Send(frame.encoded()) for frame in sent]


def test_a_fault_hits_as_often_as_it_says() -> None:
    board = FaultBoard()
    board.add(Fault(effect=Reset(), path="/files", skip=1, times=2))

    struck = [board.strike("GET", "/files") for _ in range(5)]

    assert struck == [None, Reset(), Reset(), None, None]
    assert board.in_force() == {}


@pytest.mark.parametrize(
    ("method", "path", "hit"),
    [
        ("POST", "/process.Process/Start", True),
        ("POST", "/process.Process/List", True),
        ("GET", "/process.Process/Start", False),
        ("POST", "/files", False),
    ],
)
def test_a_fault_hits_only_what_it_means(method: str, path: str, hit: bool) -> None:
    board = FaultBoard()
    board.add(Fault(effect=Hang(), method="POST", path="/process.Process/*", times=None))

    assert (board.strike(method, path) is not None) is hit


def test_a_fault_that_is_lifted_hits_nothing() -> None:
    board = FaultBoard()
    number = board.add(Fault(effect=Reset()))

    assert board.remove(number) is True
    assert board.remove(number) is False
    assert board.strike("GET", "/") is None


@pytest.mark.parametrize(
    "fault",
    [
        Fault(effect=Answer(status=429, headers={"Retry-After": "1"}), method="POST", path="/sandboxes*", times=3),
        Fault(effect=Reset(handled=True), skip=2),
        Fault(effect=Hang(seconds=0.5), times=None),
        Fault(effect=Fail(reason="disk full", recoverable=True)),
        Fault(effect=Cut(after=7, how="rst")),
        Fault(effect=Stall(after=7)),
        Fault(effect=Drip(size=3)),
        Fault(effect=Frames(index=1, what="late")),
    ],
)
def test_a_fault_survives_its_json(fault: Fault) -> None:
    assert parse_fault(fault.as_json()) == fault


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "a fault is a JSON object"),
        (
            {"effect": "explode"},
            "effect must be one of answer, reset, hang, fail, cut, stall, drip, frames, got 'explode'",
        ),
        ({"effect": "cut"}, "cut needs after"),
        ({"effect": "cut", "after": 1, "byte": 2}, "cut has no byte; it has after, how"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(document: Any, reason: str) -> None:
    with pytest.raises(FaultError) as caught:
        parse_fault(document)

    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Answer(status=200, body=b"[]"), r"answer\.body must be text, got b'\[\]'"),
        (lambda: Answer(status="200"), r"answer\.status must be a whole number, got '200'"),
        (lambda: Answer(status=True), "a whole number, got True"),
        (lambda: Answer(status=200, headers=[]), r"answer\.headers must be a mapping, got \[\]"),
        (lambda: Reset(handled=1), r"reset\.handled must be true or false, got 1"),
        (lambda: Hang(seconds="1"), r"hang\.seconds must be a number or None, got '1'"),
        (lambda: Fail(state="stopped"), r"fail\.state must be 'error' or 'build_failed', got 'stopped'"),
        (lambda: Cut(after=1, how="slowly"), r"cut\.how must be 'fin' or 'rst', got 'slowly'"),
        (lambda: Fault(effect="cut"), r"fault\.effect must be Answer or .* or Frames, got 'cut'"),
        (lambda: Fault(effect=Reset(), times=1.5), r"fault\.times must be a whole number or None, got 1\.5"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_where_it_is_given(make: Any, says: str) -> None:
    with pytest.raises(FaultError, match=says):
        make()
