"""Files through the agent: what the contract suite cannot know about this provider."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ai4j_sandbox.errors import SandboxFileError, SandboxNotFoundError
from ai4j_sandbox.files import FileKind
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.schema import dump, load_result
from ai4j_sandbox.spi import SandboxSession


def run(session: SandboxSession, command: str) -> None:
    assert session.execute(SandboxCommand(command=command)).exit_code == 0


def test_link_out_of_the_sandbox_leads_nowhere(session: SandboxSession, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host")
    run(session, f"ln -s {secret} link; ln -s {tmp_path} directory")

    for path in ("link", "directory/secret"):
        with pytest.raises((SandboxNotFoundError, SandboxFileError)):
            session.files.read(path)
    with contextlib.suppress(SandboxFileError):  # it may end in the sandbox's own /tmp
        session.files.write("directory/planted", "x")
    assert sorted(tmp_path.iterdir()) == [secret]


@pytest.mark.parametrize("kind", ["mkfifo special", "ln -s /dev/zero special", "ln -s special special"])
def test_what_is_not_a_plain_file_is_refused_at_once(session: SandboxSession, kind: str) -> None:
    run(session, kind)

    with pytest.raises(SandboxFileError):
        session.files.read("special")


@pytest.mark.parametrize("kind", ["mkfifo special", "ln -s /dev/null special", "mkfifo pipe; ln -s pipe special"])
def test_pipes_and_devices_are_not_replaced_by_a_file(session: SandboxSession, kind: str) -> None:
    run(session, kind)

    with pytest.raises(SandboxFileError, match="Not a regular file"):
        session.files.write("special", "x")
    run(session, "test ! -f special")


def test_directory_that_may_not_be_read_is_listed_itself(session: SandboxSession) -> None:
    run(session, "mkdir -p tree/closed/below; touch tree/file; chmod 0 tree/closed")

    listed = [entry.path for entry in session.files.list("tree", depth=3)]
    with pytest.raises(SandboxFileError, match="Permission denied"):
        session.files.list("tree/closed")
    run(session, "chmod 700 tree/closed")

    assert listed == ["tree/closed", "tree/file"]


def test_directory_whose_entries_may_not_be_looked_at_is_an_error(session: SandboxSession) -> None:
    run(session, "mkdir -p names/below; chmod 400 names")

    with pytest.raises(SandboxFileError, match="Permission denied"):
        session.files.list("names")
    run(session, "chmod 700 names")


def test_interrupted_write_leaves_the_old_content_and_no_trace(session: SandboxSession) -> None:
    session.files.write("file", "old")

    def chunks() -> Iterator[bytes]:
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.files.write_chunks("file", chunks())

    assert session.files.read("file") == b"old"
    assert [entry.name for entry in session.files.list(".")] == ["file"]


def test_full_workspace_is_a_file_error_and_leaves_no_trace(create: Callable) -> None:
    session = create(workspaceMegabytes=1)

    with pytest.raises(SandboxFileError, match="No space left"):
        session.files.write("big", b"x" * 2_000_000)

    assert session.files.list(".") == []


def test_overwriting_keeps_the_permissions_and_follows_a_link(session: SandboxSession) -> None:
    run(session, "echo old > script; chmod 751 script; ln -s script link")

    session.files.write("link", "new")

    assert session.files.stat("link").kind is FileKind.SYMLINK
    assert session.files.stat("script").mode == 0o751
    assert session.files.read("script") == b"new"


def test_listing_longer_than_a_message_arrives_whole(session: SandboxSession) -> None:
    run(
        session,
        "mkdir many; i=0; while [ $i -lt 600 ]; do : > many/$i-with-a-rather-long-name; i=$((i+1)); done",
    )

    assert len(session.files.list("many")) == 600


def test_name_that_is_not_utf8_makes_a_round_trip(session: SandboxSession) -> None:
    run(session, "printf x > \"$(printf 'caf\\351')\"")

    (entry,) = session.files.list(".")

    assert session.files.read(entry.path) == b"x"
    session.files.remove(entry.path)
    assert session.files.list(".") == []


def test_move_between_file_systems_copies(namespace: SandboxSession) -> None:
    namespace.files.write("/tmp/file", "content")

    namespace.files.move("/tmp/file", "/workspace/new/place")

    assert namespace.files.read("new/place") == b"content"
    assert not namespace.files.exists("/tmp/file")


def test_removing_a_tree_does_not_follow_links(session: SandboxSession) -> None:
    run(session, "mkdir tree kept; echo x > kept/file; ln -s ../kept tree/link")

    session.files.remove("tree", recursive=True)

    assert session.files.read("kept/file") == b"x\n"


def test_work_on_a_deep_tree_answers(session: SandboxSession) -> None:
    run(session, "python3 -c \"import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')\"")

    with pytest.raises(SandboxFileError):
        session.files.remove("d", recursive=True)


def test_workspace_directory_of_the_host_is_shared(create: Callable, shared_directory: Path) -> None:
    session = create(workspaceDir=str(shared_directory))

    session.files.write("written", "inside")
    run(session, "echo more >> given")

    assert (shared_directory / "written").read_text() == "inside"
    assert (shared_directory / "given").read_text() == "given\nmore\n"


@pytest.mark.parametrize("tier", ["namespace", "syscall-filter"])
def test_read_only_workspace_cannot_be_changed(create: Callable, shared_directory: Path, tier: str) -> None:
    session = create(isolation=tier, workspaceDir=str(shared_directory), workspaceMode="ro")

    assert session.files.read("given") == b"given\n"
    with pytest.raises(SandboxFileError):
        session.files.write("given", "changed")
    assert session.execute(SandboxCommand(command="echo changed > given")).exit_code != 0
    assert (shared_directory / "given").read_text() == "given\n"


@pytest.mark.parametrize("tier", ["namespace", "syscall-filter"])
def test_mounted_directory_is_seen_read_only_unless_asked_otherwise(
    create: Callable, shared_directory: Path, tier: str
) -> None:
    path = str(shared_directory)
    session = create(isolation=tier, mounts=[{"source": path, "target": path}])

    assert session.files.read(f"{path}/given") == b"given\n"
    assert session.execute(SandboxCommand(command=f"touch {path}/new")).exit_code != 0


def test_writable_mount_can_be_changed_at_another_path(create: Callable, shared_directory: Path) -> None:
    session = create(mounts=[{"source": str(shared_directory), "target": "/tmp/shared", "mode": "rw"}])

    run(session, "echo new > /tmp/shared/new")

    assert (shared_directory / "new").read_text() == "new\n"


def test_artifact_whose_name_is_not_utf8_can_be_fetched(session: SandboxSession, tmp_path: Path) -> None:
    result = session.execute(SandboxCommand(command=r"printf kept > $(printf 'caf\351.txt')", artifacts=["*.txt"]))

    (artifact,) = result.artifacts
    session.files.download(artifact.path, tmp_path / "fetched")

    assert (result.artifacts_error, artifact.size_bytes) == (None, 4)
    assert artifact.path.endswith("/caf\udce9.txt")
    assert artifact.sha256 == hashlib.sha256(b"kept").hexdigest()
    assert (tmp_path / "fetched").read_bytes() == b"kept"
    assert load_result(json.loads(json.dumps(dump(result)))).artifacts == result.artifacts
