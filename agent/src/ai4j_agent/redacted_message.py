"""A message as it may be stored: known secrets and everything that looks like one masked, valid JSON kept valid."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ai4j_sandbox.frozen import thaw
from ai4j_sandbox.redaction import Scrubber, mask_text, mask_value

from .conversation import Message, ToolCall


def redacted_message(message: Message, scrubber: Scrubber) -> Message:
    """Return the message to store."""
    return replace(
        message,
        text=_masked(message.text, scrubber),
        tool_calls=tuple(_redacted_call(call, scrubber) for call in message.tool_calls),
        attachments=_masked_leaves(thaw(message.attachments), scrubber),
    )


def without_known_secrets(text: str, scrubber: Scrubber) -> str:
    """Return text with the known secrets masked and nothing else touched: code a model reads must stay code."""
    return scrubber.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def _redacted_call(call: ToolCall, scrubber: Scrubber) -> ToolCall:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return replace(call, arguments=_masked(call.arguments, scrubber))
    masked = _masked_leaves(mask_value(arguments), scrubber)
    return call if masked == arguments else replace(call, arguments=json.dumps(masked, ensure_ascii=False))


def _masked(text: str, scrubber: Scrubber) -> str:
    return mask_text(without_known_secrets(text, scrubber))


def _masked_leaves(value: Any, scrubber: Scrubber) -> Any:
    if isinstance(value, str):
        return _masked(value, scrubber)
    if isinstance(value, Mapping):
        return {_masked(key, scrubber): _masked_leaves(item, scrubber) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked_leaves(item, scrubber) for item in value]
    return value
