"""Sessions: one shell each, whose commands run one after the other and share its variables and directory.

Traits of the daemon that are kept: output is copied line by line, each with a prefix that tells its stream; a last line
gets a newline; NUL vanishes; a command that ends the shell (``exit``, ``exec``) never ends itself.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import uuid
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import OutputStream, SandboxCommand
from ai4j_sandbox.process import OutputChunk
from ai4j_sandbox_emulator.process import EmulatedProcess, Ended, Failed
from ai4j_sandbox_emulator.sandbox import Sandbox

from .commands import started, variables
from .errors import ToolboxError

STDOUT_PREFIX, STDERR_PREFIX = b"\x01\x01\x01", b"\x02\x02\x02"
ENTRYPOINT = "entrypoint"

_PREFIXES = {OutputStream.STDOUT: STDOUT_PREFIX, OutputStream.STDERR: STDERR_PREFIX}
_FRAME_BYTES = 1024
# The session's shell makes the pipe; a file in its place would take the input and give it to nobody.
_FEED = 'rounds=0; until [ -p "$1" ] || [ "$((rounds += 1))" -gt 200 ]; do sleep 0.01; done; [ ! -p "$1" ] || cat >"$1"'
_END = re.compile(rb"\x1eDAYTONA-END:([0-9a-f]+):(\d+)\x1e\n")


@dataclass(eq=False, slots=True)
class ShellCommand:
    """One command of a session."""

    command_id: str
    text: str
    is_async: bool
    echo: bool
    exit_code: int | None = None
    log: bytearray = field(default_factory=bytearray)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def described(self) -> dict[str, Any]:
        """Return the command as the daemon lists it."""
        code = {} if self.exit_code is None else {"exitCode": self.exit_code}
        return {"id": self.command_id, "command": self.text, **code}

    async def note(self, stream: OutputStream, line: bytes) -> None:
        """Add a line to the log."""
        async with self.changed:
            self.log += _PREFIXES[stream] + line.replace(b"\0", b"") + b"\n"
            self.changed.notify_all()

    async def end(self, exit_code: int) -> None:
        """It has ended."""
        async with self.changed:
            self.exit_code = exit_code
            self.changed.notify_all()

    async def followed(self) -> AsyncGenerator[bytes, None]:
        """Yield the log from its beginning in frames, until the command has ended."""
        sent = 0
        while True:
            async with self.changed:
                while len(self.log) == sent and self.exit_code is None:
                    await self.changed.wait()
                fresh, over = bytes(self.log[sent:]), self.exit_code is not None
            sent += len(fresh)
            for start in range(0, len(fresh), _FRAME_BYTES):
                yield fresh[start : start + _FRAME_BYTES]
            if over and sent == len(self.log):
                return


class ShellSession:
    """One session of one sandbox."""

    def __init__(self, sandbox: Sandbox, session_id: str, shell: str) -> None:
        self.session_id = session_id
        self.commands: dict[str, ShellCommand] = {}
        self.closed = False
        self._sandbox = sandbox
        self._queue: asyncio.Queue[ShellCommand] = asyncio.Queue()
        self._directory = f"/tmp/.daytona-{uuid.uuid4().hex}"
        self._process = self._started(sandbox, shell)
        self._current: ShellCommand | None = None
        self._pending = dict.fromkeys(OutputStream, b"")
        self._ended_streams: dict[str, int] = {}
        self._tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._feed())]

    def _started(self, sandbox: Sandbox, shell: str) -> EmulatedProcess:
        command = SandboxCommand(
            command=(shell,),
            working_directory=sandbox.home,
            environment=variables(sandbox),
            keep_stdin_open=True,
            output_limit_bytes=0,
        )
        process = sandbox.prepare(command)
        self._listener = process.listen()
        process.run()
        return process

    def described(self) -> dict[str, Any]:
        """Return the session as the daemon lists it."""
        return {"sessionId": self.session_id, "commands": [command.described() for command in self.commands.values()]}

    def add(self, text: str, *, is_async: bool, echo: bool) -> ShellCommand:
        """Queue a command."""
        command = ShellCommand(uuid.uuid4().hex, text, is_async, echo)
        self.commands[command.command_id] = command
        self._queue.put_nowait(command)
        return command

    async def finished(self, command: ShellCommand) -> None:
        """Wait until a command has ended.

        Raises:
            ToolboxError: The session was deleted meanwhile.
        """
        async with command.changed:
            await command.changed.wait_for(lambda: command.exit_code is not None or self.closed)
        if command.exit_code is None:
            raise ToolboxError(500, "failed to execute command: session cancelled")

    async def send(self, command: ShellCommand, data: str) -> None:
        """Hand input to a command.

        Raises:
            ToolboxError: 410: it has ended.
        """
        if command.exit_code is not None or not command.is_async:
            raise ToolboxError(410, "command already completed", code="COMMAND_ALREADY_COMPLETED")
        line = data if data.endswith("\n") else f"{data}\n"
        feeder = SandboxCommand(command=("/bin/sh", "-c", _FEED, "sh", self._input(command)), stdin=line)
        while command is not self._current:
            await asyncio.sleep(0.01)
        await in_thread(self._sandbox.session.execute, feeder)
        if command.echo:
            await command.note(OutputStream.STDOUT, line.rstrip("\n").encode())

    async def close(self) -> None:
        """End the shell and everything it runs."""
        self.closed = True
        for task in self._tasks:
            task.cancel()
        await self._process.kill_tree("SIGTERM")
        if not await self._process.wait_over(2):
            await self._process.kill_tree("SIGKILL")
        self._process.leave(self._listener)
        for command in self.commands.values():
            async with command.changed:
                command.changed.notify_all()

    def _input(self, command: ShellCommand) -> str:
        return f"{self._directory}/{command.command_id}.in"

    # --- one command after the other ------------------------------------------------------------------------------

    async def _feed(self) -> None:
        while True:
            command = await self._queue.get()
            await in_thread(
                self._sandbox.session.files.write, f"{self._directory}/{command.command_id}.sh", command.text
            )
            self._current = command
            self._ended_streams.clear()
            await started(self._process)
            await self._process.write_stdin(self._script(command).encode())
            while self._current is command:
                await asyncio.sleep(0.005)

    def _script(self, command: ShellCommand) -> str:
        """Return the line that sources a command's text in the session's shell, and tells its end on both streams."""
        source = shlex.quote(f"{self._directory}/{command.command_id}.sh")
        fifo = shlex.quote(self._input(command))
        mark = f"\\036DAYTONA-END:{command.command_id}:%s\\036\\n"
        tell = f'printf "{mark}" "$daytona_code"'
        if command.is_async:
            opened = (
                f"mkfifo {fifo}; exec 9<>{fifo}; {{ . {source}; }} <&9 9<&-; daytona_code=$?; exec 9<&-; rm -f {fifo}"
            )
        else:
            opened = f"{{ . {source}; }} </dev/null; daytona_code=$?"
        return f"{opened}; {tell}; {tell} >&2\n"

    async def _read(self) -> None:
        while True:
            for event in await self._listener.take():
                if isinstance(event, OutputChunk):
                    await self._take(event)
                elif isinstance(event, Ended | Failed):
                    return

    async def _take(self, chunk: OutputChunk) -> None:
        data = self._pending[chunk.stream] + chunk.data
        while (end := data.find(b"\n")) >= 0:
            line, data = data[: end + 1], data[end + 1 :]
            await self._line(chunk.stream, line)
        self._pending[chunk.stream] = data

    async def _line(self, stream: OutputStream, line: bytes) -> None:
        command = self._current
        if command is None:
            return
        end = _END.search(line)
        text = line[: end.start()] if end else line.rstrip(b"\n")
        if text or not end:
            await command.note(stream, text)
        if end is None:
            return
        self._ended_streams[stream] = int(end[2])
        if len(self._ended_streams) == len(OutputStream):
            self._current = None
            await command.end(int(end[2]))


class Shells:
    """The sessions of all sandboxes of a face."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShellSession] = {}

    async def create(self, sandbox: Sandbox, session_id: str, shell: str) -> None:
        """Start a session.

        Raises:
            ToolboxError: 409: there is one of that id; 400: the id is taken for something else.
        """
        if session_id == ENTRYPOINT:
            raise ToolboxError(400, "session id is reserved")
        if (sandbox.sandbox_id, session_id) in self._sessions:
            raise ToolboxError(409, "session already exists")
        self._sessions[sandbox.sandbox_id, session_id] = ShellSession(sandbox, session_id, shell)

    def find(self, sandbox: Sandbox, session_id: str) -> ShellSession:
        """Return a session.

        Raises:
            ToolboxError: 404.
        """
        session = self._sessions.get((sandbox.sandbox_id, session_id))
        if session is None:
            raise ToolboxError(404, "session not found")
        return session

    def all(self, sandbox: Sandbox) -> list[ShellSession]:
        """Return a sandbox's sessions."""
        return [session for (owner, _), session in self._sessions.items() if owner == sandbox.sandbox_id]

    async def delete(self, sandbox: Sandbox, session_id: str) -> None:
        """End a session.

        Raises:
            ToolboxError: 404.
        """
        session = self.find(sandbox, session_id)
        del self._sessions[sandbox.sandbox_id, session_id]
        await session.close()

    async def delete_all(self, sandbox_id: str) -> None:
        """End the sessions of a sandbox that stops or goes."""
        for owner, session_id in [key for key in self._sessions if key[0] == sandbox_id]:
            session = self._sessions.pop((owner, session_id))
            with suppress(SandboxException):
                await session.close()


def split(log: bytes) -> tuple[str, str]:
    """Return stdout and stderr of a log with prefixes."""
    streams = {STDOUT_PREFIX: bytearray(), STDERR_PREFIX: bytearray()}
    for line in log.splitlines(keepends=True):
        target = streams.get(line[:3])
        if target is not None:
            target += line[3:]
    out, err = (bytes(part).decode("utf-8", "replace") for part in streams.values())
    return out, err


def merged(log: bytes) -> str:
    """Return a log without its prefixes."""
    return re.sub(rb"(?m)^(?:\x01{3}|\x02{3})", b"", log).decode("utf-8", "replace")
