"""Landlock rules as data, for the tier without namespaces. Pure, but for asking the kernel what it knows.

Numbers from linux/landlock.h. Rights the kernel does not know yet are left out; what cannot do without one says so.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from dataclasses import dataclass

_CREATE_RULESET = 444  # the same system call number on every architecture
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_RIGHTS_OF_VERSION_1 = (1 << 13) - 1
REFER, TRUNCATE, IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1 << 0, 1 << 1

SIGNAL_SCOPE_VERSION = 6
"""The first version that keeps the confined from signalling the rest of the machine."""

_READ = EXECUTE | READ_FILE | READ_DIR
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruleset:
    """What a confined process may do: nothing of `files`, `network` and `scopes` but what `rules` allow.

    Attributes:
        rules: Path and the rights below it.
    """

    files: int
    network: int
    scopes: int
    rules: tuple[tuple[str, int], ...]


def landlock_version() -> int:
    """Return the kernel's Landlock version; 0 when it has none or it is switched off."""
    version = ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    return max(0, int(version))


def ruleset(
    version: int, *, readable: Iterable[str], writable: Iterable[str], devices: Iterable[str], network: bool
) -> Ruleset:
    """Return the rules for a kernel with this Landlock version; paths that do not exist are left out."""
    files = _RIGHTS_OF_VERSION_1 | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    files |= IOCTL_DEVICE if version >= 5 else 0
    wanted = (
        *((path, _READ) for path in readable),
        *((path, files & ~IOCTL_DEVICE) for path in writable),
        *((path, WRITE_FILE | READ_FILE | IOCTL_DEVICE) for path in devices),
    )
    return Ruleset(
        files=files,
        network=0 if network or version < 4 else _BIND_TCP | _CONNECT_TCP,
        scopes=_SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL if version >= SIGNAL_SCOPE_VERSION else 0,
        rules=tuple((path, _possible(path, rights) & files) for path, rights in wanted if os.path.exists(path)),
    )


def _possible(path: str, rights: int) -> int:
    """The kernel refuses rights on a file that only a directory can have."""
    return rights if os.path.isdir(path) else rights & _OF_FILES
