"""Moving a project between a directory of the host and a workspace.

`WorkspaceSync.push` brings the host's files there; whatever is there already with the same sha256 is not sent again, so
that a push that broke goes on where it was. `pull` changes nothing: it returns a `WorkspacePatch`, which shows what the
agent did as a diff and writes it to the host when somebody says so.

Neither side loses what the other does not know: what both have was last the same at a push, a pull or an applied patch
(`WorkspaceSync.manifest`); where the side that is written to has something else since, that is a conflict, unless the
caller says ``overwrite``. Names from the workspace are not trusted: none leads out of the host's directory. Nothing is
written through a symlink on either side.
"""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import stat
import tarfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ai4j_agent.errors import AgentConfigError
from ai4j_sandbox.errors import (
    SandboxConfigError,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxOutputLimitError,
)
from ai4j_sandbox.model import SandboxResult

from .git_diff import FileVersion
from .host_changes import host_path, host_version, is_occupied
from .manifest import (
    RESERVED,
    FileState,
    Manifest,
    SkippedPath,
    Tree,
    digest,
    directories_above,
    read_workspace_file,
    run_on_paths,
    scan_host,
    scan_workspace,
)
from .output_view import failure_text
from .workspace import Workspace
from .workspace_patch import ChangeKind, FileChange, SyncConflictError, WorkspacePatch

_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_FILES = 500
_MOST_FILE_BYTES = 256 * 1024 * 1024  # of one file that is pulled: what is in a sandbox must not fill our memory
_MOST_PULLED_BYTES = 1024 * 1024 * 1024


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
    """What a push did, by path, sorted.

    Attributes:
        unchanged: How many files were there already.
        skipped: Symlinks and special files, which are not copied, and what cannot be read.
    """

    sent: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: int = 0
    skipped: tuple[SkippedPath, ...] = ()


class WorkspaceSync:
    """Moves files between a host directory and a workspace, and knows what was last the same on both sides.

    Args:
        directory: The host's.
        workspace: Where the agent works.
        baseline: What was last the same, from `manifest` of an earlier sync, to go on in another process.

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
        self._in_transfer: set[str] = set()  # what a push that broke may have left there, in part: nobody's work

    @property
    def manifest(self) -> Manifest:
        """What was last the same on both sides."""
        return dict(self._baseline)

    def push(
        self, *, delete: bool = False, overwrite: bool = False, on_progress: ProgressCallback | None = None
    ) -> PushResult:
        """Bring the host's files to the workspace.

        Args:
            delete: Delete files of the workspace that the host does not have, if ``.gitignore`` does not exclude them.
            overwrite: Write also over what was changed there.
            on_progress: Told after each file.

        Raises:
            SyncConflictError: Files were changed in the workspace since they were last the same, or something else is
                in their place; nothing was sent.
            SandboxException: It broke; a second push goes on.
        """
        self._workspace.files.make_dir(self._workspace.root)
        here = scan_host(self._directory)
        there = self._scan_workspace(here.files)
        wanted = [path for path, state in here.files.items() if there.files.get(path) != state]
        superfluous = [path for path in there.files if self._is_superfluous(path, here)] if delete else []
        if not overwrite:
            self._require_unchanged(there, wanted, superfluous)
        self._delete(superfluous)
        self._send(wanted, here.sizes, on_progress, overwrite=overwrite)
        self._baseline |= {path: state for path, state in here.files.items() if there.files.get(path) == state}
        return PushResult(
            sent=tuple(wanted),
            deleted=tuple(superfluous),
            unchanged=len(here.files) - len(wanted),
            skipped=_told(here.skipped),
        )

    def pull(self, *, on_progress: ProgressCallback | None = None) -> WorkspacePatch:
        """Return what is different in the workspace since both sides were last the same. No file is changed anywhere.

        Raises:
            SandboxException: The workspace could not be looked at.
        """
        there = self._scan_workspace()
        skipped = dict(there.skipped)
        different = sorted(
            path
            for path in {*self._baseline, *there.files}
            if there.files.get(path) != self._baseline.get(path) and not there.hides(path)
        )
        total = sum(there.sizes.get(path, 0) for path in different)
        changes: list[FileChange] = []
        bytes_done = 0
        for files_done, path in enumerate(different, 1):
            try:
                if bytes_done + there.sizes.get(path, 0) > _MOST_PULLED_BYTES:
                    raise SandboxFileError(f"more than {_MOST_PULLED_BYTES} bytes are different", path=path)
                change = self._change(path, there.files.get(path))
            except (SandboxFileError, SandboxNotFoundError, SandboxOutputLimitError) as error:
                _require_success(run_on_paths(self._workspace, "exit 0"), "the workspace is gone")
                skipped[path] = error.message
                continue
            bytes_done += there.sizes.get(path, 0)
            _tell(on_progress, path, files_done, len(different), bytes_done, total)
            if change.old != change.new:
                changes.append(change)
            else:
                self._agree([change])
        return WorkspacePatch(
            directory=self._directory, changes=tuple(changes), skipped=_told(skipped), on_applied=self._agree
        )

    def _scan_workspace(self, others: Iterable[str] = ()) -> Tree:
        return scan_workspace(self._workspace, tracked={*self._baseline, *others}, limit_bytes=_MOST_FILE_BYTES)

    # --- pulling --------------------------------------------------------------------------------------------------

    def _change(self, path: str, there: FileState | None) -> FileChange:
        target = host_path(self._directory, path)
        after = None if there is None else read_workspace_file(self._workspace, path, _MOST_FILE_BYTES)
        before = host_version(target)
        kind = ChangeKind.DELETED if there is None else ChangeKind.ADDED if before is None else ChangeKind.MODIFIED
        return FileChange(
            path=path,
            kind=kind,
            before=None if before is None else before.content,
            after=after,
            executable=there is not None and there.executable,
            was_executable=before is not None and before.executable,
            conflict=_state(before) != self._baseline.get(path) or is_occupied(target),
        )

    def _agree(self, changes: Sequence[FileChange]) -> None:
        """Note that these files are the same on both sides now."""
        for change in changes:
            state = _state(change.new)
            if state is None:
                self._baseline.pop(change.path, None)
            else:
                self._baseline[change.path] = state

    # --- pushing --------------------------------------------------------------------------------------------------

    def _is_superfluous(self, path: str, here: Tree) -> bool:
        return path not in here.files and not here.hides(path) and not here.rules.excludes(path)

    def _require_unchanged(self, there: Tree, wanted: Sequence[str], superfluous: Sequence[str]) -> None:
        staying = there.files.keys() - set(superfluous)
        directories = {above for path in (*staying, *there.skipped) for above in directories_above(path)}
        changed = [
            path
            for path in wanted
            if self._was_changed(path, there)
            or path in directories
            or there.hides(path)
            or not staying.isdisjoint(directories_above(path))
        ]
        changed += [path for path in superfluous if path in self._baseline and self._was_changed(path, there)]
        if changed:
            raise SyncConflictError(
                sorted(changed),
                "changed in the workspace since the last push or pull, or in the way there",
                "pull and apply that first, or push(overwrite=True)",
            )

    def _was_changed(self, path: str, there: Tree) -> bool:
        return there.files.get(path) != self._baseline.get(path) and path not in self._in_transfer

    def _delete(self, paths: Sequence[str]) -> None:
        if paths:
            _require_success(run_on_paths(self._workspace, _DELETE, paths), "the files could not be deleted")
        for path in paths:
            self._baseline.pop(path, None)

    def _send(
        self, paths: Sequence[str], sizes: Mapping[str, int], on_progress: ProgressCallback | None, *, overwrite: bool
    ) -> None:
        total = sum(sizes[path] for path in paths)
        files_done = bytes_done = 0
        for batch in _batches(paths, sizes):
            self._send_batch(batch, overwrite=overwrite)
            for path in batch:
                files_done += 1
                bytes_done += sizes[path]
                _tell(on_progress, path, files_done, len(paths), bytes_done, total)

    def _send_batch(self, paths: Sequence[str], *, overwrite: bool) -> None:
        """Send files as one archive: one file at a time would take a round trip to a service for each."""
        name = f"{RESERVED}push-{uuid.uuid4().hex}"
        sent: dict[str, FileState] = {}
        self._workspace.files.write(
            posixpath.join(self._workspace.root, f"{name}.tar"), _archive(self._directory, paths, sent)
        )
        self._in_transfer.update(paths)
        result = run_on_paths(self._workspace, _UNPACK, (), name, "overwrite" if overwrite else "", _PLACE)
        _require_success(result, "the files could not be unpacked")
        self._in_transfer.difference_update(paths)
        self._baseline |= sent


_DELETE = """
cd "$1" && xargs -0 rm -f --
"""

# Unpacks beside the files; then whole directories of files are renamed into their places, so that no file is ever there
# in part. $2 is the name of the transfer, $3 says whether what is in the way goes, $4 is the script below. What a
# transfer left that was killed goes after an hour.
_UNPACK = f"""
cd "$1" || exit 1
export staged="$2" overwrite="$3"
trap 'rm -rf "$staged" "$staged.tar"' EXIT
find . -maxdepth 1 -name '{RESERVED}push-*' -mmin +60 -exec rm -rf {{}} +
mkdir "$staged" && tar -xf "$staged.tar" -C "$staged" || exit 1
find "$staged" -type d -print0 | xargs -0 /bin/sh -c "$4" sh
"""

_PLACE = """
clear() {
    rmdir "$1" 2>/dev/null && return
    [ "$overwrite" ] || { echo "$1 is in the way" >&2; exit 1; }
    rm -rf "$1"
}
for from; do
    to=.${from#"$staged"}
    if [ -h "$to" ] || { [ -e "$to" ] && [ ! -d "$to" ]; }; then clear "$to"; fi
    mkdir -p "$to" || exit 1
    set --
    for file in "$from"/* "$from"/.[!.]* "$from"/..?*; do
        [ -f "$file" ] || continue
        place=$to/${file##*/}
        if [ -h "$place" ] || [ -d "$place" ]; then clear "$place"; fi
        set -- "$@" "$file"
    done
    [ $# -eq 0 ] || mv -f "$@" "$to/" || exit 1
done
"""


def _state(version: FileVersion | None) -> FileState | None:
    return None if version is None else FileState(sha256=digest(version.content), executable=version.executable)


def _told(skipped: Mapping[str, str]) -> tuple[SkippedPath, ...]:
    return tuple(SkippedPath(path=path, reason=reason) for path, reason in sorted(skipped.items()))


def _require_success(result: SandboxResult, problem: str) -> None:
    if not result.succeeded:
        raise SandboxFileError(f"{problem}: {failure_text(result)}", operation="files")


def _batches(paths: Iterable[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    length = 0
    for path in paths:
        if batch and (length + sizes[path] > _BATCH_BYTES or len(batch) >= _BATCH_FILES):
            yield batch
            batch, length = [], 0
        batch.append(path)
        length += sizes[path]
    if batch:
        yield batch


def _archive(directory: Path, paths: Iterable[str], sent: dict[str, FileState]) -> Iterator[bytes]:
    """Yield a tar archive of the files, piece by piece, with nothing of the host's in it but content and mode.

    What was sent of each, which may be newer than what was looked at, is noted in `sent`.
    """
    for path in paths:
        try:
            with (directory / path).open("rb") as file:
                status = os.fstat(file.fileno())
                executable = bool(status.st_mode & stat.S_IXUSR)
                entry = tarfile.TarInfo(path)
                entry.size = status.st_size
                entry.mode = 0o755 if executable else 0o644
                entry.mtime = status.st_mtime
                yield entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
                sha256 = hashlib.sha256()
                for chunk in _exactly(file, entry.size, path):
                    sha256.update(chunk)
                    yield chunk
        except OSError as error:
            raise SandboxConfigError(f"{path!r} cannot be sent: {error.strerror}", hint="push again") from error
        yield b"\0" * (-entry.size % tarfile.BLOCKSIZE)
        sent[path] = FileState(sha256=sha256.hexdigest(), executable=executable)
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
