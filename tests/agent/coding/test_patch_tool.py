"""The `apply_patch` tool: section H 120 to 126, weakness I-80a."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from ai4j_agent.coding import CodingLimits, LocalWorkspace
from ai4j_agent.coding.host_files import HostFiles
from ai4j_sandbox import SandboxFileError
from support.coding_bench import Bench

PATCH = """\
*** Begin Patch
*** Add File: docs/new.txt
+one
+two
*** Update File: code.py
@@
 a = 1
-b = 2
+b = 3
*** Delete File: old.txt
*** End Patch
"""


def test_add_update_and_delete_with_counts(bench: Bench) -> None:
    bench.put("code.py", "a = 1\nb = 2\n")
    bench.put("old.txt", "1\n2\n3\n")

    assert bench.call("apply_patch", patch=PATCH) == {
        "filesChanged": 3,
        "operationsApplied": 3,
        "changedFiles": ["docs/new.txt", "code.py", "old.txt"],
        "fileChanges": [
            {"path": "docs/new.txt", "operation": "add", "linesAdded": 2, "linesRemoved": 0},
            {"path": "code.py", "operation": "update", "linesAdded": 1, "linesRemoved": 1},
            {"path": "old.txt", "operation": "delete", "linesAdded": 0, "linesRemoved": 3},
        ],
    }
    assert (bench.bytes("docs/new.txt"), bench.bytes("code.py")) == (b"one\ntwo\n", b"a = 1\nb = 3\n")
    assert not bench.exists("old.txt")


@pytest.mark.parametrize(
    ("code", "refusal"), [("a = 1\nb = 9\n", "was not found"), (None, "code.py does not exist"), ("a\0", "binary")]
)
def test_a_patch_that_does_not_fit_everywhere_changes_nothing(bench: Bench, code: str | None, refusal: str) -> None:
    bench.put("old.txt", "1\n2\n3\n")
    if code is not None:
        bench.put("code.py", code)

    assert refusal in bench.refusal("apply_patch", patch=PATCH)
    assert not bench.exists("docs/new.txt")
    assert bench.bytes("old.txt") == b"1\n2\n3\n"


def test_adding_what_exists_is_refused(bench: Bench) -> None:
    bench.put("docs/new.txt", "mine")

    assert "exists already" in bench.refusal("apply_patch", patch=PATCH)
    assert bench.bytes("docs/new.txt") == b"mine"


@pytest.mark.parametrize("path", ["../escape.txt", ".git/hooks/pre-commit", ".ssh/id", "a/../../x"])
def test_one_forbidden_path_stops_the_whole_patch(bench: Bench, path: str) -> None:
    patch = f"*** Begin Patch\n*** Add File: fine.txt\n+x\n*** Add File: {path}\n+x\n*** End Patch"

    bench.refusal("apply_patch", patch=patch)

    assert not bench.exists("fine.txt")


class FailingFiles(HostFiles):
    """Fails to write one name."""

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        content = b"".join(chunks)
        if path.endswith("code.py") and b"3" in content:
            raise SandboxFileError(f"no room for {len(content)} bytes")
        super().write_chunks(path, [content])


def test_a_write_that_fails_takes_back_what_was_written(tmp_path) -> None:
    class Workspace(LocalWorkspace):
        files = FailingFiles()

    bench = Bench(Workspace(tmp_path))
    bench.put("code.py", "a = 1\nb = 2\n")
    bench.put("old.txt", "1\n")

    assert "nothing was changed: no room" in bench.refusal("apply_patch", patch=PATCH)
    assert not bench.exists("docs/new.txt")
    assert (bench.bytes("code.py"), bench.bytes("old.txt")) == (b"a = 1\nb = 2\n", b"1\n")


SPELLINGS = ["a.txt", "./a.txt", "b/../a.txt", "//a.txt", "here/a.txt"]


@pytest.mark.parametrize("other", [*SPELLINGS, "alias.txt"])
def test_two_updates_of_one_file_are_refused_however_it_is_spelled(bench: Bench, other: str) -> None:
    bench.sh("ln -s . here; echo one > a.txt; ln -s a.txt alias.txt")
    sections = "\n".join(f"*** Update File: {path}\n@@\n-one\n+two" for path in ("a.txt", other))

    refusal = bench.refusal("apply_patch", patch=f"*** Begin Patch\n{sections}\n*** End Patch")

    assert "are the same file" in refusal or "more than one section" in refusal
    assert bench.bytes("a.txt") == b"one\n"


@pytest.mark.parametrize("other", SPELLINGS)
def test_two_additions_of_one_file_are_refused_however_it_is_spelled(bench: Bench, other: str) -> None:
    bench.sh("ln -s . here")
    sections = "\n".join(f"*** Add File: {path}\n+two" for path in ("a.txt", other))

    refusal = bench.refusal("apply_patch", patch=f"*** Begin Patch\n{sections}\n*** End Patch")

    assert "are the same file" in refusal or "more than one section" in refusal
    assert not bench.exists("a.txt")


def test_deleting_a_symlink_leaves_what_it_points_to(bench: Bench) -> None:
    bench.sh("echo kept > target; ln -s target link; ln -s nowhere dangling; ln -s /etc outside")
    sections = "\n".join(f"*** Delete File: {name}" for name in ("link", "dangling", "outside"))

    bench.call("apply_patch", patch=f"*** Begin Patch\n{sections}\n*** End Patch")

    assert bench.sh("ls -A; cat target") == "target\nkept\n"


def test_adding_at_a_dangling_symlink_is_refused(bench: Bench) -> None:
    bench.sh("ln -s nowhere link")

    refusal = bench.refusal("apply_patch", patch="*** Begin Patch\n*** Add File: link\n+x\n*** End Patch")

    assert ("link exists already" in refusal, bench.exists("nowhere")) == (True, False)


def test_a_directory_is_not_deleted(bench: Bench) -> None:
    bench.put("folder/x", "x")

    assert "is a directory" in bench.refusal(
        "apply_patch", patch="*** Begin Patch\n*** Delete File: folder\n*** End Patch"
    )


def test_large_and_binary_files_can_be_deleted(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(limits=CodingLimits(file_bytes=10))
    bench.put("large", b"x\n" * 100)
    bench.put("binary", b"\0\n")

    patch = "*** Begin Patch\n*** Delete File: large\n*** Delete File: binary\n*** End Patch"
    facts = bench.call("apply_patch", patch=patch)

    assert [change["linesRemoved"] for change in facts["fileChanges"]] == [0, 1]
    assert bench.sh("ls -A") == ""


def test_a_patch_that_fails_late_leaves_no_trace(bench: Bench) -> None:
    bench.sh("echo gone > gone; chmod 640 gone; ln -s gone link; echo file > file")
    before = bench.sh("ls -lA --time-style=+")
    patch = (
        "*** Begin Patch\n*** Delete File: gone\n*** Delete File: link\n*** Add File: new/deep/x\n+x\n"
        "*** Add File: file/below\n+x\n*** End Patch"
    )

    bench.refusal("apply_patch", patch=patch)

    assert bench.sh("ls -lA --time-style=+") == before


def test_a_file_can_become_a_directory(bench: Bench) -> None:
    bench.put("thing", "x")

    bench.call("apply_patch", patch="*** Begin Patch\n*** Delete File: thing\n*** Add File: thing/x\n+x\n*** End Patch")

    assert bench.sh("find . -type f") == "./thing/x\n"
