"""The real service: needs an account.

``AI4J_DAYTONA_LIVE=true DAYTONA_API_KEY=... pytest -m live tests/plugins/daytona``
"""

from __future__ import annotations

import os

import pytest

from ai4j_sandbox.model import SandboxCommand, SandboxSpec, SandboxStatus, TerminalSize
from ai4j_sandbox_daytona import DaytonaSandboxProvider


def _missing() -> str | None:
    if os.environ.get("AI4J_DAYTONA_LIVE", "").lower() != "true":
        return "set AI4J_DAYTONA_LIVE=true to talk to the real Daytona"
    if not os.environ.get("DAYTONA_API_KEY", "").strip():
        return "set DAYTONA_API_KEY to an API key of a Daytona account"
    return None


pytestmark = [pytest.mark.live, pytest.mark.skipif(_missing() is not None, reason=_missing() or "")]


def test_smoke() -> None:
    spec = SandboxSpec(provider_id="daytona", config={"deleteOnClose": True, "autoStopInterval": 5})
    with DaytonaSandboxProvider().create_session(spec) as session:
        result = session.execute(SandboxCommand(command="printf ai4j-daytona-ok", timeout_millis=30_000))
        assert (result.exit_code, result.stdout) == (0, "ai4j-daytona-ok")
        assert session.execute(SandboxCommand(command="exit 7")).exit_code == 7
        assert session.execute(SandboxCommand(command="cat", stdin="a\0b")).stdout_bytes == b"a\0b"
        slow = session.execute(SandboxCommand(command="echo early; sleep 30", timeout_millis=2000))
        assert (slow.timed_out, slow.stdout) == (True, "early\n")
        assert session.execute(SandboxCommand(command="stty size", terminal=TerminalSize())).stdout.split() == [
            "24",
            "80",
        ]
        session.files.write("/tmp/ai4j.txt", "hello")
        assert session.files.read_text("/tmp/ai4j.txt") == "hello"

    assert session.status is SandboxStatus.CLOSED
