"""Whether a blueprint makes sense, with the contract's codes. Nothing is contacted or made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ai4j_sandbox.redaction import STRICT, RedactionPolicy, mask_text

from .model import VERSION_1, WHERE_SECRETS_BELONG, AgentBlueprint, UnknownKey
from .report import BlueprintIssue, BlueprintReport, BlueprintSeverity

APPROVALS = ("always", "safe", "never", "manual", "auto", "deny")
WORKFLOW_MODES = ("react", "codeact")

_ID = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = re.compile(r"[0-9.]+")


def validate(blueprint: AgentBlueprint | None, *, policy: RedactionPolicy = STRICT) -> BlueprintReport:
    """Return everything that is wrong with a blueprint.

    Args:
        blueprint: What to check.
        policy: Key names that are fine although they look sensitive.
    """
    if blueprint is None:
        return BlueprintReport(
            issues=(_issue("$", "blueprint.required", "an Agent Blueprint document is required", None),)
        )
    checks = (_header, _model, _plugins, _tools, _session, _sandbox, _workflow, _unknown)
    issues = [issue for check in checks for issue in check(blueprint)]
    return BlueprintReport(issues=(*issues, *secret_issues(blueprint, policy)))


def secret_issues(blueprint: AgentBlueprint, policy: RedactionPolicy = STRICT) -> tuple[BlueprintIssue, ...]:
    """Return an issue for each secret in the document, by name or by look; never the value."""
    return tuple(
        _located(blueprint, path, code, f"holds {what}; {WHERE_SECRETS_BELONG}")
        for section, value in _free_sections(blueprint)
        for path, what in _secrets(value, section, policy)
        for code in ["blueprint.sandbox.config.secret" if path.startswith("$.sandbox") else "blueprint.secret"]
    )


def _header(blueprint: AgentBlueprint) -> Iterator[BlueprintIssue]:
    if blueprint.version is None:
        yield _located(blueprint, "$.version", "blueprint.version.required", f"is required and must be {VERSION_1}")
    elif blueprint.version != VERSION_1:
        yield _located(
            blueprint, "$.version", "blueprint.version.unsupported", f"must be {VERSION_1}, got {blueprint.version!r}"
        )
    if blueprint.id is None:
        yield _located(blueprint, "$.id", "blueprint.id.required", "is required")
    elif not _ID.fullmatch(blueprint.id):
        yield _located(blueprint, "$.id", "blueprint.id.invalid", "must hold only letters, digits, '.', '_' and '-'")


def _model(blueprint: AgentBlueprint) -> Iterator[BlueprintIssue]:
    model = blueprint.model
    if model is None:
        yield _located(blueprint, "$.model", "blueprint.model.required", "is required")
        return
    if model.provider is None:
        yield _located(blueprint, "$.model.provider", "blueprint.model.provider.required", "is required")
    if model.model is None and model.profile is None:
        yield _located(
            blueprint, "$.model.model", "blueprint.model.selector.required", "model.model or model.profile is required"
        )


def _plugins(blueprint: AgentBlueprint) -> Iterator[BlueprintIssue]:
    for index, plugin in enumerate(blueprint.plugins):
        if plugin.id is None:
            yield _located(blueprint, f"$.plugins[{index}].id", "blueprint.plugin.id.required", "is required")


def _tools(blueprint: AgentBlueprint) -> Iterator[BlueprintIssue]:
    for index, tool in enumerate(blueprint.tools):
        path = f"$.tools[{index}]"
        if tool.ref is None:
            yield _located(blueprint, f"{path}.ref", "blueprint.tool.ref.required", "is required")
        elif tool.approval is not None and tool.approval not in APPROVALS:
            message = f"unknown value {tool.approval!r}; known are {', '.join(APPROVALS)}"
            yield _warning(blueprint, f"{path}.approval", "blueprint.tool.approval.unknown", message)


def _session(blueprint: AgentBlueprint) -> Iterator[BlueprintIssue]:
    memory = blueprint.session.memory if blueprint.session else None
    if memory is not None and memory.enabled and memory.scope is None and memory.store is None:
        message = "memory is enabled but neither scope nor store is declared"
        yield _warning(blueprint, "$.session.memory", "blueprint.memory.scope.warning", message)
    compact = blueprint.session.compact if blueprint.session else None
    if compact is None:
        return
    trigger = "$.session.compact.trigger"
    if compact.context_ratio is not None and not 0 < compact.context_ratio <= 1:
        message = "must be greater than 0 and at most 1"
        yield _located(blueprint, f"{trigger}.contextRatio", "blueprint.compact.contextRatio.invalid", message)
    if compact.max_turns is not None and compact.max_turns <= 0:
        yield _located(blueprint, f"{trigger}.maxTurns", "blueprint.compact.maxTurns.invalid", "must be positive")


def _sandbox(blueprint: AgentBlueprint) -> Iterator[BlueprintIssue]:
    sandbox = blueprint.sandbox
    if sandbox is None or not sandbox.enabled:
        return
    if sandbox.provider is None and sandbox.profile is None:
        message = "sandbox.provider or sandbox.profile is required when sandbox.enabled is true"
        yield _located(blueprint, "$.sandbox", "blueprint.sandbox.selector.required", message)
    for key, address in sandbox.addresses().items():
        message = f"names {address}; only a host that allows this address will use it"
        yield _warning(blueprint, f"$.sandbox.config.{key}", "blueprint.sandbox.config.address", message)


def _workflow(blueprint: AgentBlueprint) -> Iterator[BlueprintIssue]:
    workflow = blueprint.workflow
    if workflow is None:
        return
    if workflow.mode is not None and workflow.mode not in WORKFLOW_MODES:
        message = f"must be one of {', '.join(WORKFLOW_MODES)}"
        yield _located(blueprint, "$.workflow.mode", "blueprint.workflow.mode.invalid", message)
    if workflow.max_turns is not None and workflow.max_turns <= 0:
        yield _located(blueprint, "$.workflow.maxTurns", "blueprint.workflow.maxTurns.invalid", "must be positive")


def _unknown(blueprint: AgentBlueprint) -> Iterator[BlueprintIssue]:
    """A key nobody knows is a warning, but an error within ``sandbox``: a typo there would mean "no sandbox"."""
    for key in blueprint.unknown_keys:
        message = _unknown_message(key)
        make = _located if key.path.startswith("$.sandbox.") else _warning
        yield make(blueprint, key.path, "blueprint.field.unknown", message)


def _unknown_message(key: UnknownKey) -> str:
    return f"unknown field; did you mean {key.nearest!r}?" if key.nearest else "unknown field"


# --- secrets --------------------------------------------------------------------------------------------------------


def _free_sections(blueprint: AgentBlueprint) -> Iterator[tuple[str, Any]]:
    """The parts of a document that may hold anything."""
    if blueprint.sandbox:
        yield "$.sandbox.config", blueprint.sandbox.config
    if blueprint.model:
        yield "$.model.options", blueprint.model.options
    if blueprint.instructions:
        yield "$.instructions.variables", blueprint.instructions.variables
        yield "$.instructions.system", blueprint.instructions.system
        yield "$.instructions.developer", blueprint.instructions.developer
    for index, plugin in enumerate(blueprint.plugins):
        yield f"$.plugins[{index}].config", plugin.config
    for index, tool in enumerate(blueprint.tools):
        yield f"$.tools[{index}].config", tool.config
    if blueprint.session and blueprint.session.memory:
        yield "$.session.memory.config", blueprint.session.memory.config
    yield "$.extensions", blueprint.extensions


def _secrets(value: Any, path: str, policy: RedactionPolicy, named: bool = False) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if named and value.strip() and not _NUMBER.fullmatch(value.strip()):
            yield path, "a value under a name that is kept for secrets"
        elif mask_text(value) != value:
            yield path, "something that looks like a secret"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(item, f"{path}.{key}", policy, named or policy.is_sensitive(key))
    elif isinstance(value, Iterable):
        for index, item in enumerate(value):
            yield from _secrets(item, f"{path}[{index}]", policy, named)


# --- issues ---------------------------------------------------------------------------------------------------------


def _located(blueprint: AgentBlueprint, path: str, code: str, message: str) -> BlueprintIssue:
    return _issue(path, code, message, _line(blueprint, path))


def _warning(blueprint: AgentBlueprint, path: str, code: str, message: str) -> BlueprintIssue:
    line = _line(blueprint, path)
    return BlueprintIssue(severity=BlueprintSeverity.WARNING, path=path, code=code, message=message, line=line)


def _issue(path: str, code: str, message: str, line: int | None) -> BlueprintIssue:
    return BlueprintIssue(severity=BlueprintSeverity.ERROR, path=path, code=code, message=message, line=line)


def _line(blueprint: AgentBlueprint, path: str) -> int | None:
    """The line of a path, or of the nearest thing around what is missing."""
    while path != "$":
        if path in blueprint.lines:
            return blueprint.lines[path]
        path = path[: max(path.rfind("."), path.rfind("["))]
    return blueprint.lines.get("$")
