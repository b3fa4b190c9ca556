"""Copying between this machine and a sandbox: where exactly something goes."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ai4j_sandbox import SandboxNotFoundError
from ai4j_sandbox.files import FileKind, SandboxFiles

from .forwarding import RawOutput
from .metering import host_size
from .parameters import as_typed
from .streams import standard_input

STREAM = Path("-")
"""Stands for standard input or output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyIn:
    """From this machine to a path in a sandbox."""

    source: Path
    destination: str

    def total_bytes(self, files: SandboxFiles) -> int | None:
        """Return how much it will be, where that is known."""
        return None if self.source == STREAM else host_size(self.source)

    def run(self, files: SandboxFiles) -> str:
        """Copy, and return where it went. Raises `SandboxException`."""
        if self.source == STREAM:
            files.write(self.destination, standard_input())
            return self.destination
        target = self.destination
        if self.source.is_file() and (target.endswith("/") or _is_directory(files, target)):
            target = posixpath.join(target, as_typed(self.source.name))
        files.upload(self.source, target)
        return target


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOut:
    """From a path in a sandbox to this machine.

    Attributes:
        give_up: Asked while nobody takes what is written to standard output: whether to stop.
    """

    source: str
    destination: Path
    give_up: Callable[[], bool] = lambda: False

    def total_bytes(self, files: SandboxFiles) -> int | None:
        """Return how much it will be, where that is known."""
        info = files.stat(self.source)
        return info.size_bytes if info.kind is FileKind.FILE else None

    def run(self, files: SandboxFiles) -> str:
        """Copy, and return where it went. Raises `SandboxException`."""
        if self.destination == STREAM:
            output = RawOutput(sys.stdout, self.give_up)
            for chunk in files.read_chunks(self.source):
                output.write(chunk)
            return str(STREAM)
        target = self.destination
        if target.is_dir() and not _is_directory(files, self.source):
            target = target / posixpath.basename(self.source)
        files.download(self.source, target)
        return str(target)


def _is_directory(files: SandboxFiles, path: str) -> bool:
    try:
        return files.stat(path).kind is FileKind.DIRECTORY
    except SandboxNotFoundError:
        return False
