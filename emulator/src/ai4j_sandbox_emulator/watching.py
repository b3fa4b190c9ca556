"""What changed in a directory: found by comparing listings, because the SPI has no notification.

Changes that come through the emulator are reported exactly as the kernel would tell them (`Watcher.tell`), changes made
by commands as far as two listings show them (`changes`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ai4j_sandbox.files import FileInfo, FileKind

Listing = Mapping[str, FileInfo]


class Change(StrEnum):
    """What happened to a path, in the kernel's terms."""

    CREATE = "create"
    WRITE = "write"
    REMOVE = "remove"
    RENAME = "rename"
    CHMOD = "chmod"


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """One change of one path."""

    path: str
    change: Change


def listing(entries: Iterable[FileInfo]) -> Listing:
    """Return the entries by path."""
    return {entry.path: entry for entry in entries}


def changes(before: Listing, after: Listing) -> list[ChangeEvent]:
    """Return what must have happened between two listings, by path; renames are told by size and time."""
    vanished = {path: before[path] for path in sorted(before) if path not in after}
    events: list[ChangeEvent] = []
    for path in sorted(after):
        old, new = before.get(path), after[path]
        events += _appeared(new, vanished) if old is None or old.kind is not new.kind else _altered(old, new)
    return [*events, *(ChangeEvent(path, Change.REMOVE) for path in vanished)]


def _appeared(new: FileInfo, vanished: dict[str, FileInfo]) -> list[ChangeEvent]:
    source = next((path for path, old in vanished.items() if _same_content(old, new)), None)
    if source is not None:
        del vanished[source]
        return [ChangeEvent(source, Change.RENAME), ChangeEvent(new.path, Change.CREATE)]
    created = [ChangeEvent(new.path, Change.CREATE)]
    return [*created, ChangeEvent(new.path, Change.WRITE)] if new.kind is FileKind.FILE and new.size_bytes else created


def _altered(old: FileInfo, new: FileInfo) -> list[ChangeEvent]:
    events = []
    if old.mode != new.mode:
        events.append(ChangeEvent(new.path, Change.CHMOD))
    if new.kind is FileKind.FILE and not _same_content(old, new):
        events.append(ChangeEvent(new.path, Change.WRITE))
    return events


def _same_content(old: FileInfo, new: FileInfo) -> bool:
    return (old.kind, old.size_bytes, old.modified_at_epoch_ms) == (
        new.kind,
        new.size_bytes,
        new.modified_at_epoch_ms,
    )


class Watcher:
    """One watched directory and the changes nobody has fetched yet.

    Attributes:
        path: The directory, absolute.
        recursive: Whether everything below it counts.
        include_entry: Whether the client wants changed entries described.
    """

    def __init__(self, path: str, *, recursive: bool, include_entry: bool, first: Listing) -> None:
        self.path = path
        self.recursive = recursive
        self.include_entry = include_entry
        self._seen = first
        self._events: list[ChangeEvent] = []

    def covers(self, path: str) -> bool:
        """Whether a path lies where this watcher looks."""
        if self.recursive:
            return path.startswith(self.path.rstrip("/") + "/")
        return posixpath.dirname(path) == self.path

    def compare(self, now: Listing) -> None:
        """Take a new listing, and note what changed since the last."""
        self._events += changes(self._seen, now)
        self._seen = now

    def tell(self, events: Iterable[ChangeEvent], now: Listing) -> None:
        """Note changes that are known exactly, and take a listing that already holds them."""
        self._events += [event for event in events if self.covers(event.path)]
        self._seen = now

    def drain(self) -> list[ChangeEvent]:
        """Return the changes not yet fetched."""
        events, self._events = self._events, []
        return events
