"""Agents declared in YAML: read, checked, and made by a host that decides what of it counts.

Read in this order: `report`, `document` (YAML with line numbers), `model`, `reader`, `validation`, `factory`.
"""

from __future__ import annotations

from .factory import agent_from_blueprint
from .model import (
    AgentBlueprint,
    BlueprintCompact,
    BlueprintInstructions,
    BlueprintMemory,
    BlueprintModel,
    BlueprintPlugin,
    BlueprintSandbox,
    BlueprintSession,
    BlueprintTool,
    BlueprintWorkflow,
)
from .reader import load_blueprint, load_blueprint_file
from .report import BlueprintIssue, BlueprintReport, BlueprintSeverity
from .validation import validate

__all__ = [
    "AgentBlueprint",
    "BlueprintCompact",
    "BlueprintInstructions",
    "BlueprintIssue",
    "BlueprintMemory",
    "BlueprintModel",
    "BlueprintPlugin",
    "BlueprintReport",
    "BlueprintSandbox",
    "BlueprintSession",
    "BlueprintSeverity",
    "BlueprintTool",
    "BlueprintWorkflow",
    "agent_from_blueprint",
    "load_blueprint",
    "load_blueprint_file",
    "validate",
]
