"""Signals at the moments that matter, from inside the run itself."""

from __future__ import annotations

import signal

import pytest
from click.testing import Result

from ai4j_cli.interruption import Interrupted, Interruption, signals_deferred, stop_signals_raise
from ai4j_sandbox.testing import FakeProvider, FakeResult
from support.command_line import document_of, run_fake


def interrupted_while(moment: str) -> tuple[FakeProvider, Result]:
    """Run a command and press Ctrl-C, twice, at the moment given."""

    def press() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    class Provider(FakeProvider):
        def _create(self, spec):
            if moment == "before creating":
                press()
            session = super()._create(spec)
            destroy = session._destroy

            def pressing() -> None:
                press()
                destroy()

            if moment == "closing":
                session._destroy = pressing
            return session

    def script(command) -> FakeResult:
        if moment == "starting":
            press()
        return FakeResult(stdout="done")

    provider = Provider(script)
    return provider, run_fake("--json", "true", provider=provider)


@pytest.mark.parametrize("moment", ["before creating", "starting"])
def test_ctrl_c_before_the_command_runs_ends_at_once_and_leaves_no_sandbox(moment):
    provider, result = interrupted_while(moment)

    assert (result.exit_code, result.stderr) == (130, "ai4j: interrupted\n")
    assert document_of(result) == {"error": {"type": "Interrupted", "message": "interrupted"}, "exitCode": 130}
    assert [sandbox.alive for sandbox in provider.sandboxes.values()] in ([], [False])


def test_ctrl_c_while_the_sandbox_is_closed_lets_it_be_closed_and_keeps_the_result():
    provider, result = interrupted_while("closing")

    assert result.exit_code == 130
    assert (document_of(result)["result"]["stdout"], document_of(result)["exitCode"]) == ("done", 130)
    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_the_handlers_of_before_are_back_afterwards():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    with pytest.raises(Interrupted), Interruption():
        signal.raise_signal(signal.SIGTERM)

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_stop_signals_raise_inside_and_not_afterwards():
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(Interrupted) as raised, stop_signals_raise():
        signal.raise_signal(signal.SIGTERM)

    assert (raised.value.number, signal.getsignal(signal.SIGTERM)) == (signal.SIGTERM, before)


@pytest.mark.parametrize(("number", "effect"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Interrupted)])
def test_a_deferred_signal_takes_its_effect_once_the_work_is_done(number, effect):
    done: list[str] = []

    def work() -> None:
        with signals_deferred():
            signal.raise_signal(number)
            done.append("work")

    with stop_signals_raise(), pytest.raises(effect):
        work()

    assert done == ["work"]


def test_without_a_signal_nothing_is_deferred():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    with signals_deferred():
        pass

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
