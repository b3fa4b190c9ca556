"""The real ``ai4j`` program with a provider ``host`` that runs commands as plain processes of this machine.

For tests of what only a real process shows: signals, pipes, encodings. Run as ``python -m support.ai4j_on_host HOME
sandbox run --provider host ...``. Commands run in the directory HOME; the number of sandboxes that are still alive at
the end is left there in a file ``alive``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from ai4j_cli.application import Application
from ai4j_cli.main import main
from ai4j_sandbox import SandboxRegistry
from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox.testing.fake import FAKE_INFO
from support.host_processes import HostProcesses


def run(home: Path) -> None:
    """Be the program."""
    registry = SandboxRegistry(path=[])
    provider = FakeProvider(HostProcesses(home).open_channel, info=replace(FAKE_INFO, provider_id="host"))
    registry.register(provider)
    try:
        main(Application(registry))
    finally:
        (home / "alive").write_text(str(sum(sandbox.alive for sandbox in provider.sandboxes.values())))


if __name__ == "__main__":
    run(Path(sys.argv.pop(1)))
