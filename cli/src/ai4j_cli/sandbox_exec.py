"""``ai4j sandbox exec``, ``shell`` and ``artifacts``: commands in a sandbox that exists."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from .address import SandboxAddress
from .application import Application, json_option, pass_application
from .options import command_options, complete_folder, connection_options, sandbox_argument, verbose_option
from .parameters import folder, word

if TYPE_CHECKING:
    from pathlib import Path

    from .request import CommandOptions

_EXEC_HELP = """Run a command in SANDBOX, which stays.

SANDBOX is [PROVIDER/]ID, as `ls` shows it. Options come before it or right after it; CMD is an argument list and gets
there exactly as given: everything after the first -- belongs to it. Use --shell for a shell line.

Streams, Ctrl-C and exit codes are those of `ai4j sandbox run`.
"""

_LOGIN_SHELL = "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi"


@click.command("exec", help=_EXEC_HELP, context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="SANDBOX [--] CMD...", nargs=-1, type=click.UNPROCESSED)
@connection_options
@command_options
@json_option
@pass_application
def exec_command(
    application: Application,
    /,
    words: tuple[str, ...],
    provider: str | None,
    settings: tuple[tuple[str, str], ...],
    **options: Any,
) -> int:
    """Run the command, and tell what became of it."""
    from .address import sandbox_address
    from .request import CommandOptions

    if not words:
        raise click.UsageError("a sandbox is needed: [PROVIDER/]ID")
    arguments = words[2:] if words[1:2] == ("--",) else words[1:]
    given = CommandOptions(arguments=arguments, **options)
    return _run_attached(application, sandbox_address(words[0]), provider, settings, given)


@click.command("shell")
@sandbox_argument
@click.option("--cwd", "directory", metavar="DIR", type=word, help="Directory to start in.")
@connection_options
@pass_application
def shell(
    application: Application,
    sandbox: SandboxAddress,
    directory: str | None,
    provider: str | None,
    settings: tuple[tuple[str, str], ...],
) -> int:
    """Open a login shell in SANDBOX on this terminal: bash where there is one, else sh. The sandbox stays.

    SANDBOX is [PROVIDER/]ID, as `ls` shows it.
    """
    from .request import CommandOptions

    given = CommandOptions(shell=_LOGIN_SHELL, directory=directory, terminal=True)
    return _run_attached(application, sandbox, provider, settings, given)


@click.command("artifacts")
@sandbox_argument
@click.argument("patterns", metavar="GLOB...", nargs=-1, required=True, type=word)
@click.option("--cwd", "directory", metavar="DIR", type=word, help="Directory the patterns start from.")
@click.option(
    "--download",
    "folder",
    metavar="DIR",
    type=folder,
    shell_complete=complete_folder,
    help="Save them below this folder.",
)
@connection_options
@verbose_option
@json_option
@pass_application
def artifacts(
    application: Application,
    sandbox: SandboxAddress,
    patterns: tuple[str, ...],
    directory: str | None,
    folder: Path | None,
    provider: str | None,
    settings: tuple[tuple[str, str], ...],
    verbose: bool,
) -> int:
    """List the files in SANDBOX that match, with size and sha256, and save them with --download.

    SANDBOX is [PROVIDER/]ID, as `ls` shows it. GLOB is as for `run --artifact`; quote it.
    """
    from .attachment import spec_for
    from .job import run_job
    from .request import CommandOptions, attached_job

    given = CommandOptions(arguments=("true",), directory=directory, artifacts=patterns, folder=folder, verbose=verbose)
    application.verbose = verbose
    spec = spec_for(application, sandbox, provider, settings)
    report = run_job(application, attached_job(application, given, None, spec=spec, session_id=sandbox.session_id))
    if application.as_json:
        report.tell(application)
    else:
        report.tell_missing_artifacts(application)
        _print_artifacts(report.artifact_rows())
    return report.exit_code


def _print_artifacts(rows: list[tuple[str, ...]]) -> None:
    from .rendering import print_table

    print_table(sys.stdout, ("PATH", "BYTES", "SHA256", "SAVED AS"), rows)


def _run_attached(
    application: Application,
    sandbox: SandboxAddress,
    provider: str | None,
    settings: tuple[tuple[str, str], ...],
    given: CommandOptions,
) -> int:
    from .attachment import spec_for
    from .job import run_job
    from .request import attached_job, opened_input, require_consistent

    application.verbose = given.verbose
    require_consistent(application, given)
    spec = spec_for(application, sandbox, provider, settings)
    with opened_input(given) as stdin:
        job = attached_job(application, given, stdin, spec=spec, session_id=sandbox.session_id)
        report = run_job(application, job)
    report.tell(application)
    return report.exit_code
