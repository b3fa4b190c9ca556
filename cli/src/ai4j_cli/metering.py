"""Files whose transfers are counted, and the bar that shows the count."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ai4j_sandbox.files import FileInfo, SandboxFiles

from .application import Application
from .rendering import console, one_line

_MESSAGE_COLUMNS = 32
_BAR_COLUMNS = 16

Moved = Callable[[int], None]
"""Told how many bytes went through, piece by piece."""


class MeteredFiles(SandboxFiles):
    """Another object's files; `moved` hears of every piece of content.

    Attributes:
        moved_bytes: How much there was so far.
    """

    def __init__(self, files: SandboxFiles, moved: Moved) -> None:
        self.moved_bytes = 0
        self._files = files
        self._moved = moved

    def read_chunks(self, path: str) -> Iterator[bytes]:
        return self._counted(self._files.read_chunks(path))

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        self._files.write_chunks(path, self._counted(chunks))

    def list(self, path: str, *, depth: int = 1) -> list[FileInfo]:
        return self._files.list(path, depth=depth)

    def stat(self, path: str) -> FileInfo:
        return self._files.stat(path)

    def make_dir(self, path: str) -> None:
        self._files.make_dir(path)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        self._files.remove(path, recursive=recursive)

    def move(self, source: str, destination: str) -> None:
        self._files.move(source, destination)

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            self.moved_bytes += len(chunk)
            self._moved(len(chunk))


def host_size(path: Path) -> int:
    """Return how many bytes an upload of `path` will move."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(
        host_size(entry) for entry in path.iterdir() if not entry.is_symlink() and (entry.is_dir() or entry.is_file())
    )


@contextmanager
def transfer(application: Application, message: str, total_bytes: int | None) -> Iterator[Moved]:
    """Show a transfer on stderr: as a bar on a terminal, with ``--verbose`` as a line.

    Args:
        application: Whose ``--verbose``.
        message: What is being moved.
        total_bytes: How much it will be, where that is known.
    """
    if application.verbose or sys.stderr is None or not sys.stderr.isatty():
        if application.verbose:
            application.say(message)
        yield lambda count: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
    from rich.table import Column

    what = Column(max_width=_MESSAGE_COLUMNS, no_wrap=True, overflow="ellipsis")  # the bar must have room as well
    columns = (
        TextColumn("{task.description}", markup=False, table_column=what),
        BarColumn(bar_width=_BAR_COLUMNS),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(one_line(message), total=total_bytes)
        yield lambda count: bar.advance(task, count)
