"""The real service: needs an account. ``AI4J_E2B_LIVE=true E2B_API_KEY=... pytest -m live tests/plugins/e2b``."""

from __future__ import annotations

import os

import pytest

from ai4j_sandbox.model import SandboxCommand, SandboxSpec, SandboxStatus
from ai4j_sandbox_e2b import E2BSandboxProvider, E2BSandboxSession


def _missing() -> str | None:
    if os.environ.get("AI4J_E2B_LIVE", "").lower() != "true":
        return "set AI4J_E2B_LIVE=true to talk to the real E2B"
    if not os.environ.get("E2B_API_KEY", "").strip():
        return "set E2B_API_KEY to an API key of an E2B account"
    return None


pytestmark = [pytest.mark.live, pytest.mark.skipif(_missing() is not None, reason=_missing() or "")]


def test_smoke() -> None:
    spec = SandboxSpec(provider_id="e2b", config={"templateID": "base", "timeoutSeconds": 120})
    with E2BSandboxProvider().create_session(spec) as session:
        assert isinstance(session, E2BSandboxSession)
        result = session.execute(SandboxCommand(command="printf ai4j-e2b-ok", timeout_millis=30_000))
        assert (result.exit_code, result.stdout) == (0, "ai4j-e2b-ok")
        assert session.execute(SandboxCommand(command="exit 7")).exit_code == 7
        assert session.execute(SandboxCommand(command="cat", stdin="a\0b")).stdout_bytes == b"a\0b"
        assert session.execute(SandboxCommand(command="sleep 30", timeout_millis=1000)).timed_out
        session.files.write("/tmp/ai4j.txt", "hello")
        assert session.files.read_text("/tmp/ai4j.txt") == "hello"

    assert session.status is SandboxStatus.CLOSED
