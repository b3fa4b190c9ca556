"""Tools: what a model may call, where each runs, and what it gets and gives.

A tool says where it runs (`ToolPlacement`) and what it does (`ToolEffect`), because the permission policy is told:
``HOST`` means this process, whatever sandbox the session has; ``SESSION`` means the session's sandbox, or this process
when the session has none. A tool never runs itself: `routing.ToolRunner` runs it, after the policy allowed it.
"""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.frozen import freeze, thaw
from ai4j_sandbox.model import SandboxCommand, SandboxResult
from ai4j_sandbox.redaction import is_sensitive_key
from ai4j_sandbox.spi import EventCallback, SandboxSession

from .conversation import ToolCall
from .errors import AgentConfigError, ToolError
from .model_json import parsed_json
from .permission import AgentExecutionEnvironment, CallOrigin, PermissionGate, ToolEffect, word_of
from .sandbox_source import environment_of

if TYPE_CHECKING:
    from .session import AgentSession


class ToolPlacement(StrEnum):
    """Where a tool runs."""

    HOST = "host"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What came of a tool call; `output` is what the model reads. Hidden from ``repr``.

    Attributes:
        ok: Whether the tool ran and did not fail.
        error: Kind of the failure.
        reason: The failure in words, as the session's events tell it: short, secrets masked. Hidden from ``repr``.
    """

    name: str
    call_id: str
    output: str = field(repr=False)
    ok: bool = True
    error: str | None = None
    reason: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a running tool may use.

    Attributes:
        session: The agent session.
        call: The call being answered.
        environment: Where the tool runs; what the policy was told.
        origin: How the call came about.
        deadline: When the run is over.
        gate: What calls made on behalf of this one have to pass.
    """

    session: AgentSession
    call: ToolCall
    environment: AgentExecutionEnvironment = AgentExecutionEnvironment.LOCAL
    origin: CallOrigin = CallOrigin.MODEL
    deadline: Deadline = field(default_factory=lambda: Deadline(None))
    gate: PermissionGate

    @property
    def sandbox(self) -> SandboxSession | None:
        """The sandbox to work in, made on first use; ``None`` when the call runs on the host.

        Raises:
            ToolError: It is in another environment than the one the policy was told of.
            SandboxException: It could not be made.
        """
        if self.environment is AgentExecutionEnvironment.LOCAL:
            return None
        return self._agreed(self.session.open_sandbox())

    def execute(self, command: SandboxCommand, on_event: EventCallback | None = None) -> SandboxResult:
        """Run a command in the sandbox, at most as long as the run has left.

        The values of its secret-looking variables are masked from now on.

        Raises:
            ToolError: The call runs on the host, where this never falls back to.
            SandboxException: As `SandboxSession.execute`.
        """
        sandbox = self.sandbox
        if sandbox is None:
            raise ToolError(f"{self.call.name} needs a sandbox and this session has none")
        return self.execute_in(sandbox, command, on_event)

    def execute_in(
        self, sandbox: SandboxSession, command: SandboxCommand, on_event: EventCallback | None = None
    ) -> SandboxResult:
        """Run a command as `execute` does, in a sandbox that is not the session's.

        Raises:
            ToolError: It is in another environment than the one the policy was told of.
            SandboxException: As `SandboxSession.execute`.
        """
        secrets = secret_values(command.environment)
        self.session.protect(*secrets)
        sandbox.protect(*secrets)
        return self._agreed(sandbox).execute(within(command, self.deadline), on_event)

    def _agreed(self, sandbox: SandboxSession) -> SandboxSession:
        if environment_of(sandbox.location) is not self.environment:
            raise ToolError(f"the sandbox is not where it was when {self.call.name} was allowed; call it again")
        return sandbox


class Tool(Protocol):
    """Something a model can call. Called from any thread, for several calls at once.

    Attributes:
        parameters: JSON schema of the arguments, an object.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]: ...

    @property
    def placement(self) -> ToolPlacement: ...

    def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the output: text, JSON data, or a `ToolResult`.

        Args:
            arguments: What the schema requires, each of the type it asks for.
            context: What the call may use.

        Raises:
            ToolError: It did not work; the model is told the message and goes on.
            SandboxException: The sandbox failed; a lost sandbox ends the run, anything else is told to the model.
        """


@runtime_checkable
class SupportsEffect(Protocol):
    """A tool that says what a call does. Without it `safe_mode` goes by the tool's name."""

    def effect_of(self, arguments: Mapping[str, Any]) -> ToolEffect | None:
        """Return the most that a call with these arguments does; ``None`` is "not said".

        Asked before the policy is; must not have side effects.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool:
    """A tool made of a function.

    Attributes:
        effect: The most that any call of it does.
    """

    name: str
    description: str
    function: Callable[..., Any] = field(repr=False)
    parameters: Mapping[str, Any] = field(repr=False)
    placement: ToolPlacement = ToolPlacement.HOST
    wants_context: bool = False
    effect: ToolEffect | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", freeze(self.parameters))
        object.__setattr__(self, "placement", word_of(ToolPlacement, self.placement, f"placement of {self.name!r}"))
        if self.effect is not None:
            object.__setattr__(self, "effect", word_of(ToolEffect, self.effect, f"effect of {self.name!r}"))

    def effect_of(self, arguments: Mapping[str, Any]) -> ToolEffect | None:
        """Return what was declared."""
        return self.effect

    def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Call the function with the arguments by name."""
        given = {"context": context} if self.wants_context else {}
        return self.function(**given, **arguments)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *, name: str | None = None, placement: ToolPlacement = ToolPlacement.HOST, effect: ToolEffect | None = None
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    placement: ToolPlacement = ToolPlacement.HOST,
    effect: ToolEffect | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function: its name, its docstring, and a schema from its annotations.

    A parameter called ``context`` is not shown to the model; it receives the `ToolContext`.

    Args:
        function: What to call.
        name: The tool's name, if not the function's.
        placement: Where it runs.
        effect: The most it does. `safe_mode` wants approval for what writes or executes.

    Raises:
        AgentConfigError: A parameter's type has no JSON counterpart, or placement or effect is no such word.
    """

    def decorate(function: Callable[..., Any]) -> FunctionTool:
        signature = inspect.signature(function)
        return FunctionTool(
            name=name or function.__name__,
            description=inspect.getdoc(function) or "",
            function=function,
            parameters=_schema_of(function, signature),
            placement=placement,
            wants_context="context" in signature.parameters,
            effect=effect,
        )

    return decorate if function is None else decorate(function)


class ToolRegistry:
    """Tools by name.

    Raises:
        AgentConfigError: Two have the same name.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for item in tools:
            if item.name in self._tools:
                raise AgentConfigError(f"two tools are called {item.name!r}")
            self._tools[item.name] = item

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._tools)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in order."""
        return tuple(self._tools.values())

    def find(self, name: str) -> Tool | None:
        """Return the tool of that name."""
        return self._tools.get(name)


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """Return the values of the secret-looking variables."""
    return [value for name, value in environment.items() if is_sensitive_key(name)]


def within(command: SandboxCommand, deadline: Deadline) -> SandboxCommand:
    """Return the command with a timeout that is over before the deadline is."""
    left = deadline.remaining()
    if left is None:
        return command
    millis = max(1, round(left * 1000))
    return replace(command, timeout_millis=min(millis, command.timeout_millis or millis))


def parsed_arguments(tool: Tool, call: ToolCall) -> Mapping[str, Any]:
    """Return the call's arguments: what the tool requires, nothing it does not know, each of the type it asks for.

    ``null`` for a value of a certain type means that it is not given.

    Raises:
        ToolError: They are not; says what is wrong, for the model.
    """
    try:
        arguments = parsed_json(call.arguments or "{}", strict=True)
    except ValueError as error:
        raise ToolError(f"arguments must be a JSON object: {error}") from None
    if not isinstance(arguments, dict):
        raise ToolError(f"arguments must be a JSON object, got {type(arguments).__name__}")
    known: Mapping[str, Any] = tool.parameters.get("properties", {})
    schemas = {name: schema for name, schema in known.items() if isinstance(schema, Mapping)}  # `true` allows anything
    simple = {name for name, schema in schemas.items() if isinstance(schema.get("type"), str)}
    given = {name: value for name, value in arguments.items() if value is not None or name not in simple}
    missing = [name for name in tool.parameters.get("required", ()) if name not in given]
    unknown = [name for name in arguments if name not in known]
    if missing:
        raise ToolError(f"missing arguments: {', '.join(missing)}")
    if unknown and tool.parameters.get("additionalProperties") is False:
        raise ToolError(f"unknown arguments: {', '.join(unknown)}; known are: {', '.join(known) or 'none'}")
    for name, value in given.items():
        check_value(name, value, schemas.get(name, {}))
    return given


_PYTHON_TYPES: Mapping[Any, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def check_value(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Check an argument against the ``type`` and ``enum`` of its schema; the rest of it is the tool's to check.

    Raises:
        ToolError: It is something else.
    """
    kinds = schema.get("type")
    allowed = kinds if isinstance(kinds, list | tuple) else [kinds]
    if not any(_is_of_type(value, kind) for kind in allowed):
        raise ToolError(f"{name} must be of type {' or '.join(map(str, allowed))}, got {json.dumps(value)[:100]}")
    if "enum" in schema and value not in schema["enum"]:
        raise ToolError(f"{name} must be one of {', '.join(map(str, schema['enum']))}; got {value!r}")


def _is_of_type(value: Any, kind: Any) -> bool:
    expected = _PYTHON_TYPES.get(kind) if isinstance(kind, str) else None
    if expected is None:  # no type given, or none we know: the tool's to check
        return True
    return isinstance(value, expected) and not (isinstance(value, bool) and kind in ("integer", "number"))


def output_text(value: Any) -> str:
    """Return a tool's output as the text the model reads; data becomes compact JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(thaw(value), ensure_ascii=False, separators=(",", ":"))


_JSON_TYPES: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    dict: "object",
}


def _schema_of(function: Callable[..., Any], signature: inspect.Signature) -> Mapping[str, Any]:
    hints = _type_hints(function)
    parameters = {name: item for name, item in signature.parameters.items() if name != "context"}
    for item in parameters.values():
        if item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD, item.POSITIONAL_ONLY):
            raise AgentConfigError(f"tool {function.__name__!r}: parameter {item.name!r} cannot be passed by name")
    return {
        "type": "object",
        "properties": {name: _type_schema(function, name, hints.get(name, str)) for name in parameters},
        "required": [name for name, item in parameters.items() if item.default is item.empty],
        "additionalProperties": False,
    }


def _type_hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Resolve annotations; those of ``context`` and the result may name what is only imported for type checking."""
    annotations = {
        name: hint for name, hint in inspect.get_annotations(function).items() if name not in ("context", "return")
    }
    scope = inspect.unwrap(function).__globals__
    try:
        return {
            name: typing.get_type_hints(types.SimpleNamespace(__annotations__={name: hint}), scope)[name]
            for name, hint in annotations.items()
        }
    except NameError as error:
        raise AgentConfigError(f"tool {function.__name__!r}: {error}", hint="import the type at run time") from None


def _type_schema(function: Callable[..., Any], name: str, hint: Any) -> Mapping[str, Any]:
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        given = [item for item in arguments if item is not type(None)]
        if len(given) == 1:
            return _type_schema(function, name, given[0])
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    origin = {Mapping: dict, Sequence: list}.get(origin, origin)
    kind = _JSON_TYPES.get(origin)
    if kind is None:
        raise AgentConfigError(f"tool {function.__name__!r}: no JSON type for parameter {name!r} ({hint!r})")
    if kind == "array" and arguments:
        return {"type": kind, "items": _type_schema(function, name, arguments[0])}
    return {"type": kind}
