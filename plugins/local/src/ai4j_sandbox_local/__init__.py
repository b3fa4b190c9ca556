"""The provider ``local``: a real sandbox on one Linux machine.

Read in this order: `config`, `isolation` (what a sandbox sees and may do), `inside` (the programs that run in it),
`payloads`, `client` (talks to the agent inside), `channel`, `files`, `ports`, `session`, `provider`, `hooks`.

The provider is loaded when first used, because on other systems than Linux it can only say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .provider import LocalProvider

__all__ = ["LocalProvider"]


def __getattr__(name: str) -> Any:
    if name == "LocalProvider":
        from .provider import LocalProvider

        return LocalProvider
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
