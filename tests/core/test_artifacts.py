"""`collect_artifacts` over processes of this machine. What every provider promises is in the contract suite."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ai4j_sandbox.artifacts import ARTIFACT_LIMIT, collect_artifacts, describe, media_type
from ai4j_sandbox.errors import SandboxFileError, SandboxOutputLimitError
from ai4j_sandbox.files import ShellFiles
from ai4j_sandbox.model import SandboxArtifact, SandboxCommand
from support.host_processes import HostProcesses, host_processes


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[HostProcesses]:
    with host_processes(tmp_path) as processes:
        yield processes


def found(processes: HostProcesses, *patterns: str, directory: Path | None = None) -> list[str]:
    """Return the paths of the artifacts, relative to the working directory if one is given."""
    artifacts = collect_artifacts(processes.start, _command(*patterns, directory=directory))
    paths = [artifact.path or "" for artifact in artifacts]
    return [os.path.relpath(path, directory) for path in paths] if directory else paths


def test_artifact_is_described_from_inside_the_sandbox(processes: HostProcesses, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.html").write_bytes("é".encode() * 1000)

    (artifact,) = collect_artifacts(processes.start, _command("out/*.html"))

    assert artifact == SandboxArtifact(
        artifact_id=artifact.artifact_id,
        name="report.html",
        path=f"{tmp_path}/out/report.html",
        mime_type="text/html",
        size_bytes=2000,
        sha256=hashlib.sha256("é".encode() * 1000).hexdigest(),
    )


def test_file_too_large_to_be_read_in_time_has_no_digest(processes: HostProcesses, tmp_path: Path) -> None:
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 2**40)

    artifacts = collect_artifacts(processes.start, _command("sparse"), seconds=0.3)

    assert [(artifact.size_bytes, artifact.sha256) for artifact in artifacts] == [(2**40, None)]


def test_device_is_no_artifact_whatever_the_directory_calls_it(processes: HostProcesses) -> None:
    assert found(processes, "/dev/zero") == []


def test_artifacts_are_sorted_unique_and_each_has_an_id(processes: HostProcesses, tmp_path: Path) -> None:
    for name in ("b/2", "a/1", "b/10", "A"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    artifacts = collect_artifacts(processes.start, _command("**/*", "b/*", "a/1"))

    assert [artifact.path for artifact in artifacts] == [f"{tmp_path}/{name}" for name in ("A", "a/1", "b/10", "b/2")]
    assert len({artifact.artifact_id for artifact in artifacts}) == 4


def test_patterns_start_at_the_working_directory_of_the_command(processes: HostProcesses, tmp_path: Path) -> None:
    (tmp_path / "it's here" / "x").mkdir(parents=True)
    (tmp_path / "it's here" / "x" / "in.txt").touch()
    (tmp_path / "out.txt").touch()

    assert found(processes, "**/*.txt", directory=tmp_path / "it's here") == ["x/in.txt"]


def test_absolute_pattern_may_look_anywhere(processes: HostProcesses, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "log.txt").touch()

    assert found(processes, f"{tmp_path}/*.txt", directory=tmp_path / "work") == ["../log.txt"]


def test_link_out_of_the_working_directory_is_not_followed(processes: HostProcesses, tmp_path: Path) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "work-elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    (elsewhere / "secret.txt").touch()
    (work / "out").symlink_to(elsewhere)
    (work / "secret.txt").symlink_to(elsewhere / "secret.txt")

    assert found(processes, "out/secret.txt", "out/*", "out/**", "*.txt", "**/*", "secret.txt", directory=work) == []


def test_link_within_the_working_directory_may_be_the_start_of_a_pattern(
    processes: HostProcesses, tmp_path: Path
) -> None:
    (tmp_path / "run-42").mkdir()
    (tmp_path / "run-42" / "log").touch()
    (tmp_path / "latest").symlink_to("run-42")

    assert found(processes, "latest/*", directory=tmp_path) == ["run-42/log"]


def test_only_regular_files_are_artifacts(processes: HostProcesses, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()

    assert found(processes, "*", directory=tmp_path) == ["file"]


def test_names_with_anything_in_them(processes: HostProcesses, tmp_path: Path) -> None:
    names = sorted(["new\nline", "back\\slash", "-n", "a//\nb".replace("/", "_"), "'\"", " ", "ünï", "$(id)"])
    for name in names:
        (tmp_path / name).write_text(name)

    artifacts = collect_artifacts(processes.start, _command("*"))

    assert [artifact.name for artifact in artifacts] == names
    assert [artifact.sha256 for artifact in artifacts] == [hashlib.sha256(name.encode()).hexdigest() for name in names]


def test_pattern_that_finds_nothing_is_no_error(processes: HostProcesses) -> None:
    assert found(processes, "missing/*.xml", "*.nothing", "no/such/file") == []


def test_only_directories_that_can_match_are_walked(processes: HostProcesses, tmp_path: Path) -> None:
    (tmp_path / "out" / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "out" / "a.xml").touch()

    found(processes, "out/*.xml")

    assert processes.commands[0].command[4:] == ("./out", "1", "")
    assert len(processes.commands) == 2


def test_more_files_than_the_limit_are_an_error_not_a_silent_cut(processes: HostProcesses, tmp_path: Path) -> None:
    for number in range(ARTIFACT_LIMIT + 1):
        (tmp_path / f"{number}").touch()

    with pytest.raises(SandboxOutputLimitError, match=r"1001 files match .* 1000 \(narrow the patterns"):
        found(processes, "*")


def test_as_many_files_as_the_limit_take_a_few_commands(processes: HostProcesses, tmp_path: Path) -> None:
    for number in range(ARTIFACT_LIMIT):
        (tmp_path / f"{number:04}").touch()

    assert len(found(processes, "*")) == ARTIFACT_LIMIT
    assert len(processes.commands) < 10


def test_sandbox_without_sha256sum_has_its_files_read(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "find", "stat", "cat"):
        (tools / name).symlink_to(Path("/usr/bin") / name)
    (tmp_path / "report").write_text("content")

    with host_processes(tmp_path, {"PATH": str(tools)}) as processes:
        (artifact,) = collect_artifacts(processes.start, _command("report"))

    assert artifact.sha256 == hashlib.sha256(b"content").hexdigest()


def test_sandbox_without_find_says_so(tmp_path: Path) -> None:
    (tmp_path / "report").touch()

    with (
        host_processes(tmp_path, {"PATH": "/nowhere"}) as processes,
        pytest.raises(SandboxFileError, match="find"),
    ):
        collect_artifacts(processes.start, _command("report"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/w/report.xml", "text/xml"),
        ("/w/a.json", "application/json"),
        ("/w/shot.png", "image/png"),
        ("/w/archive.tar.gz", "application/octet-stream"),
        ("/w/Makefile", "application/octet-stream"),
        ("/w/.json", "application/octet-stream"),
        ("/w/data:text/html,x", "application/octet-stream"),
    ],
)
def test_media_type_follows_from_the_name_alone(path: str, kind: str) -> None:
    assert media_type(path) == kind


def test_same_file_twice_is_two_artifacts() -> None:
    assert describe("/a", size_bytes=0, sha256=None) != describe("/a", size_bytes=0, sha256=None)


def _command(*patterns: str, directory: Path | None = None) -> SandboxCommand:
    return SandboxCommand(
        command="true", artifacts=patterns, working_directory=None if directory is None else str(directory)
    )


def test_artifact_whose_name_is_not_utf8_keeps_its_true_path(processes: HostProcesses, tmp_path: Path) -> None:
    directory = tmp_path / os.fsdecode(b"d\xff")
    directory.mkdir()
    (directory / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"kept")

    (artifact,) = collect_artifacts(processes.start, _command("*/*.txt"))

    assert artifact.path == f"{tmp_path}/d\udcff/caf\udce9.txt"
    assert (artifact.size_bytes, artifact.sha256) == (4, hashlib.sha256(b"kept").hexdigest())
    assert ShellFiles(processes.start).read(artifact.path) == b"kept"
