"""What the dashboard shows, as data, and how a key changes it. Nothing here looks anything up."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ai4j_cli.fleet import address_of, describe
from ai4j_sandbox import SandboxSummary
from ai4j_sandbox.spi import Metrics, ProcessSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxView:
    """One sandbox, looked at.

    Attributes:
        metrics: What it uses, where the provider tells.
        processes: What runs in it.
        problem: Why it could not be looked into.
    """

    summary: SandboxSummary
    metrics: Metrics | None = None
    processes: tuple[ProcessSummary, ...] = ()
    problem: str | None = None

    @property
    def address(self) -> str:
        """How a command line names it."""
        return str(address_of(self.summary))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCommand:
    """A command that runs in one of the sandboxes."""

    address: str
    process: ProcessSummary

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from every other."""
        return self.address, self.process.pid


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Everything that is shown.

    Attributes:
        failures: Providers that could not be asked, in words.
        chosen: Key of the command that is chosen.
        tail: The latest output of that command.
        message: What came of the last key.
    """

    sandboxes: tuple[SandboxView, ...] = ()
    failures: tuple[str, ...] = ()
    chosen: tuple[str, int] | None = None
    tail: tuple[str, ...] = ()
    message: str = ""

    @property
    def commands(self) -> tuple[RunningCommand, ...]:
        """The commands that run, sandbox by sandbox."""
        return tuple(
            RunningCommand(address=view.address, process=process)
            for view in self.sandboxes
            for process in view.processes
        )

    @property
    def chosen_command(self) -> RunningCommand | None:
        """The command that is chosen, if it still runs; the first one when none was."""
        commands = self.commands
        found = next((command for command in commands if command.key == self.chosen), None)
        return found or (commands[0] if commands else None)

    def moved(self, step: int) -> Board:
        """Return the board with another command chosen: `step` further down, within the list."""
        commands, current = self.commands, self.chosen_command
        if current is None:
            return self
        index = min(max(commands.index(current) + step, 0), len(commands) - 1)
        return replace(self, chosen=commands[index].key)

    def document(self) -> dict[str, Any]:
        """Return the board as JSON-ready data."""
        return {
            "sandboxes": [
                describe(view.summary)
                | {
                    "metrics": None if view.metrics is None else asdict(view.metrics),
                    "processes": [asdict(process) for process in view.processes],
                    "problem": view.problem,
                }
                for view in self.sandboxes
            ],
            "failures": list(self.failures),
        }
