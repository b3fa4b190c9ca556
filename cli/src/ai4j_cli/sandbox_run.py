"""``ai4j sandbox run``: one command in a sandbox of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from .application import Application, json_option, pass_application
from .parameters import Upload, pair, seconds, size, upload, variable

if TYPE_CHECKING:
    from ai4j_sandbox import SandboxCommand, SandboxSpec

    from .job import JobReport

PROVIDER_VARIABLE = "AI4J_SANDBOX_PROVIDER"

_HELP = """Run a command in a new sandbox, and close the sandbox afterwards.

CMD is an argument list and gets there exactly as given: nothing is split, joined or expanded, and everything after the
first -- belongs to it. Use --shell for a shell line.

Output is passed on as it comes, stdout and stderr each on its own stream. Input is passed on unless it is a terminal;
with -it the command gets the terminal itself. The exit code is the command's own; 124 after --timeout, 130 after
Ctrl-C, 125 when the sandbox failed, 2 when the request is wrong.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The command line of ``ai4j sandbox run``, parsed."""

    arguments: tuple[str, ...]
    shell: str | None
    provider: str | None
    spec_file: str | None
    image: str | None
    workspace: str | None
    settings: tuple[tuple[str, str], ...]
    labels: tuple[tuple[str, str], ...]
    uploads: tuple[Upload, ...]
    directory: str | None
    variables: tuple[tuple[str, str], ...]
    input_file: str | None
    terminal: bool
    timeout: float | None
    artifacts: tuple[str, ...]
    folder: Path | None
    output_limit: int | None
    verbose: bool


@click.command("run", help=_HELP, context_settings={"allow_interspersed_args": False})
@click.argument("arguments", metavar="[--] CMD...", nargs=-1, type=click.UNPROCESSED)
@click.option("-c", "--shell", metavar="LINE", help="Run a shell line instead of an argument list.")
@click.option("--provider", metavar="ID", help=f"The provider; else ${PROVIDER_VARIABLE}, else local.")
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
    type=click.Path(dir_okay=False, allow_dash=True),
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
    """Parse, run, tell."""
    given = RunOptions(**options)
    application.verbose = given.verbose
    _require_consistent(application, given)
    from .job import Job, run_job

    spec = sandbox_spec(application, given)
    with _opened_input(given) as stdin:
        job = Job(
            spec=spec,
            command=_command(application, given, keep_stdin_open=stdin is not None),
            uploads=given.uploads,
            stdin=stdin,
            terminal=sys.stdin.fileno() if given.terminal else None,
            download=given.folder,
            show_output=not application.as_json,
        )
        report = run_job(application, job)
    _tell(application, report)
    return report.exit_code


def _require_consistent(application: Application, given: RunOptions) -> None:
    problems = {
        "a command is needed: CMD... or --shell LINE": not given.arguments and given.shell is None,
        "give either CMD... or --shell LINE, not both": bool(given.arguments) and given.shell is not None,
        "--download needs --artifact to say what": given.folder is not None and not given.artifacts,
        "--output-limit is for --json; output that is passed on has no limit": given.output_limit is not None
        and not application.as_json,
        "--tty cannot be combined with --json or --stdin": given.terminal
        and (application.as_json or given.input_file is not None),
        "--tty needs a terminal as standard input and output": given.terminal
        and not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)),
    }
    for problem, present in problems.items():
        if present:
            raise click.UsageError(problem)


def _is_terminal(stream: Any) -> bool:
    return stream is not None and bool(stream.isatty())


def sandbox_spec(application: Application, given: RunOptions) -> SandboxSpec:
    """Return the sandbox that options and the ``--spec`` file ask for.

    Raises:
        SandboxConfigError: The file or a value is wrong, or a credential is on the command line.
    """
    from dataclasses import replace

    from ai4j_sandbox import SandboxSpec

    spec = _spec_of_file(given.spec_file) if given.spec_file else SandboxSpec()
    application.protect(spec.config)
    chosen = given.provider or spec.provider_id or os.environ.get(PROVIDER_VARIABLE) or "local"
    return replace(
        spec,
        provider_id=chosen,
        image=given.image or spec.image,
        workspace_id=given.workspace or spec.workspace_id,
        labels={**spec.labels, **dict(given.labels)},
        config={**spec.config, **_settings(given.settings)},
    )


def _spec_of_file(name: str) -> SandboxSpec:
    from .documents import load_spec_file

    return load_spec_file(name)


def _settings(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, Any]:
    if not pairs:
        return {}
    from ai4j_sandbox import SandboxConfigError
    from ai4j_sandbox.redaction import is_sensitive_key

    from .documents import load_document

    for key, _ in pairs:
        if is_sensitive_key(key):
            raise SandboxConfigError(
                f"--config {key}: a credential does not belong on the command line, where every process can read it",
                hint="set the provider's environment variable (`ai4j providers show ID` names it), or use --spec FILE",
            )
    return {key: load_document(text, f"--config {key}") for key, text in pairs}


def _command(application: Application, given: RunOptions, *, keep_stdin_open: bool) -> SandboxCommand:
    from ai4j_sandbox import SandboxCommand
    from ai4j_sandbox.model import DEFAULT_OUTPUT_LIMIT_BYTES

    environment = dict(given.variables)
    if given.terminal:
        environment.setdefault("TERM", os.environ.get("TERM", "xterm"))
    application.protect(environment)
    limit = DEFAULT_OUTPUT_LIMIT_BYTES if given.output_limit is None else given.output_limit
    return SandboxCommand(
        command=given.arguments if given.shell is None else given.shell,
        working_directory=given.directory,
        keep_stdin_open=keep_stdin_open,
        timeout_millis=None if given.timeout is None else max(1, round(given.timeout * 1000)),
        environment=environment,
        artifacts=given.artifacts,
        output_limit_bytes=limit if application.as_json else 0,  # what was passed on need not be kept
        terminal=_terminal_size() if given.terminal else None,
    )


def _terminal_size() -> Any:
    from .terminal import terminal_size

    return terminal_size(sys.stdout.fileno())


@contextmanager
def _opened_input(given: RunOptions) -> Iterator[BinaryIO | None]:
    """Open what the command shall read; ``None`` when it shall read nothing."""
    from .streams import holds_input

    if given.input_file is None:
        yield sys.stdin.buffer if given.terminal or holds_input(sys.stdin) else None
    elif given.input_file == "-":
        yield sys.stdin.buffer
    else:
        with open(given.input_file, "rb") as stream:
            yield stream


def _tell(application: Application, report: JobReport) -> None:
    if application.as_json:
        from .failures import write_json

        write_json(report.document(application))
        return
    result = report.result
    if report.interrupted_by is not None or result.canceled:
        application.say("the command was canceled")
    elif result.timed_out:
        application.say("the command was stopped: it took longer than --timeout")
    elif result.exit_code is None:
        application.say(f"the exit code is not known: {result.status_text or 'the provider did not tell it'}")
    elif not 0 <= result.exit_code <= 255:
        application.say(f"the exit code {result.exit_code} cannot be passed on")
    saved = {download.artifact.path: download.path for download in report.downloads}
    for artifact in result.artifacts:
        where = f" -> {saved[artifact.path]}" if saved.get(artifact.path) else ""
        application.note(f"artifact {artifact.path}{where} ({artifact.size_bytes} bytes, sha256 {artifact.sha256})")
