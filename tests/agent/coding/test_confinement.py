"""One rule for files, git and bash: section H 108 to 119, cases M02 and M07."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ai4j_agent import ToolError
from ai4j_agent.coding import PathRules
from support.coding_bench import Bench

LEAVE = ["../etc/passwd", "/etc/passwd", "a/../../etc", "../../../etc/passwd", ".."]


@pytest.mark.parametrize("path", LEAVE)
def test_a_path_that_leaves_the_workspace_is_refused_for_files_git_and_bash_alike(bench: Bench, path: str) -> None:
    refusals = {
        bench.refusal("read_file", path=path),
        bench.refusal("write_file", path=path, content="x"),
        bench.refusal("list", path=path),
        bench.refusal("grep", pattern="x", path=path),
        bench.refusal("git", action="status", cwd=path),
        bench.refusal("git", action="add", paths=[path]),
        bench.refusal("bash", action="exec", command="pwd", cwd=path),
        bench.refusal("bash", action="start", command="pwd", cwd=path),
        bench.refusal("run_tests", path=path),
    }

    assert {refusal.partition(":")[0] for refusal in refusals} == {"path escapes the workspace root"}


@pytest.mark.parametrize("path", ["a", "./a", "b/../a", "{root}/a"])
def test_a_path_inside_means_the_same_however_it_is_written(bench: Bench, path: str) -> None:
    bench.sh("mkdir a && echo here > a/file")
    path = path.format(root=bench.workspace.root)

    assert bench.call("bash", action="exec", command="pwd", cwd=path)["stdout"] == f"{bench.workspace.root}/a\n"
    assert bench.call("read_file", path=f"{path}/file")["content"] == "here\n"


@pytest.mark.parametrize("path", ["out/new.txt", "out/deep/new.txt", "out", "dangling"])
def test_a_symlink_leads_nobody_out_also_when_the_leaf_does_not_exist(bench: Bench, path: str) -> None:
    bench.sh("ln -s /tmp out; ln -s ../../elsewhere/new.txt dangling")

    assert "through a symlink" in bench.refusal("write_file", path=path, content="x")


def test_a_symlink_inside_is_followed(bench: Bench) -> None:
    bench.sh("mkdir -p src/deep; ln -s src/deep here; ln -s here/file link")

    assert bench.call("write_file", path="here/new", content="x")["resolvedPath"] == bench.at("src/deep/new")
    bench.call("write_file", path="link", content="through")

    assert (bench.bytes("src/deep/new"), bench.bytes("src/deep/file")) == (b"x", b"through")


@pytest.mark.parametrize("path", ["one", "one/below"])
def test_symlinks_in_a_circle_are_refused(bench: Bench, path: str) -> None:
    bench.sh("ln -s two one; ln -s one two")

    assert "too many levels of symbolic links" in bench.refusal("write_file", path=path, content="x")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (".ssh/authorized_keys", ".ssh is protected"),
        ("deep/.ssh/id", ".ssh is protected"),
        (".aws/credentials", ".aws is protected"),
        (".git/hooks/post-commit", ".git/hooks is protected"),
        ("sub/.git/hooks/post-commit", ".git/hooks is protected"),
        (".git/config", ".git is excluded from the workspace"),
        ("target/classes/A.class", "target is excluded from the workspace"),
        ("node_modules/x.js", "node_modules is excluded from the workspace"),
    ],
)
def test_what_is_protected_is_written_by_no_tool(bench: Bench, path: str, why: str) -> None:
    patch = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"
    diff = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"

    assert why in bench.refusal("write_file", path=path, content="x")
    assert why in bench.refusal("apply_patch", patch=patch)
    assert why in bench.refusal("edit", path=path, old_string="a", new_string="b")
    assert bench.refusal("git", action="apply", patch=diff)
    assert not bench.exists(path)


def test_what_is_protected_is_so_behind_a_symlink(bench: Bench) -> None:
    bench.sh("mkdir -p .git/hooks .ssh; ln -s .git/hooks hooks; ln -s .ssh keys")

    assert ".git/hooks is protected" in bench.refusal("write_file", path="hooks/post-commit", content="x")
    assert ".ssh is protected" in bench.refusal("write_file", path="keys/authorized_keys", content="x")


def test_the_boundary_can_be_dropped_but_not_the_protection(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(rules=PathRules(allow_outside_workspace=True))
    outside = f"{bench.workspace.root}-outside/file"

    bench.call("write_file", path=outside, content="x")

    assert bench.workspace.files.read(outside) == b"x"
    assert ".ssh is protected" in bench.refusal("write_file", path=f"{bench.workspace.root}-outside/.ssh/x", content="")
    bench.workspace.files.remove(f"{bench.workspace.root}-outside", recursive=True)


def test_names_with_anything_in_them_are_paths_like_others(bench: Bench) -> None:
    name = "-a 'b' \"c\" $(d)\n*e"
    bench.call("write_file", path=f"dir/{name}", content="x")

    assert bench.call("read_file", path=f"dir/{name}")["content"] == "x"


@pytest.mark.parametrize("path", ["", "  ", "a\0b"])
def test_what_is_no_path_is_refused(bench: Bench, path: str) -> None:
    with pytest.raises(ToolError, match="is not a path"):
        bench.workbench.rules.readable(bench.workspace, path)
