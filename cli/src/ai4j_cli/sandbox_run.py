"""``ai4j sandbox run``: one command in a sandbox of its own."""

from __future__ import annotations

from typing import Any

import click

from .application import Application, json_option, pass_application
from .options import command_options, complete_file, complete_provider
from .parameters import file_name, label, pair, provider_name, upload, word

_HELP = """Run a command in a new sandbox, and close the sandbox afterwards.

CMD is an argument list and gets there exactly as given: nothing is split, joined or expanded, and everything after the
first -- belongs to it. Use --shell for a shell line.

Output is passed on as it comes, stdout and stderr each on its own stream. Input is passed on unless it is a terminal;
with -it the command gets the terminal itself. The exit code is the command's own; 124 after --timeout, 130 after
Ctrl-C, 125 when the sandbox failed, 2 when the request is wrong.
"""


@click.command("run", help=_HELP, context_settings={"allow_interspersed_args": False})
@click.argument("arguments", metavar="[--] CMD...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--provider",
    metavar="ID",
    type=provider_name,
    shell_complete=complete_provider,
    help="The provider; else $AI4J_SANDBOX_PROVIDER, else local.",
)
@click.option(
    "--spec",
    "spec_file",
    metavar="FILE",
    type=file_name,
    shell_complete=complete_file,
    help="The sandbox wanted, as YAML or JSON; options win over it.",
)
@click.option("--image", metavar="NAME", type=word, help="Template, image or snapshot, in the provider's terms.")
@click.option("--workspace", metavar="NAME", type=word, help="Workspace, in the provider's terms.")
@click.option(
    "--config",
    "settings",
    metavar="KEY=VALUE",
    type=pair,
    multiple=True,
    help="A setting of the provider; the value is YAML. Repeatable.",
)
@click.option(
    "--label", "labels", metavar="KEY=VALUE", type=label, multiple=True, help="A non-sensitive tag. Repeatable."
)
@click.option(
    "--upload",
    "uploads",
    metavar="PATH[:DEST]",
    type=upload,
    shell_complete=complete_file,
    multiple=True,
    help="First copy a file, or the content of a directory, into the sandbox. Repeatable.",
)
@command_options
@json_option
@pass_application
def run(application: Application, /, **options: Any) -> int:
    """Run the job that the options describe, and tell what became of it."""
    from .job import run_job
    from .request import RunOptions, job_for, opened_input, require_consistent

    given = RunOptions(**options)
    application.verbose = given.verbose
    require_consistent(application, given)
    with opened_input(given) as stdin:
        report = run_job(application, job_for(application, given, stdin))
    report.tell(application)
    return report.exit_code
