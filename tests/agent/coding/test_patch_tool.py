"""The `apply_patch` tool: section H 120 to 126, weakness I-80a."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ai4j_agent.coding import LocalWorkspace
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
