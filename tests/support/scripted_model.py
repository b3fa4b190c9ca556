"""A model client that plays scripted answers; no network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ai4j_agent import Message, ModelRequest, ModelResponse, Role, ToolCall

Step = str | ToolCall | list[ToolCall] | Exception


class ScriptedModel:
    """Answers each request with the next step: words, tool calls, or an error. Repeats the last one."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.requests: list[ModelRequest] = []

    def complete(self, request: ModelRequest, **options: Any) -> ModelResponse:
        self.requests.append(request)
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            return ModelResponse(message=Message(role=Role.ASSISTANT, text=step))
        calls = [step] if isinstance(step, ToolCall) else step
        return ModelResponse(message=Message(role=Role.ASSISTANT, tool_calls=tuple(calls)))

    @property
    def heard(self) -> list[str]:
        """The texts of the last request's messages that are tool outputs."""
        return [message.text for message in self.requests[-1].messages if message.role is Role.TOOL]


def call(name: str, call_id: str = "call_1", **arguments: Any) -> ToolCall:
    """Return a tool call."""
    return ToolCall(name=name, arguments=json.dumps(arguments), call_id=call_id)


def facts(payload: Any) -> Mapping[str, Any]:
    """Return an event's payload as a mapping."""
    assert isinstance(payload, Mapping)
    return payload
