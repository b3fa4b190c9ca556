"""The real ``ai4j`` program with a provider ``host`` that runs commands as plain processes of this machine.

For tests of what only a real process shows: signals, pipes, encodings. Run as
``python tests/support/ai4j_on_host.py HOME sandbox run ...``; commands run in the directory HOME, and each end of a
sandbox leaves a file ``closed`` there.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from support.host_processes import HostProcesses

from ai4j_cli.application import Application
from ai4j_cli.main import main
from ai4j_sandbox import ProcessChannel, SandboxCommand, SandboxRegistry
from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox.testing.fake import FAKE_INFO, FakeSandbox


class HostProvider(FakeProvider):
    """Runs commands for real."""

    def __init__(self, home: Path) -> None:
        processes = HostProcesses(home)
        super().__init__(processes.open_channel, info=replace(FAKE_INFO, provider_id="host"))


if __name__ == "__main__":
    ...
