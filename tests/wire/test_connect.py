from __future__ import annotations

import tracemalloc
import zlib

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxNotFoundError,
    SandboxOutputLimitError,
    SandboxProtocolError,
)
from ai4j_sandbox_wire.connect import (
    ERROR_BY_CODE,
    Codec,
    ConnectError,
    EndOfStream,
    Envelope,
    EnvelopeDecoder,
    encode_envelope,
    parse_end_of_stream,
    stream_headers,
    timeout_header,
    unary_error,
)
from ai4j_sandbox_wire.errors import StreamCutError
from ai4j_sandbox_wire.faults import error_for
from ai4j_sandbox_wire.message import HttpReply

ENVELOPES = [
    Envelope(b""),
    Envelope(b"{}"),
    Envelope(b'{"event":{"keepalive":{}}}'),
    Envelope(bytes(range(256)) * 300),
    Envelope(b'{"error":{"code":"internal"}}', end_of_stream=True),
]


def encoded(envelope: Envelope, *, compressed: bool = False) -> bytes:
    return encode_envelope(envelope.payload, end_of_stream=envelope.end_of_stream, compressed=compressed)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("envelope", ENVELOPES, ids=range(len(ENVELOPES)))
def test_envelope_is_read_back_whole_byte_by_byte_and_with_trailing_bytes(envelope: Envelope, compressed: bool) -> None:
    data = encoded(envelope, compressed=compressed)
    compression = "gzip" if compressed else "identity"

    assert EnvelopeDecoder(compression=compression).feed(data) == [envelope]
    slow = EnvelopeDecoder(compression=compression)
    assert [found for byte in data[:5000] + b"" for found in slow.feed(bytes([byte]))] == (
        [envelope] if len(data) <= 5000 else []
    )
    assert EnvelopeDecoder(compression=compression).feed(data + b"\0\0\0")[:1] == [envelope]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 4096])
def test_stream_is_read_back_in_any_slices(size: int) -> None:
    data = b"".join(encoded(envelope) for envelope in ENVELOPES)
    decoder = EnvelopeDecoder()

    found = [envelope for at in range(0, len(data), size) for envelope in decoder.feed(data[at : at + size])]

    decoder.finish()
    assert found == ENVELOPES


def test_bytes_after_the_end_of_the_stream_are_ignored() -> None:
    decoder = EnvelopeDecoder()
    end = encode_envelope(b"{}", end_of_stream=True)

    assert decoder.feed(end + encode_envelope(b"late")) == [Envelope(b"{}", end_of_stream=True)]
    assert decoder.feed(b"{garbage") == []
    decoder.finish()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "without an end-of-stream message"),
        (encode_envelope(b"{}"), "without an end-of-stream message"),
        (b"\0\0\0", "inside an envelope's header: 5 bytes promised, 3 received"),
        (b"\0\0\0\0\x64{}", "inside an envelope: 100 bytes promised, 2 received"),
    ],
)
def test_cut_stream_says_what_was_promised_and_received(data: bytes, complaint: str) -> None:
    decoder = EnvelopeDecoder()
    decoder.feed(data)

    with pytest.raises(StreamCutError, match=complaint):
        decoder.finish()


def test_too_long_envelope_is_refused_before_anything_is_held_for_it() -> None:
    decoder = EnvelopeDecoder(limit_bytes=1024, limit_setting="connectEnvelopeLimitBytes")
    tracemalloc.start()
    try:
        with pytest.raises(
            SandboxOutputLimitError, match=r"2147483647 bytes is longer than connectEnvelopeLimitBytes=1024"
        ):
            decoder.feed(b"\0\x7f\xff\xff\xff")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


def test_envelope_of_exactly_the_limit_passes() -> None:
    assert EnvelopeDecoder(limit_bytes=4).feed(encode_envelope(b"abcd")) == [Envelope(b"abcd")]


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b'{"process":{"cmd":"/bin/sh"}}', "an envelope is missing"),
        (b"<html>Sign in</html>", "HTML"),
        (zlib.compress(b"x", wbits=31), "gzip"),
        (b"hello", None),
    ],
)
def test_bytes_that_are_no_envelope_are_named_at_once(data: bytes, hint: str | None) -> None:
    with pytest.raises(SandboxProtocolError, match=f"flags 0x{data[0]:02x}, length") as caught:
        EnvelopeDecoder().feed(data[:5])

    assert (hint in (caught.value.hint or "")) if hint else caught.value.hint is None


def test_good_envelopes_before_a_bad_one_are_given_out_first() -> None:
    decoder = EnvelopeDecoder()

    assert decoder.feed(encode_envelope(b"good") + b"\xff\xff\xff\xff\xff") == [Envelope(b"good")]
    with pytest.raises(SandboxProtocolError):
        decoder.raise_pending()


def test_compressed_envelope_that_was_not_negotiated_is_refused() -> None:
    with pytest.raises(SandboxProtocolError, match="no compression was negotiated"):
        EnvelopeDecoder().feed(encode_envelope(b"x", compressed=True))


@pytest.mark.parametrize("payload", [b"\x1f\x8b\x08\0junk", b"junk", b"", zlib.compress(b"x" * 99, wbits=31)[:-3]])
def test_broken_gzip_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(SandboxProtocolError, match="gzip"):
        EnvelopeDecoder(compression="gzip").feed(b"\1" + len(payload).to_bytes(4) + payload)


def test_compressed_bomb_is_stopped_at_the_limit() -> None:
    with pytest.raises(SandboxOutputLimitError):
        EnvelopeDecoder(limit_bytes=10_000, compression="gzip").feed(
            encode_envelope(b"\0" * 1_000_000, compressed=True)
        )


def test_unknown_compression_is_refused() -> None:
    with pytest.raises(SandboxProtocolError, match="'br'"):
        EnvelopeDecoder(compression="br")


@pytest.mark.parametrize(
    ("payload", "end"),
    [
        (b"", EndOfStream()),
        (b"{}", EndOfStream()),
        (b'{"metadata":{"X-Id":["a","b"],"odd":3}}', EndOfStream(metadata={"x-id": ("a", "b")})),
        (b'{"error":{"code":"not_found","message":"no pid 9"}}',
         EndOfStream(error=ConnectError(code="not_found", message="no pid 9"))),
        (b'{"error":{}}', EndOfStream(error=ConnectError(code="unknown"))),
        (b'{"error":{"code":17,"message":{"a":1}}}', EndOfStream(error=ConnectError(code="unknown"))),
        (b'{"error":"boom"}', EndOfStream(error=ConnectError(code="unknown", message="boom"))),
    ],
)  # fmt: skip
def test_end_of_stream_says_why(payload: bytes, end: EndOfStream) -> None:
    assert parse_end_of_stream(payload) == end


@pytest.mark.parametrize("payload", [b"null", b"[]", b"\xff", b"<html>"])
def test_end_of_stream_that_is_no_object_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(SandboxProtocolError, match="end-of-stream"):
        parse_end_of_stream(payload)


@pytest.mark.parametrize("code", sorted(ERROR_BY_CODE))
def test_each_code_becomes_its_error_in_a_stream_and_in_a_unary_answer(code: str) -> None:
    streamed = ConnectError(code=code, message="why").exception("starting the command", outcome=Outcome.NOT_STARTED)
    body = b'{"code":"%s","message":"why"}' % code.encode()
    unary = error_for(HttpReply(status=400, body=body), "POST /x", unary_error)

    assert type(streamed) is type(unary) is ERROR_BY_CODE[code]
    assert streamed.message == f"starting the command failed [{code}]: why"
    assert unary.http_status == 400


@pytest.mark.parametrize("body", [b"null", b'{"code":17,"message":{"a":1}}', b"<html></html>", b"", b'{"code":"odd"}'])
def test_unary_answer_without_a_code_of_the_protocol_is_judged_by_its_status(body: bytes) -> None:
    assert isinstance(error_for(HttpReply(status=401, body=body), "POST /x", unary_error), SandboxAuthError)
    assert isinstance(error_for(HttpReply(status=404, body=body), "POST /x", unary_error), SandboxNotFoundError)


@pytest.mark.parametrize(
    ("millis", "header"),
    [
        (None, {}),
        (0, {"Connect-Timeout-Ms": "1"}),
        (0.2, {"Connect-Timeout-Ms": "1"}),
        (1500, {"Connect-Timeout-Ms": "1500"}),
        (10**12, {"Connect-Timeout-Ms": "9999999999"}),
    ],
)
def test_timeout_is_never_sent_as_zero(millis: float | None, header: dict[str, str]) -> None:
    assert timeout_header(millis) == header


def test_stream_headers_name_the_codec_and_ask_for_plain_envelopes() -> None:
    assert stream_headers(Codec.BINARY, timeout_millis=5) == {
        "Content-Type": "application/connect+proto",
        "Accept": "application/connect+proto",
        "Connect-Protocol-Version": "1",
        "Connect-Content-Encoding": "identity",
        "Connect-Accept-Encoding": "identity",
        "Connect-Timeout-Ms": "5",
    }
