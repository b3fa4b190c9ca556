"""Commands that outlive the tool call that started them: their output, their input, their end.

A process of the core is driven by whoever receives from it, so each background command has a thread that does. What a
session knows of its background commands is also noted in the session's attributes: after a restore they are there as
metadata, and under control again where the sandbox can attach to a running command.
"""

from __future__ import annotations

import codecs
import threading
import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ai4j_agent.errors import ToolError
from ai4j_agent.session import AgentSession
from ai4j_sandbox.binding import epoch_millis
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import OutputStream, SandboxCommand, SandboxResult
from ai4j_sandbox.process import SandboxProcess

from .lines import lines_of
from .output_view import shown
from .workspace import Workspace

ATTRIBUTE = "codingBackgroundCommands"
"""Session attribute that keeps what is known of the background commands."""

DEFAULT_PAGE = 12_000
_MOST_REMEMBERED = 50
_ENDING_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """A part of a log.

    Attributes:
        offset, next_offset: Where it begins and where the next one does, in characters since the command started.
        truncated: Whether something between what was asked for and `offset` is no longer kept.
    """

    content: str
    offset: int
    next_offset: int
    truncated: bool


class CommandLog:
    """The output of a command as lines that say where they came from; the oldest part is dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = max(limit, 1024)
        self._decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in OutputStream}
        self._lock = threading.Lock()
        self._text = ""
        self._dropped = 0
        self._open_line: OutputStream | None = None

    def feed(self, stream: OutputStream, data: bytes) -> None:
        """Take the next bytes of a stream."""
        with self._lock:
            self._add(stream, self._decoders[stream].decode(data))

    def page(self, offset: int, limit: int) -> LogPage:
        """Return what follows `offset`, at most `limit` characters."""
        with self._lock:
            start = min(max(offset, self._dropped), self._dropped + len(self._text))
            content = self._text[start - self._dropped :][:limit]
            return LogPage(
                content=content, offset=start, next_offset=start + len(content), truncated=offset < self._dropped
            )

    def _add(self, stream: OutputStream, text: str) -> None:
        pieces = [self._text]
        for line in lines_of(text):
            if self._open_line is not stream:
                pieces.append(f"{'' if self._open_line is None else chr(10)}[{stream}] ")
            pieces.append(line)
            self._open_line = None if line.endswith("\n") else stream
        self._text = "".join(pieces)
        excess = len(self._text) - self._limit
        if excess > 0:
            self._text = self._text[excess:]
            self._dropped += excess


@dataclass(slots=True, kw_only=True)
class _Background:
    """One background command, or what is remembered of it."""

    process_id: str
    command: str
    working_directory: str
    started_at: int
    log: CommandLog
    restored: bool = False
    process: SandboxProcess | None = None
    result: SandboxResult | None = None
    error: str | None = None
    ended_at: int | None = None
    status_before: str = "UNKNOWN"
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def status(self) -> str:
        if self.result is not None:
            return "STOPPED" if self.result.canceled else "EXITED"
        if self.error is not None:
            return "LOST"
        return self.status_before if self.process is None else "RUNNING"

    def info(self) -> dict[str, Any]:
        """Return what a model is told of it."""
        exit_code = None if self.result is None else self.result.exit_code
        known = {
            "processId": self.process_id,
            "command": self.command,
            "workingDirectory": self.working_directory,
            "status": self.status,
            "pid": None if self.process is None else self.process.pid,
            "exitCode": exit_code,
            "signal": None if self.result is None else self.result.signal,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "error": self.error,
            "restored": self.restored,
            "controlAvailable": self.process is not None,
        }
        return {name: value for name, value in known.items() if value is not None}


class BackgroundCommands:
    """The background commands of one agent session. Every method may be called from any thread.

    Args:
        session: Whose they are.
        log_limit: How many characters of each command's output are kept.
    """

    def __init__(self, session: AgentSession, *, log_limit: int) -> None:
        self._session = weakref.ref(session)  # the session keeps us, by its `on_close`
        self._log_limit = log_limit
        self._lock = threading.Lock()
        self._commands: dict[str, _Background] = {}
        self._closed = False
        for noted in session.metadata.attributes.get(ATTRIBUTE, ()):
            restored = self._restored(noted)
            self._commands[restored.process_id] = restored

    def start(self, workspace: Workspace, command: SandboxCommand) -> dict[str, Any]:
        """Start a command and return what is known of it."""
        background = _Background(
            process_id=command.command_id,
            command=command.shell_line(),
            working_directory=command.working_directory or workspace.root,
            started_at=epoch_millis(),
            log=CommandLog(self._log_limit),
        )
        with self._lock:
            self._require_open()
            self._commands[background.process_id] = background
        try:
            process = workspace.start(command)
        except BaseException:
            with self._lock:
                del self._commands[background.process_id]
            raise
        self._follow(background, process)
        return background.info()

    def status(self, workspace: Workspace, process_id: str) -> dict[str, Any]:
        """Return what is known of one command."""
        return self._find(workspace, process_id).info()

    def logs(self, workspace: Workspace, process_id: str, offset: int, limit: int) -> dict[str, Any]:
        """Return a page of a command's output."""
        background = self._find(workspace, process_id)
        page = background.log.page(offset, limit)
        info = background.info()
        return {
            "processId": process_id,
            "offset": page.offset,
            "nextOffset": page.next_offset,
            "truncated": page.truncated,
            "content": shown(page.content),
            "status": info["status"],
            **({"exitCode": info["exitCode"]} if "exitCode" in info else {}),
        }

    def write(self, workspace: Workspace, process_id: str, data: str) -> dict[str, Any]:
        """Write to a command's input."""
        background = self._find(workspace, process_id)
        content = data.encode()
        try:
            self._controlled(background).write_stdin(content)
        except SandboxException as error:
            raise ToolError(f"process {process_id} takes no input: {error.message}") from error
        return {"process": background.info(), "bytesWritten": len(content)}

    def stop(self, workspace: Workspace, process_id: str) -> dict[str, Any]:
        """Stop a command and its descendants; one that has ended is left as it is."""
        background = self._find(workspace, process_id)
        self._stop(background, self._controlled(background))
        return background.info()

    def list(self) -> list[dict[str, Any]]:
        """Return what is known of all commands, the oldest first."""
        with self._lock:
            return [background.info() for background in self._commands.values()]

    def _require_open(self) -> None:
        if self._closed:
            raise ToolError("the session is closed")

    def close(self) -> None:
        """Stop every command that runs. Idempotent."""
        with self._lock:
            self._closed = True
            commands = list(self._commands.values())
        for background in commands:
            if background.process is not None and not background.process.done:
                self._stop(background, background.process)

    # --- following ------------------------------------------------------------------------------------------------

    def _follow(self, background: _Background, process: SandboxProcess) -> None:
        with self._lock:
            if self._closed:  # while it was being started: nobody else knows of it
                process.cancel()
            background.process = process
        self._note()
        threading.Thread(
            target=self._receive, args=(background, process), name=f"background {process.command_id}", daemon=True
        ).start()

    def _receive(self, background: _Background, process: SandboxProcess) -> None:
        try:
            for chunk in process.output():
                background.log.feed(chunk.stream, chunk.data)
            background.result = process.wait()
        except SandboxException as error:
            background.error = error.message
        finally:
            if background.result is None and background.error is None:
                background.error = "its output could not be followed any more"
            background.ended_at = epoch_millis()
            background.ended.set()
            self._note()

    def _stop(self, background: _Background, process: SandboxProcess) -> None:
        process.cancel()
        background.ended.wait(_ENDING_SECONDS)

    def _controlled(self, background: _Background) -> SandboxProcess:
        if background.process is None:
            raise ToolError(f"process {background.process_id} was restored as metadata only and cannot be controlled")
        return background.process

    # --- finding again --------------------------------------------------------------------------------------------

    def _find(self, workspace: Workspace, process_id: str) -> _Background:
        with self._lock:
            background = self._commands.get(process_id)
        if background is None:
            raise ToolError(f"there is no background process {process_id!r}")
        if background.process is None and background.status_before == "RUNNING":
            self._attach(background, workspace)
        return background

    def _attach(self, background: _Background, workspace: Workspace) -> None:
        try:
            process = workspace.attach(background.process_id)
        except SandboxException:
            background.status_before = "UNKNOWN"
        else:
            self._follow(background, process)

    def _restored(self, noted: Mapping[str, Any]) -> _Background:
        return _Background(
            process_id=noted["processId"],
            command=noted["command"],
            working_directory=noted["workingDirectory"],
            started_at=noted["startedAt"],
            ended_at=noted.get("endedAt"),
            status_before=noted["status"],
            log=CommandLog(self._log_limit),
            restored=True,
        )

    def _note(self) -> None:
        kept = ("processId", "command", "workingDirectory", "status", "startedAt", "endedAt")
        noted = [{name: item[name] for name in kept if name in item} for item in self.list()]
        session = self._session()
        if session is not None:
            session.put_attribute(ATTRIBUTE, noted[-_MOST_REMEMBERED:])


def new_process_id() -> str:
    """Return an id for a background command, in the form of the Java original."""
    return f"proc_{uuid.uuid4().hex}"
