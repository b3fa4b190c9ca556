"""Push and pull between a host directory and a workspace."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from ai4j_agent import AgentConfigError
from ai4j_agent.coding import (
    ChangeKind,
    FileChange,
    LocalWorkspace,
    PushResult,
    SkippedPath,
    SyncConflictError,
    SyncProgress,
    WorkspacePatch,
    WorkspaceSync,
)
from ai4j_agent.coding.host_files import HostFiles
from ai4j_sandbox import SandboxCommand, SandboxFileError
from ai4j_sandbox.process import SandboxProcess
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


LINK = (SkippedPath(path="link", reason="is a symlink"),)
SENT = (".env", ".gitignore", "README.md", "run.sh", "src/app.py", "src/data.bin")


def test_a_push_brings_what_belongs_to_the_project(bench: Bench, project: Path) -> None:
    result = WorkspaceSync(project, bench.workspace).push()

    assert result == PushResult(sent=SENT, unchanged=0, skipped=LINK)
    assert bench.sh("find . -type f | sort").split() == [f"./{path}" for path in SENT]
    assert bench.bytes("src/data.bin") == b"\0\1\2"
    assert bench.sh("stat -c %a run.sh README.md") == "755\n644\n"


def test_a_second_push_sends_only_what_changed(bench: Bench, project: Path) -> None:
    sync = WorkspaceSync(project, bench.workspace)
    sync.push()
    (project / "README.md").write_text("# New\n")
    (project / "run.sh").chmod(0o644)

    result = sync.push()

    assert result == PushResult(sent=("README.md", "run.sh"), unchanged=4, skipped=LINK)
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
    assert patch.skipped == (SkippedPath(path="sneaky", reason="is a symlink"),)
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
        "index 8352675d67aed6625ece79af41c27fdb4ee2e867..8835708590a9afa236e1bbad18df9d23de82ccd3 100644\n"
        "GIT binary patch\nliteral 2\nJcmZQz0ssI600RI3\n\nliteral 3\nKcmZQzWC8#H2LJ>B\n\n"
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
    "path",
    [
        "../x",
        "/etc/x",
        "a/../../x",
        ".git/hooks/x",
        "a/.GIT/x",
        ".g\u200cit/x",
        ".git. /x",
        "git~1/x",
        "..",
        "",
        "outside/x",
    ],
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

    assert (len(sync.manifest), sync.push().unchanged) == (500, 500)
    assert tree(there) == tree(project)


def test_a_directory_is_needed(tmp_path: Path) -> None:
    with pytest.raises(AgentConfigError, match="is not a directory"):
        WorkspaceSync(tmp_path / "missing", LocalWorkspace(tmp_path))


# --- what one side has and the other does not know ------------------------------------------------------------------


@pytest.fixture
def pushed(bench: Bench, project: Path) -> WorkspaceSync:
    sync = WorkspaceSync(project, bench.workspace)
    sync.push()
    return sync


@pytest.mark.parametrize("ignoring", ["rm .gitignore", "echo '!*' > .gitignore"])
def test_a_file_that_the_host_ignores_is_not_written_unasked(
    bench: Bench, project: Path, pushed: WorkspaceSync, ignoring: str
) -> None:
    bench.sh(ignoring)
    bench.put("trace.log", "theirs")
    bench.put("new.log", "theirs")
    before = tree(project)
    patch = pushed.pull()

    with pytest.raises(SyncConflictError, match=r"never pushed: trace\.log"):
        patch.apply(delete=True)

    assert patch.conflicts == ("trace.log",)
    assert tree(project) == before
    patch.apply(overwrite=True)
    assert ((project / "trace.log").read_text(), (project / "new.log").read_text()) == ("theirs", "theirs")


def test_a_file_that_the_agent_ignores_is_not_taken_for_deleted(
    bench: Bench, project: Path, pushed: WorkspaceSync
) -> None:
    bench.put(".gitignore", "*\n!.gitignore\n")
    bench.put("src/app.py", "print('ho')\n")

    assert [change.path for change in pushed.pull().changes] == [".gitignore", "src/app.py"]


def test_an_edit_of_the_agent_is_not_reverted_by_another_push(
    bench: Bench, project: Path, pushed: WorkspaceSync
) -> None:
    bench.put("src/app.py", "theirs\n")
    bench.sh("rm README.md")
    (project / "run.sh").write_text("mine\n")

    with pytest.raises(SyncConflictError, match="pull and apply that first") as refused:
        pushed.push()

    assert refused.value.paths == ("README.md", "src/app.py")
    assert (bench.bytes("src/app.py"), bench.bytes("run.sh")) == (b"theirs\n", b"#!/bin/sh\n")
    pushed.push(overwrite=True)
    assert (bench.bytes("src/app.py"), bench.exists("README.md")) == (b"print('hi')\n", True)


def test_after_an_applied_patch_the_host_s_next_edits_are_pushed(
    bench: Bench, project: Path, pushed: WorkspaceSync
) -> None:
    bench.put("src/app.py", "theirs\n")
    pushed.pull().apply()
    (project / "src/app.py").write_text("mine again\n")

    assert pushed.push().sent == ("src/app.py",)
    assert bench.bytes("src/app.py") == b"mine again\n"


def test_what_was_there_before_the_first_push_is_not_overwritten_unasked(bench: Bench, project: Path) -> None:
    bench.put("README.md", "of the image\n")

    with pytest.raises(SyncConflictError):
        WorkspaceSync(project, bench.workspace).push()

    assert bench.bytes("README.md") == b"of the image\n"


def test_a_file_that_the_host_deleted_does_not_come_back(project: Path, pushed: WorkspaceSync) -> None:
    (project / "README.md").unlink()
    pushed.push()

    assert pushed.pull().changes == ()


def test_a_push_never_writes_through_a_symlink(bench: Bench, project: Path, pushed: WorkspaceSync) -> None:
    outside = bench.sh("mktemp -d").strip()
    bench.sh(f"rm -r src; ln -s {outside} src; ln -sf {outside}/read README.md")

    with pytest.raises(SyncConflictError) as refused:
        pushed.push()
    pushed.push(overwrite=True)

    assert refused.value.paths == ("README.md", "src/app.py", "src/data.bin")
    assert bench.sh(f"ls -A {outside}; rm -r {outside}") == ""
    assert (bench.bytes("src/app.py"), bench.bytes("README.md")) == (b"print('hi')\n", b"# Demo\n")


def test_what_is_behind_a_new_symlink_is_not_taken_for_deleted(
    bench: Bench, project: Path, pushed: WorkspaceSync
) -> None:
    bench.sh("mv src elsewhere; ln -s elsewhere src; rm run.sh; mkfifo run.sh")
    patch = pushed.pull()

    assert [(change.path, change.kind) for change in patch.changes] == [
        ("elsewhere/app.py", ChangeKind.ADDED),
        ("elsewhere/data.bin", ChangeKind.ADDED),
    ]
    assert patch.skipped == (
        SkippedPath(path="run.sh", reason="is not a regular file"),
        SkippedPath(path="src", reason="is a symlink"),
    )


# --- all or nothing -------------------------------------------------------------------------------------------------


def test_a_directory_that_became_a_file_and_the_other_way_round(
    bench: Bench, project: Path, pushed: WorkspaceSync
) -> None:
    bench.sh("rm -r src README.md; echo now a file > src; mkdir -p README.md/deep; echo x > README.md/deep/x")
    patch = pushed.pull()
    before = tree(project)

    with pytest.raises(SyncConflictError, match="is in the way") as refused:
        patch.apply()

    assert (refused.value.paths, tree(project)) == (("README.md/deep/x", "src"), before)
    patch.apply(delete=True)
    assert ((project / "src").read_text(), (project / "README.md/deep/x").read_text()) == ("now a file\n", "x\n")
    assert [entry.name for entry in project.iterdir() if entry.name.startswith(".ai4j")] == []
    assert pushed.pull().changes == ()
    assert pushed.push().sent == ()


def test_a_directory_with_files_of_the_host_s_own_is_not_replaced(
    bench: Bench, project: Path, pushed: WorkspaceSync
) -> None:
    (project / "src/own.log").write_text("mine")
    bench.sh("rm -r src; echo now a file > src")
    before = tree(project)

    with pytest.raises(SyncConflictError, match="is in the way"):
        pushed.pull().apply(delete=True, overwrite=True)

    assert tree(project) == before


def test_a_directory_that_the_host_made_in_a_file_s_place_is_not_deleted(
    bench: Bench, project: Path, pushed: WorkspaceSync
) -> None:
    bench.sh("rm README.md; echo x >> run.sh")
    (project / "README.md").unlink()
    (project / "README.md").mkdir()
    (project / "README.md/own").write_text("mine")

    pushed.pull().apply(delete=True, overwrite=True)

    assert (project / "README.md/own").read_text() == "mine"


def test_a_change_that_cannot_be_written_takes_everything_back(
    bench: Bench, project: Path, pushed: WorkspaceSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.sh("rm -r src; echo file > src; echo new > new; rm README.md; chmod -x run.sh; mkdir a; echo x > a/x")
    patch = pushed.pull()
    before = tree(project)
    really_replace = os.replace

    def failing(source: Path, target: Path) -> None:
        if target == project / "src" and source.name.startswith("new-"):
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        really_replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(SandboxFileError, match=r"nothing was changed: .*No space left"):
        patch.apply(delete=True)

    assert tree(project) == before
    assert (project / "run.sh").stat().st_mode & 0o111
    assert sorted(entry.name for entry in project.iterdir()) == sorted(
        [".env", ".git", ".gitignore", "README.md", "build", "link", "run.sh", "src", "trace.log"]
    )


def test_a_full_disk_changes_nothing(bench: Bench, project: Path, pushed: WorkspaceSync) -> None:
    bench.put("large", b"x" * 300_000)
    bench.put("README.md", "theirs\n")
    patch = pushed.pull()
    before = tree(project)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(SandboxFileError, match="nothing was changed"):
            patch.apply()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)

    assert tree(project) == before


def test_a_patch_applied_twice_is_applied_once(bench: Bench, project: Path, pushed: WorkspaceSync) -> None:
    bench.put("src/app.py", "theirs\n")
    patch = pushed.pull()

    assert (patch.apply(), patch.apply()) == (("src/app.py",), ())


def test_a_symlink_of_the_host_is_replaced_and_not_followed(bench: Bench, project: Path, pushed: WorkspaceSync) -> None:
    bench.put("link", "a file")
    patch = pushed.pull()

    with pytest.raises(SyncConflictError):
        patch.apply()
    patch.apply(overwrite=True)

    assert ((project / "link").is_symlink(), (project / "link").read_text()) == (False, "a file")


def test_execution_is_taken_away_as_well(bench: Bench, project: Path, pushed: WorkspaceSync) -> None:
    (project / "run.sh").chmod(0o750)
    bench.sh("chmod -x run.sh")

    pushed.pull().apply()

    assert stat.S_IMODE((project / "run.sh").stat().st_mode) == 0o640


# --- names ----------------------------------------------------------------------------------------------------------

ODD = (
    b"C:drive",
    b"back\\slash",
    b"new\nline",
    b"tab\there",
    b'quo"te',
    b"-dash",
    b" blank ",
    b"caf\xe9",
    "é".encode(),
)


def test_odd_names_are_names(bench: Bench, project: Path) -> None:
    for number, name in enumerate(ODD):
        Path(os.fsdecode(os.fsencode(project) + b"/" + name)).write_bytes(b"%d" % number)
    sync = WorkspaceSync(project, bench.workspace)
    sync.push()
    bench.sh("mkdir odd; find . -maxdepth 1 -type f -exec cp {} odd/ ';'")
    bench.sh("echo more >> ./-dash; rm 'C:drive'")
    patch = sync.pull()
    diff = patch.diff()
    patch.apply(delete=True)

    pulled = {os.fsencode(name) for name in os.listdir(project / "odd")}
    assert patch.skipped == ()
    assert pulled.issuperset(ODD)
    assert ((project / "-dash").read_bytes(), (project / "C:drive").exists()) == (b"5more\n", False)
    assert sync.pull().changes == ()
    assert diff.isascii()


def test_only_what_is_not_safe_on_the_host_is_skipped(bench: Bench, project: Path, pushed: WorkspaceSync) -> None:
    bench.put("fine", "x")
    bench.put(".GIT/hooks/post-commit", "evil")
    bench.put("link2/x", "x")
    (project / "link2").symlink_to("/tmp")

    patch = pushed.pull()

    assert [change.path for change in patch.changes] == ["fine"]
    assert [item.path for item in patch.skipped] == [".GIT/hooks/post-commit", "link2/x"]
    assert patch.apply() == ("fine",)


def test_what_cannot_be_read_is_skipped_and_not_deleted(tmp_path: Path, project: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o777)
    workspace = UnprivilegedWorkspace(there)
    sync = WorkspaceSync(project, workspace)
    sync.push()
    subprocess.run(["chmod", "0", there / "src", there / "README.md"], check=True)
    (there / "new").write_text("x")

    patch = sync.pull()
    (there / "src").chmod(0o755)

    assert [change.path for change in patch.changes] == ["new"]
    assert patch.skipped == (
        SkippedPath(path="README.md", reason="cannot be read"),
        SkippedPath(path="src", reason="cannot be read"),
    )


class UnprivilegedWorkspace(LocalWorkspace):
    """Where the tests run as root, its commands lack what lets root past permissions."""

    def start(self, command: SandboxCommand) -> SandboxProcess:
        if os.geteuid() != 0:
            return super().start(command)
        arguments = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", *command.argv())
        return super().start(replace(command, command=arguments))


# --- what git takes -------------------------------------------------------------------------------------------------


def test_git_applies_whatever_changed_and_takes_it_back(bench: Bench, project: Path) -> None:
    (project / ".git/config").unlink()
    (project / ".git").rmdir()
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    for name, content in {
        "latin1.txt": "caf\xe9\n".encode("latin-1"),
        "picture": bytes(range(256)) * 40,
        "gone.bin": b"\0\1",
        "windows.txt": b"one\r\ntwo\r\n",
        "no-end": b"one\ntwo",
        "empty": b"",
        "dir/inside": b"x\n",
        "file": b"x\n",
    }.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_bytes(content)
    sync = WorkspaceSync(project, bench.workspace)
    sync.push()
    before = tree(project)
    bench.put("latin1.txt", "caf\xe9s\n".encode("latin-1"))
    bench.put("picture", bytes(range(255, -1, -1)) * 40)
    bench.put("windows.txt", b"one\r\n2\r\n")
    bench.put("no-end", b"one\ntwo\n")
    bench.put("with blank", "x\n")
    bench.put('q"uote\n\tü\\', "x\n")
    bench.put("made-empty", "")
    bench.put("separators", "a\x0cb\u2028c\rd\n")
    bench.sh("rm gone.bin empty; chmod -x run.sh; chmod +x src/data.bin; rm -r dir file; echo f > dir; mkdir file")
    bench.put("file/inside", "y\n")
    patch = sync.pull()

    for options in ([], ["--reverse"], ["--index"]):
        if options == ["--index"]:
            subprocess.run(["git", "add", "-A", "-f", "."], cwd=project, check=True)
        apply = ["git", "apply", "--whitespace=nowarn", *options, "-"]
        subprocess.run(apply, cwd=project, input=patch.diff().encode(), check=True)
        if options == ["--reverse"]:
            assert tree(project) | dict.fromkeys(gone_with_git(before), b"") == before | dict.fromkeys(
                gone_with_git(before), b""
            )

    assert sync.pull().changes == ()


def gone_with_git(files: dict[str, bytes]) -> list[str]:
    """What git itself writes when it is used."""
    return [path for path in files if path.startswith(".git/")]


def test_a_hopeless_comparison_takes_no_minutes() -> None:
    lines = [b"%d\n" % (number * 7919 % 100) for number in range(60_000)]
    change = FileChange(
        path="x",
        kind=ChangeKind.MODIFIED,
        before=b"".join((b"same\n", *lines, b"end\n")),
        after=b"".join((b"same\n", *reversed(lines), b"end\n")),
    )

    diff = WorkspacePatch(directory=Path("/"), changes=(change,)).diff()

    assert diff.count("\n-") + diff.count("\n+") > 100_000
