"""Loopback servers that speak the protocols of sandbox services and really run the commands.

Read in this order, each file needs only the ones before it: `envelope`, `faults`, `reply`, `routing`, `bridge`,
`state`, `process`, `metrics`, `watching`, `sandbox`, `snapshots`, `fleet`, `forwarding`, the packages `envd`,
`e2b` and `daytona`, `recorder`, `admin`, `server`. Everything outside of those packages is the same for all services.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .faults import Answer, Cut, Drip, Fail, Fault, Frames, Hang, Reset, Stall

if TYPE_CHECKING:
    from .server import Emulator

__all__ = ["Answer", "Cut", "Drip", "Emulator", "Fail", "Fault", "Frames", "Hang", "Reset", "Stall"]


def __getattr__(name: str) -> Any:
    if name != "Emulator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .server import Emulator  # it needs aiohttp, which takes a while to import

    return Emulator
