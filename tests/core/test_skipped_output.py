"""Output that a service did not send, because the result would have dropped it anyway."""

from __future__ import annotations

from ai4j_sandbox.events import CommandEvents
from ai4j_sandbox.model import CapturedOutput, OutputStream, SandboxEvent
from ai4j_sandbox.output import OutputCapture
from ai4j_sandbox.redaction import Scrubber


def test_gap_counts_and_what_follows_it_is_tail() -> None:
    capture = OutputCapture(2048)
    capture.feed(b"h" * 1024)
    capture.feed(b"t" * 1024, skipped_bytes=5000)

    assert capture.captured() == CapturedOutput(head=b"h" * 1024, tail=b"t" * 1024, total_bytes=7048)


def test_gap_ends_the_head_even_where_there_was_room() -> None:
    capture = OutputCapture(2048)
    capture.feed(b"h")
    capture.feed(b"t", skipped_bytes=10)

    captured = capture.captured()
    assert (captured.head, captured.tail, captured.dropped_bytes) == (b"h", b"t", 10)


def test_gap_without_room_for_a_tail_is_only_counted() -> None:
    capture = OutputCapture(5)
    capture.feed(b"12345")
    capture.feed(b"9", skipped_bytes=3)

    assert capture.captured() == CapturedOutput(head=b"12345", total_bytes=9)


def test_events_know_their_offset_behind_a_gap() -> None:
    told: list[SandboxEvent] = []
    events = CommandEvents(session_id="s", command_id="c", scrubber=Scrubber(), observer=told.append)
    events.output(OutputStream.STDOUT, b"abc")
    events.output(OutputStream.STDOUT, b"xyz", skipped_bytes=100)

    assert [(event.offset, event.data) for event in told] == [(0, b"abc"), (103, b"xyz")]
