"""Making agents: one function for each workflow, and the same as a fluent builder, as the seeds write it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

from ai4j_sandbox.frozen import EMPTY
from ai4j_sandbox.model import SandboxCommand, SandboxResult, SandboxSpec
from ai4j_sandbox.registry import SandboxRegistry, default_registry
from ai4j_sandbox.spi import SandboxProvider

from .agent import Agent, AgentLimits
from .codeact import DEFAULT_TIMEOUT_SECONDS, CodeActWorkflow, PythonTool
from .errors import AgentConfigError
from .model_client import ModelClient
from .permission import AgentPermissionPolicy, ApprovalCallback, PermissionGate, allow_all, safe_mode
from .routing import DEFAULT_OUTPUT_LIMIT, ToolInterceptor, ToolRunner
from .sandbox_source import SandboxPlan
from .store import AgentSessionStore
from .tools import Tool, ToolRegistry


def react_agent(
    *,
    model_client: ModelClient,
    model: str,
    tools: Iterable[Tool] = (),
    system_prompt: str | None = None,
    instructions: str | None = None,
    options: Mapping[str, Any] = EMPTY,
    permission_policy: AgentPermissionPolicy | None = None,
    approve: ApprovalCallback | None = None,
    interceptors: Iterable[ToolInterceptor] = (),
    sandbox_provider: SandboxProvider | str | None = None,
    sandbox_spec: SandboxSpec | None = None,
    registry: SandboxRegistry | None = None,
    session_store: AgentSessionStore | None = None,
    limits: AgentLimits | None = None,
    tool_output_limit: int = DEFAULT_OUTPUT_LIMIT,
    seal_key: bytes | None = None,
) -> Agent:
    """Return an agent that asks its model and runs its tools until there is an answer.

    Args:
        model_client: Asks the model.
        model: Name of the model.
        tools: What the model may call.
        system_prompt, instructions: System messages.
        options: Sampling options for the model.
        permission_policy: Decides every tool call; `safe_mode` by default.
        approve: Asks somebody where the policy wants approval; without it the run stops for the host.
        interceptors: See every call and result.
        sandbox_provider: A provider, or the id of an installed one: each session makes its sandbox from it when a tool
            first needs one, and destroys it when it is closed. Without it, and without `sandbox_spec`, tools run here.
        sandbox_spec: Which sandbox.
        registry: Where a provider id is looked up.
        session_store: Where sessions are saved.
        limits: What one run may use.
        tool_output_limit: Longest tool output in characters.
        seal_key: Makes the seals of event logs unforgeable for whoever can write the store.

    Raises:
        AgentConfigError: Something cannot be meant; the message names it.
    """
    plan = None
    if sandbox_provider is not None or sandbox_spec is not None:
        plan = SandboxPlan(provider=sandbox_provider, spec=sandbox_spec, registry=registry or default_registry())
    return Agent(
        model_client=model_client,
        model=model,
        runner=ToolRunner(
            tools=ToolRegistry(tools),
            gate=PermissionGate(policy=permission_policy or safe_mode(), approve=approve),
            interceptors=tuple(interceptors),
            routes=plan,
            output_limit=tool_output_limit,
        ),
        system_prompt=system_prompt,
        instructions=instructions,
        options=options,
        limits=limits or AgentLimits(),
        sandbox_source=plan,
        store=session_store,
        seal_key=seal_key,
    )


def codeact_agent(
    *,
    tools: Iterable[Tool] = (),
    code_timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    code_host: Callable[[SandboxCommand], SandboxResult] | None = None,
    **options: Any,
) -> Agent:
    """Return an agent whose model acts by writing Python programs, which run in the session's sandbox.

    Every program is a call of `PYTHON_TOOL` for the policy: `safe_mode` wants it approved.

    Args:
        tools: What the model may call besides.
        code_timeout_seconds: How long one program may take.
        code_host: Runs the programs of a session without a sandbox, see `PythonTool`; without it they are refused.
        **options: As `react_agent`.

    Raises:
        AgentConfigError: Something cannot be meant; the message names it.
    """
    python = PythonTool(timeout_seconds=code_timeout_seconds, host=code_host)
    return replace(react_agent(tools=[*tools, python], **options), workflow=CodeActWorkflow())


class Agents:
    """Where agents come from."""

    @staticmethod
    def react(**options: Any) -> AgentBuilder:
        """Return a builder; keywords are those of `react_agent`."""
        return AgentBuilder(**options)

    @staticmethod
    def codeact(**options: Any) -> CodeActBuilder:
        """Return a builder; keywords are those of `codeact_agent`."""
        return CodeActBuilder(**options)


class AgentBuilder:
    """`react_agent`, one call for each argument. A value given twice counts the last time; tools add up."""

    def __init__(self, **options: Any) -> None:
        self._tools: list[Tool] = list(options.pop("tools", ()))
        self._options = options

    def model_client(self, client: ModelClient) -> Self:
        """Set who asks the model."""
        return self._set("model_client", client)

    def model(self, name: str) -> Self:
        """Set the model's name."""
        return self._set("model", name)

    def tools(self, *tools: Tool) -> Self:
        """Add tools."""
        self._tools += tools
        return self

    def system_prompt(self, text: str | None) -> Self:
        """Set the first system message."""
        return self._set("system_prompt", text)

    def instructions(self, text: str | None) -> Self:
        """Set the second system message."""
        return self._set("instructions", text)

    def options(self, **options: Any) -> Self:
        """Set sampling options for the model."""
        return self._set("options", options)

    def permission_policy(self, policy: AgentPermissionPolicy | None) -> Self:
        """Set what decides every tool call. ``None`` allows everything; not calling this means `safe_mode`."""
        return self._set("permission_policy", policy or allow_all())

    def approve(self, callback: ApprovalCallback) -> Self:
        """Set who is asked where the policy wants approval."""
        return self._set("approve", callback)

    def interceptors(self, *interceptors: ToolInterceptor) -> Self:
        """Set who sees every call and result."""
        return self._set("interceptors", interceptors)

    def sandbox_provider(self, provider: SandboxProvider | str) -> Self:
        """Set the provider, or the id of an installed one, of each session's sandbox."""
        return self._set("sandbox_provider", provider)

    def sandbox_spec(self, spec: SandboxSpec) -> Self:
        """Set which sandbox."""
        return self._set("sandbox_spec", spec)

    def registry(self, registry: SandboxRegistry) -> Self:
        """Set where a provider id is looked up."""
        return self._set("registry", registry)

    def session_store(self, store: AgentSessionStore) -> Self:
        """Set where sessions are saved."""
        return self._set("session_store", store)

    def limits(self, limits: AgentLimits) -> Self:
        """Set what one run may use."""
        return self._set("limits", limits)

    def tool_output_limit(self, characters: int) -> Self:
        """Set how much of one tool output the model gets."""
        return self._set("tool_output_limit", characters)

    def seal_key(self, key: bytes) -> Self:
        """Set the key of the event logs' seals."""
        return self._set("seal_key", key)

    def build(self) -> Agent:
        """Return the agent.

        Raises:
            AgentConfigError: The model client or the model is missing, or something cannot be meant.
        """
        for required in ("model_client", "model"):
            if self._options.get(required) is None:
                raise AgentConfigError(f"{required} is required", hint=f"call .{required}(...) before .build()")
        return self._made(tools=self._tools, **self._options)

    def _made(self, **options: Any) -> Agent:
        return react_agent(**options)

    def _set(self, name: str, value: Any) -> Self:
        self._options[name] = value
        return self


class CodeActBuilder(AgentBuilder):
    """`codeact_agent`, one call for each argument."""

    def code_timeout_seconds(self, seconds: float) -> Self:
        """Set how long one program may take."""
        return self._set("code_timeout_seconds", seconds)

    def code_host(self, run: Callable[[SandboxCommand], SandboxResult]) -> Self:
        """Set what runs the programs of a session without a sandbox."""
        return self._set("code_host", run)

    def _made(self, **options: Any) -> Agent:
        return codeact_agent(**options)
