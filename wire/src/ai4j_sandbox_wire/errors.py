"""The one failure that only exists on the wire."""

from __future__ import annotations

from ai4j_sandbox.errors import SandboxConnectionError


class StreamCutError(SandboxConnectionError):
    """The connection ended in the middle of an answer.

    What it means is for the provider to find out: the sandbox may be gone, or only the network.
    """
