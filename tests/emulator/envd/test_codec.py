"""proto3 JSON and binary, against bytes worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox_emulator.envd import messages
from ai4j_sandbox_emulator.envd.codec import (
    CodecError,
    Document,
    decode_binary,
    decode_json,
    encode_binary,
    encode_json,
    timestamp,
)
from ai4j_sandbox_emulator.envd.messages import Message

ENTRY: Document = {
    "name": "a",
    "type": "FILE_TYPE_DIRECTORY",
    "path": "/a",
    "size": 5_000_000_000,
    "mode": 0o755,
    "permissions": "drwxr-xr-x",
    "owner": "user",
    "group": "user",
    "modifiedTime": 1_700_000_000_250,
    "symlinkTarget": "/b",
    "metadata": {"k": "v"},
    "isSymlink": True,
}

# message, document, JSON, binary as hex
WRITTEN: list[tuple[Message, Document, str, str]] = [
    (
        messages.PROCESS_EVENT_RESPONSE,
        {"event": {"start": {"pid": 42}}},
        '{"event":{"start":{"pid":42}}}',
        "0a040a02082a",
    ),
    (
        messages.PROCESS_EVENT_RESPONSE,
        {"event": {"data": {"stdout": b"hi\n"}}},
        '{"event":{"data":{"stdout":"aGkK"}}}',
        "0a0712050a03" + b"hi\n".hex(),
    ),
    (messages.PROCESS_EVENT_RESPONSE, {"event": {"keepalive": {}}}, '{"event":{"keepalive":{}}}', "0a022200"),
    (
        messages.PROCESS_EVENT_RESPONSE,
        {"event": {"end": {"exitCode": -1, "exited": False, "status": "signal: killed"}}},
        '{"event":{"end":{"exitCode":-1,"status":"signal: killed"}}}',
        "0a141a1208011a0e" + b"signal: killed".hex(),
    ),
    (
        messages.PROCESS_EVENT_RESPONSE,
        {"event": {"end": {"exitCode": 0, "exited": True, "status": "exit status 0"}}},
        '{"event":{"end":{"exited":true,"status":"exit status 0"}}}',
        "0a131a1110011a0d" + b"exit status 0".hex(),
    ),
    (messages.START_REQUEST, {"stdin": False, "tag": ""}, '{"tag":"","stdin":false}', "1a002000"),
    (messages.LIST_DIR_RESPONSE, {"entries": []}, "{}", ""),
    (messages.SEND_SIGNAL_REQUEST, {"signal": "SIGNAL_SIGKILL"}, '{"signal":"SIGNAL_SIGKILL"}', "1009"),
    (messages.SEND_SIGNAL_REQUEST, {"signal": "SIGNAL_UNSPECIFIED"}, "{}", ""),
    (
        messages.PROCESS_CONFIG,
        {"cmd": "c", "args": ["a", ""], "envs": {"K": "v"}},
        '{"cmd":"c","args":["a",""],"envs":{"K":"v"}}',
        "0a0163" + "120161" + "1200" + "1a06" + "0a014b" + "120176",
    ),
]


@pytest.mark.parametrize(("message", "document", "text", "binary"), WRITTEN)
def test_a_message_is_written(message: Message, document: Document, text: str, binary: str) -> None:
    assert encode_json(message, document).decode() == text
    assert encode_binary(message, document).hex() == binary


@pytest.mark.parametrize(
    ("message", "document"),
    [
        (messages.ENTRY, ENTRY),
        (messages.ENTRY_RESPONSE, {"entry": {"name": "x", "modifiedTime": -1500}}),
        (messages.START_REQUEST, {"process": {"cmd": "é", "args": ["\0"]}, "pty": {"size": {"cols": 1, "rows": 2}}}),
        (messages.SELECTOR_REQUEST, {"process": {"pid": 2**32 - 1}}),
        (messages.PROCESS_INPUT, {"stdin": bytes(range(256))}),
        (messages.PROCESS_INPUT, {"pty": b""}),
    ],
)
def test_a_message_survives_both_ways_to_write_it(message: Message, document: Document) -> None:
    assert decode_json(message, encode_json(message, document)) == document
    assert decode_binary(message, encode_binary(message, document)) == document


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ('{"exit_code": 3, "exited": true}', {"exitCode": 3, "exited": True}),
        ('{"exitCode": "3"}', {"exitCode": 3}),
        ('{"exitCode": 3.0}', {"exitCode": 3}),
        ('{"exitCode": null, "unknown": [1]}', {}),
    ],
)
def test_json_is_read_as_proto3_allows(text: str, document: Document) -> None:
    end = messages.PROCESS_EVENT.by_name["end"].kind
    assert isinstance(end, Message)

    assert decode_json(end, text.encode()) == document


@pytest.mark.parametrize("text", ["+/8=", "-_8=", "+/8", "-_8"])
def test_both_base64_alphabets_are_read_padded_or_not(text: str) -> None:
    assert decode_json(messages.PROCESS_INPUT, b'{"stdin":"%s"}' % text.encode()) == {"stdin": b"\xfb\xff"}


def test_an_enum_may_be_a_number() -> None:
    assert decode_json(messages.SEND_SIGNAL_REQUEST, b'{"signal":15}') == {"signal": "SIGNAL_SIGTERM"}


@pytest.mark.parametrize(
    ("message", "body", "reason"),
    [
        (messages.PATH_REQUEST, b"", "invalid JSON"),
        (messages.PATH_REQUEST, b"[]", "expected an object, got list"),
        (messages.PATH_REQUEST, b'{"path":1}', "invalid value for path: expected a string, got 1"),
        (messages.SELECTOR, b'{"pid":-1}', "invalid value for pid: -1 is out of range"),
        (messages.SELECTOR, b'{"pid":true}', "invalid value for pid: expected an integer"),
        (messages.PROCESS_INPUT, b'{"stdin":"!"}', "invalid value for stdin: invalid base64"),
        (messages.PROCESS_INPUT, b'{"stdin":"A"}', "invalid value for stdin"),
        (messages.SEND_SIGNAL_REQUEST, b'{"signal":"SIGINT"}', "invalid value for signal: unknown name 'SIGINT'"),
        (messages.WATCH_REQUEST, b'{"recursive":"yes"}', "invalid value for recursive: expected a boolean"),
        (messages.PROCESS_CONFIG, b'{"args":7}', "invalid value for args"),
    ],
)
def test_json_that_does_not_fit_is_refused(message: Message, body: bytes, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        decode_json(message, body)


@pytest.mark.parametrize(
    ("binary", "reason"),
    [
        ("0a05", "ends inside a field"),
        ("0a", "ends inside a number"),
        ("0b", "unknown wire type 3"),
        ("0801", "expected bytes, got a number"),
        ("0a01ff", "invalid value for path"),
        ("08" + "ff" * 12, "ends inside a number"),
    ],
)
def test_binary_that_does_not_fit_is_refused(binary: str, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        decode_binary(messages.PATH_REQUEST, bytes.fromhex(binary))


def test_unknown_binary_fields_of_every_wire_type_are_skipped() -> None:
    unknown = "f80601" + "f906" + "00" * 8 + "fa0601ff" + "fd06" + "00" * 4

    assert decode_binary(messages.PATH_REQUEST, bytes.fromhex(unknown + "0a012f")) == {"path": "/"}


def test_a_binary_message_cut_anywhere_is_a_shorter_message_or_an_error() -> None:
    whole = encode_binary(messages.ENTRY, ENTRY)

    for length in range(len(whole)):
        outcome: Any
        try:
            outcome = decode_binary(messages.ENTRY, whole[:length])
        except CodecError:
            continue
        assert set(outcome) < set(ENTRY)


@pytest.mark.parametrize(
    ("epoch_ms", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (1_700_000_000_250, "2023-11-14T22:13:20.250Z")],
)
def test_times_are_rfc_3339(epoch_ms: int, text: str) -> None:
    assert timestamp(epoch_ms) == text
