"""A coding agent that works on a project inside a sandbox and brings back a patch. The project itself is not touched.

OPENAI_API_KEY=... python examples/coding_agent.py PROJECT "Fix the failing test."
"""

import sys

from ai4j_agent import ChatCompletionsClient, allow_all
from ai4j_agent.coding import CodingAgentBuilder
from ai4j_sandbox import SandboxSpec

agent = (
    CodingAgentBuilder()
    .workspace_root(sys.argv[1])
    .model_client(ChatCompletionsClient.from_environment())
    .model("gpt-4.1-mini")
    .sandbox_spec(SandboxSpec(provider_id="local"))
    .permission_policy(allow_all())
    .build()
)

with agent.new_session() as session:
    sync = agent.sync(session)
    pushed = sync.push()
    print(f"pushed {len(pushed.sent)} files")
    result = agent.run(sys.argv[2], session=session)
    print(result.output)
    patch = sync.pull()
    print(patch.diff(), end="")
    # Somebody looks at it; then: patch.apply()
