"""Which host user the commands of a sandbox run as. Never user 0.

bwrap started by root maps host user 0 into the sandbox, whatever number it has there; procfs then lets the sandbox
write kernel settings such as ``core_pattern``, because it compares host ids. So root must step down before.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass

NOBODY = 65534
_UNUSED_FIRST, _UNUSED_LAST = (
    1879048192,
    2147483646,
)  # systemd's UIDS-GIDS table: "unused", so no account has one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A host user and group; `changed` when it is not the one we run as, so that root has to step down to it."""

    uid: int
    gid: int
    changed: bool


def choose_identity(private_directory: str | None) -> Identity:
    """Return who the commands run as: we ourselves, or for root a user of their own.

    Args:
        private_directory: A host directory that commands are to use and that only its owner may; root steps down to
            that owner.
    """
    if os.geteuid() != 0:
        return current_identity()
    if private_directory is not None:
        status = os.stat(private_directory)
        if status.st_uid != 0:
            return Identity(uid=status.st_uid, gid=status.st_gid or status.st_uid, changed=True)
    with open("/proc/self/uid_map") as file:
        uid = unused_id(file.read())
    return Identity(uid=uid, gid=uid, changed=True)


def current_identity() -> Identity:
    """Return who we are ourselves."""
    return Identity(uid=os.geteuid(), gid=os.getegid(), changed=False)


def unused_id(id_map: str) -> int:
    """Return an id that no other process has, if this user namespace maps such ids, else nobody's.

    Args:
        id_map: Text of ``/proc/self/uid_map``: first inside, first outside, count.
    """
    for line in id_map.splitlines():
        first, _, count = map(int, line.split())
        if first <= _UNUSED_FIRST and first + count > _UNUSED_LAST:
            return _UNUSED_FIRST + secrets.randbelow(_UNUSED_LAST - _UNUSED_FIRST)
    return NOBODY


def can_reach(path: str, identity: Identity) -> bool:
    """Whether this user may pass through every directory on the way to `path`."""
    directory = os.path.dirname(path)
    while True:
        if not _may_pass(os.stat(directory), identity):
            return False
        if directory == "/":
            return True
        directory = os.path.dirname(directory)


def _may_pass(status: os.stat_result, identity: Identity) -> bool:
    return permits(status, identity, 0o1)


def permits(status: os.stat_result, identity: Identity, wanted: int) -> bool:
    """Whether this user, without further groups, has all the `wanted` permissions (read 4, change 2, pass 1)."""
    if status.st_uid == identity.uid:
        granted = status.st_mode >> 6
    elif status.st_gid == identity.gid:
        granted = status.st_mode >> 3
    else:
        granted = status.st_mode
    return granted & wanted == wanted
