"""From the options of ``ai4j sandbox run`` to the job they describe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import click

from ai4j_sandbox import SandboxCommand, SandboxConfigError, SandboxSpec
from ai4j_sandbox.model import DEFAULT_OUTPUT_LIMIT_BYTES
from ai4j_sandbox.registry import DEFAULT_PROVIDER_ID

from .application import Application, sensitive_texts
from .job import Job
from .parameters import Upload, as_typed
from .streams import holds_input, standard_input
from .terminal import terminal_size

PROVIDER_VARIABLE = "AI4J_SANDBOX_PROVIDER"


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


def require_consistent(application: Application, given: RunOptions) -> None:
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
            given.terminal and not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout))
        ),
    }
    for problem, present in problems.items():
        if present:
            raise click.UsageError(problem)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


@contextmanager
def opened_input(given: RunOptions) -> Iterator[BinaryIO | None]:
    """Open what the command shall read; ``None`` when it shall read nothing."""
    if given.input_file is None:
        yield standard_input() if given.terminal or holds_input(sys.stdin) else None
    elif given.input_file == "-":
        yield standard_input()
    else:
        with open(given.input_file, "rb") as stream:
            yield stream


def job_for(application: Application, given: RunOptions, stdin: BinaryIO | None) -> Job:
    """Return the job.

    Raises:
        SandboxConfigError: The spec file or a value is wrong, or a credential is on the command line.
    """
    return Job(
        spec=_spec(application, given),
        command=_command(application, given, keep_stdin_open=stdin is not None),
        uploads=given.uploads,
        stdin=stdin,
        terminal=sys.stdin.fileno() if given.terminal else None,
        download=given.folder,
        show_output=not application.as_json,
    )


def _spec(application: Application, given: RunOptions) -> SandboxSpec:
    spec = _spec_of_file(given.spec_file) if given.spec_file else SandboxSpec()
    application.protect(spec.config)
    return replace(
        spec,
        provider_id=given.provider or spec.provider_id or os.environ.get(PROVIDER_VARIABLE) or DEFAULT_PROVIDER_ID,
        image=given.image or spec.image,
        workspace_id=given.workspace or spec.workspace_id,
        labels={**spec.labels, **dict(given.labels)},
        config={**spec.config, **_settings(given.settings)},
    )


def _spec_of_file(name: str) -> SandboxSpec:
    from .documents import load_spec_file  # brings PyYAML and marshmallow, which most runs do without

    return load_spec_file(name)


def _settings(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, Any]:
    if not pairs:
        return {}
    from .documents import load_document

    settings = {key: load_document(text, f"--config {key}") for key, text in pairs}
    for name, _ in sensitive_texts(settings):
        raise SandboxConfigError(
            f"--config {name}: a credential does not belong on the command line, where every process can read it",
            hint="set the provider's environment variable (`ai4j providers show ID` names it), or use --spec FILE",
        )
    return settings


def _command(application: Application, given: RunOptions, *, keep_stdin_open: bool) -> SandboxCommand:
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
