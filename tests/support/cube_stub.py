"""CubeSandbox on a loopback port that is played, not run: every answer of CubeAPI and every stream is given.

For tests of single answers; the emulator is there for everything that has to really happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ai4j_sandbox_cubesandbox import CubeSandboxProvider
from support.e2b_stub import Answer, E2BStub, answer, stream
from support.envd_stub import END_OF_STREAM, EXITED, START
from support.http_stub import Reply

CREATED: Mapping[str, Any] = {
    "sandboxID": "sb1",
    "templateID": "tpl-1",
    "clientID": "node-1",
    "envdVersion": "0.6.13",
    "domain": "cube.app",
}
KEY = "unit-secret"
GONE = answer({"error": "gone"}, 410)


class CubeStub(E2BStub):
    """Answers by method and path; what is not given is answered as usual, or 404 like an unknown path."""

    usual: ClassVar[Mapping[str, Answer]] = {
        "GET /health": answer({"status": "ok", "sandboxes": 0}),
        "POST /sandboxes": answer(CREATED, 201),
        "GET /sandboxes/sb1": answer({**CREATED, "state": "running"}),
        "DELETE /sandboxes/sb1": Reply(status=204),
        "POST /sandboxes/sb1/connect": answer(CREATED),
        "GET /v2/sandboxes": answer([]),
        "POST /process.Process/Start": stream(START, EXITED, END_OF_STREAM),
    }

    def environ(self, **variables: str) -> dict[str, str]:
        """Return the variables that lead to this server, for both planes."""
        return {
            "CUBE_API_URL": self.http.url,
            "CUBE_ENVD_BASE_URL": self.http.url,
            "CUBE_API_KEY": KEY,
            "CUBE_TEMPLATE_ID": "tpl-1",
            **variables,
        }

    def provider(self, **arguments: Any) -> CubeSandboxProvider:  # type: ignore[override]  # another vendor's
        """Return a provider that uses this server."""
        return CubeSandboxProvider(environ=self.environ(), **arguments)
