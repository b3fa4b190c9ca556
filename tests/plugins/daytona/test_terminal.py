"""Commands on a terminal, against a played websocket: every byte it may break at, and everything it may say."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxException,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxResult, TerminalSize
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox_daytona.wrapping import BEGIN_OF_OUTPUT, NO_DIRECTORY, Running
from support.authority import Authority
from support.daytona_stub import KEY, DaytonaStub, answer, executed
from support.http_stub import Ending, Recorded, Reply

GET, EXECUTE, PTY = "GET /sandbox/id-1", "POST /id-1/process/execute", "POST /id-1/process/pty"
UPLOAD = "POST /id-1/files/bulk-upload"
COMMAND = SandboxCommand(command="echo hi", command_id="c", terminal=TerminalSize(), timeout_millis=20_000)
MARK = Running("c").mark
CONNECT, GIVE_UP = f"GET /id-1/process/pty/{MARK}/connect", f"DELETE /id-1/process/pty/{MARK}"

CONTINUED, TEXT, BINARY, CLOSE, PING = 0, 1, 2, 8, 9


def frame(opcode: int, data: bytes, *, last: bool = True) -> bytes:
    """A server's frame."""
    size = bytes((len(data),)) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2)
    return bytes((opcode | (0x80 if last else 0),)) + size + data


def closing(code: int, **told: Any) -> bytes:
    return frame(CLOSE, code.to_bytes(2) + (json.dumps(told).encode() if told else b""))


CONNECTED = frame(TEXT, b'{"type":"control","status":"connected"}')
PROMPT = frame(BINARY, b"$  exec /bin/sh /tmp/x\r\n")
OUTPUT = frame(BINARY, BEGIN_OF_OUTPUT + b"hi\r\n")
WHOLE = CONNECTED + PROMPT + OUTPUT + closing(1011, exitCode=3)


def spoken(frames: bytes, ending: Ending = Ending.CUT) -> Any:
    """A websocket that says this, whatever it hears."""

    def upgrade(request: Recorded) -> Reply:
        key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode(), usedforsecurity=False).digest())
        head = b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        return Reply(raw=head + accept + b"\r\n\r\n" + frames, ending=ending)

    return upgrade


@pytest.fixture
def stub() -> Iterator[DaytonaStub]:
    with DaytonaStub({UPLOAD: answer({}), PTY: answer({"sessionId": MARK}, 201), EXECUTE: executed()}) as playing:
        playing.play(GET, answer(playing.sandbox()))
        yield playing


@pytest.fixture
def session(stub: DaytonaStub) -> Iterator[SandboxSession]:
    with stub.provider().connect("id-1") as opened:
        yield opened


def run(stub: DaytonaStub, session: SandboxSession, frames: bytes, ending: Ending = Ending.CUT) -> SandboxResult:
    stub.play(CONNECT, spoken(frames, ending))
    return session.execute(COMMAND)


# --- what is said -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (3, closing(1011, exitCode=3)),
        (0, closing(1000, exitCode=0)),
        (None, closing(1011, exitCode=-1, exitReason="signal: killed")),
        (4, frame(TEXT, b'{"type":"control","status":"exited","exitCode":4}') + closing(1000)),
    ],
)
@pytest.mark.parametrize("ending", [Ending.CUT, Ending.STALL])
def test_command_ends_as_the_service_tells(
    stub: DaytonaStub, session: SandboxSession, code: int | None, end: bytes, ending: Ending
) -> None:
    result = run(stub, session, CONNECTED + PROMPT + OUTPUT + end, ending)

    assert (result.exit_code, result.stdout, result.timed_out) == (code, "hi\r\n", False)


@pytest.mark.parametrize("at", range(1, len(BEGIN_OF_OUTPUT)))
def test_begin_of_the_output_is_found_wherever_it_is_split(stub: DaytonaStub, session: SandboxSession, at: int) -> None:
    parts = (b"noise" * 100 + BEGIN_OF_OUTPUT[:at], BEGIN_OF_OUTPUT[at:] + b"hi")
    frames = b"".join(frame(BINARY, part) for part in parts)

    assert run(stub, session, frames + closing(1000, exitCode=0)).stdout == "hi"


def test_pings_and_split_frames_are_no_matter(stub: DaytonaStub, session: SandboxSession) -> None:
    frames = (
        frame(PING, b"there?")
        + frame(BINARY, BEGIN_OF_OUTPUT + b"a", last=False)
        + frame(PING, b"")
        + frame(CONTINUED, b"b", last=False)
        + frame(CONTINUED, b"c")
        + frame(TEXT, b"not JSON")
        + frame(TEXT, b"[" * 10_000)
    )

    assert run(stub, session, frames + closing(1000, exitCode=0)).stdout == "abc"


def test_missing_directory_is_told(stub: DaytonaStub, session: SandboxSession) -> None:
    with pytest.raises(SandboxNotFoundError, match="working directory"):
        run(stub, session, frame(BINARY, b"$ " + NO_DIRECTORY))


# --- when it breaks ---------------------------------------------------------------------------------------------------


def test_connection_that_is_cut_at_any_byte_is_never_a_result(stub: DaytonaStub, session: SandboxSession) -> None:
    for size in range(len(WHOLE)):
        with pytest.raises(SandboxOutcomeUnknownError) as caught:
            run(stub, session, WHOLE[:size])
        assert caught.value.result is not None
        assert caught.value.result.stdout == ("hi\r\n" if size >= len(CONNECTED + PROMPT + OUTPUT) else "")

    assert stub.calls.count(PTY) == len(WHOLE)


@pytest.mark.parametrize("size", [0, len(CONNECTED), len(CONNECTED + PROMPT + OUTPUT), len(WHOLE) - 1])
def test_connection_that_is_reset_is_never_a_result(stub: DaytonaStub, session: SandboxSession, size: int) -> None:
    with pytest.raises(SandboxOutcomeUnknownError):
        run(stub, session, WHOLE[:size], Ending.RESET)


@pytest.mark.parametrize(
    "end",
    [
        closing(1000),
        closing(1001),
        closing(1008),
        frame(CLOSE, b""),
        closing(1011, exitCode="3"),
        closing(1011, exitCode=True),
        frame(CLOSE, b"\x03\xf3not JSON"),
        frame(TEXT, b'{"status":"exited"}'),
        frame(11, b"an opcode that is none"),
        b"\x82\x7f" + (1 << 62).to_bytes(8) + b"x" * 100_000,
        b"HTTP/1.1 502 Bad Gateway\r\n\r\n" + b"x" * 200,
    ],
)
def test_end_that_does_not_tell_how_the_command_ended_is_no_result(
    stub: DaytonaStub, session: SandboxSession, end: bytes
) -> None:
    with pytest.raises(SandboxOutcomeUnknownError, match="not known") as caught:
        run(stub, session, CONNECTED + OUTPUT + end, Ending.STALL)

    assert caught.value.result is not None
    assert caught.value.result.stdout == "hi\r\n"


@pytest.mark.parametrize("size", [0, len(CONNECTED) + 1, len(CONNECTED + PROMPT + OUTPUT) + 5])
def test_limit_is_kept_though_a_frame_never_gets_whole(stub: DaytonaStub, session: SandboxSession, size: int) -> None:
    stub.play(CONNECT, spoken(WHOLE[:size], Ending.STALL))
    began = time.monotonic()

    result = session.execute(SandboxCommand(command="x", command_id="c", terminal=TerminalSize(), timeout_millis=300))

    assert (result.timed_out, result.exit_code) == (True, None)
    assert time.monotonic() - began < 10


def test_error_that_the_service_tells_is_told(stub: DaytonaStub, session: SandboxSession) -> None:
    with pytest.raises(SandboxException, match="no shell"):
        run(stub, session, frame(TEXT, b'{"type":"control","status":"error","error":"no shell"}'))


@pytest.mark.parametrize(
    "refusal",
    [
        answer({"message": "gone"}, 410),
        answer({}),
        Reply(status=302, headers={"Location": "http://127.0.0.1:1/"}),
        Reply(raw=b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n"),
        Reply(raw=b"\x00\x01\x02\r\n\r\n", ending=Ending.CUT),
        Reply(raw=b"", ending=Ending.CUT),
    ],
)
def test_terminal_that_cannot_be_connected_is_given_up(
    stub: DaytonaStub, session: SandboxSession, refusal: Reply
) -> None:
    stub.play(CONNECT, refusal)
    stub.play(GIVE_UP, answer({"message": "PTY session deleted"}))

    with pytest.raises(SandboxException, match="could not be connected") as caught:
        session.execute(COMMAND)

    assert caught.value.outcome is Outcome.NOT_STARTED
    assert KEY not in str(caught.value)
    assert stub.calls[1:] == [UPLOAD, PTY, CONNECT, GIVE_UP, EXECUTE]  # the last removes the script


def test_interrupt_while_connecting_leaves_no_terminal(
    stub: DaytonaStub, session: SandboxSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("websocket.create_connection", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.execute(COMMAND)

    assert GIVE_UP in stub.calls


# --- certificates -----------------------------------------------------------------------------------------------------


def test_private_authority_is_trusted_when_the_host_says_so(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with DaytonaStub({UPLOAD: answer({}), PTY: answer({}, 201), EXECUTE: executed()}, tls=authority.server) as stub:
        stub.play(GET, answer(stub.sandbox()))
        with stub.provider(ca_bundle=authority.bundle).connect("id-1") as session:
            assert run(stub, session, WHOLE).stdout == "hi\r\n"
