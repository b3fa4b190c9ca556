"""The chat-completions protocol as pure functions: request to body, answer to response, in one piece or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ai4j_sandbox.frozen import thaw
from ai4j_sandbox.redaction import Scrubber

from .conversation import Message, Role, ToolCall
from .errors import ModelProtocolError
from .model_client import ModelRequest, ModelResponse, TokenUsage
from .model_json import parsed_json
from .tools import Tool

LONGEST_WORDS = 500
"""Of what a service says about an error."""

LONGEST_WORD = 200
"""Of an id, a finish reason and the like."""

_KNOWS_NOTHING = Scrubber()
_CUT_OFF = frozenset(("length", "content_filter"))


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


def parse_response(data: Any, *, request_id: str | None = None, scrubber: Scrubber = _KNOWS_NOTHING) -> ModelResponse:
    """Return the response of a whole answer.

    Args:
        data: The answer.
        request_id: The service's id of the request.
        scrubber: What must not be in the words that get logged: finish reason, model, errors.

    Raises:
        ModelProtocolError: It is not one.
    """
    try:
        _refuse_error(data, request_id, scrubber)
        choice = data["choices"][0]
        message = choice["message"]
        finish_reason = shown_word(choice.get("finish_reason"), scrubber)
        calls = [_call(item) for item in message.get("tool_calls") or ()]
        text = _text(message.get("content")) or _text(message.get("refusal"))
        return ModelResponse(
            message=_answer(text, calls, finish_reason),
            finish_reason=finish_reason,
            usage=_usage(data.get("usage")),
            model=shown_word(data.get("model"), scrubber),
            request_id=request_id,
        )
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ModelProtocolError("the answer is not a chat completion", request_id=request_id) from None


@dataclass(slots=True)
class _BegunCall:
    """A tool call of which pieces have come."""

    index: Any = None
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class StreamedCompletion:
    """Puts a streamed answer together. Ends with ``[DONE]`` or a finish reason; anything else is a broken stream."""

    def __init__(self, *, request_id: str | None = None, scrubber: Scrubber = _KNOWS_NOTHING) -> None:
        self._request_id = request_id
        self._scrubber = scrubber
        self._text: list[str] = []
        self._calls: list[_BegunCall] = []
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
        calls = [_tool_call(call.id, call.name, "".join(call.arguments)) for call in self._calls]
        return ModelResponse(
            message=_answer("".join(self._text), calls, self._finish_reason),
            finish_reason=self._finish_reason,
            usage=self._usage,
            model=self._model,
            request_id=self._request_id,
        )

    def _chunk(self, chunk: Mapping[str, Any]) -> str:
        _refuse_error(chunk, self._request_id, self._scrubber)
        self._model = shown_word(chunk.get("model"), self._scrubber) or self._model
        if chunk.get("usage"):
            self._usage = _usage(chunk["usage"])
        if not chunk.get("choices"):
            return ""
        choice = chunk["choices"][0]
        self._finish_reason = shown_word(choice.get("finish_reason"), self._scrubber) or self._finish_reason
        delta = choice.get("delta") or {}
        self._collect_calls(delta.get("tool_calls") or ())
        text = _text(delta.get("content")) or _text(delta.get("refusal"))
        self._text.append(text)
        return text

    def _collect_calls(self, pieces: Iterable[Mapping[str, Any]]) -> None:
        for piece in pieces:
            call_id = _id(piece.get("id"))
            function = piece.get("function") or {}
            name = _text(function.get("name"))
            call = self._begun(piece.get("index"), call_id, name)
            call.id = call.id or call_id
            call.name += "" if name == call.name else name  # some services say it in every piece
            call.arguments.append(_arguments(function.get("arguments")))

    def _begun(self, index: Any, call_id: str, name: str) -> _BegunCall:
        """The call a piece belongs to, a new one if it begins one.

        Services that give no index begin a call with a new id, or with a name; some give each call the same index.
        """
        for call in reversed(self._calls):
            if index is not None:
                belongs = call.index == index and (not call_id or not call.id or call.id == call_id)
            else:
                belongs = call.id == call_id if call_id else not name
            if belongs:
                return call
        self._calls.append(_BegunCall(index=index))
        return self._calls[-1]


def error_message(data: Any, scrubber: Scrubber = _KNOWS_NOTHING) -> str:
    """Return the service's own words from an error answer, or a stand-in."""
    error = data.get("error") if isinstance(data, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else error
    return shown_words(message if isinstance(message, str) else "", scrubber)


def shown_words(text: str, scrubber: Scrubber) -> str:
    """Return what a service says as one line: masked, then cut, because the beginning of a key is a secret too."""
    return " ".join(scrubber.text(text).split())[:LONGEST_WORDS] or "no reason given"


def shown_word(value: Any, scrubber: Scrubber) -> str | None:
    """Return a word that gets logged, masked and cut; ``None`` for what is no text."""
    return scrubber.text(value)[:LONGEST_WORD] if isinstance(value, str) and value else None


def _answer(text: str, calls: Iterable[ToolCall], finish_reason: str | None) -> Message:
    """An answer that was cut off asks for no tools: nobody knows whether the calls are whole."""
    whole = () if finish_reason in _CUT_OFF else tuple(calls)
    return Message(role=Role.ASSISTANT, text=text, tool_calls=whole)


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


def _refuse_error(data: Mapping[str, Any], request_id: str | None, scrubber: Scrubber) -> None:
    if data.get("error"):
        raise ModelProtocolError(f"the service broke off: {error_message(data, scrubber)}", request_id=request_id)


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


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
