"""What two listings tell about the time between them."""

from __future__ import annotations

import pytest

from ai4j_sandbox.files import FileInfo, FileKind
from ai4j_sandbox_emulator.watching import Change, ChangeEvent, Watcher, changes, listing


def file(path: str, size: int = 1, modified: int = 0, mode: int = 0o644) -> FileInfo:
    return FileInfo(path=path, kind=FileKind.FILE, size_bytes=size, modified_at_epoch_ms=modified, mode=mode)


def directory(path: str) -> FileInfo:
    return FileInfo(path=path, kind=FileKind.DIRECTORY, size_bytes=0, modified_at_epoch_ms=0, mode=0o755)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [file("/w/a")], [("/w/a", Change.CREATE), ("/w/a", Change.WRITE)]),
        ([], [file("/w/a", size=0)], [("/w/a", Change.CREATE)]),
        ([], [directory("/w/d")], [("/w/d", Change.CREATE)]),
        ([file("/w/a")], [], [("/w/a", Change.REMOVE)]),
        ([file("/w/a")], [file("/w/a", size=2)], [("/w/a", Change.WRITE)]),
        ([file("/w/a")], [file("/w/a", modified=5)], [("/w/a", Change.WRITE)]),
        ([file("/w/a")], [file("/w/a", mode=0o600)], [("/w/a", Change.CHMOD)]),
        ([file("/w/a")], [file("/w/b")], [("/w/a", Change.RENAME), ("/w/b", Change.CREATE)]),
        ([file("/w/a")], [directory("/w/a")], [("/w/a", Change.CREATE)]),
        ([file("/w/a")], [file("/w/a")], []),
        ([directory("/w/d")], [FileInfo(path="/w/d", kind=FileKind.DIRECTORY, size_bytes=9, mode=0o755)], []),
    ],
)
def test_changes(before: list[FileInfo], after: list[FileInfo], expected: list[tuple[str, Change]]) -> None:
    found = changes(listing(before), listing(after))

    assert found == [ChangeEvent(path, change) for path, change in expected]


def watcher(*, recursive: bool = False) -> Watcher:
    return Watcher("/w", recursive=recursive, include_entry=False, first={})


@pytest.mark.parametrize(
    ("path", "recursive", "covered"),
    [("/w/a", False, True), ("/w/d/a", False, False), ("/w/d/a", True, True), ("/wide/a", True, False)],
)
def test_a_watcher_covers_what_lies_below_it(path: str, recursive: bool, covered: bool) -> None:
    assert watcher(recursive=recursive).covers(path) is covered


def test_told_changes_are_not_found_a_second_time() -> None:
    watching = watcher()
    told = [ChangeEvent("/w/a", Change.CREATE), ChangeEvent("/elsewhere", Change.CREATE)]

    watching.tell(told, listing([file("/w/a")]))
    watching.compare(listing([file("/w/a")]))

    assert watching.drain() == told[:1]
    assert watching.drain() == []
