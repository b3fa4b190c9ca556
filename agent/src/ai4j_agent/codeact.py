"""CodeAct: the model acts by writing programs, which run in the session's sandbox.

    answer with <execute>program</execute> -> run it -> <output>…</output> goes back -> … -> answer without a program

The idea and the tag are those of "Executable Code Actions Elicit Better LLM Agents" (Wang et al., 2024). A tag rather
than a fenced block, so that an answer may show code without it being run. In the loop and in the stored conversation a
program is a call of `PythonTool` like any other, and passes everything that tool calls pass.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ai4j_sandbox.frozen import freeze
from ai4j_sandbox.model import SandboxCommand, SandboxResult

from .conversation import Message, Role, ToolCall
from .errors import AgentConfigError
from .model_client import ModelRequest, ModelResponse
from .model_json import parsed_json
from .permission import ToolEffect
from .tools import ToolContext, ToolPlacement, within

PYTHON_TOOL = "run_python"
"""Name under which the policy, the events and the conversation know a program of the model."""

DEFAULT_TIMEOUT_SECONDS = 120.0

CODEACT_PROMPT = """\
You act by writing Python programs. To run one, end your message with

<execute>
print(6 * 7)
</execute>

Each program is a new process in the same working directory: files stay, variables do not. Print what you want to \
know; the next message holds its output, which may be cut in the middle. Write one program a message, and never write \
an <output> yourself. When you know the answer, give it in a message without <execute>."""

_PROGRAM = re.compile(r"<execute>(?P<program>.*?)(?P<end></execute>|\Z)", re.DOTALL)
_FENCE = re.compile(r"\A```(?:python|py)?[ \t]*\n(?P<program>.*?)\n?```\s*\Z", re.DOTALL)

_PARAMETERS: Mapping[str, Any] = freeze(
    {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The program."}},
        "required": ["code"],
        "additionalProperties": False,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTool:
    """Runs a Python program, by ``python3`` of the place where it runs, and tells what it said and how it ended.

    Attributes:
        timeout_seconds: How long one program may take.
        host: Runs the programs of a session without a sandbox, on this machine and without isolation
            (``LocalWorkspace(directory).execute``); the policy is told ``LOCAL``. Without it they are refused.
    """

    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    host: Callable[[SandboxCommand], SandboxResult] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.timeout_seconds, bool) or not 0 < self.timeout_seconds < math.inf:
            raise AgentConfigError(f"timeout_seconds must be positive, got {self.timeout_seconds!r}")

    @property
    def name(self) -> str:
        """The same in every session."""
        return PYTHON_TOOL

    @property
    def description(self) -> str:
        """What it does."""
        return "Run a Python program in a process of its own and return what it prints."

    @property
    def parameters(self) -> Mapping[str, Any]:
        """One argument, the program."""
        return _PARAMETERS

    @property
    def placement(self) -> ToolPlacement:
        """Programs run where the session's sandbox is."""
        return ToolPlacement.SESSION

    def effect_of(self, arguments: Mapping[str, Any]) -> ToolEffect:
        """A program can do anything."""
        return ToolEffect.EXECUTES

    def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Run the program.

        Raises:
            ToolError: There is nowhere to run it.
            SandboxException: The sandbox failed.
        """
        # By stdin, because an argument has a limit of 128 KiB; unbuffered, so that a stopped program's output is there.
        command = SandboxCommand(
            command=("python3", "-u", "-"),
            stdin=arguments["code"],
            timeout_millis=max(1, round(self.timeout_seconds * 1000)),
            metadata={"tool": PYTHON_TOOL},
        )
        if context.sandbox is None and self.host is not None:
            return _told(self.host(within(command, context.deadline)))
        return _told(context.execute(command))


@dataclass(frozen=True, slots=True)
class CodeActWorkflow:
    """Programs in the model's text instead of calls of `PYTHON_TOOL`; other tools are called as usual."""

    def request(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the rules explained, and programs and outputs as the model wrote and read them."""
        return replace(
            request,
            messages=tuple(_explained(_as_text(request.messages))),
            tools=tuple(tool for tool in request.tools if tool.name != PYTHON_TOOL),
        )

    def response(self, response: ModelResponse) -> ModelResponse:
        """Return the answer with its first program as the last tool call.

        What follows a program is dropped: it was written without knowing the output. A program that the length limit
        cut is no program.
        """
        found = _PROGRAM.search(response.message.text)
        if found is None or (not found["end"] and response.finish_reason == "length"):
            return response
        call = ToolCall(name=PYTHON_TOOL, arguments=json.dumps({"code": _unfenced(found["program"])}))
        message = replace(
            response.message,
            text=response.message.text[: found.start()].rstrip(),
            tool_calls=(*response.message.tool_calls, call),
        )
        return replace(response, message=message)


def _explained(messages: Iterator[Message]) -> Iterator[Message]:
    """The rules follow the system messages, before anything was said."""
    explained = False
    for message in messages:
        if not explained and message.role is not Role.SYSTEM:
            yield Message(role=Role.SYSTEM, text=CODEACT_PROMPT)
            explained = True
        yield message


def _as_text(messages: Sequence[Message]) -> Iterator[Message]:
    programs: set[str] = set()
    for message in messages:
        if message.role is Role.TOOL and message.call_id in programs:
            programs.discard(message.call_id)
            yield Message.user(f"<output>\n{message.text}\n</output>")
            continue
        mine = [call for call in message.tool_calls if call.name == PYTHON_TOOL]
        programs.update(call.call_id for call in mine)
        yield _with_programs(message, mine) if mine else message


def _with_programs(message: Message, programs: Sequence[ToolCall]) -> Message:
    blocks = [f"<execute>\n{_program_of(call)}\n</execute>" for call in programs]
    others = tuple(call for call in message.tool_calls if call not in programs)
    return replace(message, text="\n\n".join(filter(None, (message.text, *blocks))), tool_calls=others)


def _program_of(call: ToolCall) -> str:
    """The program of a call; its raw arguments where a model called the tool by the protocol and got them wrong."""
    try:
        program = parsed_json(call.arguments)["code"]
    except (KeyError, TypeError, ValueError):
        return call.arguments
    return program if isinstance(program, str) else call.arguments


def _unfenced(program: str) -> str:
    """Models like to put a fence within the tag."""
    program = program.strip("\r\n")
    fenced = _FENCE.match(program.strip())
    return fenced["program"] if fenced else program


def _told(result: SandboxResult) -> str:
    """What a program said, and how it ended unless it ended well."""
    said = [result.stdout, f"[stderr]\n{result.stderr}" if result.stderr else "", _ending(result)]
    return "\n".join(part.rstrip("\n") for part in said if part) or "(no output)"


def _ending(result: SandboxResult) -> str:
    if result.timed_out:
        return "[stopped: it took too long]"
    if result.canceled:
        return "[canceled]"
    if result.signal:
        return f"[ended by {result.signal}]"
    if result.exit_code is None:
        return "[exit code not known: do not take it for successful]"
    return f"[exit code {result.exit_code}]" if result.exit_code else ""
