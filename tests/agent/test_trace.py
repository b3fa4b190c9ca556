from __future__ import annotations

from ai4j_agent import AgentEventType, AgentSession, sandbox_spans
from ai4j_sandbox import SandboxStatus
from ai4j_sandbox.testing import FakeProvider


def test_the_life_of_a_sandbox_becomes_spans_of_the_run() -> None:
    sandbox = FakeProvider().create_session()
    session = AgentSession(run_id="run-1", session_id="s").bind_sandbox(sandbox)
    session.publish(AgentEventType.STEP_START, "not about the sandbox")
    session.update_sandbox_status(SandboxStatus.FAILED).clear_sandbox()

    spans = sandbox_spans(session.event_log.entries)

    assert [(span.name, span.type, span.trace_id, span.attributes["status"]) for span in spans] == [
        ("sandbox.bound", "SANDBOX", "run-1", "RUNNING"),
        ("sandbox.updated", "SANDBOX", "run-1", "FAILED"),
        ("sandbox.cleared", "SANDBOX", "run-1", "FAILED"),
    ]
    assert {span.attributes["sandboxSessionId"] for span in spans} == {sandbox.session_id}
    assert {span.attributes["sessionId"] for span in spans} == {"s"}
