"""Cases from public bug reports, over a real socket: whole answers to one Start, and what a user needs of them."""

from __future__ import annotations

import base64
import time

import pytest

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    SandboxAuthError,
    SandboxException,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
    SandboxOutputLimitError,
    SandboxProtocolError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxResult
from ai4j_sandbox.process import ProcessContext, SandboxProcess
from ai4j_sandbox_wire.connect import encode_envelope
from ai4j_sandbox_wire.envd import StartRequest
from ai4j_sandbox_wire.process_channel import Launch, launch
from support.envd_stub import END_OF_STREAM, EXITED, START, STREAM, EnvdStub, event, output
from support.http_stub import Ending, Reply


def play(reply: Reply, **options: object) -> SandboxResult:
    """Run a command whose Start is answered with `reply`."""
    with EnvdStub() as stub:
        stub.refusals["Start"] = reply
        launching = Launch(request=StartRequest(program="true"), command_id="c-1")
        channel = launch(stub.client(**options), launching, Deadline(None))
        return SandboxProcess(SandboxCommand(command="true"), channel, ProcessContext()).wait()


def stream(*frames: bytes) -> Reply:
    return Reply(headers=STREAM, body=b"".join(frames))


def outcome(result: SandboxResult) -> tuple[object, ...]:
    return result.exit_code, result.stdout, result.stderr, result.timed_out


RESULTS = {
    "A01 one character over three events": (
        stream(START, output(b"\xf0"), output(b"\x9f\x98"), output(b"\x80"), EXITED, END_OF_STREAM),
        (0, "\U0001f600", "", False),
    ),
    "A04 a character that never ends": (
        stream(START, output(b"ok\xe2\x82"), EXITED, END_OF_STREAM),
        (0, "ok\ufffd", "", False),
    ),
    "A06 an invalid byte": (stream(START, output(b"a\xffb"), EXITED, END_OF_STREAM), (0, "a\ufffdb", "", False)),
    "A07 a NUL in the text": (stream(START, output(b"a\0b\n"), EXITED, END_OF_STREAM), (0, "a\0b\n", "", False)),
    "A15 output that looks like a stream header": (
        stream(START, output(b"\x01\0\0\0\0\0\0\x05hello"), EXITED, END_OF_STREAM),
        (0, "\x01\0\0\0\0\0\0\x05hello", "", False),
    ),
    "A18 no output at all is empty text": (stream(START, EXITED, END_OF_STREAM), (0, "", "", False)),
    "B01 a left-out zero": (stream(START, output(b"hi"), EXITED, END_OF_STREAM), (0, "hi", "", False)),
    "B02 a status that names no number": (
        stream(START, event(end={"exitCode": 0, "exited": True, "status": "exited"}), END_OF_STREAM),
        (0, "", "", False),
    ),
    "B03 a failure that is also called an error": (
        stream(START, output(b"o"), event(end={"exitCode": 3, "exited": True, "status": "exit status 3",
                                               "error": "exit status 3"}), END_OF_STREAM),
        (3, "o", "", False),
    ),
    "B04 killed": (
        stream(START, event(end={"exitCode": -1, "status": "signal: killed"}), END_OF_STREAM),
        (137, "", "", False),
    ),
    "B07 snake case": (
        stream(START, event(end={"exit_code": 4, "exited": True, "status": "exit status 4"}), END_OF_STREAM),
        (4, "", "", False),
    ),
    "B09 no digit of the code in the output": (
        stream(START, output(b"hi"), event(end={"exitCode": 7, "exited": True}), END_OF_STREAM),
        (7, "hi", "", False),
    ),
    "B10 output that talks of timeouts": (
        stream(START, output(b"partial"), output(b"job timed out after 5s\n", "stderr"),
               event(end={"exitCode": 1, "exited": True}), END_OF_STREAM),
        (1, "partial", "job timed out after 5s\n", False),
    ),
    "D17 output behind the end of the stream": (
        stream(START, EXITED, END_OF_STREAM, output(b"late")),
        (0, "", "", False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_answer_is_this_result(name: str) -> None:
    reply, expected = RESULTS[name]

    assert outcome(play(reply)) == expected


CUT_CHUNK = Reply(headers=STREAM, body=[b"hello"], chunked=True, ending=Ending.CUT)
ERRORS = {
    "A16 base64 garbage": (
        stream(START, encode_envelope(b'{"event":{"data":{"stdout":"aGk*K"}}}'), EXITED, END_OF_STREAM),
        SandboxProtocolError,
        "not valid base64",
    ),
    "D01 no end": (stream(START, output(b"x")), SandboxOutcomeUnknownError, "without an end-of-stream message"),
    "D02 empty body": (stream(), SandboxOutcomeUnknownError, "without an end-of-stream message"),
    "D03 cut inside a header": (stream(START, b"\0\0\0"), SandboxOutcomeUnknownError, "inside an envelope's header"),
    "D04 cut inside a payload": (
        stream(START, b"\0\0\0\0\x64{}"),
        SandboxOutcomeUnknownError,
        "100 bytes promised, 2 received",
    ),
    "D05 bare JSON": (
        stream(b'{"process":{"cmd":"/bin/sh"}}'),
        SandboxProtocolError,
        "flags 0x7b, length 577794671.*an envelope is missing",
    ),
    "D06 a sign-in page": (
        Reply(headers={"Content-Type": "text/html"}, body=b"<html>Sign in</html>"),
        SandboxProtocolError,
        "status 200.*'text/html'",
    ),
    "D09 null": (Reply(status=401, body=b"null"), SandboxAuthError, "401"),
    "D10 odd types": (Reply(status=404, body=b'{"code":17,"message":{"a":1}}'), SandboxNotFoundError, "404"),
    "D15 compressed unasked": (
        stream(START, b"\1\0\0\0\x08\x1f\x8b\x08\0junk", END_OF_STREAM),
        SandboxProtocolError,
        "no compression was negotiated",
    ),
    "D20 cut chunked body": (CUT_CHUNK, SandboxException, "envelope"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_answer_is_this_error(name: str) -> None:
    reply, kind, text = ERRORS[name]

    with pytest.raises(kind, match=text):
        play(reply)


def test_oversize_frame_names_the_setting() -> None:
    """Case D22."""
    with pytest.raises(SandboxOutputLimitError, match="connectEnvelopeLimitBytes=1024"):
        play(stream(START, output(b"x" * 4096), EXITED, END_OF_STREAM), envelope_limit_bytes=1024)


def test_many_tiny_frames_take_linear_time() -> None:
    """Case G06."""
    frame = encode_envelope(b'{"event":{"data":{"stdout":"' + base64.b64encode(b"x") + b'"}}}')

    def seconds(count: int) -> float:
        began = time.monotonic()
        assert play(stream(START, frame * count, EXITED, END_OF_STREAM)).stdout_total_bytes == count
        return time.monotonic() - began

    few, many = seconds(10_000), seconds(100_000)

    assert many < 15
    assert many < 50 * few
