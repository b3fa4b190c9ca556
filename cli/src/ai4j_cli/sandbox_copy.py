"""``ai4j sandbox cp``: files into a sandbox that exists, and out of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .address import SandboxAddress, SandboxPath, place
from .application import Application, json_option, pass_application
from .options import complete_file, connection_options, verbose_option

if TYPE_CHECKING:
    from .copying import CopyIn, CopyOut

_HELP = """Copy a file or a directory into a sandbox, or out of it.

One of SOURCE and DESTINATION is [PROVIDER/]ID:PATH, the other is on this machine; there - is standard input or output.
A file copied to a directory keeps its name. Of a directory its content is copied; symlinks inside it are skipped.
"""


@click.command("cp", help=_HELP)
@click.argument("source", type=place, shell_complete=complete_file)
@click.argument("destination", type=place, shell_complete=complete_file)
@connection_options
@verbose_option
@json_option
@pass_application
def cp(
    application: Application,
    source: SandboxPath | Path,
    destination: SandboxPath | Path,
    provider: str | None,
    settings: tuple[tuple[str, str], ...],
    verbose: bool,
) -> None:
    """Copy, with a progress bar on a terminal."""
    from .attachment import attached
    from .failures import write_json
    from .interruption import Interruption
    from .metering import MeteredFiles, transfer

    application.verbose = verbose
    sandbox, copy = _planned(application, source, destination)
    with (
        Interruption(),
        attached(application, sandbox, provider, settings) as session,
        transfer(application, f"copying {copy.source}", copy.total_bytes(session.files)) as moved,
    ):
        files = MeteredFiles(session.files, moved)
        target = copy.run(files)
    if application.as_json:
        write_json({"source": str(copy.source), "destination": target, "bytes": files.moved_bytes})
    else:
        application.note(f"copied {files.moved_bytes} bytes to {target}")


def _planned(
    application: Application, source: SandboxPath | Path, destination: SandboxPath | Path
) -> tuple[SandboxAddress, CopyIn | CopyOut]:
    """Return which sandbox it is about, and what to do with it."""
    from .copying import STREAM, CopyIn, CopyOut

    if isinstance(source, Path) and isinstance(destination, SandboxPath):
        if source != STREAM and not source.exists():
            raise click.UsageError(f"{str(source)!r} does not exist")
        return destination.sandbox, CopyIn(source=source, destination=destination.path)
    if isinstance(source, SandboxPath) and isinstance(destination, Path):
        if application.as_json and destination == STREAM:
            raise click.UsageError("--json cannot be combined with - as the destination")
        return source.sandbox, CopyOut(source=source.path, destination=destination)
    raise click.UsageError("exactly one of SOURCE and DESTINATION must be in a sandbox: [PROVIDER/]ID:PATH")
