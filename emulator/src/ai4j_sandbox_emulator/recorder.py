"""What clients asked, for tests that check what was sent and how often."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ai4j_sandbox.frozen import empty_mapping, freeze

_KEPT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One request as it arrived, whatever became of it.

    Attributes:
        query: The raw query string.
        headers: By lower-case name. Hidden from ``repr``: they hold keys.
    """

    face: str
    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)

    def __post_init__(self) -> None:
        lowered = {name.lower(): value for name, value in self.headers.items()}
        object.__setattr__(self, "headers", freeze(lowered))

    def as_json(self) -> dict[str, Any]:
        """Return the record as a JSON object."""
        return {
            "face": self.face,
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "headers": dict(self.headers),
        }


class Recorder:
    """The latest requests, in order. Safe to read from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: deque[RecordedRequest] = deque(maxlen=_KEPT)

    def add(self, request: RecordedRequest) -> None:
        """Note a request."""
        with self._lock:
            self._requests.append(request)

    def all(self) -> list[RecordedRequest]:
        """Return what was noted, the oldest first."""
        with self._lock:
            return list(self._requests)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._requests.clear()
