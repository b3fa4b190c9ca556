"""What the core finds through the entry point ``otel`` of the group ``ai4j.sandbox_observers``."""

from __future__ import annotations

import ai4j_sandbox
from ai4j_sandbox import AgentSessionSandboxBinding, SandboxEvent


@ai4j_sandbox.hookimpl
def ai4j_sandbox_event(event: SandboxEvent, binding: AgentSessionSandboxBinding) -> None:
    """Turn the event into the beginning, middle or end of a span."""
    from .spans import process_spans

    process_spans().observe(event, binding)
