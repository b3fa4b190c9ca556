"""Requests to the agent and answers from it, as plain values. Pure.

The agent runs among untrusted commands, so its answers are parsed like any foreign text.
"""

from __future__ import annotations

import errno
import signal
import stat
from collections.abc import Mapping
from typing import Any

from ai4j_sandbox.errors import (
    Outcome,
    SandboxCapacityError,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxProtocolError,
    SessionState,
)
from ai4j_sandbox.files import FileInfo, FileKind
from ai4j_sandbox.model import SandboxCommand, TerminalSize
from ai4j_sandbox.process import ProcessExit
from ai4j_sandbox.spi import Metrics, ProcessSummary

from .config import Limits, LocalConfig

Payload = Mapping[str, Any]

_PATH_MAX = 4096  # linux/limits.h, the NUL at the end included
_SHOWN_CHARACTERS = 200

_KINDS = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.DIRECTORY, stat.S_IFLNK: FileKind.SYMLINK}


class AgentRefusal(Exception):
    """The agent could not do what it was asked: an operating system error inside the sandbox."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def start_request(
    command: SandboxCommand, config: LocalConfig, directory: str, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the request that starts a command.

    Args:
        directory: The session's default directory.
        environment: The session's own variables.
    """
    terminal = command.terminal
    return {
        "do": "start",
        "id": command.command_id,
        "arguments": command.argv((config.shell, "-c")),
        "environment": {
            **environment,
            **({"TERM": "xterm-256color"} if terminal else {}),
            **config.environment,
            **command.environment,
        },
        "directory": command.working_directory or directory,
        "stdin": wants_stdin(command),
        "terminal": None if terminal is None else terminal_size(terminal),
    }


def terminal_size(size: TerminalSize) -> list[int]:
    """Return rows and columns."""
    return [size.rows, size.columns]


def file_path(path: str) -> str:
    """Return a path that the agent can be asked for; bytes that are no UTF-8 are in it as `os.fsdecode` gives them.

    Raises:
        SandboxFileError: No file can have it.
    """
    reason = _unusable(path)
    if reason is None:
        return path
    shown = repr(path[:_SHOWN_CHARACTERS])
    raise SandboxFileError(
        f"{shown} is not a path: {reason}",
        path=path,
        outcome=Outcome.NOT_STARTED,
        session_state=SessionState.INTACT,
    )


def _unusable(path: str) -> str | None:
    if "\0" in path:
        return "it holds a NUL"
    try:
        length = len(path.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return "it holds a lone surrogate"
    return None if length < _PATH_MAX else f"it has {length} bytes, and may have {_PATH_MAX - 1}"


def wants_stdin(command: SandboxCommand) -> bool:
    """Whether the command needs an input of its own; otherwise it reads end-of-file at once."""
    return bool(command.stdin) or command.keep_stdin_open


def exit_of(payload: Payload) -> ProcessExit:
    """Return how a command ended: the agent reports a signal as a negative number, as Python does."""
    code = _whole(payload, "exit")
    if code >= 0:
        return ProcessExit(exit_code=code)
    return ProcessExit(exit_code=128 - code, signal=_signal_name(-code))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals between SIGRTMIN and SIGRTMAX have no names of their own
        return f"SIG{number}"


def signal_number(name: str) -> int:
    """Return the number of a signal.

    Raises:
        SandboxException: This machine has none of that name.
    """
    try:
        return signal.Signals[name].value
    except KeyError:
        raise SandboxException(f"{name!r} is not the name of a signal here", hint="for example SIGTERM") from None


def file_info(payload: Payload) -> FileInfo:
    """Return the description of one path."""
    owner = payload.get("owner")
    target = payload.get("target")
    return FileInfo(
        path=text_of(payload, "path"),
        kind=_KINDS.get(_whole(payload, "kind"), FileKind.OTHER),
        size_bytes=_whole(payload, "size"),
        mode=_whole(payload, "mode"),
        modified_at_epoch_ms=_whole(payload, "modified"),
        owner=None if owner is None else str(owner),
        group=None if payload.get("group") is None else str(payload["group"]),
        target=None if target is None else str(target),
    )


def process_summary(payload: Payload) -> ProcessSummary:
    """Return the description of one running command."""
    return ProcessSummary(
        pid=_whole(payload, "pid"),
        command=" ".join(map(str, list_of(payload, "command"))),
        command_id=text_of(payload, "id"),
    )


def usage_metrics(payload: Payload, limits: Limits) -> Metrics:
    """Return what a sandbox uses."""
    return Metrics(
        memory_bytes=_whole(payload, "memory"),
        memory_limit_bytes=None if limits.memory_megabytes is None else limits.memory_megabytes * 1024 * 1024,
        disk_bytes=_whole(payload, "disk"),
        disk_limit_bytes=_whole(payload, "disk_limit"),
    )


def text_of(payload: Payload, name: str) -> str:
    """Return a text that an answer must have."""
    value = payload.get(name)
    if not isinstance(value, str):
        raise SandboxProtocolError(f"the agent's answer has no usable {name!r}")
    return value


def list_of(payload: Payload, name: str) -> list[Any]:
    """Return a list that an answer must have."""
    value = payload.get(name)
    if not isinstance(value, list):
        raise SandboxProtocolError(f"the agent's answer has no usable {name!r}")
    return value


def _whole(payload: Payload, name: str) -> int:
    value = payload.get(name)
    if not isinstance(value, int):
        raise SandboxProtocolError(f"the agent's answer has no usable {name!r}")
    return value


# --- refusals -----------------------------------------------------------------------------------------------------


def file_error(refusal: AgentRefusal, path: str) -> SandboxException:
    """Return the error for a refused file operation."""
    if refusal.code == errno.errorcode[errno.ENOENT]:
        return SandboxNotFoundError(f"no such file or directory: {path!r}", session_state=SessionState.INTACT)
    return SandboxFileError(f"{path!r}: {refusal}", path=path, session_state=SessionState.INTACT)


def start_error(refusal: AgentRefusal, command: SandboxCommand) -> SandboxException:
    """Return the error for a command that could not be started. One whose program is missing *is* started: exit 127."""
    context: dict[str, Any] = {"outcome": Outcome.NOT_STARTED, "session_state": SessionState.INTACT}
    if refusal.code == "EAGAIN":
        return SandboxCapacityError(
            f"no room for another process in the sandbox: {refusal}", hint="raise config.maxProcesses", **context
        )
    directory = command.working_directory
    if directory is not None and refusal.code in ("ENOENT", "ENOTDIR"):
        return SandboxNotFoundError(f"working directory {directory!r}: {refusal}", **context)
    return SandboxException(f"the command could not be started: {refusal}", **context)
