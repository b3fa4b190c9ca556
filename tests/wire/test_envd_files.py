from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from ai4j_sandbox.errors import (
    SandboxAuthError,
    SandboxConnectionError,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
)
from ai4j_sandbox.files import FileInfo, FileKind, SandboxFiles
from ai4j_sandbox_wire.envd_files import EnvdFiles
from support.envd_stub import END_OF_STREAM, STREAM, EnvdStub, event
from support.http_stub import Recorded, Reply

JSON = {"Content-Type": "application/json"}


class FakeDisk(EnvdStub):
    """An envd whose file calls work on a dict; the install script is recognised and carried out."""

    def __init__(self, **files: bytes) -> None:
        super().__init__()
        self.disk = {f"/{name}": content for name, content in files.items()}
        self.methods: list[str] = []
        self.install_exit = 0
        played = self.http._handler
        self.http._handler = lambda request: self._file_call(request) or played(request)

    def _file_call(self, request: Recorded) -> Reply | None:
        method = request.path.rpartition("/")[2]
        self.methods.append(f"{request.method} {method}")
        if method == "files":
            return self._content(request)
        if method == "Start":
            return self._install(json.loads(request.body[5:])["process"]["args"])
        document = json.loads(request.body)
        path = document.get("path") or document.get("source")
        if method in ("Stat", "Move") and path not in self.disk:
            return refusal(404, "not_found", f"path not found: {path}")
        if method == "Stat":
            return answer({"entry": self._entry(path)})
        if method == "Move":
            self.disk[document["destination"]] = self.disk.pop(path)
            return answer({})
        if method == "Remove":
            self.disk.pop(path, None)
            return answer({})
        return None

    def _entry(self, path: str) -> dict[str, object]:
        return {"path": path, "type": "FILE_TYPE_FILE", "size": str(len(self.disk[path]))}

    def _content(self, request: Recorded) -> Reply:
        path = parse_qs(urlsplit(request.target).query)["path"][0]
        if request.method == "POST":
            self.disk[path] = request.body
            return Reply(body=b"[]")
        if path not in self.disk:
            return Reply(status=404, headers=JSON, body=b'{"code":404,"message":"no such file"}')
        return Reply(body=self.disk[path])

    def _install(self, arguments: list[str]) -> Reply:
        assert arguments[2] == "ai4j-files"
        if self.install_exit == 0:
            self.disk[arguments[4]] = self.disk.pop(arguments[3])
        end = event(end={"exitCode": self.install_exit, "exited": True})
        return Reply(headers=STREAM, body=end + END_OF_STREAM)


class ByScript(SandboxFiles):
    """Files by scripts, as far as it matters here: what was asked, and that it was asked of this."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def read_chunks(self, path: str) -> Iterator[bytes]:
        self.calls.append(("read", path))
        yield b"by script"

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        self.calls.append(("write", path, b"".join(chunks)))

    def list(self, path: str, *, depth: int = 1) -> list[FileInfo]:
        self.calls.append(("list", path, depth))
        return [FileInfo(path=f"{path}/\udcff", kind=FileKind.FILE, size_bytes=1)]

    def stat(self, path: str) -> FileInfo:
        self.calls.append(("stat", path))
        return FileInfo(path=path, kind=FileKind.FILE, size_bytes=1)

    def make_dir(self, path: str) -> None:
        self.calls.append(("make_dir", path))

    def remove(self, path: str, *, recursive: bool = False) -> None:
        self.calls.append(("remove", path, recursive))

    def move(self, source: str, destination: str) -> None:
        self.calls.append(("move", source, destination))

    def make_executable(self, path: str) -> None:
        self.calls.append(("make_executable", path))


def answer(document: object) -> Reply:
    return Reply(headers=JSON, body=json.dumps(document).encode())


def refusal(status: int, code: str, message: str) -> Reply:
    return Reply(status=status, headers=JSON, body=json.dumps({"code": code, "message": message}).encode())


@pytest.fixture
def disk() -> Iterator[FakeDisk]:
    with FakeDisk(a=b"hello") as disk:
        yield disk


@pytest.fixture
def files(disk: FakeDisk) -> EnvdFiles:
    return EnvdFiles(disk.client(), ByScript())


def test_content_is_read(files: EnvdFiles) -> None:
    assert files.read("/a") == b"hello"


def test_missing_file_is_not_found(files: EnvdFiles) -> None:
    for act in (files.read, files.stat, files.remove, lambda path: files.move(path, "/b")):
        with pytest.raises(SandboxNotFoundError, match=r"no such file or directory: '/nope'"):
            act("/nope")
    assert not files.exists("/nope")


def test_short_content_is_written_in_one_call(disk: FakeDisk, files: EnvdFiles) -> None:
    files.write("/b", "é")

    assert disk.disk["/b"] == "é".encode()
    assert disk.methods == ["POST files"]


def test_long_content_is_put_in_place_when_it_is_whole(disk: FakeDisk, files: EnvdFiles) -> None:
    files.write("/a", b"x" * 1_000_000)

    assert disk.disk == {"/a": b"x" * 1_000_000}
    assert disk.methods == ["POST files", "POST Start"]


def test_write_that_fails_midway_leaves_the_old_content(disk: FakeDisk, files: EnvdFiles) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * 300_000
        yield b"x" * 300_000
        raise RuntimeError("the disk of the host broke")

    with pytest.raises(RuntimeError):
        files.write("/a", broken())

    assert disk.disk == {"/a": b"hello"}


def test_content_that_cannot_be_put_in_place_is_a_file_error(disk: FakeDisk, files: EnvdFiles) -> None:
    disk.install_exit = 1
    with pytest.raises(SandboxFileError, match="could not be written"):
        files.write("/a", b"x" * 1_000_000)

    assert disk.disk == {"/a": b"hello"}


def test_entries_are_sorted_by_path(disk: FakeDisk, files: EnvdFiles) -> None:
    entries = [{"path": "/d/b", "type": "FILE_TYPE_DIRECTORY"}, {"path": "/d/a", "type": "FILE_TYPE_FILE"}]
    disk.refusals["ListDir"] = answer({"entries": entries})

    assert files.list("/d") == [
        FileInfo(path="/d/a", kind=FileKind.FILE, size_bytes=0),
        FileInfo(path="/d/b", kind=FileKind.DIRECTORY, size_bytes=0),
    ]


def test_empty_listing_is_an_empty_list(disk: FakeDisk, files: EnvdFiles) -> None:
    disk.refusals["ListDir"] = answer({})

    assert files.list("/d") == []


def test_existing_directory_is_fine_and_a_file_in_the_way_is_not(disk: FakeDisk, files: EnvdFiles) -> None:
    disk.refusals["MakeDir"] = refusal(409, "already_exists", "directory already exists")
    files.make_dir("/d")

    disk.refusals["MakeDir"] = refusal(400, "invalid_argument", "path already exists but it is not a directory")
    with pytest.raises(SandboxFileError, match="not a directory") as caught:
        files.make_dir("/a")
    assert caught.value.path == "/a"


def test_directory_with_entries_is_only_removed_recursively(disk: FakeDisk, files: EnvdFiles) -> None:
    disk.disk["/d"] = b""
    disk._entry = lambda path: {"path": path, "type": "FILE_TYPE_DIRECTORY"}  # type: ignore[method-assign]  # a fake
    disk.refusals["ListDir"] = answer({"entries": [{"path": "/d/a", "type": "FILE_TYPE_FILE"}]})

    with pytest.raises(SandboxFileError, match="not empty"):
        files.remove("/d")
    files.remove("/d", recursive=True)

    assert "/d" not in disk.disk


def test_move_replaces_the_destination(disk: FakeDisk, files: EnvdFiles) -> None:
    files.move("/a", "/b")

    assert disk.disk == {"/b": b"hello"}


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (refusal(500, "internal", "cross-device link"), SandboxFileError),
        (Reply(status=507, headers=JSON, body=b'{"code":507,"message":"no space left"}'), SandboxFileError),
        (Reply(status=401), SandboxAuthError),
        (Reply(status=407), SandboxException),
        (Reply(status=502), SandboxConnectionError),
    ],
)
def test_complaint_about_a_path_is_a_file_error_and_others_are_not(
    disk: FakeDisk, files: EnvdFiles, reply: Reply, error: type[Exception]
) -> None:
    disk.http._handler = lambda request: reply

    with pytest.raises(error) as caught:
        files.write("/a", b"x")
    assert type(caught.value) is error


def test_name_that_is_not_utf8_is_never_sent_to_envd(disk: FakeDisk) -> None:
    shell = ByScript()
    files = EnvdFiles(disk.client(), shell)
    name = "/\udcff"

    assert files.read(name) == b"by script"
    files.write(name, b"x")
    files.make_dir(name)
    files.remove(name)
    files.move("/a", name)
    files.move(name, "/a")
    files.make_executable(name)
    assert files.stat(name).path == name

    assert shell.calls == [
        ("read", name),
        ("write", name, b"x"),
        ("make_dir", name),
        ("stat", name),
        ("remove", name, False),
        ("move", "/a", name),
        ("move", name, "/a"),
        ("make_executable", name),
        ("stat", name),
    ]
    assert disk.methods == []


def test_listing_that_envd_cannot_write_down_is_made_by_a_script(disk: FakeDisk) -> None:
    refused = refusal(500, "internal", "marshal message: field filesystem.EntryInfo.name contains invalid UTF-8")
    disk.refusals["ListDir"] = refused
    shell = ByScript()

    listed = EnvdFiles(disk.client(), shell).list("/odd", depth=2)

    assert ([entry.name for entry in listed], shell.calls) == (["\udcff"], [("list", "/odd", 2)])
