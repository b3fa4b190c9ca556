"""An agent that acts by writing programs: CodeAct. Its model is at OPENAI_BASE_URL, by default OpenAI's.

OPENAI_API_KEY=... python examples/agent_codeact.py "How many primes are there below 10000?"
"""

import sys

from ai4j_agent import AgentExecutionEnvironment, Agents, ChatCompletionsClient, allow_all, by_environment, safe_mode

agent = (
    Agents.codeact()
    .model_client(ChatCompletionsClient.from_environment())
    .model("gpt-4.1-mini")
    .sandbox_provider("local")
    .code_timeout_seconds(30)
    .permission_policy(by_environment({AgentExecutionEnvironment.SANDBOX: allow_all()}, otherwise=safe_mode()))
    .build()
)

with agent.new_session() as session:
    result = agent.run(sys.argv[1], session=session)
    for message in session.messages:
        for call in message.tool_calls:
            print("ran:", call.arguments)
print(f"{result.output}\n[{result.stop_reason} after {result.steps} steps and {result.tool_calls} programs]")
