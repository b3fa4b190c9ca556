"""What a coding agent may do unless the host says otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ai4j_agent.permission import (
    AgentPermissionDecision,
    AgentPermissionPolicy,
    AgentPermissionRequest,
    FunctionPolicy,
    require_approval_for_tools,
    safe_mode,
    strictest,
)

from .git_tool import READING_ACTIONS

READ_ONLY_TOOLS = ("read_file", "glob", "grep", "list", "git", "update_agents_md")
"""Tools with which a read-only agent can look at everything; of the last two, only what reads is allowed."""

_READING = {"git": READING_ACTIONS, "update_agents_md": ("read",)}
_DEFAULT_ACTION = {"update_agents_md": "read"}


def coding_safe_mode() -> AgentPermissionPolicy:
    """Return the default policy: what writes files or runs something needs approval, wherever it runs."""
    reason = "safe mode: it changes files or runs commands"
    approval = AgentPermissionDecision.require_approval(reason)
    return strictest(
        safe_mode(), require_approval_for_tools(("run_tests", "browser"), reason), _unless_reading(approval)
    )


def read_only() -> AgentPermissionPolicy:
    """Return the policy of a read-only agent: what it may not do is denied, whoever would approve it."""
    denial = AgentPermissionDecision.deny("not allowed for a read-only agent")
    return strictest(_only(READ_ONLY_TOOLS, denial), _unless_reading(denial))


def _only(names: Iterable[str], otherwise: AgentPermissionDecision) -> AgentPermissionPolicy:
    allowed = frozenset(names)
    return FunctionPolicy(
        lambda request: AgentPermissionDecision.allow() if request.tool_name in allowed else otherwise
    )


def _unless_reading(otherwise: AgentPermissionDecision) -> AgentPermissionPolicy:
    """Return a policy for the tools that can both read and change: `otherwise` for what changes."""

    def evaluate(request: AgentPermissionRequest) -> AgentPermissionDecision:
        reading = _READING.get(request.tool_name)
        if reading is None or _action(request) in reading:
            return AgentPermissionDecision.allow()
        return otherwise

    return FunctionPolicy(evaluate)


def _action(request: AgentPermissionRequest) -> str | None:
    try:
        action = json.loads(request.arguments).get("action")
    except (ValueError, AttributeError):
        return None
    return action or _DEFAULT_ACTION.get(request.tool_name)
