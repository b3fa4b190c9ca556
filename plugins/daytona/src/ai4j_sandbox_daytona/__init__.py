"""The provider ``daytona``: sandboxes of Daytona, in the cloud or self-hosted.

Read in this order, each file only needs the ones before it: `config` (settings), `hooks`, `payloads` (the control API
as data), `client` (its calls), `wrapping` (commands as texts), `toolbox` (the calls to one sandbox), `channel` and
`terminal` (running commands), `files`, `git`, `session` (one sandbox), `provider`.

The provider is loaded when first used, so that looking at this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import DaytonaSandboxClient
    from .config import DaytonaSandboxConfig
    from .provider import DaytonaSandboxProvider
    from .session import DaytonaSandboxSession

__all__ = ["DaytonaSandboxClient", "DaytonaSandboxConfig", "DaytonaSandboxProvider", "DaytonaSandboxSession"]

_HOME = {
    "DaytonaSandboxClient": "client",
    "DaytonaSandboxConfig": "config",
    "DaytonaSandboxProvider": "provider",
    "DaytonaSandboxSession": "session",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
