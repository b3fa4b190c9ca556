"""A real cluster: ``AI4J_CUBESANDBOX_LIVE=true CUBE_API_URL=... CUBE_TEMPLATE_ID=... pytest -m live``."""

from __future__ import annotations

import os

import pytest

from ai4j_sandbox.model import SandboxCommand, SandboxSpec, SandboxStatus
from ai4j_sandbox_cubesandbox import CubeSandboxProvider


def _missing() -> str | None:
    if os.environ.get("AI4J_CUBESANDBOX_LIVE", "").lower() != "true":
        return "set AI4J_CUBESANDBOX_LIVE=true to talk to a real CubeSandbox cluster"
    for name in ("CUBE_API_URL", "CUBE_TEMPLATE_ID"):
        if not os.environ.get(name, "").strip():
            return f"set {name} for the cluster to test with"
    return None


pytestmark = [pytest.mark.live, pytest.mark.skipif(_missing() is not None, reason=_missing() or "")]


def test_smoke() -> None:
    spec = SandboxSpec(provider_id="cubesandbox", workspace_id="/workspace", config={"timeoutSeconds": 120})
    provider = CubeSandboxProvider()
    with provider.create_session(spec) as session:
        result = session.execute(SandboxCommand(command="printf ai4j-cubesandbox-ok", timeout_millis=30_000))
        assert (result.exit_code, result.stdout) == (0, "ai4j-cubesandbox-ok")
        assert session.execute(SandboxCommand(command="exit 7")).exit_code == 7
        assert session.execute(SandboxCommand(command="cat", stdin="a\0b")).stdout_bytes == b"a\0b"
        assert session.execute(SandboxCommand(command="sleep 30", timeout_millis=1000)).timed_out
        session.files.write("/tmp/ai4j.txt", "hello")
        assert session.files.read_text("/tmp/ai4j.txt") == "hello"
        with provider.connect(session.session_id) as attached:
            assert attached.execute(SandboxCommand(command="cat /tmp/ai4j.txt")).stdout == "hello"

    assert session.status is SandboxStatus.CLOSED
