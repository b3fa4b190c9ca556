"""Promises about stopping: deadlines, cancellation, signals. What is stopped is dead, with everything it started."""

from __future__ import annotations

import time

import pytest

from ai4j_sandbox.capability import Capability
from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.model import SandboxCommand, SandboxEventType
from ai4j_sandbox.process import KILL_GRACE_SECONDS, TERM_GRACE_SECONDS, SandboxProcess
from ai4j_sandbox.spi import SandboxSession

from .setup import Background, ContractSetup, at_most, eventually, is_alive, require, run

GRACE_SECONDS = TERM_GRACE_SECONDS + KILL_GRACE_SECONDS + 1.0
"""How long after its deadline a command may at most take to return, with some air for slow machines."""

STUBBORN_CHILD = "sh -c 'trap \"\" TERM INT HUP; echo $$; while :; do sleep 0.1; done' & wait"
"""Ends itself at a polite signal, but starts a process that prints its id and does not."""

ENDLESS_TREE = "sleep 300 & echo $!; (sleep 300; :) & echo $!; wait"
"""Starts two processes that print their ids and would run for ever."""


class StoppingContract(ContractSetup):
    """Time-outs and cancellations are results, and stop the command for good."""

    def test_timeout_is_a_result_that_keeps_the_output(self, session: SandboxSession) -> None:
        require(session, Capability.TIMEOUT)

        with at_most(0.5 + GRACE_SECONDS):
            result = run(session, "echo a; sleep 60; echo b", timeout_millis=500)

        assert (result.timed_out, result.canceled, result.stdout) == (True, False, "a\n")
        assert result.exit_code != 0
        assert not result.succeeded

    def test_timeout_counts_for_a_command_that_never_stops_talking(self, session: SandboxSession) -> None:
        require(session, Capability.TIMEOUT)

        with at_most(0.5 + GRACE_SECONDS):
            result = run(session, "while :; do echo dot; sleep 0.02; done", timeout_millis=500)

        assert result.timed_out
        assert result.stdout.startswith("dot\ndot\n")

    def test_timeout_counts_for_a_flood_of_output(self, session: SandboxSession) -> None:
        require(session, Capability.TIMEOUT)

        with at_most(0.5 + GRACE_SECONDS):
            result = run(session, "yes", timeout_millis=500, output_limit_bytes=10_000)

        assert result.timed_out
        assert len(result.stdout_bytes) == 10_000

    def test_timeout_kills_everything_the_command_started(self, session: SandboxSession) -> None:
        require(session, Capability.TIMEOUT)

        result = run(session, ENDLESS_TREE, timeout_millis=500)

        pids = result.stdout.split()
        assert (result.timed_out, len(pids)) == (True, 2)
        assert eventually(lambda: not any(is_alive(session, pid) for pid in pids))

    def test_timeout_kills_what_ignores_a_polite_signal(self, session: SandboxSession) -> None:
        require(session, Capability.TIMEOUT)
        command = "trap '' TERM INT HUP; echo $$; while :; do sleep 0.1; done"

        with at_most(0.5 + GRACE_SECONDS):
            result = run(session, command, timeout_millis=500)

        assert result.timed_out
        assert eventually(lambda: not is_alive(session, result.stdout))

    def test_timeout_kills_a_child_that_ignores_a_polite_signal(self, session: SandboxSession) -> None:
        require(session, Capability.TIMEOUT)

        with at_most(0.5 + GRACE_SECONDS):
            result = run(session, STUBBORN_CHILD, timeout_millis=500)

        assert result.timed_out
        assert eventually(lambda: not is_alive(session, result.stdout))

    def test_polite_exit_after_the_deadline_is_no_success(self, session: SandboxSession) -> None:
        require(session, Capability.TIMEOUT)

        result = run(session, "trap 'exit 0' TERM; sleep 60 & wait", timeout_millis=300)

        assert result.timed_out
        assert result.exit_code != 0

    def test_command_within_its_deadline_is_not_timed_out(self, session: SandboxSession) -> None:
        require(session, Capability.TIMEOUT)

        result = run(session, "sleep 0.1; echo done", timeout_millis=30_000)

        assert (result.timed_out, result.exit_code, result.stdout) == (False, 0, "done\n")

    def test_command_that_ended_in_time_is_not_timed_out_because_nobody_looked(self, session: SandboxSession) -> None:
        require(session, Capability.TIMEOUT)
        process = session.start(SandboxCommand(command="echo done", timeout_millis=1000))
        time.sleep(1.1)  # the behaviour under test is that time passes unobserved

        result = process.wait()

        assert (result.timed_out, result.exit_code, result.stdout) == (False, 0, "done\n")

    def test_session_works_at_once_after_a_timeout(self, session: SandboxSession) -> None:
        require(session, Capability.TIMEOUT)
        run(session, "sleep 30", timeout_millis=200)

        with at_most(2):
            result = run(session, "echo ok")

        assert result.stdout == "ok\n"

    def test_cancel_from_another_thread_stops_the_command(self, session: SandboxSession) -> None:
        require(session, Capability.CANCEL)
        running = Background(lambda: run(session, "echo a; sleep 60", command_id="victim"))
        assert eventually(lambda: session.cancel("victim"))

        with at_most(GRACE_SECONDS):
            result = running.result()

        assert (result.canceled, result.timed_out) == (True, False)
        assert result.exit_code != 0
        assert result.events[-1].type is SandboxEventType.COMMAND_CANCELED

    def test_cancel_kills_everything_the_command_started(self, session: SandboxSession) -> None:
        require(session, Capability.CANCEL)
        process = session.start(SandboxCommand(command=ENDLESS_TREE))
        pids = _first_words(process, 2)

        assert process.cancel()

        assert process.wait().canceled
        assert eventually(lambda: not any(is_alive(session, pid) for pid in pids))

    def test_cancel_kills_what_ignores_a_polite_signal(self, session: SandboxSession) -> None:
        require(session, Capability.CANCEL)
        command = "trap '' TERM INT HUP; echo $$; while :; do sleep 0.1; done"
        process = session.start(SandboxCommand(command=command))
        (pid,) = _first_words(process, 1)

        with at_most(GRACE_SECONDS):
            process.cancel()

        assert process.wait().canceled
        assert eventually(lambda: not is_alive(session, pid))

    def test_cancel_kills_a_child_that_ignores_a_polite_signal(self, session: SandboxSession) -> None:
        require(session, Capability.CANCEL)
        process = session.start(SandboxCommand(command=STUBBORN_CHILD))
        (pid,) = _first_words(process, 1)

        with at_most(GRACE_SECONDS):
            process.cancel()

        assert process.wait().canceled
        assert eventually(lambda: not is_alive(session, pid))

    def test_cancel_leaves_the_sandbox_and_other_commands_alone(self, session: SandboxSession) -> None:
        require(session, Capability.CANCEL)
        other = session.start(SandboxCommand(command="sleep 1; echo other"))
        victim = session.start(SandboxCommand(command="sleep 60"))

        victim.cancel()

        assert other.wait().stdout == "other\n"
        assert run(session, "echo alive").stdout == "alive\n"

    def test_cancel_of_an_unknown_or_ended_command_is_false(self, session: SandboxSession) -> None:
        result = run(session, "true", command_id="over")

        assert result.succeeded
        assert not session.cancel("over")
        assert not session.cancel("never existed")

    def test_cancel_of_a_command_that_ended_unobserved_changes_nothing(self, session: SandboxSession) -> None:
        require(session, Capability.CANCEL)
        process = session.start(SandboxCommand(command="echo whole; exit 3"))
        time.sleep(1)  # the behaviour under test is that the end has come and nobody looked

        process.cancel()

        result = process.wait()
        assert (result.canceled, result.exit_code, result.stdout) == (False, 3, "whole\n")

    def test_leaving_the_block_of_a_running_command_cancels_it(self, session: SandboxSession) -> None:
        require(session, Capability.CANCEL)

        with at_most(GRACE_SECONDS), session.start(SandboxCommand(command="sleep 60")) as process:
            pass

        assert process.wait().canceled

    def test_signal_reaches_the_command(self, session: SandboxSession) -> None:
        require(session, Capability.CANCEL)
        # No child: one that was forked and not yet replaced would run the trap too.
        process = session.start(
            SandboxCommand(command="trap 'echo caught; exit 7' TERM; echo ready; while :; do :; done")
        )
        _first_words(process, 1)

        assert process.kill("SIGTERM")

        result = process.wait()
        assert (result.stdout, result.exit_code, result.canceled) == ("ready\ncaught\n", 7, False)
        assert not process.kill("SIGTERM")

    def test_two_commands_run_side_by_side(self, session: SandboxSession) -> None:
        with at_most(1.9):
            running = [Background(lambda: run(session, "sleep 1; echo done")) for _ in range(2)]
            outputs = [each.result().stdout for each in running]

        assert outputs == ["done\n", "done\n"]

    def test_id_of_a_running_command_cannot_be_used_again(self, session: SandboxSession) -> None:
        with (
            session.start(SandboxCommand(command="sleep 60", command_id="twice")),
            pytest.raises(SandboxConfigError, match="twice"),
        ):
            run(session, "true", command_id="twice")

        assert run(session, "true", command_id="twice").succeeded


def _first_words(process: SandboxProcess, count: int) -> list[str]:
    """Return the first words a command prints, once that many lines have arrived."""
    text = b""
    for chunk in process.output():
        text += chunk.data
        if text.count(b"\n") >= count:
            break
    return text.decode().split()[:count]
