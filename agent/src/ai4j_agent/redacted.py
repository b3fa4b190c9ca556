"""What may be stored: known secrets and everything that looks like one masked, valid JSON kept valid."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ai4j_sandbox.binding import AgentSessionSandboxBinding
from ai4j_sandbox.frozen import thaw
from ai4j_sandbox.redaction import Scrubber, mask_message, mask_text, mask_value

from .conversation import Message, ToolCall
from .model_json import parsed_json


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON data with every text in it, keys included, changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): with_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts(item, change) for item in value]
    return value


def redacted_message(message: Message, scrubber: Scrubber) -> Message:
    """Return the message to store."""
    return replace(
        message,
        text=_masked(message.text, scrubber),
        call_id=None if message.call_id is None else without_known_secrets(message.call_id, scrubber),
        tool_calls=tuple(_redacted_call(call, scrubber) for call in message.tool_calls),
        attachments=_safe_texts(thaw(message.attachments), scrubber),
    )


def redacted_data(value: Any, scrubber: Scrubber) -> Any:
    """Return JSON data to store; text under a sensitive key is masked whatever it is."""
    return _safe_texts(mask_value(thaw(value)), scrubber)


def redacted_binding(binding: AgentSessionSandboxBinding, scrubber: Scrubber) -> AgentSessionSandboxBinding:
    """Return the binding to store: it masks by look itself, and here what is known."""
    if not scrubber:
        return binding
    return AgentSessionSandboxBinding.from_dict(_safe_texts(binding.to_dict(), scrubber))


def without_known_secrets(text: str, scrubber: Scrubber) -> str:
    """Return text with the known secrets masked and nothing else touched: code a model reads must stay code."""
    return scrubber.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def _redacted_call(call: ToolCall, scrubber: Scrubber) -> ToolCall:
    # An id is masked only where it is known: call and output must still be a pair, and the host knows it by its id.
    call = replace(call, name=_masked(call.name, scrubber), call_id=without_known_secrets(call.call_id, scrubber))
    try:
        arguments = parsed_json(call.arguments, strict=True)
    except ValueError:  # cut off, say: it never ran, so that more may be masked in it than in code
        return replace(call, arguments=mask_message(_masked(call.arguments, scrubber)))
    masked = redacted_data(arguments, scrubber)
    kept = call.arguments if masked == arguments else json.dumps(masked, ensure_ascii=False)
    return replace(call, arguments=kept)


def _masked(text: str, scrubber: Scrubber) -> str:
    return mask_text(without_known_secrets(text, scrubber))


def _safe_texts(value: Any, scrubber: Scrubber) -> Any:
    return with_texts(value, lambda text: _masked(text, scrubber))
