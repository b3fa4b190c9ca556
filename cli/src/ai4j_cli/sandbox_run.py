"""``ai4j sandbox run``: one command in a sandbox of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .application import Application, json_option, pass_application
from .parameters import pair, seconds, size, upload, variable

_HELP = """Run a command in a new sandbox, and close the sandbox afterwards.

CMD is an argument list and gets there exactly as given: nothing is split, joined or expanded, and everything after the
first -- belongs to it. Use --shell for a shell line.

Output is passed on as it comes, stdout and stderr each on its own stream. Input is passed on unless it is a terminal;
with -it the command gets the terminal itself. The exit code is the command's own; 124 after --timeout, 130 after
Ctrl-C, 125 when the sandbox failed, 2 when the request is wrong.
"""


@click.command("run", help=_HELP, context_settings={"allow_interspersed_args": False})
@click.argument("arguments", metavar="[--] CMD...", nargs=-1, type=click.UNPROCESSED)
@click.option("-c", "--shell", metavar="LINE", help="Run a shell line instead of an argument list.")
@click.option("--provider", metavar="ID", help="The provider; else $AI4J_SANDBOX_PROVIDER, else local.")
@click.option("--spec", "spec_file", metavar="FILE", help="The sandbox wanted, as YAML or JSON; options win over it.")
@click.option("--image", metavar="NAME", help="Template, image or snapshot, in the provider's terms.")
@click.option("--workspace", metavar="NAME", help="Workspace, in the provider's terms.")
@click.option(
    "--config",
    "settings",
    metavar="KEY=VALUE",
    type=pair,
    multiple=True,
    help="A setting of the provider; the value is YAML. Repeatable.",
)
@click.option(
    "--label", "labels", metavar="KEY=VALUE", type=pair, multiple=True, help="A non-sensitive tag. Repeatable."
)
@click.option(
    "--upload",
    "uploads",
    metavar="PATH[:DEST]",
    type=upload,
    multiple=True,
    help="First copy a file, or the content of a directory, into the sandbox. Repeatable.",
)
@click.option("--cwd", "directory", metavar="DIR", help="Directory to run in.")
@click.option(
    "--env",
    "variables",
    metavar="NAME[=VALUE]",
    type=variable,
    multiple=True,
    help="An environment variable; without =VALUE its value here. Repeatable.",
)
@click.option(
    "--stdin",
    "input_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="Let the command read this file; - for our own input even from a terminal.",
)
@click.option("-i", "-t", "--tty", "terminal", is_flag=True, help="Lend the command this terminal.")
@click.option("--timeout", metavar="SECONDS", type=seconds, help="Stop the command and all it started after this time.")
@click.option(
    "--artifact",
    "artifacts",
    metavar="GLOB",
    multiple=True,
    help="Files the command leaves behind, relative to its directory. Repeatable.",
)
@click.option(
    "--download",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Save the artifacts below this folder.",
)
@click.option(
    "--output-limit", metavar="BYTES", type=size, help="How much of each stream --json keeps; 10M by default."
)
@click.option("-v", "--verbose", is_flag=True, help="Tell on stderr what is being done.")
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
