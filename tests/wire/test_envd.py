from __future__ import annotations

import base64
import json

import pytest

from ai4j_sandbox.errors import SandboxProtocolError
from ai4j_sandbox.files import FileInfo, FileKind
from ai4j_sandbox.model import OutputStream, TerminalSize
from ai4j_sandbox.process import OutputChunk, ProcessExit
from ai4j_sandbox_wire.connect import Codec
from ai4j_sandbox_wire.envd import (
    FileChange,
    FileEvent,
    ProcessEnded,
    ProcessRecord,
    ProcessStarted,
    Selector,
    StartRequest,
    decode_base64,
    decode_binary_event,
    decode_json_event,
    decode_watch_message,
    input_document,
    parse_entry,
    parse_file_events,
    parse_processes,
    parse_timestamp,
    process_exit,
)
from ai4j_sandbox_wire.protobuf import bytes_field, fields, number_field, zigzag

OUT, ERR = OutputStream.STDOUT, OutputStream.STDERR


def event(number: int, message: bytes) -> bytes:
    return bytes_field(1, bytes_field(number, message))


# One table for both codecs: JSON text, binary message, what it means.
EVENTS = [
    ('{"event":{"start":{"pid":42}}}', bytes.fromhex("0a040a02082a"), ProcessStarted(42)),
    ('{"event":{"data":{"stdout":"aGkK"}}}', event(2, bytes_field(1, b"hi\n")), OutputChunk(OUT, b"hi\n")),
    ('{"event":{"data":{"stderr":"aGkK"}}}', event(2, bytes_field(2, b"hi\n")), OutputChunk(ERR, b"hi\n")),
    ('{"event":{"data":{"pty":"aGkK"}}}', event(2, bytes_field(3, b"hi\n")), OutputChunk(OUT, b"hi\n")),
    ('{"event":{"data":{"stdout":""}}}', event(2, bytes_field(1, b"")), None),
    ('{"event":{"data":{}}}', event(2, b""), None),
    ('{"event":{"keepalive":{}}}', event(4, b""), None),
    ('{"event":{"novelty":{"a":1}}}', event(9, b"\x08\1"), None),
    ('{"event":{}}', bytes_field(1, b""), None),
    ("{}", b"", None),
    (
        '{"event":{"end":{"exited":true,"status":"exit status 0"}}}',
        event(3, number_field(2, 1) + bytes_field(3, "exit status 0")),
        ProcessEnded(exited=True, status="exit status 0"),
    ),
    (
        '{"event":{"end":{"exitCode":-1,"status":"signal: killed","error":"signal: killed"}}}',
        event(3, number_field(1, zigzag(-1)) + bytes_field(3, "signal: killed") + bytes_field(4, "signal: killed")),
        ProcessEnded(exit_code=-1, status="signal: killed", error="signal: killed"),
    ),
    ('{"event":{"end":{}}}', event(3, b""), ProcessEnded()),
]


@pytest.mark.parametrize(("text", "binary", "meaning"), EVENTS, ids=range(len(EVENTS)))
def test_event_means_the_same_in_both_codecs(text: str, binary: bytes, meaning: object) -> None:
    assert decode_json_event(text.encode()) == meaning
    assert decode_binary_event(binary) == meaning


@pytest.mark.parametrize(
    "text",
    [
        '{ "event" : {"data":{ "stdout": "aGkK" }}}',
        '{"event":{"data":{"stdout":"aGkK","more":1}}}',
        '{"more":[1],"event":{"data":{"stdout":"aGkK"}}}',
        '{"event":{"data":{"stdout":"aGk\\u004b"}}}',
    ],
)
def test_data_event_in_another_spelling_takes_the_slow_path(text: str) -> None:
    assert decode_json_event(text.encode()) == OutputChunk(OUT, b"hi\n")


def test_binary_data_event_with_unknown_fields_takes_the_slow_path() -> None:
    message = event(2, number_field(7, 1) + bytes_field(1, b"hi")) + number_field(9, 3)

    assert decode_binary_event(message) == OutputChunk(OUT, b"hi")


@pytest.mark.parametrize("text", ["aGk_-w==", "aGk/+w==", "aGk_-w", "aGk/+w"])
def test_base64_in_every_spelling(text: str) -> None:
    assert decode_base64(text) == b"hi?\xfb"
    assert decode_json_event(json.dumps({"event": {"data": {"stdout": text}}}).encode()) == OutputChunk(OUT, b"hi?\xfb")


@pytest.mark.parametrize("text", ["aGk*K", "aGkK aGkK", "aGkK\n", "a", "aGkKa", "äöü", "aGkK\0", 7, ["aGkK"]])
def test_base64_garbage_is_a_protocol_error(text: object) -> None:
    message = json.dumps({"event": {"data": {"stdout": text}}}, separators=(",", ":")).encode()

    with pytest.raises(SandboxProtocolError, match="base64"):
        decode_json_event(message)


@pytest.mark.parametrize(
    "payload",
    [b"{", b"null", b"[]", b"\xff", b'{"event":7}', b'{"event":{"data":"x"}}', b'{"event":{"start":{"pid":"x"}}}',
     b'{"event":{"end":{"exitCode":true}}}', b'{"event":{"end":{"exitCode":1.5}}}',
     b'{"event":{"end":{"exitCode":NaN}}}'],
)  # fmt: skip
def test_json_event_of_the_wrong_shape_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(SandboxProtocolError):
        decode_json_event(payload)


@pytest.mark.parametrize("payload", [b"\x0a\x05\x12", b"\x0a", b"\x0f", event(3, b"\x0a\x7f")])
def test_broken_binary_event_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(SandboxProtocolError):
        decode_binary_event(payload)


@pytest.mark.parametrize(
    ("end", "meaning"),
    [
        ({"exited": True, "status": "exit status 0"}, ProcessExit(exit_code=0, status_text="exit status 0")),
        ({"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"},
         ProcessExit(exit_code=3, status_text="exit status 3")),
        ({"exit_code": 4, "exited": True}, ProcessExit(exit_code=4)),
        ({"exitCode": "5", "exited": True}, ProcessExit(exit_code=5)),
        ({"exitCode": 6.0}, ProcessExit(exit_code=6)),
        ({"exitCode": 0, "exited": True, "status": "exited"}, ProcessExit(exit_code=0, status_text="exited")),
        ({"exitCode": 0}, ProcessExit(exit_code=0)),
        ({"exited": True}, ProcessExit(exit_code=0)),
        ({"status": "exited"}, ProcessExit(exit_code=0, status_text="exited")),
        ({"status": "exit status 7"}, ProcessExit(exit_code=7, status_text="exit status 7")),
        ({"exited": True, "status": "exited with code 8"}, ProcessExit(exit_code=8, status_text="exited with code 8")),
        ({"exitCode": -1, "status": "signal: killed", "error": "signal: killed"},
         ProcessExit(exit_code=137, signal="SIGKILL", status_text="signal: killed")),
        ({"status": "signal: segmentation fault (core dumped)"},
         ProcessExit(exit_code=139, signal="SIGSEGV", status_text="signal: segmentation fault (core dumped)")),
        ({"status": "terminated by signal 9"},
         ProcessExit(exit_code=137, signal="SIGKILL", status_text="terminated by signal 9")),
        ({"status": "signal: signal 34"}, ProcessExit(exit_code=162, signal="SIG34", status_text="signal: signal 34")),
        ({"exitCode": 137, "status": "killed"}, ProcessExit(exit_code=137, signal="SIGKILL", status_text="killed")),
        ({"exitCode": 143, "exited": True, "status": "exit status 143"},
         ProcessExit(exit_code=143, status_text="exit status 143")),
        ({"error": "signal: terminated"},
         ProcessExit(exit_code=143, signal="SIGTERM", status_text="signal: terminated")),
        ({}, ProcessExit(exit_code=None)),
        ({"exitCode": -1}, ProcessExit(exit_code=None)),
        ({"status": "exit status -1"}, ProcessExit(exit_code=None, status_text="exit status -1")),
        ({"error": "fork/exec /nope: no such file"},
         ProcessExit(exit_code=None, status_text="fork/exec /nope: no such file")),
        ({"exitCode": 0, "error": "fork/exec failed"}, ProcessExit(exit_code=None, status_text="fork/exec failed")),
        *(
            ({"status": status}, ProcessExit(exit_code=None, status_text=status))
            for status in ("signal: ²", f"signal: {'9' * 5000}", f"exit status {'9' * 5000}")
        ),
        ({"status": "who knows 0"}, ProcessExit(exit_code=None, status_text="who knows 0")),
        ({"exitCode": 2**40}, ProcessExit(exit_code=None)),
    ],
)  # fmt: skip
def test_outcome_is_folded_and_never_a_made_up_zero(end: dict[str, object], meaning: ProcessExit) -> None:
    ended = decode_json_event(json.dumps({"event": {"end": end}}).encode())

    assert isinstance(ended, ProcessEnded)
    assert process_exit(ended) == meaning


@pytest.mark.parametrize("message", [{"event": {"start": {"pid": -7}}}, {"event": {"start": {"pid": "-1"}}}])
def test_process_with_an_impossible_id_is_none_of_ours(message: object) -> None:
    with pytest.raises(SandboxProtocolError, match="pid must not be negative"):
        decode_json_event(json.dumps(message).encode())


@pytest.mark.parametrize("member", ["size", "mode"])
def test_file_with_a_negative_figure_is_refused(member: str) -> None:
    with pytest.raises(SandboxProtocolError, match=f"{member} must not be negative, got -1"):
        parse_entry({"path": "/a", member: "-1"})


START = StartRequest(
    program="/bin/sh",
    arguments=("-c", "echo 'ä'"),
    environment={"A": "1"},
    working_directory="/w",
    terminal=TerminalSize(rows=30, columns=90),
    tag="t",
    stdin=False,
)


def test_start_request_in_json() -> None:
    assert json.loads(START.encode(Codec.JSON)) == {
        "process": {"cmd": "/bin/sh", "args": ["-c", "echo 'ä'"], "envs": {"A": "1"}, "cwd": "/w"},
        "pty": {"size": {"cols": 90, "rows": 30}},
        "tag": "t",
        "stdin": False,
    }


def test_start_request_in_binary() -> None:
    message = dict(fields(START.encode(Codec.BINARY)))

    assert {key: value for key, value in message.items() if key != 1} == {
        2: bytes_field(1, number_field(1, 90) + number_field(2, 30)),
        3: b"t",
        4: 0,
    }
    assert list(fields(bytes(message[1]))) == [  # type: ignore[arg-type]  # field 1 is a message
        (1, b"/bin/sh"),
        (2, b"-c"),
        (2, "echo 'ä'".encode()),
        (3, b"\n\1A\x12\x011"),
        (4, b"/w"),
    ]


def test_absent_is_not_sent() -> None:
    request = StartRequest(program="x", stdin=None)

    assert json.loads(request.encode(Codec.JSON)) == {"process": {"cmd": "x", "args": [], "envs": {}}}
    assert request.encode(Codec.BINARY) == b"\n\3\n\1x"


def test_selectors_in_both_codecs() -> None:
    assert json.loads(Selector(7).encode_connect(Codec.JSON)) == {"process": {"pid": 7}}
    assert json.loads(Selector("t").encode_connect(Codec.JSON)) == {"process": {"tag": "t"}}
    assert Selector(7).encode_connect(Codec.BINARY) == b"\n\2\x08\7"
    assert Selector("t").encode_connect(Codec.BINARY) == b"\n\3\x12\1t"


def test_input_is_base64_in_its_kind() -> None:
    assert input_document(Selector(7), b"\0\xff", terminal=False) == {
        "process": {"pid": 7},
        "input": {"stdin": base64.b64encode(b"\0\xff").decode()},
    }
    assert input_document(Selector(7), b"x", terminal=True)["input"] == {"pty": "eA=="}


def test_processes_are_read() -> None:
    document = {"processes": [{"config": {"cmd": "sh", "args": ["-c", "x"], "cwd": "/w"}, "pid": 7, "tag": "t"}, {}]}

    assert parse_processes(document) == [
        ProcessRecord(pid=7, program="sh", arguments=("-c", "x"), working_directory="/w", tag="t"),
        ProcessRecord(pid=0, program=""),
    ]
    assert parse_processes({}) == parse_processes(None) == []


@pytest.mark.parametrize(
    ("entry", "info"),
    [
        ({"name": "a", "type": "FILE_TYPE_FILE", "path": "/a", "size": "13", "mode": 420, "owner": "u", "group": "g",
          "modifiedTime": "1970-01-01T00:00:01.500Z"},
         FileInfo(path="/a", kind=FileKind.FILE, size_bytes=13, mode=0o644, owner="u", group="g",
                  modified_at_epoch_ms=1500)),
        ({"type": 2, "path": "/d"}, FileInfo(path="/d", kind=FileKind.DIRECTORY, size_bytes=0)),
        ({"type": "FILE_TYPE_FILE", "path": "/l", "size": 4, "symlinkTarget": "/a"},
         FileInfo(path="/l", kind=FileKind.SYMLINK, size_bytes=4, target="/a")),
        ({"path": "/dev/x", "type": "FILE_TYPE_NOVEL"}, FileInfo(path="/dev/x", kind=FileKind.OTHER, size_bytes=0)),
    ],
)  # fmt: skip
def test_entry_is_read_with_names_or_numbers(entry: dict[str, object], info: FileInfo) -> None:
    assert parse_entry(entry) == info


@pytest.mark.parametrize(
    ("text", "millis"),
    [("1970-01-01T00:00:00.123456789Z", 123), ("1970-01-01T01:00:00+01:00", 0), ("", None), (None, None), ("x", None)],
)
def test_timestamp_with_any_fraction(text: str | None, millis: int | None) -> None:
    assert parse_timestamp(text) == millis


def test_file_events_are_read_polled_and_streamed() -> None:
    created = FileEvent(name="a", change=FileChange.CREATED)

    assert parse_file_events({"events": [{"name": "a", "type": "EVENT_TYPE_CREATE"}, {"type": 99}]}) == [created]
    assert decode_watch_message(b'{"filesystem":{"name":"a","type":1}}') == created
    assert decode_watch_message(b'{"keepalive":{}}') is None
