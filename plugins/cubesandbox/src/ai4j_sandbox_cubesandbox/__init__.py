"""The provider ``cubesandbox``: microVMs of a CubeSandbox cluster.

Read in this order: `config` (settings), `payloads` (bodies and replies as data), `client` (the control API),
`session` (one sandbox), `provider`, `hooks`. Processes and files inside a sandbox are envd's, and envd is
`ai4j_sandbox_wire`'s.

The provider is loaded when first used, so that looking at this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import CubeSandboxClient
    from .config import CubeSandboxConfig
    from .provider import CubeSandboxProvider
    from .session import CubeSandboxSession

__all__ = ["CubeSandboxClient", "CubeSandboxConfig", "CubeSandboxProvider", "CubeSandboxSession"]

_HOME = {
    "CubeSandboxClient": "client",
    "CubeSandboxConfig": "config",
    "CubeSandboxProvider": "provider",
    "CubeSandboxSession": "session",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
