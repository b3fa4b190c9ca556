"""Where snapshots are kept. `FileSessionStore` and `SqlSessionStore` are in modules of their own."""

from __future__ import annotations

import threading
from typing import Protocol

from .snapshot import AgentSessionSnapshot


class AgentSessionStore(Protocol):
    """Keeps the latest snapshot of each session. Implementations are safe to use from several threads."""

    def save(self, snapshot: AgentSessionSnapshot) -> None:
        """Keep a snapshot in place of the session's earlier one, completely or not at all.

        Raises:
            SessionStoreError: It could not be stored.
        """

    def load(self, session_id: str) -> AgentSessionSnapshot | None:
        """Return a session's snapshot, or ``None`` when there is none.

        Raises:
            SessionStoreError: There is one and it cannot be read.
        """

    def list_session_ids(self) -> list[str]:
        """Return the ids that `load` knows, sorted."""

    def delete(self, session_id: str) -> bool:
        """Forget a session; whether there was one."""


class MemorySessionStore:
    """Keeps snapshots in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshots: dict[str, AgentSessionSnapshot] = {}

    def save(self, snapshot: AgentSessionSnapshot) -> None:
        """Keep a snapshot; it is immutable, so no copy is needed."""
        with self._lock:
            self._snapshots[snapshot.session_id] = snapshot

    def load(self, session_id: str) -> AgentSessionSnapshot | None:
        """Return a session's snapshot, or ``None``."""
        with self._lock:
            return self._snapshots.get(session_id)

    def list_session_ids(self) -> list[str]:
        """Return the ids, sorted."""
        with self._lock:
            return sorted(self._snapshots)

    def delete(self, session_id: str) -> bool:
        """Forget a session; whether there was one."""
        with self._lock:
            return self._snapshots.pop(session_id, None) is not None
