"""An agent from a blueprint. The document wishes; the host's arguments decide.

Nothing is read from the environment and no sandbox is made here: a permitted one is made by the session that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ai4j_agent.agent import Agent, AgentLimits
from ai4j_agent.builder import codeact_agent, react_agent
from ai4j_agent.errors import BlueprintRefusedError
from ai4j_agent.model_client import ModelClient
from ai4j_agent.permission import (
    AgentPermissionPolicy,
    deny_tools,
    require_approval_for_tools,
    safe_mode,
    strictest,
)
from ai4j_agent.tools import Tool
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.redaction import STRICT, RedactionPolicy
from ai4j_sandbox.registry import DEFAULT_PROVIDER_ID

from .model import AgentBlueprint, BlueprintInstructions, BlueprintTool
from .reader import number_or_none
from .validation import validate

HostTools = Iterable[Tool] | Mapping[str, Tool | Sequence[Tool]]
"""What the host offers: tools by their own names, or by the names blueprints refer to."""

_NUMBERS = {"temperature": "temperature", "topP": "top_p", "top_p": "top_p"}
_INTEGERS = {"maxOutputTokens": "max_tokens", "max_output_tokens": "max_tokens"}
_BOOLEANS = {"parallelToolCalls": "parallel_tool_calls", "parallel_tool_calls": "parallel_tool_calls", "store": "store"}
_ANYTHING = {"reasoning": "reasoning", "toolChoice": "tool_choice", "tool_choice": "tool_choice", "user": "user"}


def agent_from_blueprint(
    blueprint: AgentBlueprint,
    *,
    model_client: ModelClient | None,
    tools: HostTools = (),
    allow_sandbox: bool = False,
    sandbox_providers: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    permission_policy: AgentPermissionPolicy | None = None,
    redaction_policy: RedactionPolicy = STRICT,
    **options: Any,
) -> Agent:
    """Return the agent a blueprint declares, as far as the host permits it.

    Args:
        blueprint: The document.
        model_client: Asks the model; a blueprint never brings a credential.
        tools: What the blueprint may refer to; it gets no other tool.
        allow_sandbox: Grant the sandbox it asks for.
        sandbox_providers: The provider ids it may ask for.
        allowed_origins: The addresses it may name.
        permission_policy: The host's policy, `safe_mode` by default; what the blueprint adds can only be stricter.
        redaction_policy: Key names that are fine although they look sensitive.
        **options: Further arguments of `react_agent` (``registry``, ``session_store``, ``approve``, …), in the mode
            codeact of `codeact_agent`.

    Raises:
        BlueprintRefusedError: Something is wrong with it or not permitted; `code` says what.
    """
    report = validate(blueprint, policy=redaction_policy)
    if not report.valid:
        raise BlueprintRefusedError(
            "blueprint.validation.failed", f"the blueprint is not valid:\n{report}", report=report
        )
    spec = _permitted_sandbox(blueprint, allow_sandbox, frozenset(sandbox_providers), allowed_origins)
    if model_client is None:
        raise BlueprintRefusedError(
            "blueprint.modelClient.required", "a model client is required: a blueprint does not read provider tokens"
        )
    chosen = _chosen_tools(blueprint, tools)
    prompts = blueprint.instructions or BlueprintInstructions()
    if spec is not None:
        options |= {"sandbox_spec": spec, "sandbox_provider": spec.provider_id or DEFAULT_PROVIDER_ID}
    mode = blueprint.workflow.mode if blueprint.workflow else None
    make = codeact_agent if mode == "codeact" else react_agent
    return make(
        model_client=model_client,
        model=_model_name(blueprint),
        tools=[tool for _, tools in chosen for tool in tools],
        system_prompt=prompts.system,
        instructions=prompts.developer,
        options=_model_options(blueprint),
        permission_policy=_policy(permission_policy or safe_mode(), chosen),
        limits=options.pop("limits", None) or _limits(blueprint),
        **options,
    )


def _permitted_sandbox(
    blueprint: AgentBlueprint, allowed: bool, provider_ids: frozenset[str], origins: Iterable[str]
) -> SandboxSpec | None:
    if not blueprint.wants_sandbox:
        return None
    line = blueprint.lines.get("$.sandbox")
    if allowed is not True:
        raise BlueprintRefusedError(
            "blueprint.sandbox.unsupported",
            "the blueprint asks for a sandbox; loading it does not create sandbox sessions",
            hint="pass allow_sandbox=True and sandbox_providers=[...] to grant it",
            line=line,
        )
    spec = blueprint.sandbox_spec(allowed_origins=origins)
    wanted = (spec and spec.provider_id) or DEFAULT_PROVIDER_ID
    if wanted.casefold() not in {provider_id.casefold() for provider_id in provider_ids}:
        permitted = ", ".join(sorted(provider_ids)) or "none"
        raise BlueprintRefusedError(
            "blueprint.sandbox.provider.refused",
            f"the blueprint asks for a sandbox of {wanted!r}; permitted providers: {permitted}",
            hint=f"pass sandbox_providers=[{wanted!r}] to permit it",
            line=blueprint.lines.get("$.sandbox.provider", line or 0) or None,
        )
    return spec


def _model_name(blueprint: AgentBlueprint) -> str:
    if blueprint.model is None or blueprint.model.model is None:
        raise BlueprintRefusedError(
            "blueprint.model.model.requiredForFactory", "model.model is required: profile is host metadata only"
        )
    return blueprint.model.model


def _limits(blueprint: AgentBlueprint) -> AgentLimits:
    turns = blueprint.workflow.max_turns if blueprint.workflow else None
    return AgentLimits(max_steps=turns) if turns else AgentLimits()


# --- tools ----------------------------------------------------------------------------------------------------------


def _chosen_tools(blueprint: AgentBlueprint, offered: HostTools) -> list[tuple[BlueprintTool, tuple[Tool, ...]]]:
    by_name = _by_reference(offered)
    chosen = []
    for index, declared in enumerate(blueprint.tools):
        tools = by_name.get(declared.ref or "")
        if tools is None:
            path = f"$.tools[{index}].ref"
            raise BlueprintRefusedError(
                "blueprint.tool.unknown",
                f"{path}: the host offers no tool {declared.ref!r}; it offers: {', '.join(by_name) or 'none'}",
                line=blueprint.lines.get(path),
            )
        chosen.append((declared, tools))
    return chosen


def _by_reference(offered: HostTools) -> Mapping[str, tuple[Tool, ...]]:
    if not isinstance(offered, Mapping):
        return {tool.name: (tool,) for tool in offered}
    return {name: tuple(item) if isinstance(item, Sequence) else (item,) for name, item in offered.items()}


def _policy(
    host: AgentPermissionPolicy, chosen: Sequence[tuple[BlueprintTool, tuple[Tool, ...]]]
) -> AgentPermissionPolicy:
    """The host's policy and what the blueprint wants approved or denied; it can only add strictness."""

    def names(*approvals: str) -> list[str]:
        return [tool.name for declared, tools in chosen if declared.approval in approvals for tool in tools]

    return strictest(
        host,
        deny_tools(names("deny"), "denied by the blueprint"),
        require_approval_for_tools(names("always", "manual"), "the blueprint wants it approved"),
    )


# --- model options --------------------------------------------------------------------------------------------------


def _model_options(blueprint: AgentBlueprint) -> dict[str, Any]:
    given = blueprint.model.options if blueprint.model else {}
    options: dict[str, Any] = {}
    for key, value in given.items():
        if value is None:
            continue
        if key in _NUMBERS:
            options[_NUMBERS[key]] = _checked(blueprint, key, "number", number_or_none(value))
        elif key in _INTEGERS:
            number = number_or_none(value)
            whole = int(number) if number is not None and number.is_integer() else None
            options[_INTEGERS[key]] = _checked(blueprint, key, "integer", whole)
        elif key in _BOOLEANS:
            word = str(value).strip().lower()
            flag = word == "true" if word in ("true", "false") else None
            options[_BOOLEANS[key]] = _checked(blueprint, key, "boolean", flag)
        elif key in _ANYTHING:
            options[_ANYTHING[key]] = value
    return options


def _checked(blueprint: AgentBlueprint, key: str, kind: str, value: Any) -> Any:
    if value is None:
        path = f"$.model.options.{key}"
        article = "an" if kind == "integer" else "a"
        raise BlueprintRefusedError(
            f"blueprint.option.{kind}.invalid", f"{path} must be {article} {kind}", line=blueprint.lines.get(path)
        )
    return value
