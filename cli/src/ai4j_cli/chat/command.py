"""The command ``ai4j chat``."""

from __future__ import annotations

from typing import Any

import click

from ai4j_cli.application import Application, pass_application
from ai4j_cli.options import complete_file, complete_folder, complete_provider
from ai4j_cli.parameters import file_name, folder, word

_HELP = """Work on a project together with a model, whose tools can run in a sandbox.

The model is asked at an OpenAI-compatible endpoint: $OPENAI_API_KEY, and $OPENAI_BASE_URL for another address than
OpenAI's. What the model wants to change or run is asked about first.

Inside, /help shows what can be typed, and /sandbox changes where commands run. Ctrl-C stops what runs, Ctrl-D ends the
chat. Where input or output is no terminal, lines are read and text is written.
"""


@click.command("chat", help=_HELP)
@click.option(
    "--blueprint",
    metavar="FILE",
    type=file_name,
    shell_complete=complete_file,
    help="The agent, as an Agent Blueprint declares it.",
)
@click.option("--model", metavar="NAME", type=word, help="The model; else $AI4J_MODEL. Wins over the blueprint.")
@click.option(
    "--scripted",
    "script",
    metavar="FILE",
    type=file_name,
    shell_complete=complete_file,
    help="Play a script instead of asking a model. Works offline.",
)
@click.option(
    "-C",
    "--directory",
    type=folder,
    shell_complete=complete_folder,
    default=".",
    metavar="DIR",
    help="The project; here by default.",
)
@click.option(
    "--allow-sandbox",
    "sandbox_providers",
    metavar="PROVIDER",
    type=word,
    shell_complete=complete_provider,
    multiple=True,
    help="Grant the sandbox that the blueprint declares, if it is of this provider. Repeatable.",
)
@click.option("--yes", "approve_all", is_flag=True, help="Run every tool call without asking. Think of a sandbox.")
@click.option(
    "--sessions", type=folder, shell_complete=complete_folder, metavar="DIR", help="Where sessions are saved."
)
@click.option("--resume", metavar="ID", type=word, help="Go on with a saved session.")
@pass_application
def chat(application: Application, /, **options: Any) -> int:
    """Chat."""
    from ai4j_cli.failures import ExitCode
    from ai4j_cli.interruption import stop_signals_raise

    from .assembly import ChatOptions, assembled, chat_console

    with stop_signals_raise():
        ended_well = assembled(application, ChatOptions(**options), chat_console(application)).run()
    return ExitCode.DONE if ended_well else ExitCode.FAILED
