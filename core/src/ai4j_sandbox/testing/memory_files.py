"""Files that live in a dictionary."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from ai4j_sandbox.errors import SandboxFileError, SandboxNotFoundError
from ai4j_sandbox.files import FileInfo, FileKind, SandboxFiles

WORKING_DIRECTORY = "/workspace"
"""Where relative paths begin."""


class MemoryFiles(SandboxFiles):
    """A sandbox's files without a sandbox.

    Attributes:
        entries: Absolute path to content; ``None`` for a directory.
    """

    def __init__(self) -> None:
        self.entries: dict[str, bytes | None] = {"/": None, WORKING_DIRECTORY: None}

    def read_chunks(self, path: str) -> Iterator[bytes]:
        content = self._entry(path)
        if content is None:
            raise SandboxFileError(f"{path!r}: is a directory", path=path)
        yield content

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        place, content = absolute(path), b"".join(chunks)
        if place in self.entries and self.entries[place] is None:
            raise SandboxFileError(f"{path!r}: is a directory", path=path)
        self.make_dir(posixpath.dirname(place))
        self.entries[place] = content

    def list(self, path: str, *, depth: int = 1) -> list[FileInfo]:
        if self._entry(path) is not None:
            raise SandboxFileError(f"{path!r}: is not a directory", path=path)
        place = absolute(path)
        names = (posixpath.relpath(known, place) for known in self._tree(path) if known != place)
        near = sorted(name for name in names if name.count("/") < depth)
        return [self.stat(posixpath.join(path, name)) for name in near]

    def stat(self, path: str) -> FileInfo:
        content = self._entry(path)
        if content is None:
            return FileInfo(path=path, kind=FileKind.DIRECTORY, size_bytes=0, mode=0o755)
        return FileInfo(path=path, kind=FileKind.FILE, size_bytes=len(content), mode=0o644)

    def make_dir(self, path: str) -> None:
        place = absolute(path)
        if self.entries.get(place) is not None:
            raise SandboxFileError(f"{path!r}: a file is in the way", path=path)
        if place not in self.entries:
            self.make_dir(posixpath.dirname(place))
            self.entries[place] = None

    def remove(self, path: str, *, recursive: bool = False) -> None:
        self._entry(path)
        tree = self._tree(path)
        if len(tree) > 1 and not recursive:
            raise SandboxFileError(f"{path!r}: the directory is not empty", path=path)
        for known in tree:
            del self.entries[known]

    def move(self, source: str, destination: str) -> None:
        self._entry(source)
        place, target = absolute(source), absolute(destination)
        if target in self.entries and self.entries[target] is None:
            raise SandboxFileError(f"{destination!r}: the destination is a directory", path=destination)
        self.make_dir(posixpath.dirname(target))
        moved = {target + known.removeprefix(place): self.entries.pop(known) for known in self._tree(source)}
        self.entries.update(moved)

    def _entry(self, path: str) -> bytes | None:
        try:
            return self.entries[absolute(path)]
        except KeyError:
            raise SandboxNotFoundError(f"no such file or directory in the sandbox: {path!r}") from None

    def _tree(self, path: str) -> tuple[str, ...]:
        """The absolute paths of an entry and of everything below it."""
        place = absolute(path)
        return tuple(known for known in self.entries if known == place or known.startswith(f"{place.rstrip('/')}/"))


def absolute(path: str) -> str:
    """Return the absolute form of a path."""
    return posixpath.normpath(posixpath.join(WORKING_DIRECTORY, path))
