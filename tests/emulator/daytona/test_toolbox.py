"""The toolbox of one sandbox: commands, sessions, files, git, terminals, and how each fails."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any

import pytest
import websocket

from ai4j_sandbox_emulator import Emulator
from support.daytona_calls import KEY, DaytonaBox, DaytonaCalls
from support.waiting import eventually

# --- execute ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo out; echo err >&2; exit 3", {"exitCode": 3, "result": "out\nerr\n"}),
        ("printf abc", {"exitCode": 0, "result": "abc"}),
        ("no-such-command 2>/dev/null", {"exitCode": 127, "result": ""}),
        ("printf '\\377'", {"exitCode": 0, "result": "\N{REPLACEMENT CHARACTER}"}),
        ("kill -9 $$", {"exitCode": -1, "result": ""}),
        ("exec cat </dev/null", {"exitCode": 0, "result": ""}),
    ],
)
def test_execute_feeds_the_text_to_a_shell_and_merges_the_streams(
    box: DaytonaBox, command: str, expected: dict[str, Any]
) -> None:
    assert box.run(command) == expected


def test_execute_takes_directory_and_variables(box: DaytonaBox) -> None:
    done = box.run('pwd; echo "$WORD"', cwd="/tmp", envs={"WORD": "two  words "})

    assert done == {"exitCode": 0, "result": "/tmp\ntwo  words \n"}


def test_execute_in_a_missing_directory_is_answered_with_minus_one(box: DaytonaBox) -> None:
    done = box.run("pwd", cwd="/no/such")

    assert done["exitCode"] == -1
    assert "fork/exec" in done["result"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"command": "  "},
        {"command": 5},
        {"command": "true", "timeout": 1.5},
        {"command": "true", "timeout": -1},
        {"command": "true", "envs": {"A-B": "1"}},
        {"command": "true", "envs": {"A": 1}},
        [],
    ],
)
def test_execute_that_does_not_fit_is_refused(box: DaytonaBox, body: Any) -> None:
    answer = box.toolbox("POST", "/process/execute", body)

    assert (answer.status, answer.json["code"]) == (400, "BAD_REQUEST")


def test_limit_ends_the_process_group_and_costs_the_output(box: DaytonaBox) -> None:
    answer = box.toolbox("POST", "/process/execute", {"command": "echo lost; sleep 71234", "timeout": 1})

    assert (answer.status, answer.json["code"]) == (408, "REQUEST_TIMEOUT")
    assert "lost" not in answer.body.decode()
    assert not runs(box, "sleep 71234")


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ({"language": "python", "code": "import sys; print(sys.argv[1:])", "argv": ["a"]}, "['a']\n"),
        ({"language": "python", "code": "import os; print(os.environ['A'])", "envs": {"A": "b"}}, "b\n"),
    ],
)
def test_code_runs(box: DaytonaBox, body: dict[str, Any], result: str) -> None:
    assert box.toolbox("POST", "/process/code-run", body).json == {"exitCode": 0, "result": result}


# --- stop and what it ends --------------------------------------------------------------------------------------------


def runs(box: DaytonaBox, line: str) -> bool:
    """Whether a process with this command line runs; the call's own do not count."""
    first, *rest = line
    return box.run(f"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[{first}]{''.join(rest)}'")["result"] != "0\n"


@pytest.mark.parametrize(
    "started",
    [
        "(sleep 71235 >/dev/null 2>&1 &)",
        "setsid sleep 71235 >/dev/null 2>&1 &",
        "env -i setsid sh -c 'trap \"\" TERM HUP; sleep 71235' >/dev/null 2>&1 &",
    ],
)
def test_stop_ends_every_process_and_keeps_the_files(box: DaytonaBox, started: str) -> None:
    box.run(f"{started}\necho kept >note")
    assert runs(box, "sleep 71235")

    box.control("POST", "/stop")
    box.control("POST", "/start")

    assert not runs(box, "sleep 71235")
    assert box.run("cat note")["result"] == "kept\n"


def test_stop_ends_sessions_and_terminals(box: DaytonaBox) -> None:
    session = box.session()
    box.toolbox("POST", f"/process/session/{session}/exec", {"command": "sleep 71236", "runAsync": True})
    box.toolbox("POST", "/process/pty", {"id": "t"})

    box.control("POST", "/stop")
    box.control("POST", "/start")

    assert box.toolbox("GET", "/process/session").json == []
    assert box.toolbox("GET", "/process/pty").json == {"sessions": []}
    assert not runs(box, "sleep 71236")


def test_stopped_sandbox_answers_no_call_and_a_deleted_one_is_unknown(box: DaytonaBox) -> None:
    box.control("POST", "/stop")
    stopped = box.toolbox("GET", "/version")
    box.control("DELETE")

    assert (stopped.status, stopped.json["message"]) == (
        400,
        "bad request: no IP address found. Is the Sandbox started?",
    )
    assert box.toolbox("GET", "/version").status == 404


def test_command_that_runs_when_its_sandbox_is_deleted_is_cut_off(box: DaytonaBox) -> None:
    cut = threading.Event()

    def run() -> None:
        try:
            box.run("sleep 60")
        except OSError:
            cut.set()

    running = threading.Thread(target=run)
    running.start()
    assert eventually(lambda: runs(box, "sleep 60"))
    box.control("DELETE")
    running.join(10)

    assert cut.is_set()


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_session_keeps_directory_and_variables_between_commands(box: DaytonaBox) -> None:
    path = f"/process/session/{box.session()}/exec"
    box.toolbox("POST", path, {"command": "cd /tmp; WORD=kept"})

    done = box.toolbox("POST", path, {"command": "pwd; echo $WORD; echo err >&2; (exit 4)"})

    assert (done.status, done.json["exitCode"]) == (200, 4)
    assert sorted(done.json["output"].split()) == ["/tmp", "err", "kept"]


RAW = "\x02\x02\x02err\n"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, {"output": "err\n", "stdout": None, "stderr": None}),
        ({"X_Daytona_Split_Output": "true"}, {"output": RAW, "stdout": None, "stderr": None}),
        ({"X_Daytona_SDK_Version": "0.26.0"}, {"output": "err\n", "stdout": None, "stderr": None}),
        ({"X_Daytona_SDK_Version": "0.27.0"}, {"output": RAW, "stdout": None, "stderr": None}),
        ({"X_Daytona_SDK_Version": "0.167.0"}, {"output": RAW, "stdout": "", "stderr": "err\n"}),
        ({"X_Daytona_SDK_Version": "0.0.0-dev"}, {"output": RAW, "stdout": "", "stderr": "err\n"}),
    ],
)
def test_output_of_a_session_has_the_shape_that_the_clients_version_knows(
    box: DaytonaBox, headers: dict[str, str], expected: dict[str, Any]
) -> None:
    path = f"/process/session/{box.session()}/exec"

    done = box.toolbox("POST", path, {"command": "printf err >&2"}, **headers).json

    assert {name: done[name] for name in expected} == expected


def test_asynchronous_command_is_asked_for_and_takes_input_until_it_has_ended(box: DaytonaBox) -> None:
    session = f"/process/session/{box.session()}"
    begun = box.toolbox("POST", f"{session}/exec", {"command": 'read a; echo "got $a"; read b', "runAsync": True})
    command = f"{session}/command/{begun.json['cmdId']}"

    assert begun.status == 202
    assert "exitCode" not in box.toolbox("GET", command).json
    assert box.toolbox("POST", f"{command}/input", {"data": ""}).status == 400
    assert box.toolbox("POST", f"{command}/input", {"data": "hello"}).status == 204
    assert eventually(lambda: b"got hello" in box.toolbox("GET", f"{command}/logs").body)


def test_input_after_the_end_is_refused(box: DaytonaBox) -> None:
    session = f"/process/session/{box.session()}"
    begun = box.toolbox("POST", f"{session}/exec", {"command": "true", "runAsync": True})
    command = f"{session}/command/{begun.json['cmdId']}"
    assert eventually(lambda: box.toolbox("GET", command).json.get("exitCode") == 0)

    assert box.toolbox("POST", f"{command}/input", {"data": "late"}).status == 410


def test_sessions_are_listed_taken_once_and_deleted(box: DaytonaBox) -> None:
    session = box.session()

    assert box.toolbox("POST", "/process/session", {"sessionId": session}).status == 409
    assert box.toolbox("POST", "/process/session", {"sessionId": "entrypoint"}).status == 400
    assert [item["sessionId"] for item in box.toolbox("GET", "/process/session").json] == [session]
    assert box.toolbox("DELETE", f"/process/session/{session}").status == 204
    assert box.toolbox("GET", f"/process/session/{session}").status == 404
    assert box.toolbox("DELETE", f"/process/session/{session}").status == 404


def test_command_in_an_unknown_session_is_a_500_without_a_type(box: DaytonaBox) -> None:
    answer = box.toolbox("POST", "/process/session/none/exec", {"command": "true"})

    assert (answer.status, answer.json["message"]) == (500, "failed to execute command: not found: session not found")


def test_command_that_ends_the_sessions_shell_never_ends_until_the_session_is_deleted(box: DaytonaBox) -> None:
    session = box.session()
    answers: list[Any] = []

    def run() -> None:
        answers.append(box.toolbox("POST", f"/process/session/{session}/exec", {"command": "exit 3"}))

    running = threading.Thread(target=run)
    running.start()
    running.join(0.5)
    assert running.is_alive()
    box.toolbox("DELETE", f"/process/session/{session}")
    running.join(10)

    assert answers[0].status == 500
    assert answers[0].json["message"].endswith("session cancelled")


def spoken(box: DaytonaBox, emulator: Emulator, path: str, said: bytes = b"") -> list[bytes]:
    """What a websocket says until it closes, and the body of its close; `said` is sent after its first words."""
    url = f"{emulator.url('daytona')}/toolbox/{box.sandbox_id}{path}".replace("http", "ws", 1)
    header = {"Authorization": f"Bearer {KEY}"}
    socket = websocket.create_connection(url, header=header, timeout=10)
    with contextlib.ExitStack() as stack:
        stack.callback(socket.shutdown)  # `close` gives up when the other side has closed first
        heard: list[bytes] = []
        while True:
            opcode, data = socket.recv_data()
            heard.append(data)
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                return heard
            if said:
                socket.send_binary(said)
                said = b""


def test_log_is_streamed_with_prefixes_until_the_command_ends(box: DaytonaBox, emulator: Emulator) -> None:
    session = f"/process/session/{box.session()}"
    text = "echo one; echo two >&2"
    begun = box.toolbox("POST", f"{session}/exec", {"command": text, "runAsync": True}).json

    *log, closing = spoken(box, emulator, f"{session}/command/{begun['cmdId']}/logs?follow=true")

    # The order of the two streams is not kept.
    assert sorted(b"".join(log).splitlines()) == [b"\x01\x01\x01one", b"\x02\x02\x02two"]
    assert int.from_bytes(closing[:2]) == 1000


# --- terminals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "closing"), [(0, 1000), (5, 1011)])
def test_terminal_tells_its_size_and_its_end(box: DaytonaBox, emulator: Emulator, code: int, closing: int) -> None:
    assert box.toolbox("POST", "/process/pty", {"id": "t", "cols": 97, "rows": 31}).json == {"sessionId": "t"}

    said = f"stty size; exit {code}\n".encode()
    first, *shown, end = spoken(box, emulator, "/process/pty/t/connect", said)

    assert json.loads(first) == {"type": "control", "status": "connected"}
    assert b"31 97" in b"".join(shown)
    assert (int.from_bytes(end[:2]), json.loads(end[2:])) == (closing, {"exitCode": code})


def test_terminals_are_listed_resized_taken_once_and_deleted(box: DaytonaBox) -> None:
    box.toolbox("POST", "/process/pty", {"id": "t"})
    resized = box.toolbox("POST", "/process/pty/t/resize", {"cols": 120, "rows": 40}).json

    assert (resized["cols"], resized["rows"], resized["active"]) == (120, 40, True)
    assert [item["id"] for item in box.toolbox("GET", "/process/pty").json["sessions"]] == ["t"]
    assert box.toolbox("POST", "/process/pty", {"id": "t"}).status == 409
    assert box.toolbox("DELETE", "/process/pty/t").status == 200
    assert box.toolbox("GET", "/process/pty/t").status == 404


@pytest.mark.parametrize("body", [{}, {"id": 5}, {"id": "t", "cols": 1001}, {"id": "t", "rows": "x"}])
def test_terminal_that_does_not_fit_is_refused(box: DaytonaBox, body: Any) -> None:
    assert box.toolbox("POST", "/process/pty", body).status == 400


# --- files ------------------------------------------------------------------------------------------------------------


def test_files_are_uploaded_described_and_downloaded(box: DaytonaBox) -> None:
    content = bytes(range(256))

    stored = box.upload(("dir/a.bin", content), ("dir/b", b"")).json["files"]

    info = box.toolbox("GET", "/files/info?path=dir/a.bin").json
    assert [item["bytes"] for item in stored] == [256, 0]
    assert (info["name"], info["size"], info["isDir"]) == ("a.bin", 256, False)
    assert box.toolbox("GET", "/files/download?path=dir/a.bin").body == content
    assert [item["name"] for item in box.toolbox("GET", "/files?path=dir").json] == ["a.bin", "b"]


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        ("bytes=2-4", 206, b"234"),
        ("bytes=8-", 206, b"89"),
        ("bytes=-3", 206, b"789"),
        ("bytes=-30", 206, b"0123456789"),
        ("bytes=8-100", 206, b"89"),
        ("bytes=10-", 416, b""),
        ("bytes=-", 416, b""),
        ("lines=1-2", 416, b""),
    ],
)
def test_part_of_a_file_is_downloaded(box: DaytonaBox, asked: str, status: int, part: bytes) -> None:
    box.upload(("digits", b"0123456789"))

    answer = box.toolbox("GET", "/files/download?path=digits", Range=asked)

    assert (answer.status, answer.body) == (status, part)


def test_bulk_download_has_a_part_for_each_file_and_each_failure(box: DaytonaBox) -> None:
    box.upload(("a", b"content"))

    answer = box.toolbox("POST", "/files/bulk-download", {"paths": ["a", "missing"]})

    assert b'name="file"; filename="a"' in answer.body
    assert b"\r\n\r\ncontent\r\n" in answer.body
    assert b'name="error"; filename="missing"' in answer.body
    assert b"FILE_NOT_FOUND" in answer.body
    assert answer.body.endswith(b"--DAYTONA-FILE-BOUNDARY--\r\n")


def test_upload_that_fails_for_one_file_keeps_the_others(box: DaytonaBox) -> None:
    box.toolbox("POST", "/files/folder?path=dir&mode=755")

    answer = box.upload(("dir", b"x"), ("good", b"y"))

    assert (answer.status, len(answer.json["errors"]), len(answer.json["files"])) == (400, 1, 1)
    assert box.toolbox("GET", "/files/download?path=good").body == b"y"


def test_files_are_searched_replaced_moved_and_deleted(box: DaytonaBox) -> None:
    box.upload(("dir/one.txt", b"alpha\nbeta\n"), ("dir/binary", b"beta\0"))

    found = box.toolbox("GET", "/files/find?path=dir&pattern=beta").json
    names = box.toolbox("GET", "/files/search?path=dir&pattern=*.txt").json["files"]
    body = {"files": ["dir/one.txt"], "pattern": "beta", "newValue": "gamma"}
    replaced = box.toolbox("POST", "/files/replace", body).json
    moved = box.toolbox("POST", "/files/move?source=dir/one.txt&destination=dir/two.txt")

    assert [(item["line"], item["content"]) for item in found] == [(2, "beta")]
    assert [name.rpartition("/")[2] for name in names] == ["one.txt"]
    assert [item["success"] for item in replaced] == [True]
    assert moved.status == 200
    assert box.toolbox("GET", "/files/download?path=dir/two.txt").body == b"alpha\ngamma\n"
    assert box.toolbox("DELETE", "/files?path=dir").status == 400
    assert box.toolbox("DELETE", "/files?path=dir&recursive=true").status == 204
    assert box.toolbox("GET", "/files/info?path=dir").status == 404


def test_move_onto_what_exists_is_a_conflict(box: DaytonaBox) -> None:
    box.upload(("a", b"1"), ("b", b"2"))

    assert box.toolbox("POST", "/files/move?source=a&destination=b").status == 409
    assert box.toolbox("POST", "/files/move?source=none&destination=c").status == 404


def test_permissions_are_set_and_shown(box: DaytonaBox) -> None:
    box.upload(("script", b"#!/bin/sh\n"))

    assert box.toolbox("POST", "/files/permissions?path=script&mode=750").status == 200
    assert box.toolbox("GET", "/files/info?path=script").json["permissions"] == "0750"
    assert box.toolbox("POST", "/files/permissions?path=none&mode=750").status == 404


MISSING = ("GET", "/files/info?path=/no/such/file")


def test_failure_of_a_file_call_is_wordless_in_the_older_daemon(box: DaytonaBox) -> None:
    answer = box.toolbox(*MISSING)

    assert (answer.status, answer.body) == (404, b"")


def test_failure_of_a_file_call_has_code_and_source_in_the_newer_daemon(newer_box: DaytonaBox) -> None:
    answer = newer_box.toolbox(*MISSING)

    assert answer.status == 404
    assert set(answer.json) == {"statusCode", "message", "code", "timestamp", "path", "method", "source"}
    assert (answer.json["code"], answer.json["source"]) == ("FILE_NOT_FOUND", "DAYTONA_DAEMON")


def test_failure_with_words_has_the_older_envelope_without_a_source(box: DaytonaBox) -> None:
    document = box.toolbox("GET", "/process/session/none").json

    assert set(document) == {"statusCode", "message", "code", "timestamp", "path", "method"}
    assert (document["message"], document["code"]) == ("not found: session not found", "NOT_FOUND")


# --- git --------------------------------------------------------------------------------------------------------------


def test_git_clones_commits_pushes_and_tells_its_status(box: DaytonaBox) -> None:
    box.run("git init -q --bare -b main origin.git && git init -q -b main seed && cd seed && echo 1 >a && git add a && "
            "git -c user.name=n -c user.email=e@x commit -qm one && git push -q ../origin.git main")  # fmt: skip
    home = box.toolbox("GET", "/user-home-dir").json["dir"]

    assert box.toolbox("POST", "/git/clone", {"url": f"{home}/origin.git", "path": "work"}).status == 200
    box.upload(("work/b", b"2"))
    before = box.toolbox("GET", "/git/status?path=work").json
    assert box.toolbox("POST", "/git/add", {"path": "work", "files": ["b"]}).status == 200
    commit = box.toolbox("POST", "/git/commit", {"path": "work", "message": "two", "author": "n", "email": "e@x"}).json
    after = box.toolbox("GET", "/git/status?path=work").json
    assert box.toolbox("POST", "/git/push", {"path": "work"}).status == 200

    assert [(item["name"], item["worktree"]) for item in before["fileStatus"]] == [("b", "Untracked")]
    assert (after["ahead"], after["fileStatus"]) == (1, [])
    assert commit["hash"] in box.run("git -C origin.git log --format=%H")["result"]


def test_branches_are_made_listed_and_deleted(box: DaytonaBox) -> None:
    box.run("git init -q -b main w && cd w && git -c user.name=n -c user.email=e@x commit -q --allow-empty -m one")
    topic = {"path": "w", "name": "topic"}

    assert box.toolbox("POST", "/git/branches", topic).status == 201
    assert box.toolbox("POST", "/git/checkout", {"path": "w", "branch": "main"}).status == 200
    assert sorted(box.toolbox("GET", "/git/branches?path=w").json["branches"]) == ["main", "topic"]
    assert box.toolbox("DELETE", "/git/branches", topic).status == 204
    assert box.toolbox("GET", "/git/branches?path=w").json["branches"] == ["main"]


def test_git_in_no_repository_fails(box: DaytonaBox) -> None:
    assert box.toolbox("GET", "/git/status?path=/tmp").status >= 400


# --- ports ------------------------------------------------------------------------------------------------------------


def test_port_answers_with_the_token_only(box: DaytonaBox) -> None:
    box.upload(("index.html", b"shown"))
    box.run("setsid python3 -m http.server 18124 >/dev/null 2>&1 &")
    told = box.control("GET", "/ports/18124/preview-url").json
    path = told["url"].partition("/toolbox")[1] + told["url"].partition("/toolbox")[2] + "/index.html"
    stranger = DaytonaCalls("http://" + told["url"].split("/")[2], "")

    assert eventually(lambda: stranger.call("GET", path, x_daytona_preview_token=told["token"]).body == b"shown")
    assert stranger.call("GET", path, x_daytona_preview_token="wrong").status == 401


def test_two_commands_run_side_by_side(box: DaytonaBox) -> None:
    threads = [threading.Thread(target=box.run, args=("sleep 1",)) for _ in range(2)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert time.monotonic() - started < 1.9
