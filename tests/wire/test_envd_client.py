from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    SandboxConflictError,
    SandboxNotFoundError,
    SandboxOutputLimitError,
    SandboxPermissionError,
    SandboxProtocolError,
)
from ai4j_sandbox.files import FileInfo, FileKind
from ai4j_sandbox.model import TerminalSize
from ai4j_sandbox_wire.connect import encode_envelope
from ai4j_sandbox_wire.envd import FileChange, FileEvent, ProcessRecord, Selector, StartRequest, decode_watch_message
from ai4j_sandbox_wire.envd_client import EnvdClient, EnvdOptions
from support.envd_stub import END_OF_STREAM, EXITED, START, STREAM, EnvdStub
from support.http_stub import Reply

PID = Selector(7)
Call = Callable[[EnvdClient], Any]


@pytest.fixture
def stub() -> Iterator[EnvdStub]:
    with EnvdStub() as stub:
        yield stub


def answering(stub: EnvdStub, method: str, document: object) -> EnvdClient:
    headers = {"Content-Type": "application/json"}
    stub.refusals[method] = Reply(headers=headers, body=json.dumps(document).encode())
    return stub.client()


UNARY: list[tuple[str, Call, str, dict[str, Any]]] = [
    ("input", lambda envd: envd.send_input(PID, b"hi"), "SendInput",
     {"process": {"pid": 7}, "input": {"stdin": "aGk="}}),
    ("terminal input", lambda envd: envd.send_input(Selector("t"), b"hi", terminal=True), "SendInput",
     {"process": {"tag": "t"}, "input": {"pty": "aGk="}}),
    ("close", lambda envd: envd.close_stdin(PID), "CloseStdin", {"process": {"pid": 7}}),
    ("signal", lambda envd: envd.send_signal(PID, "SIGTERM"), "SendSignal",
     {"process": {"pid": 7}, "signal": "SIGNAL_SIGTERM"}),
    ("resize", lambda envd: envd.resize(PID, TerminalSize(rows=2, columns=3)), "Update",
     {"process": {"pid": 7}, "pty": {"size": {"cols": 3, "rows": 2}}}),
    ("make_dir", lambda envd: envd.make_dir("/d"), "MakeDir", {"path": "/d"}),
    ("move", lambda envd: envd.move("/a", "/b"), "Move", {"source": "/a", "destination": "/b"}),
    ("remove", lambda envd: envd.remove("/a"), "Remove", {"path": "/a"}),
    ("list", lambda envd: envd.list_dir("/a", 3), "ListDir", {"path": "/a", "depth": 3}),
    ("events", lambda envd: envd.watcher_events("w"), "GetWatcherEvents", {"watcherId": "w"}),
    ("unwatch", lambda envd: envd.remove_watcher("w"), "RemoveWatcher", {"watcherId": "w"}),
]  # fmt: skip


@pytest.mark.parametrize(("call", "method", "document"), [case[1:] for case in UNARY], ids=[case[0] for case in UNARY])
def test_unary_call_is_one_json_document(stub: EnvdStub, call: Call, method: str, document: dict[str, Any]) -> None:
    call(stub.client(user="bob"))

    assert stub.calls == [(method, document)]
    (request,) = stub.http.requests
    assert request.headers["content-type"] == "application/json"
    assert request.headers["connect-protocol-version"] == "1"
    assert request.headers["authorization"] == "Basic Ym9iOg=="


def test_processes_are_listed(stub: EnvdStub) -> None:
    client = answering(stub, "List", {"processes": [{"config": {"cmd": "sh"}, "pid": 7, "tag": "t"}]})

    assert client.list_processes() == [ProcessRecord(pid=7, program="sh", tag="t")]


def test_path_is_described(stub: EnvdStub) -> None:
    client = answering(stub, "Stat", {"entry": {"path": "/a", "type": "FILE_TYPE_FILE", "size": "3"}})

    assert client.stat("/a") == FileInfo(path="/a", kind=FileKind.FILE, size_bytes=3)


def test_watcher_tells_events(stub: EnvdStub) -> None:
    client = answering(stub, "CreateWatcher", {"watcherId": "w"})
    assert client.create_watcher("/d", recursive=True, entries=True) == "w"
    assert json.loads(stub.http.requests[0].body) == {"path": "/d", "recursive": True, "includeEntry": True}

    client = answering(stub, "GetWatcherEvents", {"events": [{"name": "a", "type": "EVENT_TYPE_WRITE"}]})
    assert client.watcher_events("w") == [FileEvent(name="a", change=FileChange.WRITTEN)]


def test_watcher_without_an_id_is_a_protocol_error(stub: EnvdStub) -> None:
    with pytest.raises(SandboxProtocolError, match="without an id"):
        answering(stub, "CreateWatcher", {}).create_watcher("/d")


def test_directory_is_watched_as_a_stream(stub: EnvdStub) -> None:
    messages = [b'{"start":{}}', b'{"filesystem":{"name":"a","type":"EVENT_TYPE_CREATE"}}', b'{"keepalive":{}}']
    body = b"".join(map(encode_envelope, messages)) + END_OF_STREAM
    stub.refusals["WatchDir"] = Reply(headers=STREAM, body=body)
    stream = stub.client().watch_dir("/d")

    envelopes = stream.receive(5) or []

    events = [decode_watch_message(envelope.payload) for envelope in envelopes if not envelope.end_of_stream]
    assert events == [None, FileEvent(name="a", change=FileChange.CREATED), None]
    assert envelopes[-1].end_of_stream


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, b'{"code":"not_found","message":"process with pid 9 not found"}', SandboxNotFoundError),
        (409, b'{"code":"already_exists","message":"exists"}', SandboxConflictError),
        (403, b"", SandboxPermissionError),
        (200, b"[]", SandboxProtocolError),
        (200, b"<html></html>", SandboxProtocolError),
    ],
)
def test_refused_call_is_its_error(stub: EnvdStub, status: int, body: bytes, error: type[Exception]) -> None:
    stub.refusals["CloseStdin"] = Reply(status=status, headers={"Content-Type": "application/json"}, body=body)

    with pytest.raises(error):
        stub.client().close_stdin(PID)


SIGN_IN = Reply(headers={"Content-Type": "text/html"}, body=b"<html><title>Sign in</title></html>")
OTHER_JSON = Reply(headers={"Content-Type": "application/json"}, body=b"7")
NOTHING = Reply()


@pytest.mark.parametrize("answer", [SIGN_IN, OTHER_JSON, NOTHING], ids=["html", "other JSON", "nothing"])
@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("files", lambda client: client.write_file("/a", [b"x"])),
        ("MakeDir", lambda client: client.make_dir("/a")),
        ("Remove", lambda client: client.remove("/a")),
        ("Move", lambda client: client.move("/a", "/b")),
        ("SendInput", lambda client: client.send_input(PID, b"x")),
        ("SendSignal", lambda client: client.send_signal(PID, "SIGKILL")),
        ("List", lambda client: client.list_processes()),
        ("metrics", lambda client: client.metrics()),
    ],
)
def test_success_with_a_body_that_envd_never_sends_is_none(
    stub: EnvdStub, path: str, call: Callable[[EnvdClient], object], answer: Reply
) -> None:
    stub.refusals[path] = answer

    with pytest.raises(SandboxProtocolError, match="was expected"):
        call(stub.client())


def test_sign_in_page_is_neither_a_file_nor_health(stub: EnvdStub) -> None:
    stub.refusals |= {"files": SIGN_IN, "health": SIGN_IN}

    with pytest.raises(SandboxProtocolError, match=r"a file was expected.*'Sign in'"):
        stub.client().read_file("/a")
    with pytest.raises(SandboxProtocolError, match="'Sign in'"):
        stub.client().health()


def test_packed_answer_is_not_taken_for_the_file(stub: EnvdStub) -> None:
    stub.refusals["files"] = Reply(headers={"Content-Encoding": "gzip"}, body=gzip.compress(b"hello"))

    with pytest.raises(SandboxProtocolError, match="a file was expected"):
        stub.client().read_file("/a")


@pytest.mark.parametrize("status", [202, 204, 205, 206])
def test_answer_without_content_is_no_empty_file(stub: EnvdStub, status: int) -> None:
    stub.refusals["files"] = Reply(status=status)

    with pytest.raises(SandboxProtocolError, match=f"a file was expected.*status {status}"):
        stub.client().read_file("/a")


def test_file_that_is_a_page_is_read(stub: EnvdStub) -> None:
    headers = {"Content-Type": "text/html; charset=utf-8", "Content-Disposition": 'inline; filename="a.html"'}
    stub.refusals["files"] = Reply(headers=headers, body=b"<html></html>")

    assert b"".join(stub.client().read_file("/a.html")) == b"<html></html>"


def test_daemon_is_asked(stub: EnvdStub) -> None:
    stub.refusals["health"] = Reply(status=204)
    stub.client().health()

    assert answering(stub, "metrics", {"cpu_used_pct": 1.5}).metrics() == {"cpu_used_pct": 1.5}
    assert answering(stub, "envs", {"PATH": "/bin"}).environment() == {"PATH": "/bin"}
    assert [request.target for request in stub.http.requests] == ["/health", "/metrics", "/envs"]


def test_file_is_read_in_pieces(stub: EnvdStub) -> None:
    stub.refusals["files"] = Reply(body=[b"a" * 100_000, b"b"], chunked=True)

    assert b"".join(stub.client(user="bob").read_file("/a b")) == b"a" * 100_000 + b"b"
    assert stub.http.requests[0].target == "/files?path=%2Fa%20b&username=bob"
    assert stub.http.requests[0].headers["accept"] == "*/*"


def test_short_file_is_written_with_its_length(stub: EnvdStub) -> None:
    stub.refusals["files"] = Reply(body=b'[{"name":"a"}]')
    stub.client().write_file("/a", [b"x", b"y"])

    (request,) = stub.http.requests
    assert (request.headers["content-length"], request.body) == ("2", b"xy")
    assert request.headers["content-type"] == "application/octet-stream"


def test_long_file_is_written_in_chunks(stub: EnvdStub) -> None:
    stub.refusals["files"] = Reply(body=b"[]")
    stub.client().write_file("/a", [b"x" * 200_000] * 3)

    (request,) = stub.http.requests
    assert request.headers["transfer-encoding"] == "chunked"
    assert request.body == b"x" * 600_000


def test_older_envd_gets_a_form(stub: EnvdStub) -> None:
    stub.refusals["files"] = Reply(body=b"[]")
    stub.client(version="0.5.6").write_file("/a", [b"xy"])

    (request,) = stub.http.requests
    kind, _, boundary = request.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/form-data"
    assert (
        request.body
        == (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="file"\r\n'
            f"Content-Type: application/octet-stream\r\n\r\nxy\r\n--{boundary}--\r\n"
        ).encode()
    )


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        (None, True),
        ("", True),
        ("odd", True),
        ("²", True),
        ("9" * 5000, True),
        ("0.5.7", True),
        ("v0.6.13-rc1", True),
        ("1.0", True),
        ("0.5.6", False),
    ],
)
def test_version_is_compared_by_numbers(version: str | None, answer: bool) -> None:
    assert EnvdOptions(version=version).at_least(0, 5, 7) is answer


def test_stream_takes_the_codec_of_the_answer_and_its_limit(stub: EnvdStub) -> None:
    stub.say(START + EXITED, END_OF_STREAM)
    stream = stub.client(envelope_limit_bytes=10).start(StartRequest(program="true"), user="eve")

    with pytest.raises(SandboxOutputLimitError, match="connectEnvelopeLimitBytes=10"):
        stream.receive(5)
    stream.close()
    assert stub.starts[0].headers["authorization"] == "Basic ZXZlOg=="
