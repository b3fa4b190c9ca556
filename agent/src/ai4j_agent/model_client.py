"""How the loop asks a model, whoever serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.frozen import empty_mapping, freeze

from .conversation import Message
from .tools import Tool

TextCallback: TypeAlias = Callable[[str], None]
"""Receives the answer's text piece by piece."""

RetryCallback: TypeAlias = Callable[[int, float, str], None]
"""Told before each retry: its number, the seconds until then, why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model.

    Attributes:
        model: Name of the model, as the service calls it.
        messages: The conversation, system messages first.
        tools: What the model may call.
        options: Sampling and service options (``temperature``, ``max_tokens``), handed through.
    """

    model: str
    messages: Sequence[Message] = field(repr=False)
    tools: Sequence[Tool] = ()
    options: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", tuple(self.messages))
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "options", freeze(self.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """What an answer cost."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens, output_tokens=self.output_tokens + other.output_tokens
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """A model's answer: text, tool calls, or both.

    Attributes:
        finish_reason: The service's word for why it stopped (``"stop"``, ``"tool_calls"``, ``"length"``).
        request_id: The service's id, for support.
    """

    message: Message
    finish_reason: str | None = None
    usage: TokenUsage = field(default_factory=TokenUsage)
    model: str | None = None
    request_id: str | None = None


class ModelClient(Protocol):
    """Asks a model. Safe to use from several threads."""

    def complete(
        self,
        request: ModelRequest,
        *,
        on_text: TextCallback | None = None,
        on_retry: RetryCallback | None = None,
        deadline: Deadline | None = None,
    ) -> ModelResponse:
        """Return the model's answer.

        Args:
            request: What to ask.
            on_text: Receives the text as it comes.
            on_retry: Told before each retry.
            deadline: When waiting is over.

        Raises:
            ModelClientError: The most specific of its kinds.
        """
