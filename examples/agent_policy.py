"""Who may run what where: one policy, asked for every tool call, whatever way it comes."""

from ai4j_agent import (
    AgentExecutionEnvironment,
    AgentPermissionDecision,
    AgentPermissionError,
    AgentPermissionRequest,
    PermissionGate,
    ToolCall,
    allow_all,
    by_environment,
    deny_tools,
    require_approval_for_tools,
    strictest,
)

policy = strictest(
    deny_tools(["browser"], "no browser in this team"),
    by_environment(
        {
            AgentExecutionEnvironment.REMOTE_SANDBOX: allow_all(),
            AgentExecutionEnvironment.SANDBOX: require_approval_for_tools(["bash"], "it shares our kernel"),
        },
        otherwise=require_approval_for_tools(["bash", "write_file"], "it runs on the host"),
    ),
)


def ask_somebody(request: AgentPermissionRequest, decision: AgentPermissionDecision) -> bool:
    """Stands for a person: approves commands that only look."""
    approved = '"ls' in request.arguments
    print(f"  asked about {request.tool_name} in {request.environment} ({decision.reason}): {approved}")
    return approved


gate = PermissionGate(policy=policy, approve=ask_somebody)
for name, arguments, environment in (
    ("bash", '{"command": "ls -l"}', AgentExecutionEnvironment.LOCAL),
    ("bash", '{"command": "rm -r ."}', AgentExecutionEnvironment.LOCAL),
    ("bash", '{"command": "rm -r ."}', AgentExecutionEnvironment.REMOTE_SANDBOX),
    ("browser", "{}", AgentExecutionEnvironment.REMOTE_SANDBOX),
):
    request = AgentPermissionRequest(tool_call=ToolCall(name=name, arguments=arguments), environment=environment)
    try:
        gate.require(request)
        print(f"{name} in {environment}: allowed")
    except AgentPermissionError as error:
        print(f"{name} in {environment}: {error}")
