"""A coding agent in a given sandbox: everything may run there, nothing may be cloned, and tests are read as facts."""

import json
from typing import Any

from ai4j_agent import (
    AgentPermissionDecision,
    AgentPermissionRequest,
    FunctionPolicy,
    ModelRequest,
    ModelResponse,
    ToolCall,
    allow_all,
    strictest,
)
from ai4j_agent.coding import CodingAgentBuilder
from ai4j_sandbox import SandboxSpec, default_registry


class NoModel:
    """Stands for a model client: here the host calls the tools itself."""

    def complete(self, request: ModelRequest, **options: Any) -> ModelResponse:
        raise NotImplementedError("this example never asks a model")


def no_cloning(request: AgentPermissionRequest) -> AgentPermissionDecision:
    """Deny what brings foreign code in."""
    if request.tool_name == "git" and json.loads(request.arguments).get("action") == "clone":
        return AgentPermissionDecision.deny("no foreign code")
    return AgentPermissionDecision.allow()


with default_registry().create_session(SandboxSpec(provider_id="local")) as sandbox:
    agent = (
        CodingAgentBuilder()
        .model_client(NoModel())
        .model("none")
        .sandbox(sandbox)
        .permission_policy(strictest(allow_all(), FunctionPolicy(no_cloning)))
        .build()
    )
    with agent.new_session() as session:

        def call(name: str, **arguments: Any) -> str:
            """Run one tool as a model would."""
            return agent.execute_tool(session, ToolCall(name=name, arguments=json.dumps(arguments))).output

        call("write_file", path="Makefile", content="test:\n\t@echo all good\n")
        facts = json.loads(call("run_tests"))
        print(facts["project"], facts["exitCode"], facts["executionEnvironment"], repr(facts["stdout"]))
        for refused in (
            call("git", action="clone", url="https://example.org/x", path="x"),
            call("read_file", path="../etc/passwd"),
        ):
            print(json.loads(refused.removeprefix("TOOL_ERROR: "))["error"])
