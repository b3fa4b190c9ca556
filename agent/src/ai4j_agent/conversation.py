"""What was said in a session: messages, tool calls, tool outputs.

`Conversation` is the mutable whole, everything else is frozen. In JSON a conversation has the shape of the Java
original's memory (``items`` and ``summary``), so that sessions can move both ways; see `snapshot_schema`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ai4j_sandbox.frozen import freeze


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A model's wish to call a tool.

    Attributes:
        arguments: JSON text as the model wrote it, valid or not. Hidden from ``repr``: it may quote anything.
        call_id: Pairs the call with its output.
    """

    name: str
    arguments: str = field(default="{}", repr=False)
    call_id: str = field(default_factory=lambda: f"call_{uuid.uuid4().hex}")
    type: str = "function"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. Texts are hidden from ``repr``.

    Attributes:
        tool_calls: What an assistant wants called.
        call_id: For a tool's output: the call it answers.
        attachments: Parts that are not text (images), as the wire has them.
    """

    role: Role
    text: str = field(default="", repr=False)
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    attachments: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        object.__setattr__(self, "attachments", freeze(self.attachments))

    @classmethod
    def user(cls, text: str) -> Message:
        """Return what a user said."""
        return cls(role=Role.USER, text=text)

    @classmethod
    def tool_output(cls, call_id: str, text: str) -> Message:
        """Return the output of a tool call."""
        return cls(role=Role.TOOL, text=text, call_id=call_id)


class Conversation:
    """The messages of a session, and the summary of what was left out of them. Not thread-safe: its session is."""

    def __init__(self, messages: Iterable[Message] = (), summary: str | None = None) -> None:
        self._messages = list(messages)
        self.summary = summary

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages so far."""
        return tuple(self._messages)

    def add(self, message: Message) -> None:
        """Append a message."""
        self._messages.append(message)

    def unanswered_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls that have no output yet, in order."""
        return unanswered_calls(self._messages)


def unanswered_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the tool calls in `messages` that no later message answers.

    An output answers the first waiting call of its id: some services number the calls of every turn from 0 again.
    """
    waiting: list[ToolCall] = []
    for message in messages:
        answered = next((call for call in waiting if call.call_id == message.call_id), None)
        if message.role is Role.TOOL and answered is not None:
            waiting.remove(answered)
        waiting += message.tool_calls
    return tuple(waiting)
