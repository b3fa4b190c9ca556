"""The chat-completions protocol as pure functions: request to body, answer to response, in one piece or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ai4j_sandbox.frozen import thaw

from .conversation import Message, Role, ToolCall
from .errors import ModelProtocolError
from .model_client import ModelRequest, ModelResponse, TokenUsage
from .model_json import parsed_json
from .tools import Tool


def request_body(request: ModelRequest, *, stream: bool) -> dict[str, Any]:
    """Return the JSON body of a request."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [message_body(message) for message in request.messages],
        **thaw(request.options),
    }
    if request.tools:
        body["tools"] = [_tool_body(tool) for tool in request.tools]
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def message_body(message: Message) -> dict[str, Any]:
    """Return one message as the protocol has it."""
    body: dict[str, Any] = {"role": str(message.role), "content": _content(message)}
    if message.call_id is not None:
        body["tool_call_id"] = message.call_id
    if message.tool_calls:
        body["content"] = body["content"] or None
        body["tool_calls"] = [
            {"id": call.call_id, "type": call.type, "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return body


def parse_response(data: Any, *, request_id: str | None = None) -> ModelResponse:
    """Return the response of a whole answer.

    Raises:
        ModelProtocolError: It is not one.
    """
    try:
        _refuse_error(data, request_id)
        choice = data["choices"][0]
        message = choice["message"]
        calls = [_call(item) for item in message.get("tool_calls") or ()]
        text = _text(message.get("content")) or _text(message.get("refusal"))
        return ModelResponse(
            message=Message(role=Role.ASSISTANT, text=text, tool_calls=tuple(calls)),
            finish_reason=_word(choice.get("finish_reason")),
            usage=_usage(data.get("usage")),
            model=_word(data.get("model")),
            request_id=request_id,
        )
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ModelProtocolError("the answer is not a chat completion", request_id=request_id) from None


@dataclass(slots=True)
class _BegunCall:
    """A tool call of which pieces have come."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class StreamedCompletion:
    """Puts a streamed answer together. Ends with ``[DONE]`` or a finish reason; anything else is a broken stream."""

    def __init__(self, *, request_id: str | None = None) -> None:
        self._request_id = request_id
        self._text: list[str] = []
        self._calls: dict[Any, _BegunCall] = {}  # in the order in which they began
        self._finish_reason: str | None = None
        self._usage = TokenUsage()
        self._model: str | None = None
        self._done = False

    def feed(self, data: str) -> str:
        """Take the data of one event; return the text it adds.

        Raises:
            ModelProtocolError: It is not a piece of a completion, or the service reports an error.
        """
        if data.strip() == "[DONE]":
            self._done = True
            return ""
        try:
            return self._chunk(parsed_json(data))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise ModelProtocolError(
                "the stream holds something that is no completion chunk", request_id=self._request_id
            ) from None

    def finish(self) -> ModelResponse:
        """Return the whole answer.

        Raises:
            ModelProtocolError: The stream ended before the answer did.
        """
        if not self._done and self._finish_reason is None:
            raise ModelProtocolError("the stream ended before the answer was complete", request_id=self._request_id)
        calls = tuple(_tool_call(call.id, call.name, "".join(call.arguments)) for call in self._calls.values())
        return ModelResponse(
            message=Message(role=Role.ASSISTANT, text="".join(self._text), tool_calls=calls),
            finish_reason=self._finish_reason,
            usage=self._usage,
            model=self._model,
            request_id=self._request_id,
        )

    def _chunk(self, chunk: Mapping[str, Any]) -> str:
        _refuse_error(chunk, self._request_id)
        self._model = _word(chunk.get("model")) or self._model
        if chunk.get("usage"):
            self._usage = _usage(chunk["usage"])
        if not chunk.get("choices"):
            return ""
        choice = chunk["choices"][0]
        self._finish_reason = _word(choice.get("finish_reason")) or self._finish_reason
        delta = choice.get("delta") or {}
        self._collect_calls(delta.get("tool_calls") or ())
        text = _text(delta.get("content")) or _text(delta.get("refusal"))
        self._text.append(text)
        return text

    def _collect_calls(self, pieces: Iterable[Mapping[str, Any]]) -> None:
        for piece in pieces:
            call_id = _id(piece.get("id"))
            call = self._calls.setdefault(self._place(piece, call_id), _BegunCall())
            function = piece.get("function") or {}
            name = _text(function.get("name"))
            call.id = call.id or call_id
            call.name += "" if name == call.name else name  # some services say it in every piece
            call.arguments.append(_arguments(function.get("arguments")))

    def _place(self, piece: Mapping[str, Any], call_id: str) -> Any:
        """Which call a piece belongs to. Services that give no index begin a call with a new id, or with a name."""
        if piece.get("index") is not None:
            return piece["index"]
        if call_id:
            return next((place for place, call in self._calls.items() if call.id == call_id), call_id)
        begins = not self._calls or (piece.get("function") or {}).get("name")
        return f"call {len(self._calls)}" if begins else next(reversed(self._calls))


def error_message(data: Any) -> str:
    """Return the service's own words from an error answer, or a stand-in."""
    error = data.get("error") if isinstance(data, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) and message else "no reason given"


def _content(message: Message) -> Any:
    if not message.attachments:
        return message.text
    text = [{"type": "text", "text": message.text}] if message.text else []
    return [*text, *(_attachment(part) for part in thaw(message.attachments))]


def _attachment(part: dict[str, Any]) -> dict[str, Any]:
    """The Responses API's image part is called differently here."""
    return {**part, "type": "image_url"} if part.get("type") == "input_image" else part


def _tool_body(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": thaw(tool.parameters)}
    return {"type": "function", "function": function}


def _call(item: Mapping[str, Any]) -> ToolCall:
    function = item["function"]
    if not isinstance(function["name"], str):
        raise TypeError("a call without a name")
    return _tool_call(_id(item.get("id")), function["name"], _arguments(function.get("arguments")))


def _tool_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """A call without an id gets one of ours, so that its output can be paired."""
    named = {"call_id": call_id} if call_id else {}
    return ToolCall(name=name, arguments=arguments or "{}", **named)


def _usage(data: Any) -> TokenUsage:
    if not isinstance(data, Mapping):
        return TokenUsage()
    return TokenUsage(
        input_tokens=_count(data.get("prompt_tokens")), output_tokens=_count(data.get("completion_tokens"))
    )


def _refuse_error(data: Mapping[str, Any], request_id: str | None) -> None:
    if data.get("error"):
        raise ModelProtocolError(f"the service broke off: {error_message(data)}", request_id=request_id)


# What services write beside the protocol's letter is taken where its meaning is certain. Anything else is a TypeError,
# which the callers tell as a broken protocol: nothing untyped gets into the conversation.


def _text(content: Any) -> str:
    """Text, or the texts of a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_text(part["text"]) for part in content if part.get("text") is not None)


def _arguments(arguments: Any) -> str:
    """JSON text, or the data itself."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments)


def _id(value: Any) -> str:
    return "" if value is None else str(value)


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
