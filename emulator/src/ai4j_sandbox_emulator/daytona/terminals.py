"""Terminals: a shell on one each, spoken to over a websocket."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import SandboxCommand, TerminalSize
from ai4j_sandbox.process import OutputChunk
from ai4j_sandbox_emulator.process import EmulatedProcess, Ended, Failed, Listener
from ai4j_sandbox_emulator.sandbox import Sandbox

from .commands import started, variables, whole
from .errors import ToolboxError

_EXIT_CONTROL = "X-Daytona-Pty-Exit-Control"  # a newer client that offers it is told the end in a frame of its own
_LARGEST = 1000
_FRAME_BYTES = 64 * 1024


@dataclass(eq=False, slots=True, kw_only=True)
class Terminal:
    """One terminal."""

    terminal_id: str
    process: EmulatedProcess
    listener: Listener
    directory: str
    environment: dict[str, str]
    columns: int
    rows: int
    created_at: str

    def described(self) -> dict[str, Any]:
        """Return the terminal as the daemon lists it."""
        return {
            "id": self.terminal_id,
            "cwd": self.directory,
            "envs": self.environment,
            "cols": self.columns,
            "rows": self.rows,
            "createdAt": self.created_at,
            "active": self.process.end is None,
            "lazyStart": False,
        }


class Terminals:
    """The terminals of all sandboxes of a face."""

    def __init__(self) -> None:
        self._terminals: dict[tuple[str, str], Terminal] = {}

    def create(self, sandbox: Sandbox, body: Any, shell: str, created_at: str) -> Terminal:
        """Open a terminal.

        Raises:
            ToolboxError: 400: it does not fit; 409: there is one of that id.
        """
        terminal_id = body.get("id")
        columns, rows = whole(body.get("cols"), "cols", 80), whole(body.get("rows"), "rows", 24)
        if not isinstance(terminal_id, str) or not terminal_id or columns > _LARGEST or rows > _LARGEST:
            raise ToolboxError(400, "an id and a sensible size are required")
        if (sandbox.sandbox_id, terminal_id) in self._terminals:
            raise ToolboxError(409, "PTY session already exists")
        environment = {"TERM": "xterm-256color", **(body.get("envs") or {})}
        directory = body.get("cwd") or sandbox.home
        process = sandbox.prepare(
            SandboxCommand(
                command=(shell,),
                working_directory=directory,
                environment={**variables(sandbox), **environment},
                terminal=TerminalSize(rows=rows, columns=columns),
                keep_stdin_open=True,
                output_limit_bytes=0,
            )
        )
        terminal = Terminal(
            terminal_id=terminal_id,
            process=process,
            listener=process.listen(),
            directory=directory,
            environment=environment,
            columns=columns,
            rows=rows,
            created_at=created_at,
        )
        self._terminals[sandbox.sandbox_id, terminal_id] = terminal
        process.run()
        return terminal

    def find(self, sandbox: Sandbox, terminal_id: str) -> Terminal:
        """Return a terminal.

        Raises:
            ToolboxError: 404.
        """
        terminal = self._terminals.get((sandbox.sandbox_id, terminal_id))
        if terminal is None:
            raise ToolboxError(404, "PTY session not found")
        return terminal

    def all(self, sandbox: Sandbox) -> list[Terminal]:
        """Return a sandbox's terminals."""
        return [terminal for (owner, _), terminal in self._terminals.items() if owner == sandbox.sandbox_id]

    async def resize(self, terminal: Terminal, columns: int, rows: int) -> None:
        """Change a terminal's size.

        Raises:
            ToolboxError: 410: its shell has ended.
        """
        if terminal.process.end is not None:
            raise ToolboxError(410, "PTY session has ended")
        await started(terminal.process)
        terminal.columns, terminal.rows = columns, rows
        await terminal.process.resize(TerminalSize(rows=rows, columns=columns))

    async def delete(self, sandbox: Sandbox, terminal_id: str) -> None:
        """End a terminal's shell.

        Raises:
            ToolboxError: 404.
        """
        terminal = self.find(sandbox, terminal_id)
        del self._terminals[sandbox.sandbox_id, terminal_id]
        await terminal.process.kill_tree("SIGKILL")

    async def delete_all(self, sandbox_id: str) -> None:
        """End the terminals of a sandbox that stops or goes."""
        for key in [key for key in self._terminals if key[0] == sandbox_id]:
            terminal = self._terminals.pop(key)
            with suppress(SandboxException):
                await terminal.process.kill_tree("SIGKILL")

    async def serve(self, request: web.Request, sandbox: Sandbox, terminal: Terminal) -> web.WebSocketResponse:
        """Connect a client with a terminal until either ends."""
        socket = web.WebSocketResponse(protocols=(_EXIT_CONTROL,), max_msg_size=_FRAME_BYTES)
        await socket.prepare(request)
        await socket.send_str(json.dumps({"type": "control", "status": "connected"}))
        await started(terminal.process)
        typing = asyncio.ensure_future(_typed(socket, terminal.process))
        showing = asyncio.ensure_future(_shown(socket, terminal.listener))
        await asyncio.wait((typing, showing), return_when=asyncio.FIRST_COMPLETED)
        typing.cancel()
        if not showing.done():
            showing.cancel()
            return socket
        self._terminals.pop((sandbox.sandbox_id, terminal.terminal_id), None)
        code = showing.result()
        if socket.ws_protocol == _EXIT_CONTROL:
            await socket.send_str(json.dumps({"type": "control", "status": "exited", "exitCode": code}))
        await socket.close(code=1000 if code == 0 else 1011, message=json.dumps({"exitCode": code}).encode())
        return socket


async def _typed(socket: web.WebSocketResponse, process: EmulatedProcess) -> None:
    async for message in socket:
        if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
            data = message.data.encode() if isinstance(message.data, str) else message.data
            with suppress(SandboxException):  # its shell has ended, which is told once all it wrote was shown
                await process.write_stdin(data)


async def _shown(socket: web.WebSocketResponse, listener: Listener) -> int:
    """Send what the terminal shows; return its shell's exit code."""
    while True:
        for event in await listener.take():
            if isinstance(event, OutputChunk):
                await socket.send_bytes(event.data)
            elif isinstance(event, Ended):
                result = event.result
                return -1 if result.signal or result.exit_code is None else result.exit_code
            elif isinstance(event, Failed):
                return -1
