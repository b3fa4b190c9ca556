"""What a running coding tool has at hand, and how a function on it becomes a tool.

A tool's function takes the `Workbench` and its arguments by name; `WorkspaceTool` checks the arguments against the
schema first. Names are camelCase for the model, as in the Java original, and snake_case in the function.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ai4j_agent.errors import ToolError
from ai4j_agent.permission import ToolEffect
from ai4j_agent.session import AgentSession
from ai4j_agent.tools import ToolContext, ToolPlacement, check_value, secret_values, within
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import SandboxFileError, SandboxNotFoundError, SandboxOutputLimitError
from ai4j_sandbox.files import FileInfo
from ai4j_sandbox.frozen import freeze
from ai4j_sandbox.model import SandboxCommand, SandboxResult

from .background import BackgroundCommands
from .confinement import PathRules, relative_path
from .session_browser import SessionBrowser
from .workspace import Workspace

RESULTS = ".ai4j"
"""Name of the folder for what tools leave behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingLimits:
    """How much one tool call may take and give.

    Attributes:
        command_timeout_millis: For a command whose call does not say.
        test_timeout_millis: The same for `run_tests`.
        output_bytes: What is shown of each stream of a command.
        file_bytes: Largest file that is read, edited or written.
        background_characters: How much of a background command's output is kept.
    """

    command_timeout_millis: int = 120_000
    test_timeout_millis: int = 600_000
    output_bytes: int = 32_768
    file_bytes: int = 5_000_000
    background_characters: int = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """What one tool call works with."""

    workspace: Workspace
    rules: PathRules
    limits: CodingLimits
    background: BackgroundCommands
    browser: SessionBrowser
    session: AgentSession
    deadline: Deadline = field(default_factory=lambda: Deadline(None))

    def execute(self, command: SandboxCommand) -> SandboxResult:
        """Run a command in the workspace, at most as long as the run has left."""
        self.protect(command.environment)
        return self.workspace.execute(within(command, self.deadline))

    def execute_helper(self, command: SandboxCommand) -> SandboxResult:
        """Run a command of a tool's own making, of which observers of the sandbox are not told."""
        return self.workspace.execute_helper(within(command, self.deadline))

    def protect(self, environment: Mapping[str, str]) -> None:
        """Mask the values of secret-looking variables from now on."""
        secrets = secret_values(environment)
        self.session.protect(*secrets)
        self.workspace.protect(*secrets)

    def shown_path(self, path: str) -> str:
        """Return an absolute path as results show it."""
        return readable(relative_path(self.workspace.root, path))

    def read_bytes(self, path: str, location: str) -> bytes:
        """Return the content of the file that the model calls `path`.

        Raises:
            ToolError: It does not exist, is no file, or is too large.
        """
        try:
            if (size := self.workspace.files.stat(location).size_bytes) > self.limits.file_bytes:
                raise ToolError(f"{path} is too large: {size} bytes; the limit is {self.limits.file_bytes}")
            return self.workspace.files.read(location, limit_bytes=self.limits.file_bytes)
        except SandboxNotFoundError as error:
            raise ToolError(f"{path} does not exist") from error
        except SandboxOutputLimitError as error:  # it grows while it is read
            raise ToolError(f"{path} is too large; the limit is {self.limits.file_bytes} bytes") from error
        except SandboxFileError as error:
            raise ToolError(f"{path} cannot be read: {error.message}") from error

    def read_text(self, path: str, location: str) -> str:
        """Return the text of a file so that `encoded` gives the same bytes again.

        Raises:
            ToolError: As `read_bytes`, or it is no text.
        """
        data = self.read_bytes(path, location)
        if b"\0" in data[:8192]:
            raise ToolError(f"{path} is a binary file of {len(data)} bytes")
        return data.decode("utf-8", "surrogateescape")

    def find(self, location: str) -> FileInfo | None:
        """Describe what is at a place; ``None`` if nothing is, as below a file."""
        try:
            return self.workspace.files.stat(location)
        except (SandboxNotFoundError, SandboxFileError):
            return None

    def results_folder(self, directory: str) -> str:
        """Return the folder below `directory` for what tools leave behind; it ignores itself for git and for sync.

        Raises:
            ToolError: There is something in its place that leads out of the workspace.
        """
        ignore_file = self.rules.writable(self.workspace, posixpath.join(directory, RESULTS, ".gitignore"))
        self.workspace.files.write(ignore_file, "*\n")
        return posixpath.dirname(ignore_file)


def encoded(text: str) -> bytes:
    """Return the bytes of a text that `Workbench.read_text` gave, or that a model wrote."""
    return text.encode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    """Return text without the stand-ins for bytes that are no UTF-8: no JSON can hold them. Each shows as U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


Effect: TypeAlias = ToolEffect | Callable[[Mapping[str, Any]], ToolEffect]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceTool:
    """A tool made of a function on the workbench; it runs where the session's sandbox is."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(repr=False)
    effect: Effect
    function: Callable[..., Any] = field(repr=False)
    workbench: Callable[[ToolContext], Workbench] = field(repr=False)

    @property
    def placement(self) -> ToolPlacement:
        """Where the session's sandbox is."""
        return ToolPlacement.SESSION

    def effect_of(self, arguments: Mapping[str, Any]) -> ToolEffect:
        """Return what was declared."""
        return self.effect if isinstance(self.effect, ToolEffect) else self.effect(arguments)

    def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return what the function returns."""
        return self.function(self.workbench(context), **named_arguments(self.parameters, arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool as its module declares it, before it has a workbench.

    Attributes:
        effect: The most a call does, or what tells it from the arguments.
    """

    name: str
    description: str
    effect: Effect
    function: Callable[..., Any] = field(repr=False)
    properties: Mapping[str, Mapping[str, Any]] = field(repr=False)
    required: tuple[str, ...] = ()

    def on(self, workbench: Callable[[ToolContext], Workbench]) -> WorkspaceTool:
        """Return the tool."""
        parameters = {
            "type": "object",
            "properties": self.properties,
            "required": self.required,
            "additionalProperties": False,
        }
        return WorkspaceTool(
            name=self.name,
            description=self.description,
            parameters=freeze(parameters),
            effect=self.effect,
            function=self.function,
            workbench=workbench,
        )


def text(description: str, *choices: str) -> Mapping[str, Any]:
    """Return the schema of a text argument."""
    return {"type": "string", "description": description} | ({"enum": choices} if choices else {})


def integer(description: str, *, minimum: int = 0) -> Mapping[str, Any]:
    """Return the schema of a whole number."""
    return {"type": "integer", "description": description, "minimum": minimum}


def boolean(description: str) -> Mapping[str, Any]:
    """Return the schema of a yes or no."""
    return {"type": "boolean", "description": description}


def texts(description: str) -> Mapping[str, Any]:
    """Return the schema of a list of texts."""
    return {"type": "array", "items": {"type": "string"}, "description": description}


def variables(description: str) -> Mapping[str, Any]:
    """Return the schema of a mapping from names to texts."""
    return {"type": "object", "additionalProperties": {"type": "string"}, "description": description}


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def named_arguments(parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as a function takes them; what is ``null`` is not given.

    Raises:
        ToolError: One has not the type, or not a value, that the schema asks for.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    for name, value in given.items():
        _check(name, value, parameters["properties"][name])
    return {_snake_case(name): value for name, value in given.items()}


def _check(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    check_value(name, value, schema)
    if schema["type"] == "integer" and value < schema["minimum"]:
        raise ToolError(f"{name} must be at least {schema['minimum']}, got {value}")
    members = list(_members(value))
    if not all(isinstance(item, str) for item in members):
        raise ToolError(f"{name} must hold only texts")
    for item in (value, *members):
        if isinstance(item, str) and (half := _LONE_SURROGATE.search(item)):
            raise ToolError(f"{name} holds half of a character, U+{ord(half[0]):04X}, which no file can")


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return (*value, *value.values())
    return value if isinstance(value, list) else ()


def _snake_case(name: str) -> str:
    return re.sub("([A-Z])", lambda match: f"_{match[1].lower()}", name)
