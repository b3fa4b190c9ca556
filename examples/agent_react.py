"""An agent that computes in a sandbox. Its model is at OPENAI_BASE_URL, by default OpenAI's.

OPENAI_API_KEY=... python examples/agent_react.py "What is the 50th Fibonacci number?"
"""

import sys

from ai4j_agent import (
    AgentExecutionEnvironment,
    Agents,
    ChatCompletionsClient,
    ToolContext,
    ToolEffect,
    ToolPlacement,
    allow_all,
    by_environment,
    safe_mode,
    tool,
)
from ai4j_sandbox import SandboxCommand


@tool(placement=ToolPlacement.SESSION, effect=ToolEffect.EXECUTES)
def run_python(context: ToolContext, code: str) -> str:
    """Run a Python program and return what it prints."""
    result = context.execute(SandboxCommand(command=["python3", "-c", code], timeout_millis=30_000))
    return result.stdout if result.succeeded else f"exit code {result.exit_code}\n{result.stdout}{result.stderr}"


agent = (
    Agents.react()
    .model_client(ChatCompletionsClient.from_environment())
    .model("gpt-4.1-mini")
    .sandbox_provider("local")
    .permission_policy(by_environment({AgentExecutionEnvironment.SANDBOX: allow_all()}, otherwise=safe_mode()))
    .tools(run_python)
    .build()
)

result = agent.run(sys.argv[1], on_text=lambda text: print(text, end="", flush=True))
print(f"\n[{result.stop_reason} after {result.steps} steps and {result.tool_calls} tool calls]")
