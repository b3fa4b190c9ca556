"""Promises about files: any name, any content, in streams, whole or not at all."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ai4j_sandbox.capability import Capability
from ai4j_sandbox.errors import SandboxException, SandboxFileError, SandboxNotFoundError, SandboxOutputLimitError
from ai4j_sandbox.files import FileKind, SandboxFiles
from ai4j_sandbox.spi import SandboxSession

from .setup import ContractSetup, at_most, require, run

ODD_NAMES = [
    "plain.txt",
    "with blank",
    'it\'s "quoted"',
    "-n",
    "--help",
    "new\nline",
    "$HOME `id` \\ ;&|",
    "*?[a]",
    "ünï 😀",
    " edges ",
    ".hidden",
    "a" * 200,
]


class FilesContract(ContractSetup):
    """What `session.files` does."""

    @pytest.fixture
    def files(self, session: SandboxSession) -> SandboxFiles:
        """Give the session's files, or skip by name."""
        require(session, Capability.FILES)
        return session.files

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_file_of_any_name_comes_back(self, files: SandboxFiles, folder: str, name: str) -> None:
        path = f"{folder}/{name}"

        files.write(path, f"content of {name}")

        assert files.read_text(path) == f"content of {name}"
        assert [(info.path, info.name) for info in files.list(folder)] == [(path, name)]

    def test_every_byte_value_comes_back(self, files: SandboxFiles, folder: str) -> None:
        content = bytes(range(256)) * 16

        files.write(f"{folder}/bytes", content)

        assert files.read(f"{folder}/bytes") == content

    def test_megabytes_come_back_from_streams(self, files: SandboxFiles, folder: str) -> None:
        content = bytes(range(251)) * 20_000

        files.write(f"{folder}/large", io.BytesIO(content))

        assert b"".join(files.read_chunks(f"{folder}/large")) == content
        assert files.stat(f"{folder}/large").size_bytes == len(content)

    def test_empty_file_comes_back(self, files: SandboxFiles, folder: str) -> None:
        files.write(f"{folder}/empty", b"")

        assert files.read(f"{folder}/empty") == b""

    def test_shorter_content_leaves_nothing_of_the_longer(self, files: SandboxFiles, folder: str) -> None:
        files.write(f"{folder}/note", "a long first version")

        files.write(f"{folder}/note", "short")

        assert files.read_text(f"{folder}/note") == "short"

    def test_commands_and_files_see_the_same(self, session: SandboxSession, files: SandboxFiles, folder: str) -> None:
        files.write(f"{folder}/in", "from the host")
        run(session, "tr a-z A-Z < in > out", working_directory=folder)

        assert files.read_text(f"{folder}/out") == "FROM THE HOST"

    def test_writing_makes_the_parent_directories(self, files: SandboxFiles, folder: str) -> None:
        files.write(f"{folder}/a/b c/d.txt", "deep")

        assert files.read_text(f"{folder}/a/b c/d.txt") == "deep"

    def test_write_that_breaks_off_leaves_the_old_content_and_no_litter(self, files: SandboxFiles, folder: str) -> None:
        def broken() -> Iterator[bytes]:
            yield b"half"
            raise ConnectionError("the source broke")

        files.write(f"{folder}/note", "old")

        with pytest.raises(ConnectionError):
            files.write(f"{folder}/note", broken())

        assert files.read_text(f"{folder}/note") == "old"
        assert [info.name for info in files.list(folder)] == ["note"]

    def test_replaced_file_keeps_its_permissions(
        self, session: SandboxSession, files: SandboxFiles, folder: str
    ) -> None:
        files.write(f"{folder}/script", "#!/bin/sh\necho one\n")
        run(session, "chmod 750 script", working_directory=folder)

        files.write(f"{folder}/script", "#!/bin/sh\necho two\n")

        assert files.stat(f"{folder}/script").mode == 0o750
        assert run(session, "./script", working_directory=folder).stdout == "two\n"

    def test_reading_what_is_not_there_is_not_found(self, files: SandboxFiles, folder: str) -> None:
        with pytest.raises(SandboxNotFoundError, match="nothing-here"):
            files.read(f"{folder}/nothing-here")

    def test_reading_or_writing_a_directory_is_a_file_error(self, files: SandboxFiles, folder: str) -> None:
        with pytest.raises(SandboxFileError):
            files.read(folder)
        with pytest.raises(SandboxFileError):
            files.write(folder, "x")

    def test_reading_within_a_limit(self, files: SandboxFiles, folder: str) -> None:
        files.write(f"{folder}/note", "12345")

        assert files.read(f"{folder}/note", limit_bytes=5) == b"12345"
        with pytest.raises(SandboxOutputLimitError, match="limit_bytes=4"):
            files.read(f"{folder}/note", limit_bytes=4)

    def test_reading_may_be_given_up_half_way(self, session: SandboxSession, files: SandboxFiles, folder: str) -> None:
        run(session, "head -c 50000000 /dev/zero > big", working_directory=folder)
        chunks = files.read_chunks(f"{folder}/big")
        next(iter(chunks))

        with at_most(5):
            chunks.close()  # type: ignore[attr-defined] # an iterator that streams is a generator

        assert run(session, "echo next").stdout == "next\n"

    def test_listing_tells_kind_and_size(self, session: SandboxSession, files: SandboxFiles, folder: str) -> None:
        run(session, "mkdir dir && printf 123 > file && ln -s file link && mkfifo pipe", working_directory=folder)

        # Some services tell the target as it was written, some where it leads in the end.
        listed = {info.name: (info.kind, info.target and info.target.rpartition("/")[2]) for info in files.list(folder)}

        assert listed == {
            "dir": (FileKind.DIRECTORY, None),
            "file": (FileKind.FILE, None),
            "link": (FileKind.SYMLINK, "file"),
            "pipe": (FileKind.OTHER, None),
        }
        assert files.stat(f"{folder}/file").size_bytes == 3

    def test_listing_goes_as_deep_as_told_and_follows_no_link(
        self, session: SandboxSession, files: SandboxFiles, folder: str
    ) -> None:
        run(session, "mkdir -p a/b && touch a/1 a/b/2 0 && ln -s / root && ln -s .. a/up", working_directory=folder)

        shallow = [info.path.removeprefix(folder) for info in files.list(folder)]
        deep = [info.path.removeprefix(folder) for info in files.list(folder, depth=3)]

        assert shallow == ["/0", "/a", "/root"]
        assert deep == ["/0", "/a", "/a/1", "/a/b", "/a/b/2", "/a/up", "/root"]

    def test_listing_nothing_and_listing_a_file(self, files: SandboxFiles, folder: str) -> None:
        files.write(f"{folder}/file", "x")

        assert files.list(folder) != []
        with pytest.raises(SandboxNotFoundError):
            files.list(f"{folder}/missing")
        with pytest.raises(SandboxFileError):
            files.list(f"{folder}/file")

    def test_description_of_a_file(self, session: SandboxSession, files: SandboxFiles, folder: str) -> None:
        run(session, "printf ü > file && chmod 640 file && touch -d @1700000000 file", working_directory=folder)

        info = files.stat(f"{folder}/file")

        assert (info.kind, info.size_bytes, info.mode) == (FileKind.FILE, 2, 0o640)
        assert info.modified_at_epoch_ms == 1_700_000_000_000

    def test_description_of_what_is_not_there_is_not_found(self, files: SandboxFiles, folder: str) -> None:
        with pytest.raises(SandboxNotFoundError):
            files.stat(f"{folder}/missing")
        assert not files.exists(f"{folder}/missing")
        assert files.exists(folder)

    def test_link_to_nowhere_exists(self, session: SandboxSession, files: SandboxFiles, folder: str) -> None:
        run(session, "ln -s nowhere dangling", working_directory=folder)

        assert files.exists(f"{folder}/dangling")
        assert files.stat(f"{folder}/dangling").kind is FileKind.SYMLINK

    def test_directory_is_made_with_its_parents_and_may_exist(self, files: SandboxFiles, folder: str) -> None:
        files.make_dir(f"{folder}/x/y")
        files.make_dir(f"{folder}/x/y")

        assert files.stat(f"{folder}/x/y").kind is FileKind.DIRECTORY

    def test_directory_cannot_be_made_over_a_file(self, files: SandboxFiles, folder: str) -> None:
        files.write(f"{folder}/taken", "x")

        with pytest.raises(SandboxFileError):
            files.make_dir(f"{folder}/taken")

    def test_full_directory_is_removed_only_when_told(self, files: SandboxFiles, folder: str) -> None:
        files.write(f"{folder}/dir/file", "x")

        with pytest.raises(SandboxFileError):
            files.remove(f"{folder}/dir")
        assert files.exists(f"{folder}/dir/file")
        files.remove(f"{folder}/dir", recursive=True)
        assert not files.exists(f"{folder}/dir")

    def test_removing_a_link_leaves_its_target(self, session: SandboxSession, files: SandboxFiles, folder: str) -> None:
        run(session, "mkdir dir && touch dir/kept && ln -s dir link", working_directory=folder)

        files.remove(f"{folder}/link", recursive=True)

        assert [info.path.removeprefix(folder) for info in files.list(folder, depth=2)] == ["/dir", "/dir/kept"]

    def test_removing_files_and_empty_directories(self, files: SandboxFiles, folder: str) -> None:
        files.write(f"{folder}/-rf", "x")
        files.make_dir(f"{folder}/empty")

        files.remove(f"{folder}/-rf")
        files.remove(f"{folder}/empty")

        assert files.list(folder) == []
        with pytest.raises(SandboxNotFoundError):
            files.remove(f"{folder}/-rf")

    def test_moving_replaces_a_file_and_makes_parents(self, files: SandboxFiles, folder: str) -> None:
        files.write(f"{folder}/a", "new")
        files.write(f"{folder}/b", "old")

        files.move(f"{folder}/a", f"{folder}/b")
        files.move(f"{folder}/b", f"{folder}/deep/er/c")

        assert [info.path.removeprefix(folder) for info in files.list(folder, depth=3)] == [
            "/deep",
            "/deep/er",
            "/deep/er/c",
        ]
        assert files.read_text(f"{folder}/deep/er/c") == "new"

    def test_moving_what_is_not_there_is_not_found(self, files: SandboxFiles, folder: str) -> None:
        with pytest.raises(SandboxNotFoundError):
            files.move(f"{folder}/missing", f"{folder}/b")

    def test_tree_goes_up_and_comes_down_unchanged(self, files: SandboxFiles, folder: str, tmp_path: Path) -> None:
        source = tmp_path / "up"
        for name in ("a.txt", 'it\'s/b "c".bin', "ünï/-d/e"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(name.encode() * 1000)
        (source / "empty").mkdir()

        files.upload(source, f"{folder}/tree")
        files.download(f"{folder}/tree", tmp_path / "down")

        assert _tree(tmp_path / "down") == _tree(source)

    def test_executable_file_stays_executable_up_and_down(
        self, session: SandboxSession, files: SandboxFiles, folder: str, tmp_path: Path
    ) -> None:
        script = tmp_path / "run.sh"
        script.write_text("#!/bin/sh\necho ran\n")
        script.chmod(0o755)

        files.upload(script, f"{folder}/run.sh")
        files.download(f"{folder}/run.sh", tmp_path / "down.sh")

        assert run(session, "./run.sh", working_directory=folder).stdout == "ran\n"
        assert os.access(tmp_path / "down.sh", os.X_OK)

    def test_links_are_neither_uploaded_nor_downloaded(
        self, session: SandboxSession, files: SandboxFiles, folder: str, tmp_path: Path
    ) -> None:
        (tmp_path / "up").mkdir()
        (tmp_path / "up" / "link").symlink_to("/etc/hostname")
        files.upload(tmp_path / "up", f"{folder}/tree")
        run(session, "ln -s /etc/passwd tree/passwd && echo x > tree/file", working_directory=folder)

        files.download(f"{folder}/tree", tmp_path / "down")

        assert _tree(tmp_path / "down") == {"file": b"x\n"}

    def test_download_that_fails_leaves_nothing(self, files: SandboxFiles, folder: str, tmp_path: Path) -> None:
        with pytest.raises(SandboxException):
            files.download(f"{folder}/missing", tmp_path / "down")

        assert list(tmp_path.iterdir()) == []

    def test_downloaded_file_is_an_ordinary_file(self, files: SandboxFiles, folder: str, tmp_path: Path) -> None:
        files.write(f"{folder}/note", "x")

        files.download(f"{folder}/note", tmp_path / "note")

        assert stat.S_IMODE((tmp_path / "note").stat().st_mode) & 0o600 == 0o600


def _tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
        if path.is_file() or not any(path.iterdir())
    }
