"""The contract suite holds for a second, independent implementation: `FakeProvider` over processes of this machine.

That proves the suite itself: what it demands can be kept by something that shares no code with a real provider.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ai4j_sandbox.testing import FakeProvider, SandboxContract
from support.host_processes import host_processes


class TestFakeOverHostProcesses(SandboxContract):
    misspelt_setting = ("deletOnClose", "deleteOnClose")

    @pytest.fixture
    def provider(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProvider]:
        with host_processes(tmp_path_factory.mktemp("sandbox")) as processes:
            yield FakeProvider(processes.open_channel, shell_files=True)
