"""The whole way as an ordinary user, with the system's Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ai4j_sandbox
import ai4j_sandbox_local

USER = 4242
SYSTEM_PYTHON = "/usr/bin/python3"

PROGRAM = """
import json, sys
from ai4j_sandbox.model import SandboxCommand, SandboxSpec, TerminalSize
from ai4j_sandbox_local import LocalProvider
with LocalProvider().create_session(SandboxSpec(config={"isolation": sys.argv[1]})) as session:
    session.files.write("file", "content")
    run = lambda line, **options: session.execute(SandboxCommand(command=line, **options)).stdout
    print(json.dumps([
        run("cat file"),
        run("tty >/dev/null && echo terminal", terminal=TerminalSize()),
        run("python3 -c 'print(6 * 7)'"),
        run("echo x > /proc/sys/kernel/core_pattern || echo refused"),
    ]))
"""


def usable() -> bool:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return False
    version = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True
    )
    reachable = all(os.stat(path).st_mode & 0o001 for path in Path(ai4j_sandbox.__file__).parents)
    return reachable and version.stdout.strip() == str(sys.version_info[:2])


@pytest.mark.skipif(not usable(), reason="needs root to become another user, and a system Python of this version")
@pytest.mark.parametrize("tier", ["namespace", "syscall-filter"])
def test_ordinary_user_gets_the_same_sandbox(tier: str) -> None:
    folders = [str(Path(package.__file__).parents[1]) for package in (ai4j_sandbox, ai4j_sandbox_local)]
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    become = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "--"]

    finished = subprocess.run(
        [*become, SYSTEM_PYTHON, "-c", PROGRAM, tier],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join((*folders, *libraries)), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.stdout == '["content", "terminal\\r\\n", "42\\n", "refused\\n"]\n', finished.stderr
