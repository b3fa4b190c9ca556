"""A loopback server that speaks the chat-completions protocol: it plays scripted answers and records the requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from support.http_stub import HttpStub, Reply

SLICE = 7  # odd and small, so that events, lines and characters are cut anywhere


def text_answer(text: str, *, stream: bool = True) -> Reply:
    """Return an answer in words."""
    return _answer({"role": "assistant", "content": text}, "stop", stream=stream)


def tool_answer(*calls: tuple[str, Mapping[str, Any]], text: str = "", stream: bool = True) -> Reply:
    """Return an answer that wants tools called: (name, arguments) pairs; ids are call_1, call_2, …"""
    items = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(calls, start=1)
    ]
    message = {"role": "assistant", "content": text or None, "tool_calls": items}
    return _answer(message, "tool_calls", stream=stream)


def error_answer(status: int, message: str, **headers: str) -> Reply:
    """Return a refusal in the protocol's form."""
    body = json.dumps({"error": {"message": message, "type": "error"}}).encode()
    return Reply(status=status, headers={"Content-Type": "application/json", **headers}, body=body)


def event_stream(chunks: Sequence[Mapping[str, Any] | str], *, done: bool = True) -> Reply:
    """Return a stream of exactly these chunks, cut into small slices."""
    texts = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    data = "".join(f"data: {text}\n\n" for text in [*texts, *(["[DONE]"] if done else [])]).encode()
    slices = [data[start : start + SLICE] for start in range(0, len(data), SLICE)]
    return Reply(headers={"Content-Type": "text/event-stream"}, body=slices, chunked=True)


@contextmanager
def chat_server(*replies: Reply) -> Iterator[HttpStub]:
    """Serve these answers one after the other."""
    with HttpStub.playing(*replies) as server:
        yield server


def base_url(server: HttpStub) -> str:
    """Return what a client takes as its base URL."""
    return f"{server.url}/v1"


def asked(server: HttpStub, number: int = -1) -> dict[str, Any]:
    """Return the body of a request."""
    body: dict[str, Any] = json.loads(server.requests[number].body)
    return body


def _answer(message: Mapping[str, Any], finish_reason: str, *, stream: bool) -> Reply:
    usage = {"prompt_tokens": 11, "completion_tokens": 3}
    if not stream:
        answer = {"model": "m-1", "choices": [{"message": message, "finish_reason": finish_reason}], "usage": usage}
        headers = {"Content-Type": "application/json", "x-request-id": "req-1"}
        return Reply(headers=headers, body=json.dumps(answer).encode())
    deltas = [*_text_deltas(message.get("content")), *_call_deltas(message.get("tool_calls") or ())]
    chunks: list[Mapping[str, Any]] = [{"model": "m-1", "choices": [{"delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": finish_reason}]})
    chunks.append({"choices": [], "usage": usage})
    return event_stream(chunks)


def _text_deltas(text: str | None) -> Iterator[Mapping[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for start in range(0, len(text or ""), 4):
        yield {"content": (text or "")[start : start + 4]}


def _call_deltas(calls: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Names first, then the arguments in pieces, as the real service does."""
    for index, call in enumerate(calls):
        arguments = call["function"]["arguments"]
        head = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield {"tool_calls": [head]}
        for start in range(0, len(arguments), 5):
            piece = arguments[start : start + 5]
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
