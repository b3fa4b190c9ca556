"""From the options of ``ai4j sandbox run`` and ``exec`` to the job they describe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import click

from ai4j_sandbox import SandboxCommand, SandboxSpec
from ai4j_sandbox.model import DEFAULT_OUTPUT_LIMIT_BYTES
from ai4j_sandbox.registry import DEFAULT_PROVIDER_ID

from .application import Application
from .job import Job
from .parameters import Upload, as_typed
from .spec_options import provider_of_environment, settings_of, spec_of_file
from .streams import holds_input, is_terminal, standard_input
from .terminal import terminal_size


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """What to run and how, parsed from the command line."""

    arguments: tuple[str, ...] = ()
    shell: str | None = None
    directory: str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    input_file: str | None = None
    terminal: bool = False
    timeout: float | None = None
    artifacts: tuple[str, ...] = ()
    folder: Path | None = None
    output_limit: int | None = None
    verbose: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(CommandOptions):
    """The command line of ``ai4j sandbox run``, parsed."""

    provider: str | None
    spec_file: str | None
    image: str | None
    workspace: str | None
    settings: tuple[tuple[str, str], ...]
    labels: tuple[tuple[str, str], ...]
    uploads: tuple[Upload, ...]


def require_consistent(application: Application, given: CommandOptions) -> None:
    """Refuse what cannot be meant.

    Raises:
        click.UsageError: Options are missing or exclude each other.
    """
    problems = {
        "a command is needed: CMD... or --shell LINE": not given.arguments and given.shell is None,
        "give either CMD... or --shell LINE, not both": given.arguments and given.shell is not None,
        "--download needs --artifact to say what": given.folder and not given.artifacts,
        "--output-limit is for --json; output that is passed on has no limit": (
            given.output_limit is not None and not application.as_json
        ),
        "--tty cannot be combined with --json or --stdin": (
            given.terminal and (application.as_json or given.input_file is not None)
        ),
        "--tty needs a terminal as standard input and output": (
            given.terminal and not (is_terminal(sys.stdin) and is_terminal(sys.stdout))
        ),
    }
    for problem, present in problems.items():
        if present:
            raise click.UsageError(problem)


@contextmanager
def opened_input(given: CommandOptions) -> Iterator[BinaryIO | None]:
    """Open what the command shall read; ``None`` when it shall read nothing."""
    if given.input_file is None:
        yield standard_input() if given.terminal or holds_input(sys.stdin) else None
    elif given.input_file == "-":
        yield standard_input()
    else:
        with open(given.input_file, "rb") as stream:
            yield stream


def job_for(application: Application, given: RunOptions, stdin: BinaryIO | None) -> Job:
    """Return the job to do in a sandbox of its own.

    Raises:
        SandboxConfigError: The spec file or a value is wrong, or a credential is on the command line.
    """
    job = attached_job(application, given, stdin, spec=_spec(application, given), session_id=None)
    return replace(job, uploads=given.uploads)


def attached_job(
    application: Application,
    given: CommandOptions,
    stdin: BinaryIO | None,
    *,
    spec: SandboxSpec,
    session_id: str | None,
) -> Job:
    """Return the job to do in the sandbox with this id."""
    return Job(
        spec=spec,
        session_id=session_id,
        command=_command(application, given, keep_stdin_open=stdin is not None),
        stdin=stdin,
        terminal=sys.stdin.fileno() if given.terminal else None,
        download=given.folder,
        show_output=not application.as_json,
    )


def _spec(application: Application, given: RunOptions) -> SandboxSpec:
    spec = spec_of_file(given.spec_file) if given.spec_file else SandboxSpec()
    application.protect(spec.config)
    return replace(
        spec,
        provider_id=given.provider or spec.provider_id or provider_of_environment() or DEFAULT_PROVIDER_ID,
        image=given.image or spec.image,
        workspace_id=given.workspace or spec.workspace_id,
        labels={**spec.labels, **dict(given.labels)},
        config={**spec.config, **settings_of(given.settings)},
    )


def _command(application: Application, given: CommandOptions, *, keep_stdin_open: bool) -> SandboxCommand:
    environment = {name: as_typed(value) for name, value in given.variables}
    application.protect(environment)
    if given.terminal:
        environment.setdefault("TERM", os.environ.get("TERM", "xterm"))
    limit = DEFAULT_OUTPUT_LIMIT_BYTES if given.output_limit is None else given.output_limit
    return SandboxCommand(
        command=tuple(map(as_typed, given.arguments)) if given.shell is None else as_typed(given.shell),
        working_directory=given.directory,
        keep_stdin_open=keep_stdin_open,
        timeout_millis=None if given.timeout is None else max(1, round(given.timeout * 1000)),
        environment=environment,
        artifacts=given.artifacts,
        output_limit_bytes=limit if application.as_json else 0,  # what was passed on need not be kept
        terminal=terminal_size(sys.stdout.fileno()) if given.terminal else None,
    )
