from __future__ import annotations

import json
from typing import Any

import pytest

from ai4j_agent import Message, ModelProtocolError, ModelRequest, ModelResponse, Role, TokenUsage, ToolCall, tool
from ai4j_agent.chat_payloads import StreamedCompletion, parse_response, request_body


@tool
def search(text: str) -> str:
    """Search."""
    return text


def test_a_request_has_the_protocols_form() -> None:
    asked = ToolCall(name="search", arguments='{"text":"a"}', call_id="c1")
    image = {"type": "input_image", "image_url": {"url": "https://img.example/1.png"}}
    request = ModelRequest(
        model="m",
        messages=[
            Message(role=Role.SYSTEM, text="be brief"),
            Message(role=Role.USER, text="look", attachments=(image,)),
            Message(role=Role.ASSISTANT, tool_calls=(asked,)),
            Message.tool_output("c1", "found"),
        ],
        tools=[search],
        options={"temperature": 0},
    )

    assert request_body(request, stream=True) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "https://img.example/1.png"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"text":"a"}'}}
                ],
            },
            {"role": "tool", "content": "found", "tool_call_id": "c1"},
        ],
        "temperature": 0,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "search",
                    "description": "Search.",
                    "parameters": {
                        "type": "object",
                        "properties": {"text": {"type": "string"}},
                        "required": ["text"],
                        "additionalProperties": False,
                    },
                },
            }
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_request_without_tools_has_none() -> None:
    assert "tools" not in request_body(ModelRequest(model="m", messages=[]), stream=False)


def test_a_whole_answer_is_read() -> None:
    data = {
        "model": "m-1",
        "choices": [
            {
                "finish_reason": "tool_calls",
                "message": {
                    "content": "hm",
                    "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
                },
            }
        ],
        "usage": {"prompt_tokens": 2, "completion_tokens": 3},
    }

    assert parse_response(data, request_id="r") == ModelResponse(
        message=Message(role=Role.ASSISTANT, text="hm", tool_calls=(ToolCall(name="f", call_id="c1"),)),
        finish_reason="tool_calls",
        usage=TokenUsage(input_tokens=2, output_tokens=3),
        model="m-1",
        request_id="r",
    )


ODD = [
    {"choices": [{"message": message}]}
    for message in (
        1,
        {"content": 5},
        {"content": {"a": 1}},
        {"tool_calls": "abc"},
        {"tool_calls": [{"function": {"name": None, "arguments": "{}"}}]},
    )
]


@pytest.mark.parametrize(
    "data", [None, [], {}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": 1}]}, *ODD]
)
def test_anything_else_is_no_answer(data: Any) -> None:
    with pytest.raises(ModelProtocolError, match="not a chat completion"):
        parse_response(data)


def streamed(*chunks: dict[str, Any] | str) -> ModelResponse:
    completion = StreamedCompletion()
    for chunk in chunks:
        completion.feed(chunk if isinstance(chunk, str) else json.dumps(chunk))
    return completion.finish()


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields}]}


def test_tool_calls_are_put_together_by_index() -> None:
    def piece(index: int, call_id: str = "", name: str = "", arguments: str = "") -> dict[str, Any]:
        return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}

    response = streamed(
        delta(tool_calls=[piece(0, "a", "f", '{"x":'), piece(1, "b", "g")]),
        delta(tool_calls=[piece(1, arguments="{}")]),
        delta(tool_calls=[piece(0, arguments="1}")]),
        "[DONE]",
    )

    assert response.message.tool_calls == (
        ToolCall(name="f", arguments='{"x":1}', call_id="a"),
        ToolCall(name="g", arguments="{}", call_id="b"),
    )


def test_a_call_without_an_id_gets_one() -> None:
    response = streamed(delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": ""}}]), "[DONE]")

    (asked,) = response.message.tool_calls
    assert (asked.name, asked.arguments, asked.call_id.startswith("call_")) == ("f", "{}", True)


def test_a_finish_reason_ends_a_stream_as_well_as_done() -> None:
    assert streamed(delta(content="a"), {"choices": [{"finish_reason": "stop"}]}).message.text == "a"


def test_a_stream_that_ends_early_is_no_answer() -> None:
    with pytest.raises(ModelProtocolError, match="ended before the answer was complete"):
        streamed(delta(content="half an ans"))


@pytest.mark.parametrize("chunk", ["{", "[]", "[" * 100_000, '"x"', '{"choices": [3]}', '{"choices": 3}'])
def test_a_chunk_that_is_none_is_refused(chunk: str) -> None:
    with pytest.raises(ModelProtocolError, match="no completion chunk"):
        streamed(chunk)


def test_arguments_and_texts_beside_the_protocols_letter_are_understood() -> None:
    call = {"id": 7, "function": {"name": "search", "arguments": {"text": "a"}}}
    message = {"content": [{"type": "text", "text": "so"}, {"type": "text", "text": "!"}], "tool_calls": [call]}
    usage = {"prompt_tokens": "12", "completion_tokens": 3}

    response = parse_response({"choices": [{"message": message, "finish_reason": 1}], "usage": usage, "model": 5})

    assert response == ModelResponse(
        message=Message(
            role=Role.ASSISTANT,
            text="so!",
            tool_calls=(ToolCall(name="search", arguments='{"text": "a"}', call_id="7"),),
        ),
        usage=TokenUsage(output_tokens=3),
    )


def test_a_refusal_is_what_the_model_said() -> None:
    whole = {"choices": [{"message": {"content": None, "refusal": "I will not"}}]}
    stream = StreamedCompletion()
    stream.feed(json.dumps({"choices": [{"delta": {"refusal": "I will"}}]}))
    stream.feed(json.dumps({"choices": [{"delta": {"refusal": " not"}, "finish_reason": "stop"}]}))

    assert [parse_response(whole).message.text, stream.finish().message.text] == ["I will not"] * 2


def test_an_error_in_a_whole_answer_is_told() -> None:
    with pytest.raises(ModelProtocolError, match="the service broke off: out of room"):
        parse_response({"error": {"message": "out of room"}})


@pytest.mark.parametrize(
    "pieces",
    [
        [{"id": "a", "name": "search", "arguments": '{"text":'}, {"arguments": '"x"}'}],
        [{"id": "a", "name": "search", "arguments": '{"text":'}, {"id": "a", "arguments": '"x"}'}],
        [{"index": 0, "id": "a", "name": "search"}, {"index": 0, "name": "search", "arguments": '{"text":"x"}'}],
        [{"index": 9, "id": "a", "name": "search"}, {"index": 9, "arguments": '{"text":"x"}'}],
        [{"index": "0", "id": "a", "name": "search", "arguments": '{"text":"x"}'}],
    ],
)
def test_services_that_number_calls_in_ways_of_their_own_are_understood(pieces: list[dict[str, Any]]) -> None:
    stream = StreamedCompletion()
    for piece in [*pieces, {"index": 9, "id": "b", "name": "other", "arguments": "{}"}]:
        function = {name: piece[name] for name in ("name", "arguments") if name in piece}
        place = {name: piece[name] for name in ("index", "id") if name in piece}
        stream.feed(json.dumps({"choices": [{"delta": {"tool_calls": [{**place, "function": function}]}}]}))
    stream.feed("[DONE]")

    calls = stream.finish().message.tool_calls

    assert [(call.call_id, call.name, json.loads(call.arguments)) for call in calls] == [
        ("a", "search", {"text": "x"}),
        ("b", "other", {}),
    ]


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
def test_an_answer_that_was_cut_off_asks_for_no_tools(finish_reason: str) -> None:
    asked = {"id": "a", "function": {"name": "wipe", "arguments": ""}}
    choice = {"finish_reason": finish_reason, "message": {"content": "so", "tool_calls": [asked]}}
    stream = StreamedCompletion()
    stream.feed(json.dumps({"choices": [{"delta": {"content": "so", "tool_calls": [asked]}}]}))
    stream.feed(json.dumps({"choices": [{"delta": {}, "finish_reason": finish_reason}]}))

    answers = [parse_response({"choices": [choice]}), stream.finish()]

    assert [(answer.message.text, answer.message.tool_calls) for answer in answers] == [("so", ())] * 2


def test_calls_without_id_and_index_begin_with_a_name() -> None:
    stream = StreamedCompletion()
    for function in ({"name": "search", "arguments": '{"a":'}, {"arguments": "1}"}, {"name": "search"}):
        stream.feed(json.dumps({"choices": [{"delta": {"tool_calls": [{"function": function}]}}]}))
    stream.feed("[DONE]")

    calls = stream.finish().message.tool_calls

    assert [(call.name, call.arguments) for call in calls] == [("search", '{"a":1}'), ("search", "{}")]
    assert len({call.call_id for call in calls}) == 2


def test_an_error_in_the_stream_is_told() -> None:
    with pytest.raises(ModelProtocolError, match="broke off: overloaded"):
        streamed(delta(content="a"), {"error": {"message": "overloaded"}})
