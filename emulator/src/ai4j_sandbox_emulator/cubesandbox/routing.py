"""Which sandbox and port a request is for: CubeProxy reads it off the host name or, newer, off the path. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Only the beginning counts; whatever domain follows is not looked at.
_HOST = re.compile(r"(?P<port>\d{1,5})-(?P<sandbox_id>[a-z0-9]+)(?:[.:]|$)")
_PATH = re.compile(r"/sandbox/(?P<sandbox_id>[A-Za-z0-9]+)/(?P<port>\d{1,5})(?P<rest>/.*)?")


@dataclass(frozen=True, slots=True)
class Target:
    """A port of a sandbox.

    Attributes:
        path: The path behind the one that told; ``None`` when the host name did and the request's own is meant.
    """

    sandbox_id: str
    port: int
    path: str | None = None


def target_of(host: str, raw_path: str) -> Target | None:
    """Return what a request is for; ``None`` when it is for CubeAPI."""
    by_host = _HOST.match(host)
    if by_host is not None:
        return Target(by_host["sandbox_id"], int(by_host["port"]))
    by_path = _PATH.fullmatch(raw_path)
    if by_path is None:
        return None
    return Target(by_path["sandbox_id"], int(by_path["port"]), by_path["rest"] or "/")
