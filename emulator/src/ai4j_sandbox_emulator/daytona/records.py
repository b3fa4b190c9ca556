"""What the control API remembers of a sandbox, and the state it shows."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from .requests import MACHINE_SNAPSHOT, CreateRequest

_SETTLED = frozenset(
    ("started", "stopped", "archived", "paused", "error", "build_failed", "destroyed", "pending_build")
)


@dataclass(slots=True, kw_only=True, eq=False)
class Record:
    """One sandbox at the control API.

    Attributes:
        state: Where it is, or will be when what is planned has happened.
        planned: What it shows meanwhile: a state and until when.
        error_reason: Why it failed.
        recoverable: Whether `recover` may mend it.
        shell: The shell its daemon starts.
        preview_token: Opens its ports.
        signed_tokens: Open one port each, until a time.
    """

    sandbox_id: str
    name: str
    asked: CreateRequest
    created_at: float
    state: str = "started"
    error_reason: str | None = None
    recoverable: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    public: bool = False
    auto_stop: int = 15
    auto_archive: int = 10080
    auto_delete: int = -1
    last_activity_at: float = 0.0
    updated_at: float = 0.0
    shell: str = "sh"
    preview_token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    signed_tokens: dict[str, tuple[int, float]] = field(default_factory=dict, repr=False)
    planned: deque[tuple[str, float]] = field(default_factory=deque)

    @property
    def is_machine(self) -> bool:
        """Whether it can be paused."""
        return self.asked.snapshot == MACHINE_SNAPSHOT

    def shown(self, now: float) -> str:
        """Return the state that clients see."""
        while self.planned and self.planned[0][1] <= now:
            self.planned.popleft()
        return self.planned[0][0] if self.planned else self.state

    def is_changing(self, now: float) -> bool:
        """Whether it is between two states, so that most calls are refused."""
        return self.shown(now) not in _SETTLED

    def become(self, state: str, now: float, passing: Iterable[str] = (), seconds: float = 0.0) -> None:
        """Change the state, showing each of `passing` for so many seconds first."""
        self.state = state
        self.updated_at = now
        self.planned = deque((word, now + seconds * (index + 1)) for index, word in enumerate(passing) if seconds > 0)
