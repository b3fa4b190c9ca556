"""Pythons that have an official SDK and nothing of ours, made once and kept.

They live below the directory named by ``AI4J_TEST_VENVS``, or else below the environment the tests run in.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DIRECTORY_VARIABLE = "AI4J_TEST_VENVS"
SCRIPT_SECONDS = 100


def python_with(requirements: Path) -> Path:
    """Return a Python of an environment with exactly these pinned requirements.

    Made anew when the file changes. Test processes that need it at the same time wait for the one that makes it.
    """
    directory = Path(os.environ.get(DIRECTORY_VARIABLE) or Path(sys.prefix) / "official") / requirements.stem
    python = directory / "bin" / "python"
    done = directory / "requirements.sha256"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    with _locked(directory.with_suffix(".lock")):
        if not done.exists() or done.read_text() != digest:
            shutil.rmtree(directory, ignore_errors=True)
            venv.create(directory, with_pip=False)
            subprocess.run(_install(python, requirements), check=True)
            done.write_text(digest)
    return python


def _install(python: Path, requirements: Path) -> list[str]:
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    return [*pip, "install", "--quiet", "--no-deps", "--requirement", str(requirements)]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def once_for_all_workers(path: Path, make: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Return what `make` returns; of parallel test processes the first that asks makes it, into `path`."""
    with _locked(path.with_suffix(".lock")):
        if not path.exists():
            path.write_text(json.dumps(make()))
    report: dict[str, str] = json.loads(path.read_text())
    return report


def operation_names(script: Path) -> list[str]:
    """Return the names of a script's decorated functions, without running it: its imports are not for this Python."""
    body = ast.parse(script.read_text()).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef) and _is_operation(node)]


def _is_operation(node: ast.FunctionDef) -> bool:
    return any(isinstance(item, ast.Name) and item.id == "operation" for item in node.decorator_list)


def run_operations(python: Path, script: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Run a script of operations and return its report: ``"ok"``, ``"skipped: …"`` or what went wrong, by name."""
    finished = subprocess.run(
        [str(python), "-I", str(script)],
        env={"PATH": os.environ["PATH"], "HOME": str(script.parent), **environment},
        stdout=subprocess.PIPE,
        timeout=SCRIPT_SECONDS,
        check=True,
    )
    report: dict[str, str] = json.loads(finished.stdout)["operations"]
    return report
