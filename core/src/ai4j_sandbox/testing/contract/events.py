"""Promises about events: live, numbered, complete, and never able to break a command."""

from __future__ import annotations

import time

import pytest

from ai4j_sandbox.capability import Capability
from ai4j_sandbox.model import OutputStream, SandboxCommand, SandboxEvent, SandboxEventType
from ai4j_sandbox.spi import SandboxSession

from .setup import ContractSetup, eventually, require, run


class EventsContract(ContractSetup):
    """What is told while a command runs."""

    def test_events_arrive_in_order_with_sequence_numbers(self, session: SandboxSession) -> None:
        told: list[SandboxEvent] = []

        result = session.execute(SandboxCommand(command="echo a; echo b >&2; echo c"), on_event=told.append)

        assert [event.sequence for event in told] == list(range(1, len(told) + 1))
        assert told[0].type is SandboxEventType.COMMAND_STARTED
        assert told[-1].type is SandboxEventType.COMMAND_FINISHED
        assert {event.command_id for event in told} == {result.command_id}
        assert len({event.event_id for event in told}) == len(told)

    def test_output_in_events_is_the_output_of_the_result(self, session: SandboxSession) -> None:
        told: list[SandboxEvent] = []

        command = SandboxCommand(command="seq 1 20000; seq 1 500 >&2; printf 'caf\\303'; sleep 0.1; printf '\\251'")
        result = session.execute(command, on_event=told.append)

        assert _output(told, OutputStream.STDOUT) == result.stdout_bytes
        assert _output(told, OutputStream.STDERR) == result.stderr_bytes
        assert result.stdout.endswith("20000\ncafé")

    def test_output_events_know_their_offset(self, session: SandboxSession) -> None:
        process = session.start(SandboxCommand(command="printf 12345; sleep 0.2; printf 67890"))

        told = [event for event in process if event.data is not None]

        position = 0
        for event in told:
            assert event.offset == position
            position += len(event.data or b"")
        assert position == 10

    def test_output_is_shown_while_the_command_runs(self, session: SandboxSession) -> None:
        require(session, Capability.STREAMING)
        started = time.monotonic()

        with session.start(SandboxCommand(command="echo first; sleep 60")) as process:
            first = next(event for event in process if event.data)
            assert not process.done

        assert (first.type, first.data) == (SandboxEventType.COMMAND_OUTPUT, b"first\n")
        assert time.monotonic() - started < 10

    def test_result_holds_lifecycle_events_but_no_second_copy_of_the_output(self, session: SandboxSession) -> None:
        result = session.execute(SandboxCommand(command="seq 1 1000"), on_event=lambda event: None)

        assert [event.type for event in result.events if event.data is not None] == []

    def test_nothing_is_lost_when_iteration_stops_early(self, session: SandboxSession) -> None:
        process = session.start(SandboxCommand(command="echo a; sleep 0.2; echo b"))
        next(iter(process))

        assert process.wait().stdout == "a\nb\n"

    def test_waiting_twice_gives_the_same_result(self, session: SandboxSession) -> None:
        process = session.start(SandboxCommand(command="echo once"))

        assert process.wait() is process.wait()

    def test_subscriber_sees_every_event_of_the_session(self, session: SandboxSession) -> None:
        told: list[SandboxEvent] = []
        session.subscribe(told.append)

        run(session, "echo hi")
        session.close()

        kinds = [event.type for event in told]
        assert kinds == [
            SandboxEventType.COMMAND_STARTED,
            SandboxEventType.COMMAND_OUTPUT,
            SandboxEventType.COMMAND_FINISHED,
            SandboxEventType.SESSION_CLOSED,
        ]

    def test_subscriber_that_fails_does_not_break_the_command(self, session: SandboxSession) -> None:
        def fail(event: SandboxEvent) -> None:
            raise RuntimeError("a broken observer")

        session.subscribe(fail)

        assert run(session, "echo unharmed").stdout == "unharmed\n"

    def test_callback_that_fails_stops_the_command_and_is_heard(self, session: SandboxSession) -> None:
        require(session, Capability.CANCEL, Capability.STREAMING)

        def fail(event: SandboxEvent) -> None:
            if event.data:
                raise LookupError("the caller's own error")

        with pytest.raises(LookupError, match="own error"):
            session.execute(SandboxCommand(command="echo x; sleep 60", command_id="stopped"), on_event=fail)

        assert eventually(lambda: run(session, "true", command_id="stopped").succeeded)


def _output(events: list[SandboxEvent], stream: OutputStream) -> bytes:
    return b"".join(event.data for event in events if event.stream is stream and event.data)
