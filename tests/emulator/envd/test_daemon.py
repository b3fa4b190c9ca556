"""envd over HTTP, with commands that really run."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import time
from typing import Any

import pytest

from ai4j_sandbox_emulator.envd import codec, messages
from ai4j_sandbox_emulator.envelope import EnvelopeReader
from support.emulator_client import Box, Frame, outcome

START = "process.Process/Start"
UNAUTHORIZED = "unauthorized access, please provide a valid access token or method signing if supported"


def shell(line: str, **options: Any) -> dict[str, Any]:
    return {"process": {"cmd": "/bin/sh", "args": ["-c", line]}, "stdin": False, **options}


# --- the protocol -----------------------------------------------------------------------------------------------------


def test_a_stream_is_start_data_end_and_the_last_frame(shared_box: Box) -> None:
    frames = list(shared_box.start("/bin/echo", "hi"))

    pid = frames[0].document["event"]["start"]["pid"]
    assert frames == [
        Frame(0, {"event": {"start": {"pid": pid}}}),
        Frame(0, {"event": {"data": {"stdout": "aGkK"}}}),
        Frame(0, {"event": {"end": {"exited": True, "status": "exit status 0"}}}),
        Frame(2, {}),
    ]


def test_binary_messages_say_the_same(shared_box: Box) -> None:
    request = codec.encode_binary(messages.START_REQUEST, shell("printf out; exit 3"))
    stream = shared_box.open(START, request, Content_Type="application/connect+proto")
    body = stream.response.read()
    stream.close()

    *events, last = EnvelopeReader().feed(body)
    decoded = [codec.decode_binary(messages.PROCESS_EVENT_RESPONSE, event.payload)["event"] for event in events]
    assert stream.response.headers["Content-Type"] == "application/connect+proto"
    assert decoded[1:] == [
        {"data": {"stdout": b"out"}},
        {"end": {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}},
    ]
    assert (last.flags, last.payload) == (2, b"{}")


def test_binary_unary_calls_are_answered_in_binary(shared_box: Box) -> None:
    request = codec.encode_binary(messages.PATH_REQUEST, {"path": "/home/user"})

    answer = shared_box.call("POST", "/filesystem.Filesystem/Stat", request, Content_Type="application/proto")

    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/proto")
    assert codec.decode_binary(messages.ENTRY_RESPONSE, answer.body)["entry"]["path"] == "/home/user"


def test_envelopes_are_compressed_when_the_client_offers_it(shared_box: Box) -> None:
    stream = shared_box.open(START, shell("echo hi"), Connect_Accept_Encoding="gzip")
    frames = EnvelopeReader().feed(stream.response.read())
    stream.close()

    assert stream.response.headers["Connect-Content-Encoding"] == "gzip"
    assert [frame.flags for frame in frames] == [1, 1, 1, 3]
    assert gzip.decompress(frames[1].payload) == b'{"event":{"data":{"stdout":"aGkK"}}}'


def test_a_compressed_request_envelope_is_read(shared_box: Box) -> None:
    payload = gzip.compress(codec.encode_json(messages.START_REQUEST, shell("echo hi")))
    connection = shared_box.client.connect()
    headers = {**shared_box.headers, "Content-Type": "application/connect+json", "Connect-Content-Encoding": "gzip"}
    connection.request("POST", f"/{START}", struct.pack(">BI", 1, len(payload)) + payload, headers)

    assert b'{"stdout":"aGkK"}' in connection.getresponse().read()
    connection.close()


def test_the_wrong_kind_of_content_type_is_415_with_the_right_ones(shared_box: Box) -> None:
    answer = shared_box.rpc(START, {})

    assert (answer.status, answer.body) == (415, b"")
    assert answer.headers["Accept-Post"] == "application/connect+json, application/connect+proto"


def test_the_wrong_verb_is_405_and_an_unknown_method_404(shared_box: Box) -> None:
    assert shared_box.call("GET", f"/{START}").status == 405
    assert shared_box.call("DELETE", "/files").status == 405
    assert (unknown := shared_box.rpc("process.Process/Nothing", {})).status == 404
    assert unknown.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("path", ["/process.Process/List", f"/{START}", "/metrics", "/envs", "/files/compose"])
def test_without_the_token_everything_but_health_is_401_in_plain_json(shared_box: Box, path: str) -> None:
    method = "GET" if path in ("/metrics", "/envs") else "POST"
    answer = shared_box.call(method, path, b"", X_Access_Token="wrong")

    assert (answer.status, answer.json) == (401, {"code": 401, "message": UNAUTHORIZED})
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"


def test_health_needs_no_token(shared_box: Box) -> None:
    answer = shared_box.call("GET", "/health", X_Access_Token="wrong")

    assert (answer.status, answer.body) == (204, b"")


def test_an_unknown_user_fails_a_unary_call_and_ends_a_stream(shared_box: Box) -> None:
    authorization = "Basic " + base64.b64encode(b"ghost:").decode()
    error = {"code": "unauthenticated", "message": "invalid username: 'ghost'"}

    answer = shared_box.rpc("process.Process/List", {}, Authorization=authorization)
    frames = list(shared_box.open(START, shell("true"), Authorization=authorization))

    assert (answer.status, answer.json) == (401, error)
    assert frames == [Frame(2, {"error": error})]


def test_an_empty_unary_body_is_an_invalid_argument(shared_box: Box) -> None:
    answer = shared_box.call("POST", "/process.Process/List", b"", Content_Type="application/json")

    assert (answer.status, answer.json["code"]) == (400, "invalid_argument")


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x00\x02{}\x00\x00\x00\x00\x02{}"])
def test_a_stream_request_must_be_one_whole_envelope(shared_box: Box, body: bytes) -> None:
    answer = shared_box.call("POST", f"/{START}", body, Content_Type="application/connect+json")

    assert answer.status == 200
    assert b'"error":{"code":"' in answer.body


def test_an_oversize_envelope_is_refused_by_its_length(shared_box: Box) -> None:
    answer = shared_box.call("POST", f"/{START}", b"\x00\xff\xff\xff\xff", Content_Type="application/connect+json")

    assert b"is larger than the limit" in answer.body


def test_keepalives_come_while_nothing_happens(shared_box: Box) -> None:
    stream = shared_box.start("/bin/sleep", "30", headers={"Keepalive_Ping_Interval": "1"})
    pid = stream.pid()

    frame = stream.read()
    stream.close()
    shared_box.rpc("process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})

    assert frame == Frame(0, {"event": {"keepalive": {}}})


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [("exit 7", 7), ("nosuchcmd_xyz", 127), ("/etc/passwd", 126), ("if", 2)],
)
def test_exit_codes_are_the_shells(shared_box: Box, line: str, code: int) -> None:
    end = shared_box.run("/bin/sh", "-c", line).end

    assert end == {"exitCode": code, "exited": True, "status": f"exit status {code}", "error": f"exit status {code}"}


def test_an_unknown_program_starts_and_ends_with_127(shared_box: Box) -> None:
    result = shared_box.run("/no/such/program")

    assert (result.end["exitCode"], result.error) == (127, None)
    assert b"not found" in result.stderr


def test_a_signal_is_minus_one_and_its_name(shared_box: Box) -> None:
    end = shared_box.run("/bin/sh", "-c", "kill -9 $$").end

    assert end == {"exitCode": -1, "status": "signal: killed", "error": "signal: killed"}


def test_a_command_without_stdin_reads_the_end_at_once(shared_box: Box) -> None:
    started = time.monotonic()

    result = shared_box.run("/bin/cat")

    assert (result.stdout, result.end["status"]) == (b"", "exit status 0")
    assert time.monotonic() - started < 5


def test_stdin_is_open_unless_the_request_says_no(shared_box: Box) -> None:
    stream = shared_box.open(START, {"process": {"cmd": "/bin/cat"}})
    selector = {"process": {"pid": stream.pid()}}
    text = base64.b64encode(b"-n\n").decode()

    shared_box.rpc("process.Process/SendInput", {**selector, "input": {"stdin": text}})
    shared_box.rpc("process.Process/CloseStdin", selector)

    assert outcome(list(stream)).stdout == b"-n\n"


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({"stdin": False}, {"stdin": ""}, "error writing to stdin: stdin not enabled or closed"),
        ({"stdin": True}, {"pty": ""}, "error writing to tty: not assigned to process"),
        ({"pty": {"size": {"cols": 80, "rows": 24}}}, {"stdin": ""}, "error writing to stdin: not assigned to process"),
    ],
)
def test_input_must_fit_the_process(shared_box: Box, options: Any, given: Any, message: str) -> None:
    stream = shared_box.open(START, {"process": {"cmd": "/bin/sleep", "args": ["30"]}, **options})
    selector = {"process": {"pid": stream.pid()}}

    answer = shared_box.rpc("process.Process/SendInput", {**selector, "input": given})
    shared_box.rpc("process.Process/SendSignal", {**selector, "signal": "SIGNAL_SIGKILL"})
    stream.close()

    assert (answer.status, answer.json) == (500, {"code": "internal", "message": message})


def test_only_a_terminal_can_be_resized_and_only_a_pipe_closed(shared_box: Box) -> None:
    pipe = shared_box.start("/bin/sleep", "30")
    terminal = shared_box.start("/bin/sleep", "30", pty={"size": {"cols": 80, "rows": 24}})
    pipe_selector, terminal_selector = ({"process": {"pid": stream.pid()}} for stream in (pipe, terminal))

    resized = shared_box.rpc("process.Process/Update", {**pipe_selector, "pty": {"size": {"cols": 1, "rows": 1}}})
    closed = shared_box.rpc("process.Process/CloseStdin", terminal_selector)
    for selector, stream in ((pipe_selector, pipe), (terminal_selector, terminal)):
        shared_box.rpc("process.Process/SendSignal", {**selector, "signal": "SIGNAL_SIGKILL"})
        stream.close()

    assert (resized.status, resized.json["code"]) == (500, "internal")
    assert (closed.status, closed.json["code"]) == (500, "internal")


def test_a_stream_of_input_reaches_the_command(shared_box: Box) -> None:
    stream = shared_box.open(START, {"process": {"cmd": "/usr/bin/head", "args": ["-c", "6"]}})
    documents = [
        {"start": {"process": {"pid": stream.pid()}}},
        {"data": {"input": {"stdin": base64.b64encode(b"abc").decode()}}},
        {"keepalive": {}},
        {"data": {"input": {"stdin": base64.b64encode(b"def").decode()}}},
    ]
    payloads = [json.dumps(document).encode() for document in documents]
    body = b"".join(struct.pack(">BI", 0, len(payload)) + payload for payload in payloads)

    answer = shared_box.call("POST", "/process.Process/StreamInput", body, Content_Type="application/connect+json")

    assert answer.body == b"\x00\x00\x00\x00\x02{}\x02\x00\x00\x00\x02{}"
    assert outcome(list(stream)).stdout == b"abcdef"


def test_a_signal_reaches_the_process_itself_and_not_its_children(shared_box: Box) -> None:
    stream = shared_box.start("/bin/sh", "-c", "sleep 30 & echo $!; wait")
    parent = stream.pid()
    frame = stream.read()
    assert frame is not None
    child = int(base64.b64decode(frame.document["event"]["data"]["stdout"]))

    shared_box.rpc("process.Process/SendSignal", {"process": {"pid": parent}, "signal": "SIGNAL_SIGKILL"})
    stream.close()
    survived = shared_box.run("/bin/sh", "-c", f"kill -9 {child}").end

    assert survived["status"] == "exit status 0"


def test_no_other_signal_than_two_can_be_sent(shared_box: Box) -> None:
    stream = shared_box.start("/bin/sleep", "30")
    selector = {"process": {"pid": stream.pid()}}

    answer = shared_box.rpc("process.Process/SendSignal", selector)
    shared_box.rpc("process.Process/SendSignal", {**selector, "signal": "SIGNAL_SIGTERM"})

    assert (answer.status, answer.json["code"]) == (501, "unimplemented")
    assert outcome(list(stream)).end["status"] == "signal: terminated"


def test_a_tag_names_a_process(shared_box: Box) -> None:
    stream = shared_box.start("/bin/sleep", "30", tag="mine")
    stream.pid()

    listed = shared_box.rpc("process.Process/List", {}).json["processes"]
    shared_box.rpc("process.Process/SendSignal", {"process": {"tag": "mine"}, "signal": "SIGNAL_SIGKILL"})

    assert [process["tag"] for process in listed] == ["mine"]
    assert outcome(list(stream)).end["exitCode"] == -1


@pytest.mark.parametrize("method", ["SendSignal", "SendInput", "CloseStdin", "Update"])
def test_an_unknown_process_is_not_found(shared_box: Box, method: str) -> None:
    answer = shared_box.rpc(f"process.Process/{method}", {"process": {"pid": 999_999}})

    assert (answer.status, answer.json) == (404, {"code": "not_found", "message": "process with pid 999999 not found"})


def test_a_deadline_ends_the_stream_before_the_kill_is_seen(shared_box: Box) -> None:
    stream = shared_box.start("/bin/sleep", "30", headers={"Connect_Timeout_Ms": "200"})
    pid = stream.pid()

    frames = list(stream)

    assert frames == [Frame(2, {"error": {"code": "deadline_exceeded", "message": "context deadline exceeded"}})]
    connected = outcome(list(shared_box.open("process.Process/Connect", {"process": {"pid": pid}})))
    assert connected.end["status"] == "signal: killed"


def test_a_deadline_that_is_no_number_starts_nothing(shared_box: Box) -> None:
    error = shared_box.run("/bin/touch", "started-anyway", headers={"Connect_Timeout_Ms": "soon"}).error

    assert error == {"code": "invalid_argument", "message": 'protocol error: invalid timeout "soon"'}
    assert shared_box.call("GET", "/files?path=started-anyway").status == 404


def test_a_deadline_kills_the_command_even_when_nobody_listens(shared_box: Box) -> None:
    stream = shared_box.start("/bin/sleep", "30", headers={"Connect_Timeout_Ms": "200"})
    pid = stream.pid()
    stream.close()

    connected = outcome(list(shared_box.open("process.Process/Connect", {"process": {"pid": pid}})))

    assert connected.end["status"] == "signal: killed"


def test_the_deadline_of_an_attachment_ends_only_the_attachment(shared_box: Box) -> None:
    stream = shared_box.start("/bin/sh", "-c", "sleep 0.5; echo done")
    selector = {"process": {"pid": stream.pid()}}

    attached = list(shared_box.open("process.Process/Connect", selector, Connect_Timeout_Ms="50"))

    assert attached[-1].document["error"]["code"] == "deadline_exceeded"
    assert outcome(list(stream)).stdout == b"done\n"


def test_a_client_that_leaves_does_not_stop_the_command(shared_box: Box) -> None:
    stream = shared_box.start("/bin/sh", "-c", "sleep 0.3; echo kept > left-alone")
    pid = stream.pid()
    stream.close()

    list(shared_box.open("process.Process/Connect", {"process": {"pid": pid}}))

    assert shared_box.run("/bin/cat", "left-alone").stdout == b"kept\n"


def test_a_reader_that_does_not_read_stops_the_writer_and_not_the_emulator(shared_box: Box) -> None:
    stream = shared_box.start("/bin/sh", "-c", "head -c 20000000 /dev/zero; echo x > all-written")
    stream.pid()

    before = shared_box.run("/bin/sh", "-c", "test -e all-written").end
    total = len(outcome([Frame(0, {"event": {"start": {}}}), *stream]).stdout)

    assert (before["exitCode"], total) == (1, 20_000_000)


@pytest.mark.parametrize("cwd", ["/no/such/directory", "~other", "/etc/passwd"])
def test_a_directory_that_is_none_is_an_invalid_argument(shared_box: Box, cwd: str) -> None:
    error = shared_box.run("/bin/true", cwd=cwd).error

    assert error["code"] == "invalid_argument"


@pytest.mark.parametrize(("cwd", "shown"), [("", "/home/user"), ("~", "/home/user"), ("/tmp", "/tmp"), ("/", "/")])
def test_a_command_runs_where_it_was_told(shared_box: Box, cwd: str, shown: str) -> None:
    assert shared_box.run("/bin/pwd", cwd=cwd).stdout.decode() == f"{shown}\n"


def test_an_environment_name_that_cannot_be_is_an_invalid_argument(shared_box: Box) -> None:
    error = shared_box.run("/bin/true", envs={"NOT A NAME": "x"}).error

    assert error["code"] == "invalid_argument"


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_range_of_a_file_is_answered(shared_box: Box) -> None:
    upload = {"Content_Type": "application/octet-stream"}
    shared_box.call("POST", "/files?path=ranged.txt", b"0123456789", **upload)

    part = shared_box.call("GET", "/files?path=ranged.txt", Range="bytes=2-4")
    beyond = shared_box.call("GET", "/files?path=ranged.txt", Range="bytes=50-")

    assert (part.status, part.body, part.headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, "bytes */10")


def test_a_file_that_has_not_changed_is_not_sent_again(shared_box: Box) -> None:
    shared_box.call("POST", "/files?path=same.txt", b"x", Content_Type="application/octet-stream")
    first = shared_box.call("GET", "/files?path=same.txt")

    again = shared_box.call("GET", "/files?path=same.txt", If_Modified_Since=first.headers["Last-Modified"])

    assert (again.status, again.body) == (304, b"")


def test_a_download_is_described_by_its_headers(shared_box: Box) -> None:
    shared_box.call("POST", "/files?path=page.html", b"<p>", Content_Type="application/octet-stream")

    headers = shared_box.call("GET", "/files?path=page.html").headers

    assert headers["Content-Type"] == "text/html"
    assert headers["Content-Disposition"] == "inline; filename*=utf-8''page.html"


def test_an_upload_answers_json_under_another_name(shared_box: Box) -> None:
    answer = shared_box.call("POST", "/files?path=typed.txt", b"x", Content_Type="application/octet-stream")

    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.json == [{"name": "typed.txt", "path": "/home/user/typed.txt", "type": "file"}]


def multipart(*names: str) -> tuple[bytes, dict[str, str]]:
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n{name}\r\n' for name in names
    ]
    return ("".join(parts) + "--b--\r\n").encode(), {"Content_Type": "multipart/form-data; boundary=b"}


def test_a_part_names_its_target_with_directories(shared_box: Box) -> None:
    body, headers = multipart("parts/one.txt", "parts/two.txt")

    answer = shared_box.call("POST", "/files", body, **headers)

    assert [item["path"] for item in answer.json] == ["/home/user/parts/one.txt", "/home/user/parts/two.txt"]
    assert shared_box.call("GET", "/files?path=parts/two.txt").body == b"parts/two.txt"


def test_two_parts_to_one_path_are_refused(shared_box: Box) -> None:
    body, headers = multipart("one.txt", "two.txt")

    answer = shared_box.call("POST", "/files?path=same.txt", body, **headers)

    assert (answer.status, answer.json["code"]) == (400, 400)


def test_a_compressed_upload_is_unpacked(shared_box: Box) -> None:
    headers = {"Content_Type": "application/octet-stream", "Content_Encoding": "gzip"}

    shared_box.call("POST", "/files?path=packed.txt", gzip.compress(b"packed"), **headers)

    assert shared_box.call("GET", "/files?path=packed.txt").body == b"packed"


@pytest.mark.parametrize(
    ("method", "path", "content_type", "status"),
    [
        ("GET", "/files?path=no-such-file", "", 404),
        ("GET", "/files?path=/home/user", "", 400),
        ("GET", "/files?path=x&username=ghost", "", 401),
        ("POST", "/files?path=x", "text/plain", 400),
        ("POST", "/files", "application/octet-stream", 400),
        ("POST", "/files?path=/home/user", "application/octet-stream", 400),
        ("GET", "/files?path=~other/x", "", 400),
    ],
)
def test_what_cannot_be_transferred_is_told(
    shared_box: Box, method: str, path: str, content_type: str, status: int
) -> None:
    answer = shared_box.call(method, path, b"" if method == "POST" else None, Content_Type=content_type)

    assert (answer.status, answer.json["code"]) == (status, status)


def test_files_are_composed_and_their_sources_deleted(shared_box: Box) -> None:
    for name in ("part-1", "part-2"):
        shared_box.call("POST", f"/files?path={name}", name.encode(), Content_Type="application/octet-stream")

    answer = shared_box.rpc("files/compose", {"source_paths": ["part-1", "part-2"], "destination": "whole"})

    assert (answer.json["path"], answer.json["size"]) == ("/home/user/whole", "12")
    assert shared_box.call("GET", "/files?path=whole").body == b"part-1part-2"
    assert shared_box.call("GET", "/files?path=part-1").status == 404


def test_a_symlink_is_described_by_its_target_and_a_circle_by_itself(shared_box: Box) -> None:
    shared_box.run(
        "/bin/sh", "-c", "echo x > target; ln -sf target link; ln -sf round-b round-a; ln -sf round-a round-b"
    )

    link = shared_box.rpc("filesystem.Filesystem/Stat", {"path": "link"}).json["entry"]
    circle = shared_box.rpc("filesystem.Filesystem/Stat", {"path": "round-a"}).json["entry"]
    listing = shared_box.rpc("filesystem.Filesystem/ListDir", {"path": "round-a"})

    assert (link["type"], link["symlinkTarget"], link["isSymlink"]) == ("FILE_TYPE_FILE", "/home/user/target", True)
    assert circle["type"] == "FILE_TYPE_SYMLINK"
    assert (listing.status, listing.json["code"]) == (400, "failed_precondition")


def test_making_a_directory_where_a_file_is_fails(shared_box: Box) -> None:
    shared_box.run("/bin/touch", "in-the-way")

    answer = shared_box.rpc("filesystem.Filesystem/MakeDir", {"path": "in-the-way"})

    assert (answer.status, answer.json["code"]) == (400, "invalid_argument")


def test_moving_nothing_is_not_found(shared_box: Box) -> None:
    answer = shared_box.rpc("filesystem.Filesystem/Move", {"source": "nothing", "destination": "somewhere"})

    assert (answer.status, answer.json["code"]) == (404, "not_found")


def test_a_streamed_watch_begins_with_start_and_tells_a_move(shared_box: Box) -> None:
    shared_box.run("/bin/sh", "-c", "mkdir -p moved-in && echo x > moved-in/old")
    stream = shared_box.open("filesystem.Filesystem/WatchDir", {"path": "moved-in"})
    first = stream.read()

    shared_box.rpc("filesystem.Filesystem/Move", {"source": "moved-in/old", "destination": "moved-in/new"})
    events = [stream.read(), stream.read()]
    stream.close()

    assert first == Frame(0, {"start": {}})
    assert [event.document["filesystem"] for event in events if event] == [
        {"name": "old", "type": "EVENT_TYPE_RENAME"},
        {"name": "new", "type": "EVENT_TYPE_CREATE"},
    ]


def test_a_streamed_watch_ends_at_its_deadline(shared_box: Box) -> None:
    frames = list(shared_box.open("filesystem.Filesystem/WatchDir", {"path": ""}, Connect_Timeout_Ms="50"))

    assert [frame.document for frame in frames] == [
        {"start": {}},
        {"error": {"code": "deadline_exceeded", "message": "context deadline exceeded"}},
    ]


def test_a_removed_watcher_is_not_found(shared_box: Box) -> None:
    watcher = shared_box.rpc("filesystem.Filesystem/CreateWatcher", {"path": "/home/user"}).json
    shared_box.rpc("filesystem.Filesystem/RemoveWatcher", watcher)

    answer = shared_box.rpc("filesystem.Filesystem/GetWatcherEvents", watcher)

    assert (answer.status, answer.json["code"]) == (404, "not_found")


def test_the_default_environment_and_metrics_are_told(shared_box: Box) -> None:
    environment = shared_box.call("GET", "/envs").json
    metrics = shared_box.call("GET", "/metrics").json

    assert environment["E2B_SANDBOX_ID"] == shared_box.sandbox_id
    assert 0 < metrics["mem_used"] <= metrics["mem_total"]
