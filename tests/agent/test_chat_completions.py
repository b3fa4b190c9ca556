from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ai4j_agent import (
    AgentConfigError,
    ChatCompletionsClient,
    Message,
    ModelAuthError,
    ModelClientError,
    ModelConnectionError,
    ModelProtocolError,
    ModelRateLimitError,
    ModelRequest,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnreachableError,
    TokenUsage,
    react_agent,
    tool,
)
from ai4j_sandbox.deadline import Deadline
from support.chat_server import asked, base_url, chat_server, error_answer, event_stream, text_answer, tool_answer
from support.http_stub import Ending, Reply
from support.secrets import CANARY, assert_no_secret, everything_said

EVENT_STREAM = {"Content-Type": "text/event-stream"}
REQUEST = ModelRequest(model="m", messages=[Message.user("hi")])


class Pauses(list[float]):
    """A sleep that only remembers."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client(url: str, **options: Any) -> ChatCompletionsClient:
    options.setdefault("sleep", Pauses())
    return ChatCompletionsClient(base_url=url, api_key=CANARY, **options)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_arrives_whole_and_in_pieces(stream: bool) -> None:
    pieces: list[str] = []
    with chat_server(text_answer("grüße \U0001f600", stream=stream)) as server:
        response = client(base_url(server), stream=stream).complete(REQUEST, on_text=pieces.append)

    assert (response.message.text, "".join(pieces)) == ("grüße \U0001f600",) * 2
    assert (response.usage, response.model, response.finish_reason) == (
        TokenUsage(input_tokens=11, output_tokens=3),
        "m-1",
        "stop",
    )


def test_a_stream_that_the_end_of_the_connection_ends_arrives_piece_by_piece_too() -> None:
    heard, said = threading.Event(), []

    def body() -> Iterator[bytes]:
        yield b'data: {"choices": [{"delta": {"content": "first"}}]}\n\n'
        assert heard.wait(10), "the client waits for the end"
        yield b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'

    def on_text(text: str) -> None:
        said.append(text)
        heard.set()

    with chat_server(Reply(headers=EVENT_STREAM, body=body(), ending=Ending.CLOSE)) as server:
        response = client(base_url(server)).complete(REQUEST, on_text=on_text)

    assert (response.message.text, said) == ("first", ["first"])


@pytest.mark.parametrize(
    ("status", "content_type", "said"),
    [
        (200, "application/json", "is longer than"),
        (200, "text/event-stream", "is longer than"),
        (500, "", "answered 500: x"),
    ],
)
@pytest.mark.parametrize("chunked", [True, False])
def test_an_answer_without_end_is_given_up_at_the_limit(
    status: int, content_type: str, said: str, chunked: bool
) -> None:
    sent = 0

    def body() -> Iterator[bytes]:
        nonlocal sent
        while sent < 200_000_000:
            sent += 1_000_000
            yield b"x" * 1_000_000

    reply = Reply(
        status=status, headers={"Content-Type": content_type}, body=body(), chunked=chunked, ending=Ending.CLOSE
    )
    with chat_server(reply) as server, pytest.raises(ModelProtocolError, match=said):
        client(base_url(server)).complete(REQUEST)

    assert sent < 100_000_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_no_compressed_answer_is_asked_for_and_a_broken_one_is_a_broken_connection(encoding: str) -> None:
    reply = Reply(headers={"Content-Type": "application/json", "Content-Encoding": encoding}, body=b"no such thing")
    with chat_server(reply) as server, pytest.raises(ModelConnectionError, match="broke"):
        client(base_url(server)).complete(REQUEST)

    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_stream_that_is_cut_is_no_answer_and_not_asked_for_again(ending: Ending, chunked: bool) -> None:
    half = b'data: {"choices": [{"delta": {"content": "half an ans"}}]}\n\n'
    reply = Reply(headers=EVENT_STREAM, body=[half], chunked=chunked, ending=ending)
    pauses = Pauses()
    with chat_server(reply) as server, pytest.raises((ModelConnectionError, ModelProtocolError)):
        client(base_url(server), sleep=pauses).complete(REQUEST)

    assert (len(server.requests), pauses) == (1, [])


def test_the_key_goes_out_as_a_bearer_token_to_the_one_address() -> None:
    with chat_server(text_answer("x")) as server:
        client(base_url(server), headers={"X-Team": "core"}).complete(REQUEST)

    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/v1/chat/completions")
    assert (request.headers["authorization"], request.headers["x-team"]) == (f"Bearer {CANARY}", "core")
    assert (asked(server)["stream"], asked(server)["messages"]) == (True, [{"role": "user", "content": "hi"}])


def test_a_server_that_does_not_stream_although_asked_to_is_understood() -> None:
    with chat_server(text_answer("whole", stream=False)) as server:
        response = client(base_url(server), stream=True).complete(REQUEST)

    assert (response.message.text, response.request_id) == ("whole", "req-1")


def test_the_key_may_come_from_the_environment_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with chat_server(text_answer("x")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", base_url(server))
        one = ChatCompletionsClient.from_environment()
        with pytest.raises(AgentConfigError, match="OPENAI_API_KEY"):
            one.complete(REQUEST)
        monkeypatch.setenv("OPENAI_API_KEY", CANARY)
        one.complete(REQUEST)

    assert server.requests[0].headers["authorization"] == f"Bearer {CANARY}"


# --- retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_that_generated_nothing_is_sent_again_after_the_pause_asked_for(status: int) -> None:
    pauses, told = Pauses(), []
    busy = error_answer(status, "busy", **{"Retry-After": "7"})
    with chat_server(busy, text_answer("ok")) as server:
        response = client(base_url(server), sleep=pauses).complete(
            REQUEST, on_retry=lambda attempt, seconds, reason: told.append((attempt, seconds))
        )

    assert (response.message.text, pauses, told, len(server.requests)) == ("ok", [7.0], [(1, 7.0)], 2)


@pytest.mark.parametrize(
    ("retry_after", "pauses"), [("Wed, 21 Oct 2015 07:28:00 GMT", [0.0]), ("nan", [0.0]), ("-5", [0.0])]
)
def test_a_pause_that_is_over_is_not_waited_for(retry_after: str, pauses: list[float]) -> None:
    slept = Pauses()
    with chat_server(error_answer(429, "busy", **{"Retry-After": retry_after}), text_answer("ok")) as server:
        client(base_url(server), sleep=slept).complete(REQUEST)

    assert slept == pauses


def test_a_pause_until_a_date_far_away_is_not_waited_for() -> None:
    far = error_answer(429, "busy", **{"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT"})
    with chat_server(far) as server, pytest.raises(ModelRateLimitError, match="busy"):
        client(base_url(server)).complete(REQUEST)

    assert len(server.requests) == 1


def test_a_redirect_without_a_body_is_refused_also_under_a_deadline() -> None:
    moved = Reply(status=302, headers={"Location": "http://127.0.0.1:1/"})
    with chat_server(moved) as server, pytest.raises(ModelProtocolError, match="a redirect, which is not followed"):
        client(base_url(server)).complete(REQUEST, deadline=Deadline(30))


@pytest.mark.parametrize(
    "busy",
    [
        Reply(status=503, headers={"Content-Type": "text/html"}, body=b"<p>busy</p>" * 20_000),
        Reply(status=429, body=b'{"error": {"mess', ending=Ending.CUT),
        Reply(status=429, body=[b'{"error": {"mess'], chunked=True, ending=Ending.RESET),
    ],
    ids=["a long page", "cut", "reset"],
)
def test_a_refusal_is_judged_by_its_status_however_long_or_broken_its_text(busy: Reply) -> None:
    with chat_server(busy, text_answer("ok")) as server:
        response = client(base_url(server)).complete(REQUEST)

    assert (response.message.text, len(server.requests)) == ("ok", 2)


def test_a_long_page_of_a_refusal_keeps_its_status() -> None:
    page = Reply(status=401, headers={"Content-Type": "text/html"}, body=b"<p>who are you</p>" * 20_000)
    with chat_server(page) as server, pytest.raises(ModelAuthError, match="answered 401: <p>who") as caught:
        client(base_url(server)).complete(REQUEST)

    assert (caught.value.http_status, len(caught.value.message) < 600) == (401, True)


def test_a_media_type_counts_in_any_case() -> None:
    body = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n'
    with chat_server(Reply(headers={"Content-Type": "Text/Event-Stream; Charset=UTF-8"}, body=body)) as server:
        assert client(base_url(server)).complete(REQUEST).message.text == "x"


def test_retries_end() -> None:
    pauses = Pauses()
    with chat_server(error_answer(429, "busy")) as server, pytest.raises(ModelRateLimitError, match="busy"):
        client(base_url(server), sleep=pauses, max_retries=2).complete(REQUEST)

    assert len(server.requests) == 3
    assert pauses == sorted(pauses)


@pytest.mark.parametrize(("retry_after", "deadline"), [("3600", None), ("5", 1.0)])
def test_a_pause_that_is_too_long_is_not_waited_for(retry_after: str, deadline: float | None) -> None:
    pauses = Pauses()
    busy = error_answer(429, "busy", **{"Retry-After": retry_after})
    with chat_server(busy) as server, pytest.raises(ModelRateLimitError) as caught:
        client(base_url(server), sleep=pauses).complete(REQUEST, deadline=Deadline(deadline))

    assert (pauses, caught.value.retry_after, len(server.requests)) == ([], float(retry_after), 1)


def test_a_service_that_cannot_be_reached_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    pauses = Pauses()

    with pytest.raises(ModelUnreachableError, match="could not be reached"):
        client(f"http://127.0.0.1:{port}", sleep=pauses, max_retries=2).complete(REQUEST)

    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (error_answer(400, "bad"), ModelRequestError),
        (error_answer(401, "who?"), ModelAuthError),
        (error_answer(403, "no"), ModelAuthError),
        (error_answer(404, "none"), ModelRequestError),
        (error_answer(500, "oops"), ModelProtocolError),
        (error_answer(502, "oops"), ModelProtocolError),
        (Reply(status=302, headers={"Location": "http://127.0.0.1:1/"}), ModelProtocolError),
        (Reply(headers={"Content-Type": "text/html"}, body=b"<html>"), ModelProtocolError),
        (event_stream([{"choices": [{"delta": {"content": "half"}}]}], done=False), ModelProtocolError),
        (event_stream(["not json"]), ModelProtocolError),
        (Reply(headers={"Content-Length": "100"}, body=b"{", ending=Ending.CUT), ModelConnectionError),
        (Reply(body=b"", raw=b"", ending=Ending.RESET), ModelConnectionError),
        (Reply(body=b"", raw=b"garbage\r\n\r\n", ending=Ending.CLOSE), ModelConnectionError),
    ],
)
def test_what_may_have_been_answered_is_asked_only_once(reply: Reply, error: type[ModelClientError]) -> None:
    with chat_server(reply) as server, pytest.raises(error) as caught:
        client(base_url(server)).complete(REQUEST)

    assert len(server.requests) == 1
    assert_no_secret(everything_said(caught.value))


# --- time -------------------------------------------------------------------------------------------------------------


def forever() -> Reply:
    chunk = b'data: {"choices": [{"delta": {"content": "."}}]}\n\n'

    def drip() -> Any:
        while True:
            time.sleep(0.02)
            yield chunk

    return Reply(headers={"Content-Type": "text/event-stream"}, body=drip(), chunked=True)


def head_without_end(opening: bytes, piece: bytes) -> Reply:
    def drip() -> Iterator[bytes]:
        yield opening
        while True:
            time.sleep(0.02)
            yield piece

    return Reply(raw=drip())


@pytest.mark.parametrize(
    "reply",
    [
        forever(),
        head_without_end(b"HTTP/1.1 200 OK\r\nX-A: ", b"x"),
        head_without_end(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        head_without_end(b"HTTP/1.1 503 Busy\r\nX-A: ", b"x"),
        Reply(headers={"Content-Type": "text/event-stream"}, body=[b": wait\n\n"], chunked=True, ending=Ending.STALL),
        Reply(ending=Ending.SILENCE),
    ],
    ids=["drips", "drips in the head", "says to go on", "drips in the head of a refusal", "stalls", "is silent"],
)
def test_the_deadline_holds_whatever_the_server_does(reply: Reply) -> None:
    started = time.monotonic()

    with chat_server(reply) as server, pytest.raises(ModelTimeoutError, match="did not answer in time"):
        client(base_url(server)).complete(REQUEST, deadline=Deadline(0.3))

    assert time.monotonic() - started < 2


def test_a_deadline_that_has_passed_asks_nobody() -> None:
    with chat_server(text_answer("x")) as server, pytest.raises(ModelTimeoutError):
        client(base_url(server)).complete(REQUEST, deadline=Deadline(0))

    assert server.requests == []


def test_a_server_that_falls_silent_is_given_up() -> None:
    with chat_server(Reply(ending=Ending.SILENCE)) as server, pytest.raises(ModelTimeoutError, match="fell silent"):
        client(base_url(server), silence_seconds=0.2).complete(REQUEST)


# --- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_server_that_quotes_the_key_does_not_get_it_into_an_error(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    reply = error_answer(status, f"wrong key {CANARY} and token=abcdef123456")

    with caplog.at_level(logging.DEBUG), chat_server(reply) as server, pytest.raises(ModelClientError) as caught:
        client(base_url(server), max_retries=1).complete(REQUEST)

    assert_no_secret(everything_said(caught.value), caplog.text)
    assert "abcdef123456" not in str(caught.value)
    assert f"{status}" in str(caught.value)


def test_a_stream_that_quotes_the_key_does_not_get_it_into_an_error() -> None:
    reply = event_stream([{"error": {"message": f"wrong key {CANARY}"}}])

    with chat_server(reply) as server, pytest.raises(ModelProtocolError) as caught:
        client(base_url(server)).complete(REQUEST)

    assert_no_secret(everything_said(caught.value))


def test_the_beginning_of_a_key_is_not_left_where_the_services_words_are_cut() -> None:
    for before in range(480, 500):
        reply = error_answer(400, "x" * before + CANARY)
        with chat_server(reply) as server, pytest.raises(ModelRequestError) as caught:
            client(base_url(server)).complete(REQUEST)
        assert "CAN" not in everything_said(caught.value)


def test_the_beginning_of_a_key_is_not_left_where_the_connection_breaks() -> None:
    reply = Reply(status=400, body=b"wrong " + CANARY[:12].encode(), ending=Ending.CUT)
    with chat_server(reply) as server, pytest.raises(ModelRequestError, match=r"answered 400: wrong$"):
        client(base_url(server)).complete(REQUEST)


def test_the_words_of_an_error_within_an_answer_are_cut() -> None:
    reply = event_stream([{"error": {"message": "x" * 5000}}])
    with chat_server(reply) as server, pytest.raises(ModelProtocolError) as caught:
        client(base_url(server)).complete(REQUEST)

    assert len(caught.value.message) < 600


@pytest.mark.parametrize("stream", [True, False])
def test_a_key_quoted_in_what_gets_logged_of_an_answer_is_masked(stream: bool) -> None:
    answer: dict[str, Any] = {"model": f"m {CANARY}", "choices": [{"finish_reason": CANARY}]}
    answer["choices"][0]["delta" if stream else "message"] = {"content": "x"}
    reply = event_stream([answer]) if stream else Reply(body=json.dumps(answer).encode())
    reply = replace(reply, headers={**reply.headers, "x-request-id": f"id-{CANARY}"})
    with chat_server(reply) as server:
        one = react_agent(model_client=client(base_url(server), stream=stream), model="m")
        session = one.new_session()
        response = one.run("x", session=session)

    assert response.output == "x"
    assert_no_secret(session.snapshot().to_json(), "".join(map(repr, session.event_log.entries)))


def test_a_key_quoted_as_the_request_id_of_an_error_is_masked() -> None:
    reply = error_answer(400, "bad", **{"x-request-id": f"id-{CANARY}"})
    with chat_server(reply) as server, pytest.raises(ModelRequestError) as caught:
        client(base_url(server)).complete(REQUEST)

    assert caught.value.request_id == "id-[redacted]"


@pytest.mark.parametrize(
    "reply", [Reply(raw=b"", ending=Ending.RESET), Reply(raw=f"{CANARY}\r\n\r\n".encode(), ending=Ending.CLOSE)]
)
def test_an_error_does_not_keep_the_foreign_one_that_knows_the_requests_headers(reply: Reply) -> None:
    with chat_server(reply) as server, pytest.raises(ModelConnectionError) as caught:
        client(base_url(server)).complete(REQUEST)

    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_a_header_line_that_cannot_be_read_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    raw = f"HTTP/1.1 400 Bad\r\nA: b\r\n no colon {CANARY}\r\n{CANARY} no colon\r\nContent-Length: 0\r\n\r\n"
    reply = Reply(raw=raw.encode(), ending=Ending.CLOSE)
    with caplog.at_level(logging.DEBUG), chat_server(reply) as server, pytest.raises(ModelRequestError):
        client(base_url(server)).complete(REQUEST)

    assert "POST /v1/chat/completions" in caplog.text
    assert_no_secret(caplog.text)


def test_a_secret_header_is_masked_like_the_key() -> None:
    with chat_server(error_answer(400, f"bad {CANARY}2")) as server:
        one = ChatCompletionsClient(base_url=base_url(server), headers={"X-Api": f"{CANARY}2"})
        with pytest.raises(ModelRequestError) as caught:
            one.complete(REQUEST)

    assert_no_secret(everything_said(caught.value))


def test_a_repr_shows_no_key() -> None:
    assert_no_secret(client("http://127.0.0.1:1/v1", headers={"X-Api": CANARY}))


@pytest.mark.parametrize("key", [f"{CANARY}\nX-Evil: 1", f"{CANARY}é"])
def test_a_key_that_is_no_header_value_is_refused_without_showing_it(key: str) -> None:
    one = ChatCompletionsClient(base_url="http://127.0.0.1:1", api_key=key)

    with pytest.raises(AgentConfigError, match="header Authorization") as caught:
        one.complete(REQUEST)

    assert_no_secret(everything_said(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "host",
        f"http://user:{CANARY}@host",
        f"http://user:{CANARY}@exa\u2100mple.com",
        f"http://[{CANARY}",
        f"http://host/?key={CANARY}",
        "",
    ],
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(AgentConfigError, match="base_url") as caught:
        ChatCompletionsClient(base_url=url)

    assert_no_secret(everything_said(caught.value))
    assert caught.value.__context__ is None


def test_proxies_and_netrc_of_the_machine_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    with chat_server(text_answer("x")) as server:
        assert client(base_url(server)).complete(REQUEST).message.text == "x"


# --- the whole way ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_an_agent_runs_its_loop_against_a_server(stream: bool) -> None:
    @tool
    def add(left: int, right: int) -> int:
        """Add two numbers."""
        return left + right

    wanted = tool_answer(("add", {"left": 2, "right": 3}), ("add", {"left": 10, "right": 1}), stream=stream)
    with chat_server(wanted, text_answer("5 and 11", stream=stream)) as server:
        one = react_agent(model_client=client(base_url(server), stream=stream), model="m", tools=[add])
        result = one.run("what is 2+3 and 10+1?")

    assert (result.output, result.tool_calls, result.usage.output_tokens) == ("5 and 11", 2, 6)
    assert asked(server)["messages"][2:] == [
        {"role": "tool", "content": "5", "tool_call_id": "call_1"},
        {"role": "tool", "content": "11", "tool_call_id": "call_2"},
    ]
    assert asked(server)["tools"][0]["function"]["name"] == "add"


def test_retries_are_in_the_event_log() -> None:
    with chat_server(error_answer(503, "busy"), text_answer("ok")) as server:
        one = react_agent(model_client=client(base_url(server)), model="m")
        session = one.new_session()
        one.run("x", session=session)

    retries = [entry.event for entry in session.event_log.entries if str(entry.event.type) == "MODEL_RETRY"]
    assert [event.message for event in retries] == ["the model service answered 503: busy"]
