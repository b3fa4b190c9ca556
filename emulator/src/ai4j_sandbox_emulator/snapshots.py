"""Kept workspaces: the files below the home directory as a tar archive. Memory and the rest of the disk are not."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.files import CHUNK_BYTES
from ai4j_sandbox.model import OutputStream, SandboxCommand
from ai4j_sandbox.spi import SandboxSession

_TAR_FILES_CHANGED = 1  # GNU tar: something changed while it was read; the archive is complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One kept workspace.

    Attributes:
        template: What the sandbox was made from.
    """

    snapshot_id: str
    source_id: str
    template: str
    created_at: float
    names: tuple[str, ...]
    archive: Path


class SnapshotStore:
    """Where the archives of one emulator are, in a temporary directory of its own."""

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._snapshots: dict[str, Snapshot] = {}

    def archive_path(self, name: str) -> Path:
        """Return where to put a new archive."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="ai4j-emulator-"))
        return self._directory / name

    def add(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; one of the same id is replaced."""
        self._snapshots[snapshot.snapshot_id] = snapshot

    def find(self, snapshot_id: str) -> Snapshot | None:
        """Return a snapshot by id."""
        return self._snapshots.get(snapshot_id)

    def all(self) -> list[Snapshot]:
        """Return all, the newest first."""
        return sorted(self._snapshots.values(), key=lambda snapshot: snapshot.created_at, reverse=True)

    def remove(self, snapshot_id: str) -> bool:
        """Delete a snapshot; ``False`` when there is none."""
        snapshot = self._snapshots.pop(snapshot_id, None)
        if snapshot is None:
            return False
        snapshot.archive.unlink(missing_ok=True)
        return True

    def close(self) -> None:
        """Delete everything."""
        self._snapshots.clear()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None


def save_workspace(session: SandboxSession, directory: str, archive: Path) -> None:
    """Write a directory of a sandbox, with everything in it, into an archive on the host.

    Raises:
        SandboxException: It cannot be read, or the sandbox has no ``tar``.
    """
    process = session.start(_tar("-cf", "-", "-C", directory, "."))
    with archive.open("wb") as file:
        for chunk in process.output():
            if chunk.stream is OutputStream.STDOUT:
                file.write(chunk.data)
    result = process.wait()
    if result.exit_code not in (0, _TAR_FILES_CHANGED):
        raise SandboxException(f"the workspace cannot be kept: {result.stderr.strip() or result.status_text}")


def restore_workspace(session: SandboxSession, directory: str, archive: Path) -> None:
    """Unpack an archive from the host into a directory of a sandbox.

    Raises:
        SandboxException: It cannot be written, or the sandbox has no ``tar``.
    """
    with session.start(_tar("-xf", "-", "-C", directory, keep_stdin_open=True)) as process:
        with archive.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                process.write_stdin(chunk)
        process.close_stdin()
        result = process.wait()
    if result.exit_code != 0:
        raise SandboxException(f"the workspace cannot be restored: {result.stderr.strip() or result.status_text}")


def _tar(*arguments: str, keep_stdin_open: bool = False) -> SandboxCommand:
    return SandboxCommand(command=("tar", *arguments), keep_stdin_open=keep_stdin_open, output_limit_bytes=4096)
