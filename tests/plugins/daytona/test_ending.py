"""Ending a command: a limit and a cancellation leave nobody behind, whatever the command did to be left alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from ai4j_sandbox.model import SandboxCommand, SandboxResult, SandboxSpec, TerminalSize
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox_daytona import DaytonaSandboxProvider
from support.waiting import eventually

IGNORES_TERM = "trap '' TERM; sleep 65431; sleep 65432"
LEFT_THE_SESSION = f'setsid sh -c "{IGNORES_TERM}" >/dev/null 2>&1 </dev/null &'

STUBBORN = {
    "it ignores TERM": f"echo up; {IGNORES_TERM}",
    "a child ignores TERM": f'(sh -c "{IGNORES_TERM}") & echo up; sleep 65433',
    "a child left the session and ignores TERM": f"{LEFT_THE_SESSION} echo up; sleep 65433",
    "a child cleared its environment": "env -i sleep 65431 & echo up; sleep 65433",
    "a child forked twice and left": f"({LEFT_THE_SESSION}); echo up; sleep 65433",
}


@pytest.fixture
def session(provider: DaytonaSandboxProvider) -> Iterator[SandboxSession]:
    with provider.create_session(SandboxSpec(config={"deleteOnClose": True})) as opened:
        yield opened


def left(session: SandboxSession) -> str:
    """The command lines of what still sleeps."""
    line = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep 6543[0-9] | grep -v grep; true"
    return session.execute(SandboxCommand(command=line)).stdout


def timed_out(session: SandboxSession, command: SandboxCommand) -> SandboxResult:
    return session.execute(command)


def canceled(session: SandboxSession, command: SandboxCommand) -> SandboxResult:
    results: list[SandboxResult] = []
    running = threading.Thread(target=lambda: results.append(session.execute(command)))
    running.start()
    assert eventually(lambda: "65431" in left(session))
    assert session.cancel(command.command_id)
    running.join(20)
    return results[0]


def canceled_while_followed(session: SandboxSession, command: SandboxCommand) -> SandboxResult:
    with session.start(command) as process:
        assert eventually(lambda: "65431" in left(session))
        assert session.cancel(command.command_id)
        return process.wait()


@pytest.mark.parametrize("line", STUBBORN.values(), ids=STUBBORN)
@pytest.mark.parametrize("terminal", [None, TerminalSize()])
def test_limit_leaves_nobody_behind(session: SandboxSession, line: str, terminal: TerminalSize | None) -> None:
    result = timed_out(session, SandboxCommand(command=line, timeout_millis=1000, terminal=terminal))

    assert (result.timed_out, result.exit_code, result.stdout.strip()) == (True, result.exit_code, "up")
    assert result.exit_code != 0
    assert left(session) == ""


@pytest.mark.parametrize("line", STUBBORN.values(), ids=STUBBORN)
@pytest.mark.parametrize("cancel", [canceled, canceled_while_followed])
@pytest.mark.parametrize("terminal", [None, TerminalSize()])
def test_cancellation_leaves_nobody_behind(
    session: SandboxSession,
    line: str,
    cancel: Callable[[SandboxSession, SandboxCommand], SandboxResult],
    terminal: TerminalSize | None,
) -> None:
    result = cancel(session, SandboxCommand(command=line, terminal=terminal))

    assert (result.canceled, result.stdout.strip()) == (True, "up")
    assert result.exit_code != 0
    assert left(session) == ""
