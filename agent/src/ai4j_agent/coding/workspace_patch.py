"""What an agent did in a workspace, to be looked at and then written to the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from ai4j_agent.errors import AgentError

from .git_diff import FileVersion, file_diff, quoted
from .host_changes import HostChanges, host_path, host_version, is_occupied
from .manifest import SkippedPath


class SyncConflictError(AgentError):
    """Going on would lose what one side has and the other does not know.

    Attributes:
        paths: Which.
    """

    def __init__(self, paths: Sequence[str], problem: str, hint: str) -> None:
        super().__init__(f"{problem}: {', '.join(map(quoted, paths))}", hint=hint)
        self.paths = tuple(paths)


class ChangeKind(StrEnum):
    """What happened to a file in the workspace."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file that is not as it was pushed.

    Attributes:
        path: Relative to the root; bytes that are no UTF-8 as `os.fsdecode` gives them.
        before: What the host has now; ``None`` for a file it does not have.
        after: What the workspace has; ``None`` for a deleted one.
        executable, was_executable: Whether it may be run, there and on the host.
        conflict: Whether the host has something else there than what was pushed: a file that was changed, or one that
            was never pushed because it is ignored or a symlink.
    """

    path: str
    kind: ChangeKind
    before: bytes | None = field(default=None, repr=False)
    after: bytes | None = field(default=None, repr=False)
    executable: bool = False
    was_executable: bool = False
    conflict: bool = False

    @property
    def old(self) -> FileVersion | None:
        """The host's file."""
        return None if self.before is None else FileVersion(content=self.before, executable=self.was_executable)

    @property
    def new(self) -> FileVersion | None:
        """The workspace's file."""
        return None if self.after is None else FileVersion(content=self.after, executable=self.executable)


Applied: TypeAlias = Callable[[Sequence[FileChange]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePatch:
    """What an agent did, to be looked at and then applied.

    Attributes:
        directory: The host directory it is for.
        skipped: What may be different as well and is not among the changes: symlinks, special files, what cannot be
            read, and names that are not safe on the host.
        on_applied: Told which changes are on the host now.
    """

    directory: Path
    changes: tuple[FileChange, ...] = ()
    skipped: tuple[SkippedPath, ...] = ()
    on_applied: Applied | None = field(default=None, repr=False, compare=False)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Paths where the host has something else than what was pushed."""
        return tuple(change.path for change in self.changes if change.conflict)

    def diff(self) -> str:
        """Return the changes as ``git apply`` takes them, what is no UTF-8 as binary patches."""
        return "".join(file_diff(change.path, change.old, change.new) for change in self.changes)

    def apply(self, *, delete: bool = False, overwrite: bool = False) -> tuple[str, ...]:
        """Write the changes to the host, all or none; return the paths that were written or deleted.

        Args:
            delete: Delete what the agent deleted as well.
            overwrite: Write also what was changed on the host since, and over what was never pushed.

        Raises:
            SyncConflictError: The host has something else there, or a directory is where a file should be, or the
                other way round; nothing is written.
            SandboxFileError: A path would leave the directory, or writing failed; nothing is written.
        """
        wanted = [change for change in self.changes if delete or change.kind is not ChangeKind.DELETED]
        targets = {change.path: host_path(self.directory, change.path) for change in wanted}
        current = {path: host_version(target) for path, target in targets.items()}
        pending = [
            change for change in wanted if current[change.path] != change.new or is_occupied(targets[change.path])
        ]
        changed = [
            change.path
            for change in pending
            if change.conflict or current[change.path] != change.old or is_occupied(targets[change.path])
        ]
        if changed and not overwrite:
            raise SyncConflictError(
                changed,
                "changed on the host since the push, or never pushed",
                "look at the diff; then apply(overwrite=True), or push again",
            )
        changes = HostChanges(self.directory, {change.path: change.new for change in pending})
        if blocked := changes.in_the_way():
            raise SyncConflictError(
                blocked,
                "something on the host is in the way, a directory or a file where one is needed",
                "apply(delete=True) if the agent deleted it, else move it away",
            )
        if pending:
            changes.make()
        if self.on_applied is not None:
            self.on_applied(wanted)
        return tuple(change.path for change in pending)
