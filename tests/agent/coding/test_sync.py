"""Push and pull between a host directory and a workspace."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from ai4j_agent import AgentConfigError
from ai4j_agent.coding import (
    ChangeKind,
    LocalWorkspace,
    PushResult,
    SyncConflictError,
    SyncProgress,
    WorkspacePatch,
    WorkspaceSync,
)
from ai4j_agent.coding.host_files import HostFiles
from ai4j_agent.coding.sync import FileChange
from ai4j_sandbox import SandboxFileError
from support.coding_bench import Bench


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A host directory with what belongs to a project and what does not."""
    root = tmp_path / "project"
    for name, content in {
        ".gitignore": "*.log\nbuild/\n",
        "README.md": "# Demo\n",
        "src/app.py": "print('hi')\n",
        "src/data.bin": "\0\1\2",
        "run.sh": "#!/bin/sh\n",
        "build/out.o": "x",
        "trace.log": "x",
        ".git/config": "[core]\n",
        ".env": "A=1\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("/etc/passwd")
    return root


def tree(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


SENT = (".env", ".gitignore", "README.md", "run.sh", "src/app.py", "src/data.bin")


def test_a_push_brings_what_belongs_to_the_project(bench: Bench, project: Path) -> None:
    result = WorkspaceSync(project, bench.workspace).push()

    assert result == PushResult(sent=SENT, unchanged=0, skipped=("link",))
    assert bench.sh("find . -type f | sort").split() == [f"./{path}" for path in SENT]
    assert bench.bytes("src/data.bin") == b"\0\1\2"
    assert bench.sh("stat -c %a run.sh README.md") == "755\n644\n"


def test_a_second_push_sends_only_what_changed(bench: Bench, project: Path) -> None:
    WorkspaceSync(project, bench.workspace).push()
    (project / "README.md").write_text("# New\n")
    (project / "run.sh").chmod(0o644)

    result = WorkspaceSync(project, bench.workspace).push()

    assert result == PushResult(sent=("README.md", "run.sh"), unchanged=4, skipped=("link",))
    assert bench.bytes("README.md") == b"# New\n"


def test_a_push_deletes_only_on_request_and_never_what_is_ignored(bench: Bench, project: Path) -> None:
    bench.put("stale.txt", "x")
    bench.put("kept.log", "x")
    sync = WorkspaceSync(project, bench.workspace)

    assert sync.push().deleted == ()
    assert sync.push(delete=True).deleted == ("stale.txt",)
    assert (bench.exists("stale.txt"), bench.exists("kept.log")) == (False, True)


def test_progress_is_told(bench: Bench, project: Path) -> None:
    told: list[SyncProgress] = []

    WorkspaceSync(project, bench.workspace).push(on_progress=told.append)

    total = sum((project / path).stat().st_size for path in SENT)
    assert [item.path for item in told] == list(SENT)
    assert told[-1] == SyncProgress(path=SENT[-1], files_done=6, files_total=6, bytes_done=total, bytes_total=total)


def test_a_pull_shows_what_the_agent_did_and_changes_nothing(bench: Bench, project: Path) -> None:
    sync = WorkspaceSync(project, bench.workspace)
    sync.push()
    before = tree(project)
    bench.put("src/app.py", "print('ho')\n")
    bench.put("src/new.py", "x = 1")
    bench.put("src/data.bin", b"\0\2")
    bench.put("debug.log", "ignored")
    bench.put(".git/hooks/post-commit", "evil")
    bench.sh("rm README.md; chmod +x src/new.py; ln -s /etc/passwd sneaky")

    patch = sync.pull()

    assert tree(project) == before
    assert [(change.path, change.kind, change.conflict) for change in patch.changes] == [
        ("README.md", ChangeKind.DELETED, False),
        ("src/app.py", ChangeKind.MODIFIED, False),
        ("src/data.bin", ChangeKind.MODIFIED, False),
        ("src/new.py", ChangeKind.ADDED, False),
    ]
    assert patch.diff() == (
        "diff --git a/README.md b/README.md\n"
        "deleted file mode 100644\n"
        "--- a/README.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-# Demo\n"
        "diff --git a/src/app.py b/src/app.py\n"
        "--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-print('hi')\n+print('ho')\n"
        "diff --git a/src/data.bin b/src/data.bin\n"
        "Binary files a/src/data.bin and b/src/data.bin differ\n"
        "diff --git a/src/new.py b/src/new.py\n"
        "new file mode 100755\n"
        "--- /dev/null\n+++ b/src/new.py\n@@ -0,0 +1 @@\n+x = 1\n\\ No newline at end of file\n"
    )


def test_a_patch_is_applied_and_deletes_only_on_request(bench: Bench, project: Path) -> None:
    sync = WorkspaceSync(project, bench.workspace)
    sync.push()
    bench.put("src/app.py", "print('ho')\n")
    bench.put("new/tool", "#!/bin/sh\n")
    bench.sh("rm README.md; chmod +x new/tool")
    patch = sync.pull()

    assert patch.apply() == ("new/tool", "src/app.py")

    assert (project / "src/app.py").read_text() == "print('ho')\n"
    assert (project / "new/tool").stat().st_mode & 0o111
    assert (project / "README.md").exists()
    assert sync.pull().apply(delete=True) == ("README.md",)
    assert not (project / "README.md").exists()
    assert sync.pull().changes == ()


def test_the_diff_is_one_that_git_applies(bench: Bench, project: Path) -> None:
    sync = WorkspaceSync(project, bench.workspace)
    sync.push()
    bench.put("src/app.py", "print('ho')")
    bench.put("src/new.py", "x = 1\n")
    bench.sh("rm README.md; chmod -x run.sh")
    diff = sync.pull().diff()

    subprocess.run(["git", "apply", "-"], cwd=project, input=diff.encode(), check=True)

    assert sync.pull().changes == ()


def test_what_changed_on_both_sides_is_a_conflict(bench: Bench, project: Path) -> None:
    sync = WorkspaceSync(project, bench.workspace)
    sync.push()
    bench.put("src/app.py", "theirs\n")
    bench.put("README.md", "theirs\n")
    (project / "src/app.py").write_text("mine\n")
    patch = sync.pull()
    (project / "README.md").write_text("mine, after the pull\n")

    assert patch.conflicts == ("src/app.py",)
    with pytest.raises(SyncConflictError) as refused:
        patch.apply()

    assert refused.value.paths == ("README.md", "src/app.py")
    assert (project / "src/app.py").read_text() == "mine\n"
    patch.apply(overwrite=True)
    assert (project / "src/app.py").read_text() == "theirs\n"


def test_what_the_host_changed_alone_is_not_taken_back(bench: Bench, project: Path) -> None:
    sync = WorkspaceSync(project, bench.workspace)
    sync.push()
    (project / "src/app.py").write_text("mine\n")
    (project / "added.txt").write_text("mine\n")

    assert sync.pull().changes == ()


def test_ignore_files_of_what_is_ignored_do_not_count(bench: Bench, project: Path) -> None:
    sync = WorkspaceSync(project, bench.workspace)
    sync.push()
    bench.put("build/.gitignore", "!*\n")
    bench.put("build/made.o", "x")

    assert sync.pull().changes == ()


def test_another_process_goes_on_with_the_manifest(bench: Bench, project: Path) -> None:
    first = WorkspaceSync(project, bench.workspace)
    first.push()
    bench.sh("rm README.md")

    changes = WorkspaceSync(project, bench.workspace, baseline=first.manifest).pull().changes

    assert [(change.path, change.kind) for change in changes] == [("README.md", ChangeKind.DELETED)]


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "a/../../x", ".git/hooks/x", "..", "a\\x", "C:x", "", "outside/x", "link"]
)
def test_a_path_that_would_leave_the_host_s_directory_is_refused(project: Path, path: str) -> None:
    (project / "outside").symlink_to("/tmp")
    change = FileChange(path=path, kind=ChangeKind.ADDED, after=b"x")

    with pytest.raises(SandboxFileError):
        WorkspacePatch(directory=project, changes=(change,)).apply()


class BreakingFiles(HostFiles):
    """Breaks at the second archive."""

    archives = 0

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        BreakingFiles.archives += 1
        if BreakingFiles.archives == 2:
            raise SandboxFileError("the connection broke")
        super().write_chunks(path, chunks)


def test_a_push_that_broke_goes_on_where_it_was(tmp_path: Path) -> None:
    class Workspace(LocalWorkspace):
        files = BreakingFiles()

    project, there = tmp_path / "project", tmp_path / "there"
    project.mkdir()
    there.mkdir()
    for number in range(700):
        (project / f"{number:03}").write_text(str(number))
    sync = WorkspaceSync(project, Workspace(there))

    with pytest.raises(SandboxFileError):
        sync.push()

    assert (sync.manifest, sync.push().unchanged) == ({}, 500)
    assert tree(there) == tree(project)


def test_a_directory_is_needed(tmp_path: Path) -> None:
    with pytest.raises(AgentConfigError, match="is not a directory"):
        WorkspaceSync(tmp_path / "missing", LocalWorkspace(tmp_path))
