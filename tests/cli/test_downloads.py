"""Where artifacts go on the host: below the folder, never over one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from ai4j_cli.downloads import download_artifacts, target_path, working_directory
from ai4j_sandbox import SandboxArtifact, SandboxCommand, SandboxFileError
from ai4j_sandbox.testing import FakeProvider, FakeResult


@pytest.mark.parametrize(
    ("path", "base", "expected"),
    [
        ("/w/report.xml", "/w", "report.xml"),
        ("/w/a/b.txt", "/w/", "a/b.txt"),
        ("/etc/x", "/w", "etc/x"),
        ("/w/a/b.txt", "/", "w/a/b.txt"),
        ("/elsewhere/b.txt", "/w", "elsewhere/b.txt"),
        ("/words/b.txt", "/w", "words/b.txt"),
        ("relative.txt", "/w", "relative.txt"),
        ("/w/new\nline \u202e.txt", "/w", "new\nline \u202e.txt"),
    ],
)
def test_the_path_below_the_working_directory_is_kept(tmp_path, path, base, expected):
    """Cases M01 and M08: a path from elsewhere is kept below the folder, never cut to its last part."""
    assert target_path(path, tmp_path, base=base) == tmp_path / expected


@pytest.mark.parametrize(
    "path",
    [
        "../../x", "/w/../x", "/w/a/../../x", "..\\..\\x", "/w/..\\..\\x", "C:\\x", "/w/C:x", "a\0b", "", ".", "..",
        "/w/", "/w/.", "ok/../../x", "/", "//",
    ],
)  # fmt: skip
def test_what_is_no_plain_path_is_refused(tmp_path, path):
    """Case M01."""
    with pytest.raises(SandboxFileError):
        target_path(path, tmp_path, base="/w")


def test_a_symlink_in_the_folder_leads_nowhere_else_even_to_a_file_that_does_not_exist(tmp_path):
    """Case M02."""
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)

    with pytest.raises(SandboxFileError, match="symlink"):
        target_path("/w/out/new.txt", folder, base="/w")


def test_a_directory_in_the_way_is_not_filled(tmp_path):
    (tmp_path / "report").mkdir()

    with pytest.raises(SandboxFileError, match="directory"):
        target_path("/w/report", tmp_path, base="/w")


def session_with(files: dict[str, str], *, answers: str | None = None):
    """A session of a sandbox with these files."""
    provider = FakeProvider({} if answers is None else {"pwd -P": answers})
    session = provider.create_session()
    for path, content in files.items():
        session.files.write(path, content)
    return session


def artifact(path: str, sha256: str | None = None) -> SandboxArtifact:
    """An artifact at this path."""
    return SandboxArtifact(path=path, name=Path(path).name, sha256=sha256)


def test_two_artifacts_of_one_name_are_two_files(tmp_path):
    """Case M08."""
    session = session_with({"/w/a/report.txt": "first", "/w/b/report.txt": "second"})
    artifacts = [artifact("/w/a/report.txt"), artifact("/w/b/report.txt")]

    first, second = download_artifacts(session.files, artifacts, tmp_path, base="/w")

    assert (first.path, second.path) == (tmp_path / "a/report.txt", tmp_path / "b/report.txt")
    assert [(tmp_path / name / "report.txt").read_text() for name in "ab"] == ["first", "second"]


def test_two_artifacts_that_would_be_one_file_are_not(tmp_path):
    """Case M08."""
    session = session_with({"/w/etc/x": "mine", "/etc/x": "theirs"})

    first, second = download_artifacts(session.files, [artifact("/w/etc/x"), artifact("/etc/x")], tmp_path, base="/w")

    assert (first.path, second.path) == (tmp_path / "etc/x", None)
    assert "would overwrite another artifact" in str(second.failure)
    assert (tmp_path / "etc/x").read_text() == "mine"


def test_a_later_run_replaces_what_an_earlier_one_saved(tmp_path):
    (tmp_path / "x").write_text("old")

    (download,) = download_artifacts(session_with({"/w/x": "new"}).files, [artifact("/w/x")], tmp_path, base="/w")

    assert (download.failure, (tmp_path / "x").read_text()) == (None, "new")


def test_content_that_is_not_what_the_digest_says_is_told(tmp_path):
    session = session_with({"/w/x": "changed"})

    (download,) = download_artifacts(session.files, [artifact("/w/x", sha256="0" * 64)], tmp_path, base="/w")

    assert "changed after the command ended" in str(download.failure)


def test_a_folder_that_cannot_be_made_is_a_failure_of_each_artifact(tmp_path):
    (tmp_path / "file").touch()

    (download,) = download_artifacts(session_with({"/w/x": ""}).files, [artifact("/w/x")], tmp_path / "file", base="/w")

    assert "cannot be saved" in str(download.failure)


@pytest.mark.parametrize(("answer", "expected"), [("/w/a b\n", "/w/a b"), ("/\n", "/"), (None, "/")])
def test_the_working_directory_is_what_the_sandbox_says_or_the_root(answer, expected):
    session = session_with({}, answers=answer)

    assert working_directory(session, SandboxCommand(command="make")) == expected


def test_the_working_directory_is_asked_where_the_command_ran():
    provider = FakeProvider(lambda command: FakeResult(stdout=f"/real{command.working_directory}\n"))

    command = SandboxCommand(command="make", working_directory="/link")

    assert working_directory(provider.create_session(), command) == "/real/link"
