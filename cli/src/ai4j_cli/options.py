"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from .address import sandbox_address
from .parameters import folder, pair, provider_name, seconds, size, variable, word

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]


def together(*decorators: Decorator) -> Callable[[CommandT], CommandT]:
    """Return the decorators as one; ``--help`` lists them in the order given."""

    def decorate(function: CommandT) -> CommandT:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


sandbox_argument = click.argument("sandbox", metavar="SANDBOX", type=sandbox_address)


def complete_provider(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the installed providers that a shell may complete; none is loaded for it."""
    from ai4j_sandbox import default_registry

    return [name for name in default_registry().ids() if name.startswith(incomplete)]


def complete_file(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete the name of a file on this machine."""
    return [CompletionItem(incomplete, type="file")]


def complete_folder(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete the name of a directory on this machine."""
    return [CompletionItem(incomplete, type="dir")]


provider_option = click.option(
    "--provider",
    metavar="ID",
    type=provider_name,
    shell_complete=complete_provider,
    help="The provider; else $AI4J_SANDBOX_PROVIDER.",
)

verbose_option = click.option("-v", "--verbose", is_flag=True, help="Tell on stderr what is being done.")

connection_options = together(
    provider_option,
    click.option(
        "--config",
        "settings",
        metavar="KEY=VALUE",
        type=pair,
        multiple=True,
        help="A setting of the provider; the value is YAML. Repeatable.",
    ),
)
"""How to reach a sandbox that exists."""

command_options = together(
    click.option("-c", "--shell", metavar="LINE", help="Run a shell line instead of an argument list."),
    click.option("--cwd", "directory", metavar="DIR", type=word, help="Directory to run in."),
    click.option(
        "--env",
        "variables",
        metavar="NAME[=VALUE]",
        type=variable,
        multiple=True,
        help="An environment variable; without =VALUE its value here. Repeatable.",
    ),
    click.option(
        "--stdin",
        "input_file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
        help="Let the command read this file; - for our own input even from a terminal.",
    ),
    click.option("-i", "-t", "--tty", "terminal", is_flag=True, help="Lend the command this terminal."),
    click.option(
        "--timeout", metavar="SECONDS", type=seconds, help="Stop the command and all it started after this time."
    ),
    click.option(
        "--artifact",
        "artifacts",
        metavar="GLOB",
        type=word,
        multiple=True,
        help="Files the command leaves behind, relative to its directory. Repeatable.",
    ),
    click.option(
        "--download",
        "folder",
        metavar="DIR",
        type=folder,
        shell_complete=complete_folder,
        help="Save the artifacts below this folder.",
    ),
    click.option(
        "--output-limit", metavar="BYTES", type=size, help="How much of each stream --json keeps; 10M by default."
    ),
    verbose_option,
)
"""What to run and how; the same for a new sandbox and for one that exists."""
