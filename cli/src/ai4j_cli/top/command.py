"""The command ``ai4j top``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from ai4j_cli.application import Application, json_option, pass_application
from ai4j_cli.options import complete_provider
from ai4j_cli.parameters import provider_name, seconds

if TYPE_CHECKING:
    from .board import Board
    from .watcher import Watcher

_KEY_SECONDS = 0.2

_HELP = """Watch the sandboxes of every configured provider: what they use, what runs in them, and what it says.

Up and down choose a command, c cancels it, q ends. Sandboxes that run are attached to for it and left as they are;
paused ones are not woken. Without a terminal that can be redrawn, and with --once or --json, one look is printed.
"""


@click.command("top", help=_HELP)
@click.option(
    "--provider",
    "providers",
    metavar="ID",
    type=provider_name,
    multiple=True,
    shell_complete=complete_provider,
    help="Only this provider. Repeatable.",
)
@click.option("-a", "--all", "everybody", is_flag=True, help="Also sandboxes that ai4j did not make.")
@click.option("--interval", metavar="SECONDS", type=seconds, default="2", show_default=True, help="Time between looks.")
@click.option("--once", is_flag=True, help="Look once and print it.")
@json_option
@pass_application
def top(application: Application, providers: tuple[str, ...], everybody: bool, interval: float, once: bool) -> int:
    """Watch."""
    from ai4j_cli.failures import ExitCode, exit_code_of_all, write_json
    from ai4j_cli.fleet import providers_asked
    from ai4j_cli.rendering import console
    from ai4j_cli.streams import is_terminal
    from ai4j_sandbox.ownership import OWNER_LABEL, current_owner

    from .screen import picture
    from .watcher import Watcher

    labels = {} if everybody else {OWNER_LABEL: current_owner()}
    watcher = Watcher(application, providers_asked(application, providers), labels, interval)
    redrawn = is_terminal(sys.stdin) and is_terminal(sys.stdout) and not console(sys.stdout).is_dumb_terminal
    if redrawn and not (once or application.as_json):
        _watch(watcher)
        return ExitCode.DONE
    try:
        board = watcher.look()
    finally:
        watcher.close()
    if application.as_json:
        write_json(board.document())
    else:
        console(sys.stdout).print(picture(board, _now_ms()))
    return exit_code_of_all(watcher.failures)


def _watch(watcher: Watcher) -> None:
    from rich.live import Live

    from ai4j_cli.interruption import stop_signals_raise
    from ai4j_cli.rendering import console

    from .dashboard import Dashboard
    from .keys import pressed, single_keys
    from .screen import live_picture

    keyboard = sys.stdin.fileno()
    live = Live(console=console(sys.stdout), screen=True, auto_refresh=False)

    def show(board: Board) -> None:
        live.update(live_picture(board, _now_ms()), refresh=True)

    with stop_signals_raise(), single_keys(keyboard), watcher, live:
        Dashboard(watcher, show).run(lambda: pressed(keyboard, _KEY_SECONDS))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
