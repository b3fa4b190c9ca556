"""Moving a project between a directory of the host and a workspace.

`WorkspaceSync.push` brings the host's files there; whatever is there already with the same sha256 is not sent again, so
that a push that broke goes on where it was. `pull` changes nothing: it returns a `WorkspacePatch`, which shows what the
agent did as a diff and writes it to the host when somebody says so.

What ``.gitignore`` excludes and what is in ``.git`` stays on its side. Symlinks are not followed and not copied. Names
from the workspace are not trusted: none leads out of the host's directory.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import os
import posixpath
import stat
import tarfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from ai4j_agent.errors import AgentConfigError, AgentError
from ai4j_sandbox.artifacts import file_digests
from ai4j_sandbox.errors import SandboxConfigError, SandboxFileError
from ai4j_sandbox.files import FileKind, safe_name, save_atomically
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.shell_scripts import UNLIMITED_DEPTH

from . import gitignore
from .gitignore import IgnoreRules
from .lines import lines_of
from .output_view import failure_text
from .workspace import Workspace

_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_FILES = 500
_IGNORE_FILE_BYTES = 1_000_000
_MOST_FILE_BYTES = 256 * 1024 * 1024  # of one file that is pulled: what is in a sandbox must not fill our memory
_UNREADABLE = ""  # equal to no digest, so that the file counts as different and reading it tells why
_NEVER = frozenset((".git",))


class SyncConflictError(AgentError):
    """The host's files are not the ones the agent started from.

    Attributes:
        paths: Which.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(
            f"changed on both sides since the push: {', '.join(paths)}",
            hint="look at the diff; then apply(overwrite=True), or push again",
        )
        self.paths = tuple(paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """What tells whether a file changed."""

    sha256: str
    executable: bool = False


Manifest: TypeAlias = Mapping[str, FileState]
"""The files of a tree, by path relative to its root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncProgress:
    """How far a transfer is. `path` is the file that was last sent or fetched."""

    path: str
    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int


ProgressCallback: TypeAlias = Callable[[SyncProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PushResult:
    """What a push did, as sorted paths.

    Attributes:
        unchanged: How many files were there already.
        skipped: Symlinks and special files, which are not copied.
    """

    sent: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: int = 0
    skipped: tuple[str, ...] = ()


class ChangeKind(StrEnum):
    """What happened to a file in the workspace."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file that is not as it was pushed.

    Attributes:
        before: What the host has now; ``None`` for a file it does not have.
        after: What the workspace has; ``None`` for a deleted one.
        executable, was_executable: Whether it may be run, there and on the host.
        conflict: Whether the host's file was changed meanwhile as well.
    """

    path: str
    kind: ChangeKind
    before: bytes | None = field(default=None, repr=False)
    after: bytes | None = field(default=None, repr=False)
    executable: bool = False
    was_executable: bool = False
    conflict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePatch:
    """What an agent did, to be looked at and then applied.

    Attributes:
        directory: The host directory it is for.
    """

    directory: Path
    changes: tuple[FileChange, ...] = ()

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Paths that changed on both sides."""
        return tuple(change.path for change in self.changes if change.conflict)

    def diff(self) -> str:
        """Return the changes as a unified diff, as ``git apply`` takes it; binary files are only named."""
        return "".join(map(_file_diff, self.changes))

    def apply(self, *, delete: bool = False, overwrite: bool = False) -> tuple[str, ...]:
        """Write the changes to the host; return the paths that were written or deleted.

        Args:
            delete: Delete what the agent deleted as well.
            overwrite: Write also what was changed on the host since.

        Raises:
            SyncConflictError: Something was changed on both sides; nothing is written.
            SandboxFileError: A path would leave the directory; nothing is written.
        """
        wanted = [change for change in self.changes if delete or change.kind is not ChangeKind.DELETED]
        targets = [_host_path(self.directory, change.path) for change in wanted]
        changed = [
            change.path
            for change, target in zip(wanted, targets, strict=True)
            if change.conflict or _content(target) != change.before
        ]
        if changed and not overwrite:
            raise SyncConflictError(changed)
        for change, target in zip(wanted, targets, strict=True):
            _put(change, target)
        return tuple(change.path for change in wanted)


class WorkspaceSync:
    """Moves files between a host directory and a workspace, and knows what was last the same on both sides.

    Args:
        directory: The host's.
        workspace: Where the agent works.
        baseline: What was pushed before, from `manifest` of an earlier sync, to go on in another process.

    Raises:
        AgentConfigError: There is no such directory.
    """

    def __init__(
        self, directory: str | os.PathLike[str], workspace: Workspace, *, baseline: Manifest | None = None
    ) -> None:
        self._directory = Path(directory)
        if not self._directory.is_dir():
            raise AgentConfigError(f"{str(self._directory)!r} is not a directory to move files from and to")
        self._workspace = workspace
        self._baseline: dict[str, FileState] = dict(baseline or {})

    @property
    def manifest(self) -> Manifest:
        """What was last the same on both sides."""
        return dict(self._baseline)

    def push(self, *, delete: bool = False, on_progress: ProgressCallback | None = None) -> PushResult:
        """Bring the host's files to the workspace.

        Args:
            delete: Delete files of the workspace that the host does not have, if ``.gitignore`` does not exclude them.
            on_progress: Told after each file.

        Raises:
            SandboxException: It broke; a second push goes on.
        """
        tree = scan_host(self._directory)
        there = scan_workspace(self._workspace)
        wanted = [path for path, state in tree.manifest.items() if there.get(path) != state]
        self._send(wanted, on_progress)
        superfluous = sorted(set(there) - set(tree.manifest)) if delete else []
        for path in superfluous:
            self._workspace.files.remove(self._location(path))
        self._baseline = dict(tree.manifest)
        return PushResult(
            sent=tuple(sorted(wanted)),
            deleted=tuple(superfluous),
            unchanged=len(tree.manifest) - len(wanted),
            skipped=tree.skipped,
        )

    def pull(self, *, on_progress: ProgressCallback | None = None) -> WorkspacePatch:
        """Return what is different in the workspace since the last push. Nothing is changed anywhere.

        Raises:
            SandboxException: The workspace could not be read.
        """
        there = scan_workspace(self._workspace)
        here = scan_host(self._directory).manifest
        different = sorted(
            path
            for path in {*self._baseline, *there}
            if there.get(path) != self._baseline.get(path) and there.get(path) != here.get(path)
        )
        changes = []
        done = 0
        for number, path in enumerate(different, 1):
            change = self._change(path, there.get(path), here.get(path))
            changes.append(change)
            done += len(change.after or b"")
            _tell(on_progress, path, number, len(different), done, done)
        return WorkspacePatch(directory=self._directory, changes=tuple(changes))

    def _change(self, path: str, there: FileState | None, here: FileState | None) -> FileChange:
        after = None if there is None else self._read(path)
        before = _content(_host_path(self._directory, path))
        kind = ChangeKind.DELETED if there is None else ChangeKind.ADDED if here is None else ChangeKind.MODIFIED
        return FileChange(
            path=path,
            kind=kind,
            before=before,
            after=after,
            executable=bool(there and there.executable),
            was_executable=bool(here and here.executable),
            conflict=here != self._baseline.get(path),
        )

    def _read(self, path: str) -> bytes:
        return self._workspace.files.read(self._location(path), limit_bytes=_MOST_FILE_BYTES)

    def _location(self, path: str) -> str:
        return posixpath.join(self._workspace.root, path)

    def _send(self, paths: Sequence[str], on_progress: ProgressCallback | None) -> None:
        sizes = {path: (self._directory / path).stat().st_size for path in paths}
        total = sum(sizes.values())
        files_done = bytes_done = 0
        for batch in _batches(sizes):
            self._send_batch(batch)
            for path in batch:
                files_done += 1
                bytes_done += sizes[path]
                _tell(on_progress, path, files_done, len(paths), bytes_done, total)

    def _send_batch(self, paths: Sequence[str]) -> None:
        """Send files as one archive: one file at a time would take a round trip to a service for each."""
        archive = self._location(f".ai4j-push-{uuid.uuid4().hex}.tar")
        self._workspace.files.write(archive, _archive(self._directory, paths))
        unpack = 'cd "$1" && tar -xf "$2"; status=$?; rm -f "$2"; exit $status'
        command = SandboxCommand(command=("/bin/sh", "-c", unpack, "sh", self._workspace.root, archive))
        result = self._workspace.execute(command)
        if not result.succeeded:
            raise SandboxFileError(f"the files could not be unpacked: {failure_text(result)}", operation="files")


# --- looking at both sides ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTree:
    """A host directory: its files, and what was not looked at."""

    manifest: Manifest
    skipped: tuple[str, ...] = ()


def scan_host(directory: Path) -> HostTree:
    """Return the files of a host directory that are not ignored."""
    manifest: dict[str, FileState] = {}
    skipped: list[str] = []
    ignore_files: dict[str, str] = {}
    pending = [""]
    while pending:
        below = pending.pop()
        found = sorted((directory / below).iterdir())
        ignore_files |= _host_ignore_file(directory, below)
        rules = IgnoreRules(ignore_files)
        for entry in found:
            path = entry.relative_to(directory).as_posix()
            mode = entry.lstat().st_mode
            if entry.name in _NEVER or rules.excludes(path, directory=stat.S_ISDIR(mode)):
                continue
            if stat.S_ISDIR(mode):
                pending.append(path)
            elif stat.S_ISREG(mode):
                manifest[path] = FileState(sha256=_digest(entry), executable=bool(mode & stat.S_IXUSR))
            else:
                skipped.append(path)
    return HostTree(manifest=dict(sorted(manifest.items())), skipped=tuple(sorted(skipped)))


def scan_workspace(workspace: Workspace) -> dict[str, FileState]:
    """Return the files of a workspace that are not ignored there."""
    root = workspace.root
    infos = {info.path[len(root.rstrip("/")) + 1 :]: info for info in workspace.files.list(root, depth=UNLIMITED_DEPTH)}
    files = {path: info for path, info in infos.items() if info.kind is FileKind.FILE}
    rules = _workspace_rules(workspace, {path: info.path for path, info in files.items()})
    kept = {infos[path].path: path for path in files if _NEVER.isdisjoint(path.split("/")) and not rules.excludes(path)}
    return {
        kept[location]: FileState(
            sha256=digest or _UNREADABLE, executable=bool((infos[kept[location]].mode or 0) & stat.S_IXUSR)
        )
        for location, digest in file_digests(workspace.start, sorted(kept))
    }


def _workspace_rules(workspace: Workspace, files: Mapping[str, str]) -> IgnoreRules:
    """Read the ignore files, the shallow ones first: those in directories that are ignored do not count."""
    contents: dict[str, str] = {}
    rules = IgnoreRules(contents)
    for path in sorted(files, key=lambda path: path.count("/")):
        named = posixpath.basename(path) == gitignore.FILE_NAME and _NEVER.isdisjoint(path.split("/"))
        if named and not rules.excludes(path):
            location = files[path]
            contents[posixpath.dirname(path)] = workspace.files.read_text(location, limit_bytes=_IGNORE_FILE_BYTES)
            rules = IgnoreRules(contents)
    return rules


def _host_ignore_file(directory: Path, below: str) -> dict[str, str]:
    path = directory / below / gitignore.FILE_NAME
    if path.is_symlink() or not path.is_file():
        return {}
    return {below: path.read_text("utf-8", "replace")}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- sending --------------------------------------------------------------------------------------------------------


def _batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    length = 0
    for path, size in sizes.items():
        if batch and (length + size > _BATCH_BYTES or len(batch) >= _BATCH_FILES):
            yield batch
            batch, length = [], 0
        batch.append(path)
        length += size
    if batch:
        yield batch


def _archive(directory: Path, paths: Iterable[str]) -> Iterator[bytes]:
    """Yield a tar archive of the files, piece by piece, with nothing of the host's in it but content and mode."""
    for path in paths:
        with (directory / path).open("rb") as file:
            entry = tarfile.TarInfo(path)
            entry.size = os.fstat(file.fileno()).st_size
            entry.mode = 0o755 if os.fstat(file.fileno()).st_mode & stat.S_IXUSR else 0o644
            entry.mtime = os.fstat(file.fileno()).st_mtime
            yield entry.tobuf(tarfile.GNU_FORMAT)
            yield from _exactly(file, entry.size, path)
            yield b"\0" * (-entry.size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def _exactly(file: io.BufferedReader, size: int, path: str) -> Iterator[bytes]:
    left = size
    while left:
        chunk = file.read(min(left, 256 * 1024))
        if not chunk:
            raise SandboxConfigError(f"{path!r} became shorter while it was sent", hint="push again")
        left -= len(chunk)
        yield chunk


def _tell(
    callback: ProgressCallback | None, path: str, files_done: int, files_total: int, bytes_done: int, bytes_total: int
) -> None:
    if callback is not None:
        callback(
            SyncProgress(
                path=path,
                files_done=files_done,
                files_total=files_total,
                bytes_done=bytes_done,
                bytes_total=bytes_total,
            )
        )


# --- the patch ------------------------------------------------------------------------------------------------------


def _host_path(directory: Path, path: str) -> Path:
    """Return where a path of the workspace is on the host.

    Raises:
        SandboxFileError: It would leave the directory, through its names or through a symlink there, or is in ``.git``.
    """
    names = [safe_name(name) for name in path.split("/")]
    target = directory.joinpath(*names)
    if not _NEVER.isdisjoint(name.casefold() for name in names):
        raise SandboxFileError(f"{path!r} would change the host's repository", path=path)
    if target.is_symlink() or not target.parent.resolve().is_relative_to(directory.resolve()):
        raise SandboxFileError(f"{path!r} would leave the host's directory through a symlink", path=path)
    return target


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _put(change: FileChange, target: Path) -> None:
    if change.after is None:
        target.unlink(missing_ok=True)
        return
    save_atomically([change.after], target)
    if change.executable:
        target.chmod(target.stat().st_mode | 0o111)


def _file_diff(change: FileChange) -> str:
    old = "/dev/null" if change.before is None else f"a/{change.path}"
    new = "/dev/null" if change.after is None else f"b/{change.path}"
    head = f"diff --git a/{change.path} b/{change.path}\n{_mode_line(change)}"
    if any(b"\0" in (content or b"")[:8192] for content in (change.before, change.after)):
        return f"{head}Binary files {old} and {new} differ\n"
    lines = difflib.unified_diff(_diff_lines(change.before), _diff_lines(change.after), old, new)
    return head + "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _mode_line(change: FileChange) -> str:
    old, new = _mode(change.was_executable), _mode(change.executable)
    if change.before is None:
        return f"new file mode {new}\n"
    if change.after is None:
        return f"deleted file mode {old}\n"
    return "" if old == new else f"old mode {old}\nnew mode {new}\n"


def _mode(executable: bool) -> str:
    return "100755" if executable else "100644"


def _diff_lines(content: bytes | None) -> list[str]:
    return lines_of((content or b"").decode("utf-8", "replace"))
