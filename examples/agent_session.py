"""A session remembers its sandbox without its secrets, and never runs on the host instead of it."""

import tempfile

from ai4j_agent import AgentSession, FileSessionStore, SandboxDetachedError
from ai4j_sandbox import SandboxSpec, default_registry

spec = SandboxSpec(provider_id="local", profile="default", labels={"team": "core", "apiToken": "never stored"})

with tempfile.TemporaryDirectory() as directory:
    store = FileSessionStore(directory)
    with default_registry().create_session(spec) as sandbox:
        session = AgentSession(session_id="task-1", store=store).bind_sandbox(sandbox)
        session.save()
        print("bound:", session.sandbox_attachment, session.snapshot().to_dict()["sandboxBinding"]["labels"])

    # Later, in another process: the binding is there, the sandbox is not.
    later = AgentSession(store=store).restore(store.load("task-1"))
    print("restored:", later.sandbox_attachment, later.event_log.verify().detail)
    try:
        later.open_sandbox()
    except SandboxDetachedError as error:
        print("refused:", error.hint)

    # The host decides: reattach(registry) where the provider can, or go on without it.
    later.clear_sandbox().save()
    print("cleared:", later.sandbox_attachment, [str(entry.event.type) for entry in later.event_log.entries])
