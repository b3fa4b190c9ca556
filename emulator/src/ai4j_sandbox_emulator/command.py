"""The command ``ai4j emulator``."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@click.group()
def emulator() -> None:
    """Emulate sandbox services on this machine."""


@emulator.command()
@click.option("--port", default=0, show_default=True, help="Port of the first face; 0 takes a free one.")
@click.option(
    "--face",
    "faces",
    multiple=True,
    default=("e2b",),
    show_default=True,
    help="Service to emulate; may be given several times.",
)
@click.option("--provider", default="local", show_default=True, help="Provider in which the commands really run.")
def start(port: int, faces: tuple[str, ...], provider: str) -> None:
    """Serve until interrupted; print the variables that clients need."""
    from ai4j_sandbox.errors import SandboxException

    from .server import Emulator

    with stop_signals() as wait_for_one:
        try:
            running = Emulator(faces, provider, port=port).start()
        except (SandboxException, OSError) as error:
            raise click.ClickException(str(error)) from None
        with running:
            for name, value in running.environment.items():
                click.echo(f"export {name}={shlex.quote(value)}")
            click.echo("# serving; interrupt to stop", err=True)
            wait_for_one()


@contextmanager
def stop_signals() -> Iterator[Callable[[], object]]:
    """Catch SIGINT and SIGTERM inside the block; yields a function that returns once one has come.

    Waiting for a lock or an event would not do: a signal that comes just before the wait begins does not end it.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    wakeup_before = signal.set_wakeup_fd(writer)
    handlers_before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: os.read(reader, 1)
    finally:
        for number, handler in handlers_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup_before)
        os.close(reader)
        os.close(writer)
