"""Content types, errors and headers of the Connect protocol."""

from __future__ import annotations

import gzip
import json

import pytest

from ai4j_sandbox_emulator.envd.connect import (
    HTTP_STATUS,
    Code,
    ConnectError,
    Format,
    check_protocol_headers,
    keepalive_seconds,
    request_format,
    stream_error,
    timeout_seconds,
    unary_error,
)
from ai4j_sandbox_emulator.envelope import EnvelopeReader


@pytest.mark.parametrize(
    ("content_type", "streaming", "expected"),
    [
        ("application/json", False, Format(streaming=False)),
        ("Application/JSON; charset=utf-8", False, Format(streaming=False)),
        ("application/proto", False, Format(streaming=False, binary=True)),
        ("application/connect+json", True, Format(streaming=True)),
        ("application/connect+proto", True, Format(streaming=True, binary=True)),
        ("application/json", True, None),
        ("application/connect+json", False, None),
        ("text/plain", False, None),
        ("", True, None),
    ],
)
def test_a_content_type_must_fit_the_kind_of_call(content_type: str, streaming: bool, expected: Format | None) -> None:
    assert request_format({"Content-Type": content_type}, streaming=streaming) == expected


def test_envelopes_are_compressed_when_that_was_offered() -> None:
    headers = {"Content-Type": "application/connect+json", "Connect-Accept-Encoding": "br, gzip"}
    form = request_format(headers, streaming=True)

    assert form is not None
    (frame,) = EnvelopeReader().feed(form.end_frame())
    assert (frame.flags, gzip.decompress(frame.payload)) == (3, b"{}")


@pytest.mark.parametrize("code", Code)
def test_a_failed_unary_call_has_a_status_and_a_json_body(code: Code) -> None:
    reply = unary_error(ConnectError(code, "why"))

    assert isinstance(reply.body, bytes)
    assert (reply.status, json.loads(reply.body)) == (HTTP_STATUS[code], {"code": code, "message": "why"})


def test_a_failed_stream_is_a_success_to_http() -> None:
    reply = stream_error(Format(streaming=True), ConnectError(Code.NOT_FOUND, "process with pid 9 not found"))

    assert isinstance(reply.body, bytes)
    (frame,) = EnvelopeReader().feed(reply.body)
    assert (reply.status, frame.flags) == (200, 2)
    assert json.loads(frame.payload) == {"error": {"code": "not_found", "message": "process with pid 9 not found"}}


@pytest.mark.parametrize(("text", "seconds"), [("", None), ("0", 0), ("1500", 1.5), ("9999999999", 9999999.999)])
def test_a_timeout_is_read(text: str, seconds: float | None) -> None:
    assert timeout_seconds({"Connect-Timeout-Ms": text}) == seconds


@pytest.mark.parametrize("text", ["-1", "1.5", "soon", "12345678901", "１"])
def test_a_timeout_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ConnectError, match="invalid timeout"):
        timeout_seconds({"Connect-Timeout-Ms": text})


@pytest.mark.parametrize(("text", "seconds"), [("", 90), ("50", 50), ("0", 90), ("-5", 90), ("x", 90)])
def test_a_keepalive_interval_is_read(text: str, seconds: float) -> None:
    assert keepalive_seconds({"Keepalive-Ping-Interval": text}) == seconds


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Connect-Protocol-Version": "2"}, Code.INVALID_ARGUMENT),
        ({"Connect-Content-Encoding": "zstd"}, Code.UNIMPLEMENTED),
        ({"Content-Encoding": "br"}, Code.UNIMPLEMENTED),
    ],
)
def test_what_envd_does_not_speak_is_refused(headers: dict[str, str], code: Code) -> None:
    with pytest.raises(ConnectError) as caught:
        check_protocol_headers(headers)

    assert caught.value.code is code


@pytest.mark.parametrize(
    "headers",
    [{}, {"Connect-Protocol-Version": "1", "Content-Encoding": "gzip", "Connect-Content-Encoding": "identity"}],
)
def test_what_official_clients_send_passes(headers: dict[str, str]) -> None:
    check_protocol_headers(headers)
