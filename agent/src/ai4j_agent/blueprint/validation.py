"""Whether a blueprint makes sense, with the contract's codes. Nothing is contacted or made."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any

from ai4j_sandbox.redaction import STRICT, RedactionPolicy, fold_key, is_sensitive_key, mask_text

from .model import APPROVALS, VERSION_1, WHERE_SECRETS_BELONG, WORKFLOW_MODES, AgentBlueprint
from .report import BlueprintIssue, BlueprintReport, BlueprintSeverity

_RESTRICTIONS = ("sandbox", "workflow")
_RESTRICTING = re.compile(r"\$\.(sandbox|workflow|tools\[\d+\])\.")

_ID = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = re.compile(r"[0-9.]+")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*=(.+)", re.DOTALL)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

# In a label these are no secrets by the contract. A document has no need of them, and a host can allow a name.
_SECRET_ENDINGS = ("pwd", "passphrase", "passcode")
_SECRET_LAST_WORDS = ("pass", "auth")


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
        for path, what in _secrets_of(blueprint, policy)
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
        if tool.approval is not None and tool.approval not in APPROVALS:
            # An error: a word nobody knows would otherwise ask nobody.
            message = f"unknown value {tool.approval!r}{_meant(tool.approval, APPROVALS)}"
            yield _located(blueprint, f"{path}.approval", "blueprint.tool.approval.unknown", message)


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
    if sandbox is None:
        return
    misspelt = any(key.path.startswith("$.sandbox.") and key.nearest == "enabled" for key in blueprint.unknown_keys)
    if sandbox.enabled is None and not misspelt:  # a misspelt one is an error of its own
        message = "is declared but not enabled, so there will be none; write enabled: true, or false if that is meant"
        yield _warning(blueprint, "$.sandbox", "blueprint.sandbox.enabled.missing", message)
    if not sandbox.enabled:
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
        message = f"unknown value {workflow.mode!r}{_meant(workflow.mode, WORKFLOW_MODES)}"
        yield _located(blueprint, "$.workflow.mode", "blueprint.workflow.mode.invalid", message)
    if workflow.max_turns is not None and workflow.max_turns <= 0:
        yield _located(blueprint, "$.workflow.maxTurns", "blueprint.workflow.maxTurns.invalid", "must be positive")


def _unknown(blueprint: AgentBlueprint) -> Iterator[BlueprintIssue]:
    """A key nobody knows is a warning, but an error where a misspelt restriction would silently not count."""
    for key in blueprint.unknown_keys:
        message = f"unknown field; did you mean {key.nearest!r}?" if key.nearest else "unknown field"
        restricting = _RESTRICTING.match(key.path) or (key.path.count(".") == 1 and key.nearest in _RESTRICTIONS)
        make = _located if restricting else _warning
        yield make(blueprint, key.path, "blueprint.field.unknown", message)


def _meant(word: str, known: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(word, known, n=1)
    guess = f" did you mean {nearest[0]!r}?" if nearest else ""
    return f";{guess} known are {', '.join(known)}"


# --- secrets --------------------------------------------------------------------------------------------------------


def _secrets_of(blueprint: AgentBlueprint, policy: RedactionPolicy) -> Iterator[tuple[str, str]]:
    """Every place of the document that holds a secret: what was read, and what nobody knows."""
    yield from _secrets(_declared(blueprint), "$", policy)
    for key in blueprint.unknown_keys:
        above, _, name = key.path.rpartition(".")
        yield from _secrets({name: key.value}, above, policy)


def _declared(value: Any) -> Any:
    """The declarations as the document's maps; free content within them stays as it is."""
    if is_dataclass(value):
        shown = (item.name for item in fields(value) if item.name not in ("unknown_keys", "lines"))
        return {_camel_case(name): _declared(getattr(value, name)) for name in shown}
    return [_declared(item) for item in value] if isinstance(value, tuple) else value


def _camel_case(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


class _Named(IntEnum):
    """What the keys above a value say about it."""

    NOTHING = 0
    SECRET_TEXT = 1  # numbers are none: ``maxTokens: 8192``
    SECRET = 2


def _secrets(
    value: Any, path: str, policy: RedactionPolicy, named: _Named = _Named.NOTHING
) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        assigned = _ASSIGNMENT.fullmatch(value)
        if _is_secret(value, named) or (assigned and _is_secret(assigned[2], _meaning(assigned[1], policy))):
            yield path, "a value under a name that is kept for secrets"
        elif mask_text(value) != value:
            yield path, "something that looks like a secret"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if named is _Named.SECRET:
            yield path, "a number under a name that is kept for secrets"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if mask_text(key) != key:
                yield f"{path}.{key}", "a key that looks like a secret"
            yield from _secrets(item, f"{path}.{key}", policy, max(named, _meaning(key, policy)))
    elif isinstance(value, Iterable):
        for index, item in enumerate(value):
            yield from _secrets(item, f"{path}[{index}]", policy, named)


def _is_secret(text: str, named: _Named) -> bool:
    number = _NUMBER.fullmatch(text.strip())
    return bool(text.strip()) and (named is _Named.SECRET or (named is _Named.SECRET_TEXT and not number))


def _meaning(key: str, policy: RedactionPolicy) -> _Named:
    if key in policy.allowed_names:
        return _Named.NOTHING
    folded = fold_key(key)
    words = [word.lower() for word in _WORD.findall(key)]
    if folded.endswith(_SECRET_ENDINGS) or (words and words[-1] in _SECRET_LAST_WORDS):
        return _Named.SECRET
    if not is_sensitive_key(key):
        return _Named.NOTHING
    return _Named.SECRET if is_sensitive_key(folded.replace("tokens", "")) else _Named.SECRET_TEXT


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
