"""``ai4j completion``: the script that teaches a shell to complete ``ai4j``."""

from __future__ import annotations

import click

_HOW = {
    "bash": 'eval "$(ai4j completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(ai4j completion zsh)"   in ~/.zshrc',
    "fish": "ai4j completion fish > ~/.config/fish/completions/ai4j.fish",
}

_HELP = """Print the completion script for a shell.

\b
{how}
""".format(how="\n".join(_HOW.values()))


@click.command("completion", help=_HELP)
@click.argument("shell", type=click.Choice(tuple(_HOW)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print it."""
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    kinds = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    completer = kinds[shell](context.find_root().command, {}, "ai4j", "_AI4J_COMPLETE")
    # Not `source()`: that of bash first asks the installed bash for its version.
    click.echo(completer.source_template % completer.source_vars())
