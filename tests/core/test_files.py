"""`ShellFiles` over real shells of this machine. What every provider's files promise is in the contract suite."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ai4j_sandbox.errors import (
    SandboxConfigError,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxOutputLimitError,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.files import FileInfo, FileKind, SandboxFiles, ShellFiles, content_chunks, safe_name, save_atomically
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.process import SandboxProcess
from support.host_processes import HostProcesses, host_processes
from support.waiting import eventually

ODD_NAMES = [
    "plain",
    "with blank",
    " ",
    "-n",
    "--",
    "-rf",
    'it\'s "q"',
    "$HOME `id` $(id)",
    "new\nline",
    "trailing newline\n",
    "*?[a]",
    "back\\slash\\n",
    "ünï😀",
    ".hidden",
    "~",
    "100%s",
    "a" * 240,
]


class Shell:
    """Runs the scripts with one kind of shell, and only the tools that belong to it."""

    def __init__(self, processes: HostProcesses, program: str) -> None:
        self.processes = processes
        self._program = program
        self.offers_stdin = True
        self.scripts: list[SandboxCommand] = processes.commands

    def start(self, command: SandboxCommand) -> SandboxProcess:
        if command.keep_stdin_open and not self.offers_stdin:
            raise UnsupportedCapabilityError("no stdin here")
        assert command.command[0] == "/bin/sh"
        return self.processes.start(replace(command, command=(self._program, *command.command[1:])))


@pytest.fixture(params=["dash", "bash", "busybox"])
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Shell]:
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed")
    tools = tmp_path_factory.mktemp("tools")
    (tools / "sh").symlink_to(program)
    environment = {}
    if request.param == "busybox":
        for name in subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split():
            if name != "sh":
                (tools / name).symlink_to(program)
        environment = {"PATH": str(tools)}
    with host_processes(tmp_path, environment) as processes:
        yield Shell(processes, str(tools / "sh"))


@pytest.fixture
def files(shell: Shell) -> ShellFiles:
    return ShellFiles(shell.start)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_can_be_written_read_listed_moved_and_removed(files: ShellFiles, tmp_path: Path, name: str) -> None:
    files.write(name, f"content of {name}")

    assert (tmp_path / name).read_text() == f"content of {name}"
    assert files.read_text(name) == f"content of {name}"
    assert [info.path for info in files.list(str(tmp_path))] == [f"{tmp_path}/{name}"]
    assert (files.stat(name).path, files.stat(name).kind) == (name, FileKind.FILE)
    files.move(name, "moved")
    files.move("moved", name)
    files.remove(name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_can_be_a_directory(files: ShellFiles, tmp_path: Path, name: str) -> None:
    files.make_dir(f"{name}/{name}")
    files.write(f"{name}/{name}/{name}", b"x")

    assert [info.path for info in files.list(name, depth=9)] == [f"{name}/{name}", f"{name}/{name}/{name}"]
    files.remove(name, recursive=True)
    assert list(tmp_path.iterdir()) == []


def test_every_byte_comes_back(files: ShellFiles) -> None:
    content = bytes(range(256)) * 5000

    files.write("bytes", content)

    assert files.read("bytes") == content


@pytest.mark.parametrize("size", [0, 1, 49_151, 49_152, 49_153, 300_000])
def test_session_without_stdin_takes_content_by_arguments(shell: Shell, tmp_path: Path, size: int) -> None:
    shell.offers_stdin = False
    content = (bytes(range(256)) * 1200)[:size]

    ShellFiles(shell.start).write("some/file", content)

    assert (tmp_path / "some" / "file").read_bytes() == content
    assert [path.name for path in (tmp_path / "some").iterdir()] == ["file"]


def test_content_is_never_held_as_a_whole(files: ShellFiles, tmp_path: Path) -> None:
    taken: list[int] = []

    def chunks() -> Iterator[bytes]:
        for number in range(20):
            taken.append(number)
            yield bytes(100_000)

    files.write_chunks("large", chunks())

    assert (tmp_path / "large").stat().st_size == 2_000_000
    assert max(len(chunk) for chunk in files.read_chunks("large")) <= 65_536


def test_transfer_that_loses_bytes_is_an_error_and_changes_nothing(shell: Shell, tmp_path: Path) -> None:
    class Lossy(ShellFiles):
        def _stage(self, path: str, transfer: str, chunks: object) -> int:
            return super()._stage(path, transfer, [b"only this"]) + 1

    (tmp_path / "note").write_text("old")

    with pytest.raises(SandboxFileError, match="the transfer broke: 9 of 10 bytes arrived"):
        Lossy(shell.start).write("note", b"only this!")

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"note": "old"}


def test_source_that_breaks_leaves_the_old_content_and_nothing_else(files: ShellFiles, tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionError("source")

    (tmp_path / "note").write_text("old")

    with pytest.raises(ConnectionError):
        files.write("note", broken())

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"note": "old"}


def test_replacing_keeps_permissions_and_leaves_hard_links_alone(files: ShellFiles, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("a much longer old content")
    (tmp_path / "note").chmod(0o640)
    os.link(tmp_path / "note", tmp_path / "other")

    files.write("note", "new")

    assert ((tmp_path / "note").read_text(), (tmp_path / "note").stat().st_mode & 0o777) == ("new", 0o640)
    assert (tmp_path / "other").read_text() == "a much longer old content"


def test_new_file_gets_ordinary_permissions(files: ShellFiles, tmp_path: Path) -> None:
    files.write("new", "x")
    (tmp_path / "reference").touch()

    assert (tmp_path / "new").stat().st_mode == (tmp_path / "reference").stat().st_mode


def test_content_is_never_readable_by_more_people_than_the_file_it_replaces(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("old")
    (tmp_path / "secret").chmod(0o600)
    modes: list[int] = []

    def chunks() -> Iterator[bytes]:
        yield b"new secret"
        assert eventually(lambda: any(path.stat().st_size for path in tmp_path.glob(".ai4j-*")))
        modes.extend(path.stat().st_mode & 0o777 for path in tmp_path.glob(".ai4j-*"))

    ShellFiles(shell.start).write_chunks("secret", chunks())

    assert modes == [0o600]


def test_writing_through_a_link_replaces_its_target(files: ShellFiles, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "odd\n").write_text("old")
    (tmp_path / "link").symlink_to("dir/odd\n")

    files.write("link", "new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dir" / "odd\n").read_text() == "new"
    assert [path.name for path in (tmp_path / "dir").iterdir()] == ["odd\n"]


@pytest.mark.parametrize("path", ["directory", "directory/", "pipe", "link-to-directory", "file/below"])
def test_what_is_no_file_cannot_be_written(files: ShellFiles, tmp_path: Path, path: str) -> None:
    _zoo(tmp_path)

    with pytest.raises(SandboxFileError) as caught:
        files.write(path, "x")

    assert caught.value.path == path
    assert list(tmp_path.rglob(".ai4j-*")) == []


def test_script_that_ends_before_the_content_does_still_says_why(shell: Shell, tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        assert eventually(lambda: shell.processes.running() == 0)
        yield b"too late"
        raise AssertionError("nobody takes this")

    (tmp_path / "directory").mkdir()

    with pytest.raises(SandboxFileError, match="is a directory"):
        ShellFiles(shell.start).write_chunks("directory", chunks())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_file_without_write_permission_is_refused(files: ShellFiles, tmp_path: Path) -> None:
    (tmp_path / "locked").touch(mode=0o444)

    with pytest.raises(SandboxFileError, match="not writable"):
        files.write("locked", "x")


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("missing", SandboxNotFoundError, "no such file"),
        ("dangling", SandboxNotFoundError, "no such file"),
        ("file/below", SandboxNotFoundError, "no such file"),
        ("directory", SandboxFileError, "is a directory"),
        ("pipe", SandboxFileError, "not a regular file"),
        ("", SandboxConfigError, "must not be empty"),
        ("nul\0", SandboxConfigError, "NUL"),
    ],
)
def test_what_cannot_be_read_says_why(
    files: ShellFiles, tmp_path: Path, path: str, error: type[SandboxException], words: str
) -> None:
    _zoo(tmp_path)

    with pytest.raises(error, match=words) as caught:
        files.read(path)

    assert getattr(caught.value, "path", path) in (path, None)


def test_description_tells_everything(files: ShellFiles, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("ü")
    (tmp_path / "file").chmod(0o4751)
    os.utime(tmp_path / "file", (1_700_000_000, 1_700_000_000))

    info = files.stat("file")

    assert info == FileInfo(
        path="file",
        kind=FileKind.FILE,
        size_bytes=2,
        mode=0o4751,
        modified_at_epoch_ms=1_700_000_000_000,
        owner=(tmp_path / "file").owner(),
        group=(tmp_path / "file").group(),
    )


def test_kinds_and_link_targets(files: ShellFiles, tmp_path: Path) -> None:
    _zoo(tmp_path)

    listed = {info.path: (info.kind, info.target) for info in files.list(".")}

    assert listed == {
        "./dangling": (FileKind.SYMLINK, "no\nwhere"),
        "./directory": (FileKind.DIRECTORY, None),
        "./file": (FileKind.FILE, None),
        "./link-to-directory": (FileKind.SYMLINK, "directory"),
        "./pipe": (FileKind.OTHER, None),
    }
    assert files.stat("dangling").target == "no\nwhere"
    assert files.exists("dangling")


def test_names_that_imitate_a_record_are_only_names(files: ShellFiles, tmp_path: Path) -> None:
    forged = "x\n81a4 9 9 root root .\n81a4 9 9 root root "
    (tmp_path / forged).touch()

    assert [info.name for info in files.list(str(tmp_path))] == [forged]


def test_file_whose_name_is_not_utf8_can_be_used_like_any_other(files: ShellFiles, tmp_path: Path) -> None:
    odd = os.fsdecode(b"a\\n \n\xff'%s$x\n")
    (tmp_path / "good").touch()

    files.write(f"{odd}/{odd}", "content")
    files.move(f"{odd}/{odd}", f"{odd}/moved")

    assert [info.path for info in files.list(".")] == [f"./{odd}", "./good"]
    assert [info.path for info in files.list(odd)] == [f"{odd}/moved"]
    assert (files.read(f"{odd}/moved"), files.stat(odd).path) == (b"content", odd)
    files.remove(odd, recursive=True)
    assert os.listdir(tmp_path) == ["good"]


def test_surrogate_that_stands_for_no_byte_is_no_path(files: ShellFiles) -> None:
    with pytest.raises(SandboxConfigError, match="lone surrogate that stands for no byte"):
        files.read("\ud800")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda files: files.read(None), "path must be text, got NoneType"),
        (lambda files: files.read_chunks(b"x"), "path must be text, got bytes"),
        (lambda files: files.read("x", limit_bytes="5"), "limit_bytes must be a whole number of at least 0, got '5'"),
        (lambda files: files.read_text(""), "path must not be empty"),
        (lambda files: files.write("x", None), "content must be bytes, text, a binary file or chunks, got NoneType"),
        (lambda files: files.write("x", [1]), "content must consist of bytes, got int"),
        (lambda files: files.write("x", io.StringIO("text")), "content must consist of bytes, got str"),
        (lambda files: files.write("x", "\ud800"), "content holds a lone surrogate"),
        (lambda files: files.list("x", depth=0), "depth must be a whole number of at least 1, got 0"),
        (lambda files: files.list("x", depth="1"), "depth must be a whole number of at least 1, got '1'"),
        (lambda files: files.exists(5), "path must be text, got int"),
        (lambda files: files.move("x", None), "destination must be text, got NoneType"),
        (lambda files: files.upload(None, "x"), "source must be a path of this host, got NoneType"),
        (lambda files: files.download("x", None), "destination must be a path of this host, got NoneType"),
    ],
)
def test_argument_of_the_wrong_type_is_refused_by_name(
    shell: Shell, tmp_path: Path, call: Callable[[ShellFiles], object], said: str
) -> None:
    with pytest.raises(SandboxConfigError) as caught:
        call(ShellFiles(shell.start))

    assert said in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_listing_a_large_directory_takes_one_command(shell: Shell, tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number:04}").touch()

    listed = ShellFiles(shell.start).list(".")

    assert [info.name for info in listed] == [f"{number:04}" for number in range(3000)]
    assert len(shell.scripts) == 1


def test_listing_too_long_to_be_told_is_refused(shell: Shell, tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number:040}").touch()

    with pytest.raises(SandboxOutputLimitError, match="too many entries"):
        ShellFiles(shell.start, listing_limit_bytes=2000).list(".")


def test_listing_depth(files: ShellFiles, tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/up").symlink_to("..")

    assert [info.path for info in files.list("a")] == ["a/b", "a/up"]
    assert [info.path for info in files.list("a/", depth=2)] == ["a/b", "a/b/c", "a/up"]
    with pytest.raises(SandboxConfigError, match="depth must be a whole number of at least 1"):
        files.list("a", depth=0)


def test_missing_tools_are_named_and_give_no_empty_listing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        host_processes(tmp_path, {"PATH": "/nowhere"}) as processes,
        pytest.raises(SandboxFileError, match="find"),
    ):
        ShellFiles(processes.start).list(".")


def test_removal_spares_what_is_not_meant(files: ShellFiles, tmp_path: Path) -> None:
    _zoo(tmp_path)
    (tmp_path / "directory" / "kept").touch()

    with pytest.raises(SandboxFileError, match="the directory is not empty"):
        files.remove("directory")
    files.remove("link-to-directory/", recursive=True)
    files.remove("dangling")
    files.remove("pipe")

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["directory", "file", "kept"]
    with pytest.raises(SandboxNotFoundError):
        files.remove("dangling")


def test_move_onto_a_directory_is_refused(files: ShellFiles, tmp_path: Path) -> None:
    _zoo(tmp_path)

    with pytest.raises(SandboxFileError, match="destination is a directory"):
        files.move("file", "directory")
    with pytest.raises(SandboxNotFoundError):
        files.move("missing", "elsewhere/x")

    assert not (tmp_path / "elsewhere").exists()


def test_what_is_neither_file_nor_directory_is_not_downloaded(files: ShellFiles, tmp_path: Path) -> None:
    _zoo(tmp_path)

    with pytest.raises(SandboxFileError, match="neither a file nor a directory"):
        files.download("pipe", tmp_path / "down")


def test_giving_up_a_read_stops_the_command(shell: Shell, tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as big:
        big.truncate(1 << 32)
    chunks = ShellFiles(shell.start).read_chunks("big")
    next(chunks)

    chunks.close()  # type: ignore[attr-defined] # an iterator that streams is a generator

    assert eventually(lambda: shell.processes.running() == 0)


def test_each_operation_is_as_few_commands_as_can_be(shell: Shell) -> None:
    files = ShellFiles(shell.start)

    files.write("a", b"x" * 1_000_000)
    files.read("a")
    files.stat("a")
    files.exists("a")
    files.make_dir("d")
    files.move("a", "b")
    files.list(".")
    files.remove("b")

    assert len(shell.scripts) == 9


# --- what is the same for all providers -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "..", "../../x", "/etc/x", "..\\x", "C:\\x", "C:x", "a\0b", "ok/../../x"])
def test_name_that_would_leave_the_download_folder_is_refused(name: str) -> None:
    with pytest.raises(SandboxFileError, match="would leave the download folder"):
        safe_name(name)


@pytest.mark.parametrize("name", ["report.txt", "..x", "a..", "-", "ü b", "new\nline"])
def test_harmless_name_is_kept(name: str) -> None:
    assert safe_name(name) == name


def test_download_of_a_hostile_listing_writes_nothing_outside(tmp_path: Path) -> None:
    class Hostile(ShellFiles):
        def stat(self, path: str) -> FileInfo:
            kind = FileKind.DIRECTORY if path == "dir" else FileKind.FILE
            return FileInfo(path=path, kind=kind, size_bytes=0)

        def list(self, path: str, *, depth: int = 1) -> list[FileInfo]:
            return [FileInfo(path="dir/..", kind=FileKind.DIRECTORY, size_bytes=0)]

    with pytest.raises(SandboxFileError, match="would leave"):
        Hostile(_never).download("dir", tmp_path / "down")

    assert [path.name for path in tmp_path.iterdir()] == ["down"]


def test_download_that_breaks_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise SandboxFileError("connection broke")

    (tmp_path / "kept").write_text("old")

    with pytest.raises(SandboxFileError):
        save_atomically(broken(), tmp_path / "kept")

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"kept": "old"}


def test_file_is_never_saved_into_a_directory_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "name").mkdir()

    with pytest.raises(SandboxFileError, match="there is a directory"):
        save_atomically([b"content"], tmp_path / "name")

    assert list(tmp_path.rglob("*")) == [tmp_path / "name"]


def test_upload_of_what_does_not_exist_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxConfigError, match="no-such-file"):
        ShellFiles(_never).upload(tmp_path / "no-such-file", "x")


@pytest.mark.parametrize(
    ("content", "chunks"),
    [
        ("ü", [b"\xc3\xbc"]),
        (b"", []),
        (b"x" * (256 * 1024 + 1), [b"x" * 256 * 1024, b"x"]),
        ([b"a", b"b"], [b"a", b"b"]),
    ],
)
def test_content_in_any_form_becomes_chunks(content: str | bytes | list[bytes], chunks: list[bytes]) -> None:
    assert list(content_chunks(content)) == chunks


def test_interface_needs_seven_primitives() -> None:
    assert SandboxFiles.__abstractmethods__ == {
        "read_chunks",
        "write_chunks",
        "list",
        "stat",
        "make_dir",
        "remove",
        "move",
    }


def _never(command: SandboxCommand) -> SandboxProcess:
    raise AssertionError(f"not expected: {command}")


def _zoo(place: Path) -> None:
    (place / "directory").mkdir()
    (place / "file").touch()
    (place / "link-to-directory").symlink_to("directory")
    (place / "dangling").symlink_to("no\nwhere")
    os.mkfifo(place / "pipe")
