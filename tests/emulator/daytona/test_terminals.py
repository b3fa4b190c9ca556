"""Terminals whose shell is played, for what depends on who is faster."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import ClientSession, web

from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import OutputStream, SandboxResult
from ai4j_sandbox.process import OutputChunk
from ai4j_sandbox_emulator.daytona.terminals import Terminal, Terminals
from ai4j_sandbox_emulator.process import Ended, ProcessEvent


class EndedShell:
    """A shell that has ended; what it wrote and its end are shown once somebody has typed into it."""

    pid = 7
    end = None

    def __init__(self) -> None:
        self.typed = asyncio.Event()
        self._events: list[ProcessEvent] = [
            OutputChunk(OutputStream.STDOUT, b"last words"),
            Ended(SandboxResult(command_id="c", exit_code=3)),
        ]

    async def write_stdin(self, data: bytes) -> None:
        self.typed.set()
        raise SandboxException("the process has ended")

    async def take(self) -> list[ProcessEvent]:
        await self.typed.wait()
        await asyncio.sleep(0)
        return [self._events.pop(0)]


class Owner:
    sandbox_id = "s"


async def spoken() -> list[tuple[Any, Any]]:
    """Type into a shell that has ended; return all that is heard, the closing last."""
    shell: Any = EndedShell()
    terminal = Terminal(
        terminal_id="t",
        process=shell,
        listener=shell,
        directory="/",
        environment={},
        columns=80,
        rows=24,
        created_at="",
    )

    async def serve(request: web.Request) -> web.WebSocketResponse:
        owner: Any = Owner()
        return await Terminals().serve(request, owner, terminal)

    application = web.Application()
    application.router.add_get("/", serve)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with (
            ClientSession() as client,
            client.ws_connect(f"http://127.0.0.1:{runner.addresses[0][1]}/") as socket,
        ):
            await socket.send_bytes(b"too late")
            heard = [await socket.receive(10) for _ in range(3)]
            return [(message.type, message.extra or message.data) for message in heard]
    finally:
        await runner.cleanup()


def test_end_of_a_shell_is_told_though_somebody_still_types() -> None:
    connected, shown, closing = asyncio.run(spoken())

    assert json.loads(connected[1]) == {"type": "control", "status": "connected"}
    assert shown == (web.WSMsgType.BINARY, b"last words")
    assert (closing[0], json.loads(closing[1])) == (web.WSMsgType.CLOSE, {"exitCode": 3})
