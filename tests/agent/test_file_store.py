from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ai4j_agent import AgentSessionMetadata, AgentSessionSnapshot, FileSessionStore, SessionStoreError
from support.waiting import eventually


def snapshot(session_id: str, attribute: object = None) -> AgentSessionSnapshot:
    return AgentSessionSnapshot(metadata=AgentSessionMetadata(session_id=session_id, attributes={"value": attribute}))


def test_only_the_owner_may_read_files_and_directory(tmp_path: Path) -> None:
    FileSessionStore(tmp_path / "new").save(snapshot("s"))

    (file,) = (tmp_path / "new").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path / "new")

    assert store.list_session_ids() == []
    assert not (tmp_path / "new").exists()


WRITER = """
import sys
from ai4j_agent import AgentSessionMetadata, AgentSessionSnapshot, FileSessionStore
store = FileSessionStore(sys.argv[1])
number = 0
while True:
    number += 1
    attributes = {"value": number, "bulk": "x" * 2_000_000}
    store.save(AgentSessionSnapshot(metadata=AgentSessionMetadata(session_id="s", attributes=attributes)))
    print(number, flush=True)
"""


def test_a_writer_killed_mid_write_leaves_a_whole_snapshot(tmp_path: Path) -> None:
    for _ in range(3):
        for leftover in tmp_path.glob(".*"):
            leftover.unlink()
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        with contextlib.closing(writer.stdout) as said:  # type: ignore[type-var]  # a pipe was asked for
            assert said is not None
            said.readline()
            assert eventually(lambda: any(tmp_path.glob(".*")))
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()

        loaded = FileSessionStore(tmp_path).load("s")
        assert loaded is not None
        assert len(loaded.metadata.attributes["bulk"]) == 2_000_000

    assert FileSessionStore(tmp_path).list_session_ids() == ["s"]


def test_deleting_also_removes_what_a_killed_writer_left(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    store.save(snapshot("s"))
    (file,) = tmp_path.iterdir()
    (tmp_path / f".{file.stem[-64:]}.abc").write_text("half")

    store.delete("s")

    assert list(tmp_path.iterdir()) == []


def test_a_failing_write_leaves_the_earlier_snapshot(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    store.save(snapshot("s", 1))
    (file,) = tmp_path.iterdir()
    file.unlink()
    file.mkdir()  # a rename onto a directory fails

    with pytest.raises(SessionStoreError, match="could not write"):
        store.save(snapshot("s", 2))

    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_what_the_file_system_refuses_is_a_store_error_whatever_the_operation(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    store.save(snapshot("s"))
    (file,) = tmp_path.iterdir()
    file.unlink()
    file.mkdir()  # cannot be removed as a file

    with pytest.raises(SessionStoreError, match=f"could not delete session file {file.name}"):
        store.delete("s")
    (tmp_path / "plain").write_text("x")
    with pytest.raises(SessionStoreError, match="could not write session file"):
        FileSessionStore(tmp_path / "plain").save(snapshot("s"))


def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    store.save(snapshot("s"))
    (file,) = tmp_path.iterdir()
    file.write_text('{"metadata": ')

    with pytest.raises(SessionStoreError, match=file.name):
        store.load("s")


def test_a_broken_file_is_logged_and_hides_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = FileSessionStore(tmp_path)
    store.save(snapshot("s"))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")

    with caplog.at_level(logging.WARNING):
        assert store.list_session_ids() == ["s"]

    assert "broken.json" in caplog.text


def test_an_empty_file_is_no_session(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(" ")

    assert FileSessionStore(tmp_path).load("s") is None
    assert FileSessionStore(tmp_path).list_session_ids() == []


def java_file(directory: Path, name: str, session_id: str) -> Path:
    path = directory / name
    path.write_text(json.dumps({"metadata": {"sessionId": session_id, "createdAtEpochMs": 1}}))
    return path


def test_a_file_of_the_java_original_is_found_by_its_content_and_moved_on_save(tmp_path: Path) -> None:
    java_file(tmp_path, "a_b.json", "a/b")
    store = FileSessionStore(tmp_path)

    assert (store.load("a_b"), store.list_session_ids()) == (None, ["a/b"])
    loaded = store.load("a/b")
    assert loaded is not None
    store.save(loaded)

    assert store.list_session_ids() == ["a/b"]
    assert not (tmp_path / "a_b.json").exists()


def test_a_file_of_the_java_original_can_be_deleted(tmp_path: Path) -> None:
    path = java_file(tmp_path, "a_b.json", "a/b")

    assert (FileSessionStore(tmp_path).delete("a_b"), path.exists()) == (False, True)
    assert (FileSessionStore(tmp_path).delete("a/b"), path.exists()) == (True, False)
