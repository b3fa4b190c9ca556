"""What happens in an agent session, and how the log keeps it.

An event tells *that* something happened and to what: names, ids, sizes, decisions, and why a call failed. What was said
is in the conversation, never in an event.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from ai4j_sandbox.frozen import freeze, thaw
from ai4j_sandbox.redaction import Scrubber, escape_controls, mask_value

from .errors import AgentConfigError
from .redacted import with_texts

SESSION_TURN = "session"
"""Turn id of events that belong to no turn."""


class AgentEventType(StrEnum):
    """Kinds of `AgentEvent`; names and order are the contract's."""

    STEP_START = "STEP_START"
    STEP_END = "STEP_END"
    MODEL_REQUEST = "MODEL_REQUEST"
    MODEL_RETRY = "MODEL_RETRY"
    MODEL_REASONING = "MODEL_REASONING"
    MODEL_RESPONSE = "MODEL_RESPONSE"
    TOOL_CALL = "TOOL_CALL"
    TOOL_RESULT = "TOOL_RESULT"
    HANDOFF_START = "HANDOFF_START"
    HANDOFF_END = "HANDOFF_END"
    TEAM_TASK_CREATED = "TEAM_TASK_CREATED"
    TEAM_TASK_UPDATED = "TEAM_TASK_UPDATED"
    TEAM_MESSAGE = "TEAM_MESSAGE"
    MEMORY_COMPRESS = "MEMORY_COMPRESS"
    SANDBOX_BOUND = "SANDBOX_BOUND"
    SANDBOX_UPDATED = "SANDBOX_UPDATED"
    SANDBOX_CLEARED = "SANDBOX_CLEARED"
    FINAL_OUTPUT = "FINAL_OUTPUT"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """Something that happened.

    Attributes:
        type: A known kind, or the text of one that a later version wrote.
        payload: JSON data; equal before and after a round trip, so that its hash is too.
    """

    type: AgentEventType | str
    event_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    run_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = SESSION_TURN
    step: int = 0
    message: str | None = None
    payload: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "payload", json_data(self.payload))

    def redacted(self, scrubber: Scrubber) -> Self:
        """Return the event with known secrets, and what looks like one, masked, and control characters escaped."""

        def masked(text: str) -> str:
            return escape_controls(scrubber.text(text), keep="\n\t")

        message = None if self.message is None else masked(self.message)
        return replace(self, message=message, payload=with_texts(mask_value(thaw(self.payload)), masked))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSessionEvent:
    """An event in its place in the log.

    Attributes:
        sequence: Its number in the session, from 1.
        previous_hash, hash: Its link in the chain; ``None`` when it was written by a log without one.
    """

    sequence: int
    recorded_at_epoch_ms: int
    event: AgentEvent
    previous_hash: str | None = None
    hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """The seal of a log's end: whoever keeps it elsewhere can tell that the end was cut off.

    Attributes:
        sequence: Number of the last event; 0 for an empty log.
    """

    sequence: int
    hash: str


def json_data(value: Any) -> Any:
    """Return a frozen copy of JSON data.

    Raises:
        AgentConfigError: It is not JSON data.
    """
    try:
        return freeze(json.loads(json.dumps(thaw(value), allow_nan=False)))
    except (RecursionError, TypeError, ValueError):
        raise AgentConfigError(f"JSON data is needed, got {type(value).__name__} with something else inside") from None
