"""Snapshots as files, one per session.

A file appears complete or not at all: it is written beside its place, flushed to disk, then renamed over the old one.
Its name is a readable part of the id and a digest of the whole id, so that no two ids share a file. Files of the Java
original, named by the sanitised id alone, are found too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import SessionStoreError
from .snapshot import AgentSessionSnapshot

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_READABLE_CHARACTERS = 48

_log = logging.getLogger(__name__)


class FileSessionStore:
    """Keeps snapshots in a directory that only its owner may read.

    Args:
        directory: Created, private, with the first snapshot.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)

    def save(self, snapshot: AgentSessionSnapshot) -> None:
        """Replace the session's file atomically.

        Raises:
            SessionStoreError: It could not be written; the earlier one is untouched.
        """
        path, legacy = self._path(snapshot.session_id), self._legacy_path(snapshot.session_id)
        with _told(f"write session file {path.name}"):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_atomically(path, snapshot.to_json().encode("ascii"))
            if _is_of(legacy, snapshot.session_id):
                legacy.unlink(missing_ok=True)

    def load(self, session_id: str) -> AgentSessionSnapshot | None:
        """Return the session's snapshot, or ``None``.

        Raises:
            SessionStoreError: The file is there and is no snapshot.
        """
        for path in (self._path(session_id), self._legacy_path(session_id)):
            text = _read(path)
            if text:
                snapshot = _parsed(path, text)
                if snapshot.session_id == session_id:
                    return snapshot
        return None

    def list_session_ids(self) -> list[str]:
        """Return the ids of all readable session files, sorted. Unreadable ones are logged.

        Raises:
            SessionStoreError: The directory cannot be read.
        """
        with _told("list session files"):
            return sorted({session_id for path in self._files() if (session_id := _logged_id(path)) is not None})

    def delete(self, session_id: str) -> bool:
        """Remove the session's file and what a killed writer left of it; whether there was one.

        Raises:
            SessionStoreError: It could not be removed.
        """
        path, legacy = self._path(session_id), self._legacy_path(session_id)
        with _told(f"delete session file {path.name}"):
            found = [path] if path.exists() else []
            if _is_of(legacy, session_id):
                found.append(legacy)
            for place in (*found, *self._directory.glob(f"{_temporary_prefix(path)}*")):
                place.unlink(missing_ok=True)
        return bool(found)

    def _files(self) -> Iterator[Path]:
        if self._directory.is_dir():
            yield from (path for path in self._directory.glob("*.json") if not path.name.startswith("."))

    def _path(self, session_id: str) -> Path:
        digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        readable = _UNSAFE.sub("_", session_id)[:_READABLE_CHARACTERS].lstrip(".")
        return self._directory / f"{readable}-{digest}.json"

    def _legacy_path(self, session_id: str) -> Path:
        """Where the Java original keeps the session; several ids may share it, so its content decides."""
        return self._directory / f"{_UNSAFE.sub('_', session_id)[:200] or 'anon'}.json"


@contextmanager
def _told(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SessionStoreError(f"could not {doing}: {error.strerror}") from error


def _write_atomically(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=_temporary_prefix(path), dir=path.parent)  # mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_directory(path.parent)


def _flush_directory(directory: Path) -> None:
    """Make the rename itself survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _temporary_prefix(path: Path) -> str:
    return f".{path.stem[-64:]}."


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SessionStoreError(f"could not read session file {path.name}: {type(error).__name__}") from error


def _parsed(path: Path, text: str) -> AgentSessionSnapshot:
    try:
        return AgentSessionSnapshot.from_json(text)
    except SessionStoreError as error:
        hint = "restore it from a backup, or delete it"
        raise SessionStoreError(f"{path.name} is {error.message}", hint=hint) from None


def _session_id_of(path: Path) -> str | None:
    """The id in a session file, without reading the rest into a snapshot; ``None`` for an empty file."""
    text = _read(path)
    if not text:
        return None
    try:
        document = json.loads(text)
        session_id = (document.get("metadata") or {}).get("sessionId") or document["sessionId"]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise SessionStoreError(f"{path.name} is not a session snapshot") from None
    return str(session_id)


def _logged_id(path: Path) -> str | None:
    try:
        return _session_id_of(path)
    except SessionStoreError as error:
        _log.warning("%s", error.message)
        return None


def _is_of(path: Path, session_id: str) -> bool:
    return path.exists() and _logged_id(path) == session_id
