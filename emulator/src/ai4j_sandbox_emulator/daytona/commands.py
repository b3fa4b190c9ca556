"""``execute`` and ``code-run``: a text is fed to a shell's stdin, both streams share one buffer.

Traits of the daemon that are kept: no stdin, no separate streams, no limit unless asked for, a limit that costs all
output (408), -1 for a shell that a signal ended or that could not be started, U+FFFD for what is no UTF-8.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox_emulator.json_text import whole_number
from ai4j_sandbox_emulator.process import EmulatedProcess, Ended, Failed
from ai4j_sandbox_emulator.sandbox import Sandbox

from .errors import ToolboxError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_SECONDS = 2**32 - 1
_INTERPRETERS = {"python": ("python3", "-u", "-"), "javascript": ("node", "-"), "typescript": ("node", "-")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What is to be run."""

    arguments: tuple[str, ...]
    text: str
    directory: str | None = None
    environment: Mapping[str, str]
    seconds: int = 0


def parse_execute(body: Any, shell: str) -> Execution:
    """Return what an ``execute`` body asks for.

    Raises:
        ToolboxError: 400: it does not fit.
    """
    command = _text(body, "command")
    if not command or not command.strip():
        raise ToolboxError(400, "command cannot be empty")
    return Execution(
        arguments=(shell,),
        text=command,
        directory=_text(body, "cwd"),
        environment=_variables(body),
        seconds=_seconds(body),
    )


def parse_code_run(body: Any) -> Execution:
    """Return what a ``code-run`` body asks for.

    Raises:
        ToolboxError: 400: it does not fit.
    """
    code, language = _text(body, "code"), _text(body, "language")
    if not code or language not in _INTERPRETERS:
        raise ToolboxError(400, "code and a known language are required")
    arguments = [str(item) for item in body.get("argv") or ()]
    return Execution(
        arguments=(*_INTERPRETERS[language], *arguments),
        text=code,
        environment=_variables(body),
        seconds=_seconds(body),
    )


async def run(sandbox: Sandbox, execution: Execution) -> dict[str, Any]:
    """Run something to its end and return the daemon's answer.

    Raises:
        ToolboxError: 400: it cannot be run; 408: it took too long.
    """
    try:
        command = SandboxCommand(
            command=("/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *execution.arguments),
            stdin=execution.text,
            working_directory=execution.directory or sandbox.home,
            environment={**variables(sandbox), **execution.environment},
            output_limit_bytes=0,
        )
    except SandboxConfigError as error:
        raise ToolboxError(400, error.message) from error
    process = sandbox.prepare(command)
    listener = process.listen()
    process.run()
    output = bytearray()
    deadline = None if not execution.seconds else _now() + execution.seconds
    try:
        while True:
            left = None if deadline is None else deadline - _now()
            events = await listener.take(left)
            if not events:
                await process.kill_tree("SIGKILL")
                raise ToolboxError(408, "command execution timeout", code="PROCESS_EXECUTION_TIMEOUT")
            for event in events:
                if isinstance(event, Ended):
                    code = -1 if event.result.signal or event.result.exit_code is None else event.result.exit_code
                    return {"exitCode": code, "result": output.decode("utf-8", "replace")}
                if isinstance(event, Failed):
                    return {"exitCode": -1, "result": f"fork/exec: {event.error.message}"}
                output += getattr(event, "data", b"")
    finally:
        process.leave(listener)


def _text(body: Any, name: str) -> str | None:
    value = body.get(name) if isinstance(body, dict) else None
    if value is not None and not isinstance(value, str):
        raise ToolboxError(400, f"cannot unmarshal {name} into a string")
    return value


def _variables(body: Any) -> dict[str, str]:
    variables = body.get("envs") or {}
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise ToolboxError(400, "cannot unmarshal envs")
    for name in variables:
        if not _NAME.fullmatch(name):
            raise ToolboxError(400, f"invalid environment variable name: {name}")
    return variables


def _seconds(body: Any) -> int:
    seconds = body.get("timeout") or 0
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds <= _LONGEST_SECONDS:
        raise ToolboxError(400, "cannot unmarshal timeout into a uint32")
    return seconds


def whole(value: object, name: str, default: int) -> int:
    """Return a whole number of at least 1, given as such or as text.

    Raises:
        ToolboxError: 400: it is none.
    """
    if not value:
        return default
    number = whole_number(str(value))
    if number is None:
        raise ToolboxError(400, f"cannot unmarshal {name} into a number")
    return number


def _now() -> float:
    return asyncio.get_running_loop().time()


async def started(process: EmulatedProcess) -> None:
    """Wait until a process takes input, or has ended."""
    while process.pid is None and process.end is None:
        await asyncio.sleep(0.002)


def variables(sandbox: Sandbox) -> dict[str, str]:
    """Return the daemon's own environment, which everything it starts inherits."""
    return {"HOME": sandbox.home, **sandbox.request.environment}
