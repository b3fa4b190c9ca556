"""What a sandbox's file system is made of, as data: the parts of the host it sees, and what is its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from ai4j_sandbox.frozen import empty_mapping
from ai4j_sandbox_local.config import LocalConfig, Mount

HOME = "/home/sandbox"
USER = "sandbox"
INSIDE_ID = 1000
DEFAULT_WORKSPACE_MEGABYTES = 1024
SCRATCH_MEGABYTES = 512  # each of /tmp, /dev/shm and the home directory

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "debian_version", "fonts", "host.conf", "inputrc",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "mime.types", "os-release", "pki", "protocols",
    "services", "shells", "ssl", "terminfo", "timezone",
)  # fmt: skip
_ETC_NETWORK = ("gai.conf", "resolv.conf")

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

_FILES = {
    "/etc/passwd": (
        "root:x:0:0:root:/:/bin/sh\n"
        f"{USER}:x:{INSIDE_ID}:{INSIDE_ID}::{HOME}:/bin/sh\n"
        "nobody:x:65534:65534::/:/bin/false\n"
    ),
    "/etc/group": f"root:x:0:\n{USER}:x:{INSIDE_ID}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n",
    "/etc/hostname": "sandbox\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A writable directory in memory that belongs to the sandbox alone."""

    path: str
    megabytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The file system of one sandbox.

    Attributes:
        interpreter: The Python program that runs the agent, at the same path inside and outside.
        workspace: The directory commands start in.
        symlinks: Path to target.
        files: Path to content that we make up.
        parts: What is mounted, in this order: a later part lies over an earlier one.
    """

    interpreter: str
    workspace: str
    symlinks: Mapping[str, str] = field(default_factory=empty_mapping)
    files: Mapping[str, str] = field(default_factory=empty_mapping)
    parts: tuple[Mount | Scratch, ...] = ()

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """The parts that are the host's."""
        return tuple(part for part in self.parts if isinstance(part, Mount))


def plan_layout(config: LocalConfig) -> Layout:
    """Look at the host and return the layout for `config`."""
    system = [path for path in _SYSTEM if os.path.lexists(path)]
    links = {path: os.readlink(path) for path in system if os.path.islink(path)}
    return Layout(
        interpreter=interpreter(),
        workspace=config.workspace,
        symlinks=links,
        files=_FILES,
        parts=(
            *(_visible(path) for path in system if path not in links),
            *_etc(network=bool(config.network)),
            *(Scratch(path=path, megabytes=SCRATCH_MEGABYTES) for path in ("/tmp", "/dev/shm", HOME)),
            *_python(),
            _workspace(config),
            *config.mounts,
        ),
    )


def interpreter() -> str:
    """Return the program behind the running Python: of the base installation, in a virtual environment as well."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def interpreter_home() -> str:
    """Return the directory of the running Python's installation."""
    return os.path.realpath(sys.base_prefix)


def search_path() -> str:
    """Return the PATH of commands; `python3` is the Python that runs us."""
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    directory = os.path.dirname(interpreter())
    return system if directory in system.split(":") else f"{directory}:{system}"


def shared_paths(*, network: bool) -> list[str]:
    """Return what commands may read of the host where they have no file system of their own."""
    system = [path for path in _SYSTEM if os.path.exists(path)]
    etc = [mount.source for mount in _etc(network=network)]
    accounts = [path for path in _FILES if os.path.exists(path)]
    return [*system, *etc, *accounts, *(mount.source for mount in _python()), "/proc"]


def _visible(path: str) -> Mount:
    return Mount(source=path, target=path)


def _etc(*, network: bool) -> list[Mount]:
    """Files of /etc that programs need; a link is followed, because what it points at may not be inside."""
    wanted = (f"/etc/{name}" for name in (*_ETC, *(_ETC_NETWORK if network else ())))
    return [Mount(source=os.path.realpath(path), target=path) for path in wanted if os.path.exists(path)]


def _python() -> list[Mount]:
    """The running Python's installation, at its own path: elsewhere it would load another one's library."""
    home = interpreter_home()
    return [] if home == "/" or home.split("/")[1] == "usr" else [_visible(home)]


def covering(config: LocalConfig) -> list[str]:
    """Return the paths at which `config` puts something else over the running Python's installation, or into it."""
    return [
        target
        for part in (_workspace(config), *config.mounts)
        for python in _python()
        if overlap(target := _target(part), python.target) and not _shows_itself(part)
    ]


def _target(part: Mount | Scratch) -> str:
    return part.target if isinstance(part, Mount) else part.path


def _shows_itself(part: Mount | Scratch) -> bool:
    return isinstance(part, Mount) and os.path.realpath(part.source) == part.target


def overlap(one: str, other: str) -> bool:
    """Whether one path is the other, or lies below it."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _workspace(config: LocalConfig) -> Mount | Scratch:
    if config.workspace_dir is not None:
        return Mount(source=os.path.realpath(config.workspace_dir), target=config.workspace, mode=config.workspace_mode)
    size = config.limits.workspace_megabytes or DEFAULT_WORKSPACE_MEGABYTES
    return Scratch(path=config.workspace, megabytes=size)
