"""Agents whose tools run in a sandbox.

Read in this order, each file needs only the ones before it: `errors`, `conversation`, `model_json`, `redacted`,
`event`, `event_schema`, `event_log`, `snapshot`, `snapshot_schema`, `store`, `file_store`, `sql_store`, `permission`,
`sandbox_source`, `session`, `tools`, `routing`, `model_client`, `sse`, `chat_payloads`, `chat_completions`, `workflow`,
`agent`, `delegate`, `codeact`, `builder`, `blueprint`, `trace`.

Everything public is exported here and loaded when first used: importing this package loads neither SQLAlchemy nor
requests nor PyYAML.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent as Agent
    from .agent import AgentLimits as AgentLimits
    from .agent import AgentResult as AgentResult
    from .agent import StopReason as StopReason
    from .blueprint import AgentBlueprint as AgentBlueprint
    from .blueprint import BlueprintIssue as BlueprintIssue
    from .blueprint import BlueprintReport as BlueprintReport
    from .blueprint import BlueprintSeverity as BlueprintSeverity
    from .blueprint import agent_from_blueprint as agent_from_blueprint
    from .blueprint import load_blueprint as load_blueprint
    from .blueprint import load_blueprint_file as load_blueprint_file
    from .blueprint import validate as validate
    from .builder import AgentBuilder as AgentBuilder
    from .builder import Agents as Agents
    from .builder import CodeActBuilder as CodeActBuilder
    from .builder import codeact_agent as codeact_agent
    from .builder import react_agent as react_agent
    from .chat_completions import ChatCompletionsClient as ChatCompletionsClient
    from .codeact import CODEACT_PROMPT as CODEACT_PROMPT
    from .codeact import PYTHON_TOOL as PYTHON_TOOL
    from .codeact import CodeActWorkflow as CodeActWorkflow
    from .codeact import PythonTool as PythonTool
    from .conversation import Conversation as Conversation
    from .conversation import Message as Message
    from .conversation import Role as Role
    from .conversation import ToolCall as ToolCall
    from .delegate import DelegateTool as DelegateTool
    from .errors import AgentApprovalRequiredError as AgentApprovalRequiredError
    from .errors import AgentConfigError as AgentConfigError
    from .errors import AgentControlFlowError as AgentControlFlowError
    from .errors import AgentError as AgentError
    from .errors import AgentPermissionError as AgentPermissionError
    from .errors import BlueprintError as BlueprintError
    from .errors import BlueprintLoadError as BlueprintLoadError
    from .errors import BlueprintRefusedError as BlueprintRefusedError
    from .errors import EventLogTamperedError as EventLogTamperedError
    from .errors import ModelAuthError as ModelAuthError
    from .errors import ModelClientError as ModelClientError
    from .errors import ModelConnectionError as ModelConnectionError
    from .errors import ModelProtocolError as ModelProtocolError
    from .errors import ModelRateLimitError as ModelRateLimitError
    from .errors import ModelRequestError as ModelRequestError
    from .errors import ModelTimeoutError as ModelTimeoutError
    from .errors import ModelUnreachableError as ModelUnreachableError
    from .errors import SandboxDetachedError as SandboxDetachedError
    from .errors import SessionBusyError as SessionBusyError
    from .errors import SessionStoreError as SessionStoreError
    from .errors import ToolError as ToolError
    from .event import AgentEvent as AgentEvent
    from .event import AgentEventType as AgentEventType
    from .event import AgentSessionEvent as AgentSessionEvent
    from .event import LogHead as LogHead
    from .event_log import AgentEventLog as AgentEventLog
    from .event_log import ChainFault as ChainFault
    from .event_log import ChainVerification as ChainVerification
    from .file_store import FileSessionStore as FileSessionStore
    from .model_client import ModelClient as ModelClient
    from .model_client import ModelRequest as ModelRequest
    from .model_client import ModelResponse as ModelResponse
    from .model_client import TokenUsage as TokenUsage
    from .permission import AgentExecutionEnvironment as AgentExecutionEnvironment
    from .permission import AgentPermissionDecision as AgentPermissionDecision
    from .permission import AgentPermissionDecisionType as AgentPermissionDecisionType
    from .permission import AgentPermissionPolicy as AgentPermissionPolicy
    from .permission import AgentPermissionRequest as AgentPermissionRequest
    from .permission import CallOrigin as CallOrigin
    from .permission import FunctionPolicy as FunctionPolicy
    from .permission import PermissionGate as PermissionGate
    from .permission import ToolEffect as ToolEffect
    from .permission import allow_all as allow_all
    from .permission import allow_tools as allow_tools
    from .permission import by_environment as by_environment
    from .permission import deny_all as deny_all
    from .permission import deny_tools as deny_tools
    from .permission import require_approval_for_tools as require_approval_for_tools
    from .permission import safe_mode as safe_mode
    from .permission import strictest as strictest
    from .routing import Interception as Interception
    from .routing import InterceptionType as InterceptionType
    from .routing import ToolInterceptor as ToolInterceptor
    from .routing import ToolRunner as ToolRunner
    from .sandbox_source import SandboxPlan as SandboxPlan
    from .sandbox_source import SandboxSource as SandboxSource
    from .sandbox_source import environment_of as environment_of
    from .session import AgentSession as AgentSession
    from .session import SandboxAttachment as SandboxAttachment
    from .snapshot import AgentSessionMetadata as AgentSessionMetadata
    from .snapshot import AgentSessionSnapshot as AgentSessionSnapshot
    from .sql_store import SqlSessionStore as SqlSessionStore
    from .store import AgentSessionStore as AgentSessionStore
    from .store import MemorySessionStore as MemorySessionStore
    from .tools import FunctionTool as FunctionTool
    from .tools import SupportsEffect as SupportsEffect
    from .tools import Tool as Tool
    from .tools import ToolContext as ToolContext
    from .tools import ToolPlacement as ToolPlacement
    from .tools import ToolRegistry as ToolRegistry
    from .tools import ToolResult as ToolResult
    from .tools import tool as tool
    from .trace import TraceSpan as TraceSpan
    from .trace import sandbox_spans as sandbox_spans
    from .workflow import ReactWorkflow as ReactWorkflow
    from .workflow import Workflow as Workflow

_EXPORTS = {
    "agent": (
        "Agent",
        "AgentLimits",
        "AgentResult",
        "StopReason",
    ),
    "blueprint": (
        "AgentBlueprint",
        "BlueprintIssue",
        "BlueprintReport",
        "BlueprintSeverity",
        "agent_from_blueprint",
        "load_blueprint",
        "load_blueprint_file",
        "validate",
    ),
    "builder": (
        "AgentBuilder",
        "Agents",
        "CodeActBuilder",
        "codeact_agent",
        "react_agent",
    ),
    "chat_completions": ("ChatCompletionsClient",),
    "codeact": (
        "CODEACT_PROMPT",
        "CodeActWorkflow",
        "PYTHON_TOOL",
        "PythonTool",
    ),
    "conversation": (
        "Conversation",
        "Message",
        "Role",
        "ToolCall",
    ),
    "delegate": ("DelegateTool",),
    "errors": (
        "AgentApprovalRequiredError",
        "AgentConfigError",
        "AgentControlFlowError",
        "AgentError",
        "AgentPermissionError",
        "BlueprintError",
        "BlueprintLoadError",
        "BlueprintRefusedError",
        "EventLogTamperedError",
        "ModelAuthError",
        "ModelClientError",
        "ModelConnectionError",
        "ModelProtocolError",
        "ModelRateLimitError",
        "ModelRequestError",
        "ModelTimeoutError",
        "ModelUnreachableError",
        "SandboxDetachedError",
        "SessionBusyError",
        "SessionStoreError",
        "ToolError",
    ),
    "event": (
        "AgentEvent",
        "AgentEventType",
        "AgentSessionEvent",
        "LogHead",
    ),
    "event_log": (
        "AgentEventLog",
        "ChainFault",
        "ChainVerification",
    ),
    "file_store": ("FileSessionStore",),
    "model_client": (
        "ModelClient",
        "ModelRequest",
        "ModelResponse",
        "TokenUsage",
    ),
    "permission": (
        "AgentExecutionEnvironment",
        "AgentPermissionDecision",
        "AgentPermissionDecisionType",
        "AgentPermissionPolicy",
        "AgentPermissionRequest",
        "CallOrigin",
        "FunctionPolicy",
        "PermissionGate",
        "ToolEffect",
        "allow_all",
        "allow_tools",
        "by_environment",
        "deny_all",
        "deny_tools",
        "require_approval_for_tools",
        "safe_mode",
        "strictest",
    ),
    "routing": (
        "Interception",
        "InterceptionType",
        "ToolInterceptor",
        "ToolRunner",
    ),
    "sandbox_source": (
        "SandboxPlan",
        "SandboxSource",
        "environment_of",
    ),
    "session": (
        "AgentSession",
        "SandboxAttachment",
    ),
    "snapshot": (
        "AgentSessionMetadata",
        "AgentSessionSnapshot",
    ),
    "sql_store": ("SqlSessionStore",),
    "store": (
        "AgentSessionStore",
        "MemorySessionStore",
    ),
    "tools": (
        "FunctionTool",
        "SupportsEffect",
        "Tool",
        "ToolContext",
        "ToolPlacement",
        "ToolRegistry",
        "ToolResult",
        "tool",
    ),
    "trace": (
        "TraceSpan",
        "sandbox_spans",
    ),
    "workflow": (
        "ReactWorkflow",
        "Workflow",
    ),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [  # noqa: RUF022  sorted by letter, as a reader looks a name up
    "Agent",
    "agent_from_blueprint",
    "AgentApprovalRequiredError",
    "AgentBlueprint",
    "AgentBuilder",
    "AgentConfigError",
    "AgentControlFlowError",
    "AgentError",
    "AgentEvent",
    "AgentEventLog",
    "AgentEventType",
    "AgentExecutionEnvironment",
    "AgentLimits",
    "AgentPermissionDecision",
    "AgentPermissionDecisionType",
    "AgentPermissionError",
    "AgentPermissionPolicy",
    "AgentPermissionRequest",
    "AgentResult",
    "Agents",
    "AgentSession",
    "AgentSessionEvent",
    "AgentSessionMetadata",
    "AgentSessionSnapshot",
    "AgentSessionStore",
    "allow_all",
    "allow_tools",
    "BlueprintError",
    "BlueprintIssue",
    "BlueprintLoadError",
    "BlueprintRefusedError",
    "BlueprintReport",
    "BlueprintSeverity",
    "by_environment",
    "CallOrigin",
    "ChainFault",
    "ChainVerification",
    "ChatCompletionsClient",
    "codeact_agent",
    "CODEACT_PROMPT",
    "CodeActBuilder",
    "CodeActWorkflow",
    "Conversation",
    "DelegateTool",
    "deny_all",
    "deny_tools",
    "environment_of",
    "EventLogTamperedError",
    "FileSessionStore",
    "FunctionPolicy",
    "FunctionTool",
    "Interception",
    "InterceptionType",
    "load_blueprint",
    "load_blueprint_file",
    "LogHead",
    "MemorySessionStore",
    "Message",
    "ModelAuthError",
    "ModelClient",
    "ModelClientError",
    "ModelConnectionError",
    "ModelProtocolError",
    "ModelRateLimitError",
    "ModelRequest",
    "ModelRequestError",
    "ModelResponse",
    "ModelTimeoutError",
    "ModelUnreachableError",
    "PermissionGate",
    "PYTHON_TOOL",
    "PythonTool",
    "react_agent",
    "ReactWorkflow",
    "require_approval_for_tools",
    "Role",
    "safe_mode",
    "sandbox_spans",
    "SandboxAttachment",
    "SandboxDetachedError",
    "SandboxPlan",
    "SandboxSource",
    "SessionBusyError",
    "SessionStoreError",
    "SqlSessionStore",
    "StopReason",
    "strictest",
    "SupportsEffect",
    "TokenUsage",
    "Tool",
    "tool",
    "ToolCall",
    "ToolContext",
    "ToolEffect",
    "ToolError",
    "ToolInterceptor",
    "ToolPlacement",
    "ToolRegistry",
    "ToolResult",
    "ToolRunner",
    "TraceSpan",
    "validate",
    "Workflow",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ai4j-agent")
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
