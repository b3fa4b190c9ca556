"""What people see: plain text whose control characters are made visible, and tables.

ANSI sequences are written to a terminal only, and not at all under ``NO_COLOR``. Away from a terminal nothing is cut or
wrapped, so that ``grep`` finds whole lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console

    from .application import Application

_UNWRAPPED_COLUMNS = 10_000


def printable(text: str) -> str:
    """Return `text` with everything that could steer a terminal written as an escape (``\\x1b``); line breaks stay."""
    return "".join(
        character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()
        for character in text
    )


def one_line(text: str) -> str:
    """Return `text` as `printable` does, and line breaks as escapes too: for names, and for what others sent."""
    return printable(text).replace("\n", "\\n")


def console(stream: TextIO) -> Console:
    """Return a console that writes to `stream` what it is given, as it is."""
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the program itself, past the one door for failures

    is_terminal = stream.isatty()
    return PipeConsole(
        file=stream,
        force_terminal=is_terminal,  # whatever FORCE_COLOR says: a file gets no ANSI
        color_system="auto" if is_terminal and not os.environ.get("NO_COLOR") else None,
        width=None if is_terminal else _UNWRAPPED_COLUMNS,
        markup=False,
        highlight=False,
        emoji=False,
    )


def print_lines(stream: TextIO, lines: Iterable[str]) -> None:
    """Print lines of text, safe for a terminal; each is one line, whatever is in it."""
    for line in lines:
        click.echo(one_line(line), file=stream)


def print_table(stream: TextIO, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text below column heads, safe for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console(stream).print(table)


@contextmanager
def progress(application: Application, stream: TextIO | None, message: str) -> Iterator[None]:
    """Say what is being done: as a line with ``--verbose``, else on a terminal while it lasts, else not at all."""
    if not application.verbose and stream is not None and stream.isatty():
        with console(stream).status(one_line(message)):
            yield
        return
    if application.verbose:
        application.say(message)
    yield
