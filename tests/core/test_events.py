from __future__ import annotations

from ai4j_sandbox.events import CommandEvents, Observer
from ai4j_sandbox.model import OutputStream, SandboxEvent, SandboxEventType
from ai4j_sandbox.redaction import Scrubber

SECRET = "SECRETKEY1234"
STDOUT, STDERR = OutputStream.STDOUT, OutputStream.STDERR


def events(observer: Observer | None = None, *secrets: str) -> CommandEvents:
    return CommandEvents(session_id="s", command_id="c", scrubber=Scrubber(secrets), observer=observer)


def shown(seen: list[SandboxEvent], stream: OutputStream = STDOUT) -> list[bytes]:
    return [event.data for event in seen if event.data and event.stream is stream]


def test_event_knows_where_it_belongs() -> None:
    seen: list[SandboxEvent] = []
    made = events(seen.append)

    made.tell(SandboxEventType.COMMAND_STARTED, "started")

    (event,) = seen
    assert (event.session_id, event.command_id, event.message, event.sequence) == ("s", "c", "started", 1)
    assert made.lifecycle == [event]


def test_output_is_made_only_for_those_who_want_it() -> None:
    made = events()

    made.output(STDOUT, b"nobody looks")
    made.follow()
    made.output(STDOUT, b"somebody looks")

    assert shown(list(made.take())) == [b"somebody looks"]
    assert made.lifecycle == []


def test_events_are_taken_once() -> None:
    made = events()
    made.follow()
    made.output(STDOUT, b"a")

    assert len(list(made.take())) == 1
    assert list(made.take()) == []


def test_streams_have_offsets_of_their_own_and_one_sequence() -> None:
    seen: list[SandboxEvent] = []
    made = events(seen.append)

    made.output(STDOUT, b"ab")
    made.output(STDERR, b"e")
    made.output(STDOUT, b"c")

    assert [(event.sequence, event.stream, event.offset) for event in seen] == [
        (1, STDOUT, 0),
        (2, STDERR, 0),
        (3, STDOUT, 2),
    ]


def test_secret_split_over_two_chunks_is_in_no_event() -> None:
    """Case P11."""
    seen: list[SandboxEvent] = []
    made = events(seen.append, SECRET)

    made.output(STDOUT, b"xx SECRET")
    made.output(STDOUT, b"KEY1234 yy")
    made.end_streams()

    assert shown(seen) == [b"xx ", b"[redacted] yy"]


def test_what_was_held_back_is_told_at_the_end() -> None:
    """Case P12."""
    seen: list[SandboxEvent] = []
    made = events(seen.append, SECRET)

    made.output(STDOUT, b"tail SECRETKEY12")
    made.output(STDERR, b"SEC")
    made.end_streams()

    assert (b"".join(shown(seen)), shown(seen, STDERR)) == (b"tail SECRETKEY12", [b"SEC"])


def test_secret_in_one_stream_is_not_looked_for_in_the_other() -> None:
    seen: list[SandboxEvent] = []
    made = events(seen.append, SECRET)

    made.output(STDOUT, b"SECRET")
    made.output(STDERR, b"KEY1234")
    made.end_streams()

    assert (shown(seen), shown(seen, STDERR)) == ([b"SECRET"], [b"KEY1234"])


def test_gap_in_a_stream_moves_the_offset_and_joins_nothing_across_it() -> None:
    seen: list[SandboxEvent] = []
    made = events(seen.append, SECRET)

    made.output(STDOUT, b"a SECRET")
    made.output(STDOUT, b"KEY1234 b", skipped_bytes=100)

    assert [(event.offset, event.data) for event in seen] == [(0, b"a "), (2, b"SECRET"), (108, b"KEY1234 b")]


def test_messages_are_masked() -> None:
    made = events(None, SECRET)

    made.tell(SandboxEventType.ERROR, f"refused {SECRET} and password=hunter2")

    assert made.lifecycle[0].message == "refused [redacted] and password=[redacted]"


def test_message_of_nothing_stays_nothing() -> None:
    made = events(None, SECRET)

    made.tell(SandboxEventType.ERROR)

    assert made.lifecycle[0].message is None
