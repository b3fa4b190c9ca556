"""The whole way as an ordinary user, with the system's Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import ai4j_sandbox
import ai4j_sandbox_local

# What creating a session imports late is imported here: the user of the tests may not reach our files.
import ai4j_sandbox_local.isolation.tiers
import ai4j_sandbox_local.session
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox_local import LocalProvider

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


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.parametrize("tier", ["namespace", "syscall-filter"])
@pytest.mark.parametrize(
    ("mode", "access", "said"),
    [
        (0o700, "ro", "commands could not read .*/closed: it is user 0's"),
        (0o755, "rw", "commands could not change .*/closed: it is user 0's"),
    ],
)
def test_ordinary_user_is_refused_a_directory_that_is_not_theirs(tier: str, mode: int, access: str, said: str) -> None:
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o711)  # noqa: S103 - so that it is not the way there that refuses
        closed = Path(parent, "closed")
        closed.mkdir(mode=mode)
        config = {"isolation": tier, "workspaceDir": str(closed), "workspaceMode": access}

        refusal = as_ordinary_user(lambda: LocalProvider().create_session(SandboxSpec(config=config)).close())

    assert re.search(f"^SandboxConfigError: .*({said})", refusal)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_ordinary_user_is_refused_what_lies_in_a_directory_they_may_not_enter(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as parent:  # which only root may enter
        mounts = [{"source": f"{parent}/x", "target": "/x"}]
        Path(parent, "x").touch()

        refusal = as_ordinary_user(
            lambda: LocalProvider().create_session(SandboxSpec(config={"mounts": mounts})).close()
        )

    assert refusal == (
        f"SandboxConfigError: {parent}/x cannot be used on this machine: Permission denied "
        "(give a path that exists and that this user may reach)"
    )


def as_ordinary_user(act: Callable[[], None]) -> str:
    """Return what `act` raises in a child process that has stepped down from root for good."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(USER, USER, USER)
            os.setresuid(USER, USER, USER)
            act()
            told = "nothing was refused"
        except BaseException as error:  # noqa: BLE001 - told to the parent, whatever it is
            told = f"{type(error).__name__}: {error}"
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read().decode()
    os.waitpid(child, 0)
    return told
