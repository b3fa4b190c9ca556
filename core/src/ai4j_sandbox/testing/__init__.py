"""For tests: a provider without a sandbox (`FakeProvider`), and the suite every provider passes (`SandboxContract`).

Install it with the extra ``ai4j-sandbox[testing]``; only `SandboxContract` needs pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .fake import FakeProvider, FakeResult, FakeSession
from .memory_files import MemoryFiles

if TYPE_CHECKING:
    from .contract import SandboxContract

__all__ = ["FakeProvider", "FakeResult", "FakeSession", "MemoryFiles", "SandboxContract"]


def __getattr__(name: str) -> Any:
    if name == "SandboxContract":
        from .contract import SandboxContract

        return SandboxContract
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
