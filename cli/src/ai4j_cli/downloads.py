"""Artifacts on the host: where each goes, and that none leaves the folder or overwrites another.

Rule: an artifact below the command's working directory keeps its path relative to that; any other keeps its whole
path without the leading slash. A path is refused when a part of it is no plain name on this host (``..``, a drive, a
backslash), when a symlink in the folder would lead it elsewhere, and when another artifact of the same run went there.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ai4j_sandbox import (
    SandboxArtifact,
    SandboxCommand,
    SandboxException,
    SandboxFileError,
    SandboxSession,
)
from ai4j_sandbox.files import SandboxFiles, safe_name

_PWD_TIMEOUT_MILLIS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """An artifact and the host file it was saved to, or why it was not."""

    artifact: SandboxArtifact
    path: Path | None = None
    failure: SandboxException | None = None


def download_artifacts(
    files: SandboxFiles, artifacts: Iterable[SandboxArtifact], folder: Path, *, base: str
) -> Iterator[Download]:
    """Save artifacts below `folder`, one by one; one that fails does not keep the others from being saved.

    Args:
        files: Where they are.
        artifacts: What to save.
        folder: Made when it does not exist.
        base: The sandbox directory whose content `folder` mirrors.
    """
    taken: set[Path] = set()
    for artifact in artifacts:
        try:
            path = target_path(artifact.path or "", folder, base=base)
            if path in taken:
                raise SandboxFileError(f"{artifact.path!r} would overwrite another artifact at {path}")
            taken.add(path)
            _save(files, artifact, path)
        except SandboxException as error:
            yield Download(artifact=artifact, failure=error)
        except OSError as error:
            failure = SandboxFileError(f"{artifact.path!r} cannot be saved: {error}", path=artifact.path)
            yield Download(artifact=artifact, failure=failure)
        else:
            yield Download(artifact=artifact, path=path)


def target_path(artifact_path: str, folder: Path, *, base: str) -> Path:
    """Return the host path for a sandbox path.

    Raises:
        SandboxFileError: It would lie outside `folder`.
    """
    prefix = f"{base.rstrip('/')}/"
    relative = artifact_path.removeprefix(prefix).removeprefix("/")
    path = folder.joinpath(*(safe_name(part) for part in relative.split("/")))
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise SandboxFileError(f"{artifact_path!r} cannot be saved as {path}: a symlink leads out of {folder}")
    if path.is_dir():
        raise SandboxFileError(f"{artifact_path!r} cannot be saved as {path}: there is a directory")
    return path


def working_directory(session: SandboxSession, command: SandboxCommand) -> str:
    """Return the absolute path of the directory a command ran in; the root when the sandbox does not tell."""
    question = SandboxCommand(
        command="pwd -P", working_directory=command.working_directory, timeout_millis=_PWD_TIMEOUT_MILLIS
    )
    result = session.execute(question)
    return posixpath.normpath(result.stdout.removesuffix("\n")) if result.succeeded else "/"


def _save(files: SandboxFiles, artifact: SandboxArtifact, path: Path) -> None:
    files.download(artifact.path or "", path)
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if artifact.sha256 is not None and digest != artifact.sha256:
        raise SandboxFileError(
            f"{artifact.path!r} changed after the command ended: what was saved as {path} is not the artifact",
            path=artifact.path,
        )
