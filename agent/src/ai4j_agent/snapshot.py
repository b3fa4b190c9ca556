"""Everything a session is, as a value: what a store keeps and `AgentSession.restore` takes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ai4j_sandbox.binding import AgentSessionSandboxBinding, epoch_millis
from ai4j_sandbox.frozen import empty_mapping

from .conversation import Message
from .errors import AgentConfigError, SessionStoreError
from .event import AgentSessionEvent, LogHead, json_data


def new_session_id() -> str:
    """Return a fresh session id."""
    return f"session_{uuid.uuid4().hex}"


def new_run_id() -> str:
    """Return a fresh run id."""
    return f"run_{uuid.uuid4().hex}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSessionMetadata:
    """Which session it is, and what the host noted about it.

    Attributes:
        attributes: JSON data of the host's own. Hidden from ``repr``.
        created_at_epoch_ms, updated_at_epoch_ms: Milliseconds since 1970; unset means now, respectively the former.
    """

    session_id: str = field(default_factory=new_session_id)
    created_at_epoch_ms: int = 0
    updated_at_epoch_ms: int = 0
    attributes: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.session_id, str):
            raise AgentConfigError(f"session_id must be text, got {type(self.session_id).__name__}")
        self._set("session_id", self.session_id.strip() or new_session_id())
        if self.created_at_epoch_ms <= 0:
            self._set("created_at_epoch_ms", epoch_millis())
        if self.updated_at_epoch_ms <= 0:
            self._set("updated_at_epoch_ms", self.created_at_epoch_ms)
        self._set("attributes", json_data(self.attributes))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSessionSnapshot:
    """A session at one moment, without secrets.

    Attributes:
        messages, summary: The conversation. Hidden from ``repr``.
        events, event_log_head: The event log and its anchor.
        compact_result: What the Java original keeps of its last compaction; carried along unread.
        sandbox_binding: The summary of the sandbox, never the sandbox.
        owns_sandbox: Whether the session made that sandbox itself and destroys it when it is closed.
    """

    metadata: AgentSessionMetadata = field(default_factory=AgentSessionMetadata)
    run_id: str | None = None
    messages: tuple[Message, ...] = field(default=(), repr=False)
    summary: str | None = field(default=None, repr=False)
    events: tuple[AgentSessionEvent, ...] = field(default=(), repr=False)
    event_log_head: LogHead | None = None
    compact_result: Mapping[str, Any] | None = field(default=None, repr=False)
    sandbox_binding: AgentSessionSandboxBinding | None = None
    owns_sandbox: bool = False

    def __post_init__(self) -> None:
        for name in ("messages", "events"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "compact_result", json_data(self.compact_result))

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.metadata.session_id

    def to_dict(self) -> dict[str, Any]:
        """Return the snapshot as JSON-ready data in the Java original's spelling."""
        from .snapshot_schema import snapshot_document

        return snapshot_document(self)

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the snapshot that `to_dict`, or the Java original, wrote.

        Raises:
            SandboxConfigError: `data` is no snapshot; names the fields.
        """
        from ai4j_sandbox.schema import load

        from .snapshot_schema import SnapshotSchema

        return load(SnapshotSchema, data, cls)

    def to_json(self) -> str:
        """Return the snapshot as JSON text, pure ASCII."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the snapshot of a JSON text.

        Raises:
            SessionStoreError: It is no JSON, or no snapshot.
        """
        try:
            return cls.from_dict(json.loads(text))
        except (RecursionError, ValueError) as error:  # a SandboxConfigError is a ValueError too and names the fields
            raise SessionStoreError(f"not a session snapshot: {error}") from None
