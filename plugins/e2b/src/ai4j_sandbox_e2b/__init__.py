"""The provider ``e2b``: microVMs of e2b.app, or of an E2B cluster of your own.

Read in this order: `config` (settings), `payloads` (bodies and replies as data), `client` (the control API),
`session` (one sandbox), `provider`, `hooks`. Processes and files inside a sandbox are envd's, and envd is
`ai4j_sandbox_wire`'s.

The provider is loaded when first used, so that looking at this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import E2BSandboxClient
    from .config import E2BSandboxConfig
    from .provider import E2BSandboxProvider
    from .session import E2BSandboxSession

__all__ = ["E2BSandboxClient", "E2BSandboxConfig", "E2BSandboxProvider", "E2BSandboxSession"]

_HOME = {
    "E2BSandboxClient": "client",
    "E2BSandboxConfig": "config",
    "E2BSandboxProvider": "provider",
    "E2BSandboxSession": "session",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
