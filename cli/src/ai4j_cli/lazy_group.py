"""A click group whose commands are imported when they are used, not to list them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """Where a command is and what ``--help`` of its group says about it.

    Attributes:
        module, attribute: What to import.
        summary: One line.
    """

    module: str
    attribute: str
    summary: str

    def load(self) -> click.Command:
        """Import the command."""
        command: click.Command = getattr(import_module(self.module), self.attribute)
        return command


class LazyGroup(click.Group):
    """A group of `LazyCommand`s, listed in the order given."""

    def __init__(self, *arguments: Any, lazy: Mapping[str, LazyCommand], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lazy = lazy

    def available(self) -> Mapping[str, LazyCommand]:
        """Return every command by name."""
        return self._lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.available())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command, or return ``None`` for a name that is none."""
        lazy = self._lazy.get(cmd_name) or self.available().get(cmd_name)
        return None if lazy is None else lazy.load()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that a shell may complete; no command is imported for it."""
        commands = [
            CompletionItem(name, help=lazy.summary)
            for name, lazy in self.available().items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for ``--help``."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in self.available().items()])
