"""A model that plays a script, for demonstrations and for trying the tools without an account.

A script is a YAML or JSON list. A text is an answer; ``{tool: NAME, arguments: {...}}`` is a tool call; a list of those
is several calls at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ai4j_agent import AgentConfigError, Message, ModelRequest, ModelResponse, Role, ToolCall
from ai4j_agent.model_client import TextCallback
from ai4j_cli.documents import load_document

_OVER = "(the script has ended)"


class ScriptedModel:
    """Answers each request with the next step, whatever was asked."""

    def __init__(self, steps: Iterator[Message]) -> None:
        self._steps = steps

    def complete(self, request: ModelRequest, *, on_text: TextCallback | None = None, **ignored: Any) -> ModelResponse:
        """Return the next step; the arguments are those of `ModelClient.complete`."""
        message = next(self._steps, Message(role=Role.ASSISTANT, text=_OVER))
        if on_text is not None and message.text:
            on_text(message.text)
        return ModelResponse(message=message, finish_reason="stop", model=request.model)


def load_script(path: str) -> ScriptedModel:
    """Return the model a script file describes.

    Raises:
        AgentConfigError: It cannot be read, or a step is neither words nor a tool call.
        SandboxConfigError: It is not well-formed YAML or JSON.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise AgentConfigError(f"{path} cannot be read: {error.strerror}") from None
    steps = load_document(content, path)
    if not isinstance(steps, list):
        raise AgentConfigError(f"{path} must be a list of steps")
    return ScriptedModel(iter([_message(step, f"{path}, step {number}") for number, step in enumerate(steps, 1)]))


def _message(step: Any, name: str) -> Message:
    if isinstance(step, str):
        return Message(role=Role.ASSISTANT, text=step)
    calls = step if isinstance(step, list) else [step]
    return Message(role=Role.ASSISTANT, tool_calls=tuple(_call(call, name) for call in calls))


def _call(call: Any, name: str) -> ToolCall:
    if not isinstance(call, Mapping) or not isinstance(call.get("tool"), str) or set(call) - {"tool", "arguments"}:
        raise AgentConfigError(f"{name} must be a text, or a tool call with 'tool' and 'arguments'")
    return ToolCall(name=call["tool"], arguments=json.dumps(call.get("arguments") or {}))
