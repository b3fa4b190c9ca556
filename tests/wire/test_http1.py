from __future__ import annotations

from collections.abc import Iterable

import pytest

from ai4j_sandbox.errors import SandboxProtocolError
from ai4j_sandbox_wire.errors import StreamCutError
from ai4j_sandbox_wire.http1 import ResponseReader, encode_chunk, encode_request_head

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

# name, method, bytes, status, body, reusable
WHOLE = [
    ("length", "GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello", True),
    ("no body", "POST", b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 201, b"", True),
    ("204", "DELETE", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    ("head", "HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, b"", True),
    ("no reason", "GET", b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, b"x", True),
    ("chunked", "GET", CHUNKED + b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n", 200, b"hello world", True),
    ("trailers", "GET", CHUNKED + b"1\r\nx\r\n0\r\nA: b\r\n\r\n", 200, b"x", True),
    ("upper hex", "GET", CHUNKED + b"0A\r\n0123456789\r\n0\r\n\r\n", 200, b"0123456789", True),
    ("bare newlines", "GET", CHUNKED + b"1\nx\n0\n\n", 200, b"x", True),
    ("chunk wins", "GET", CHUNKED[:-2] + b"Content-Length: 3\r\n\r\n1\r\nx\r\n0\r\n\r\n", 200, b"x", True),
    ("continue", "POST", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 OK\r\n\r\n", 204, b"", True),
    ("close", "GET", b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    ("1.0", "GET", b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
]  # fmt: skip


def read(reader: ResponseReader, slices: Iterable[bytes]) -> bytes:
    return b"".join(piece for data in slices for piece in reader.feed(data))


def one_by_one(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


@pytest.mark.parametrize("case", WHOLE, ids=[case[0] for case in WHOLE])
@pytest.mark.parametrize("cut", ["whole", "bytes", "halves"])
def test_response_is_read_in_any_slices(case: tuple[str, str, bytes, int, bytes, bool], cut: str) -> None:
    _, method, data, status, body, reusable = case
    middle = len(data) // 2
    slices = {"whole": [data], "bytes": one_by_one(data), "halves": [data[:middle], data[middle:]]}[cut]
    reader = ResponseReader(method)

    assert read(reader, slices) == body
    reader.end()
    assert reader.head is not None
    assert (reader.head.status, reader.complete, reader.reusable) == (status, True, reusable)


@pytest.mark.parametrize("case", WHOLE, ids=[case[0] for case in WHOLE])
def test_every_cut_short_of_the_end_is_noticed(case: tuple[str, str, bytes, int, bytes, bool]) -> None:
    _, method, data, _, _, _ = case
    for size in range(len(data)):
        reader = ResponseReader(method)
        reader.feed(data[:size])
        if not reader.complete:  # a bare head without a body is whole before its last byte counts
            with pytest.raises(StreamCutError):
                reader.end()


def test_answer_that_is_only_ever_announced_is_given_up() -> None:
    announced = b"HTTP/1.1 102 Processing\r\n\r\n"
    patient, asked_too_much = ResponseReader(), ResponseReader()

    patient.feed(announced * 100 + b"HTTP/1.1 204 OK\r\n\r\n")
    with pytest.raises(SandboxProtocolError, match="announced again and again"):
        asked_too_much.feed(announced * 101)

    assert patient.complete


def test_bytes_behind_the_response_spoil_the_connection() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n")

    assert (reader.complete, reader.reusable) == (True, False)


def test_body_without_length_ends_with_the_connection() -> None:
    reader = ResponseReader()

    assert read(reader, [b"HTTP/1.1 200 OK\r\n\r\nab", b"c"]) == b"abc"
    assert not reader.complete
    reader.end()
    assert (reader.complete, reader.reusable) == (True, True)


def test_repeated_headers_are_joined_and_names_lowered() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a:2\r\nContent-Length: 0\r\n\r\n")

    assert reader.head is not None
    assert reader.head.headers == {"x-a": "1, 2", "content-length": "0"}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "does not begin with HTTP/"),
        (b"HTTP/2 200\r\n\r\n", "status line"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "status line"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "malformed header"),
        (b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n", "malformed header"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "transfer encoding"),
        (CHUNKED + b"xyz\r\n", "no valid size"),
        (CHUNKED + b"-1\r\n", "no valid size"),
        (CHUNKED + b"1_0\r\n", "no valid size"),
        (CHUNKED + b"\r\n", "no valid size"),
        (CHUNKED + b"f" * 17 + b"\r\n", "impossible size"),
        (CHUNKED + b"1\r\nxy\r\n", "longer than its size"),
        (CHUNKED + b"1" * 9000, "no size"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000, "longer than"),
    ],
)
def test_what_is_not_http_is_a_protocol_error(data: bytes, complaint: str) -> None:
    with pytest.raises(SandboxProtocolError, match=complaint):
        ResponseReader().feed(data)


def test_cut_inside_a_chunk_says_how_much_is_missing() -> None:
    reader = ResponseReader()
    reader.feed(CHUNKED + b"a\r\nhello")

    with pytest.raises(StreamCutError, match="inside a chunk, 5 bytes before its end"):
        reader.end()


def test_request_head_and_chunks_are_written_as_they_are_read() -> None:
    head = encode_request_head("POST", "/a?b", {"Host": "h", "X": "é"})

    assert head == b"POST /a?b HTTP/1.1\r\nHost: h\r\nX: \xe9\r\n\r\n"
    assert read(ResponseReader(), [CHUNKED, encode_chunk(b"x" * 300), encode_chunk(b"")]) == b"x" * 300
