"""``python -m ai4j_sandbox_emulator start``: the same as ``ai4j emulator start``."""

from __future__ import annotations

from .command import emulator

if __name__ == "__main__":
    emulator(prog_name="python -m ai4j_sandbox_emulator")
