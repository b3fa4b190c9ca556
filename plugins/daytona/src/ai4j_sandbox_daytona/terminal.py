"""A command on a terminal of the sandbox, over the toolbox's websocket.

The service opens a terminal with a shell on it. A script, uploaded beforehand, is what we type; it tells by a mark
where the command's own output begins, so that prompt and echo of the shell never show.
"""

from __future__ import annotations

import contextlib
import json
import select
from typing import Any
from urllib.parse import quote

import websocket

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import SandboxException, SandboxNotFoundError, SandboxOutcomeUnknownError
from ai4j_sandbox.model import OutputStream, TerminalSize
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit

from .channel import Launch
from .toolbox import ASK_SECONDS, Toolbox
from .wrapping import BEGIN_OF_OUTPUT, NO_DIRECTORY, Word

_END_OF_TRANSMISSION = b"\x04\x04"  # a terminal's end of input; within a line the first only hands over the line
_FRAME_BYTES = 32 * 1024  # the daemon takes frames of at most 64 KiB
_FRAME_SECONDS = 60.0


class TerminalChannel(ProcessChannel):
    """One command on a terminal. Made by `open`."""

    def __init__(self, launch: Launch, socket: websocket.WebSocket) -> None:
        self._launch = launch
        self._socket = socket
        self._before = b""  # what came before the command began
        self._begun = False
        self._over = False
        self._closed = False
        self._exit: ProcessExit | None = None

    @classmethod
    def open(cls, launch: Launch, size: TerminalSize, deadline: Deadline, ca_bundle: str | None) -> TerminalChannel:
        """Open a terminal and start the command on it, once.

        Raises:
            SandboxException: It could not be opened.
        """
        command, running, toolbox = launch.command, launch.running, launch.toolbox
        toolbox.write_file(running.path("tty"), [running.terminal_script(command).encode()])
        request = {
            "id": running.mark,
            "envs": {"TERM": "xterm-256color", **command.environment},
            "cols": size.columns,
            "rows": size.rows,
        }
        toolbox.call("POST", "/process/pty", json=request)
        channel = cls(launch, _connect(toolbox, running.mark, deadline.bound(ASK_SECONDS), ca_bundle))
        channel._send(running.terminal_line().encode())
        return channel

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        """Return the next piece of output or the exit (`ProcessChannel.receive`)."""
        if self._exit is not None:
            return self._exit
        frame = self._receive(timeout)
        if frame is None:
            return None
        opcode, data = frame
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            self._ended(_told_exit(data[2:].decode("utf-8", "replace")))
        elif opcode == websocket.ABNF.OPCODE_TEXT:
            self._control(data)
        elif opcode == websocket.ABNF.OPCODE_BINARY and (shown := self._output(data)):
            return OutputChunk(OutputStream.STDOUT, shown)
        return None

    def kill(self, signal: str) -> bool:
        """Signal the command and all its descendants (`ProcessChannel.kill`)."""
        return not self._over and self._launch.kill(signal).word is not Word.ENDED

    def close(self) -> None:
        """Hang up (`ProcessChannel.close`)."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(websocket.WebSocketException, OSError):
            self._socket.close(timeout=0)
        if self._socket.sock is not None:
            self._socket.sock.close()  # a close that could not be said has not closed the socket

    def write_stdin(self, data: bytes) -> None:
        """Type (`ProcessChannel.write_stdin`)."""
        if not self._launch.command.keep_stdin_open or self._over:
            super().write_stdin(data)
        self._send(data)

    def close_stdin(self) -> None:
        """Type the end of input (`ProcessChannel.close_stdin`)."""
        if self._launch.command.keep_stdin_open and not self._over:
            with contextlib.suppress(SandboxException):
                self._send(_END_OF_TRANSMISSION)

    def resize(self, size: TerminalSize) -> None:
        """Change the terminal's size (`ProcessChannel.resize`)."""
        path = f"/process/pty/{self._launch.running.mark}/resize"
        self._launch.toolbox.call("POST", path, json={"cols": size.columns, "rows": size.rows})

    # --- frames -------------------------------------------------------------------------------------------------

    def _receive(self, timeout: float | None) -> tuple[int, bytes] | None:
        try:
            if not _readable(self._socket, timeout):
                return None
            opcode, frame = self._socket.recv_data_frame(control_frame=True)
            return opcode, bytes(frame.data if frame is not None else b"")
        except (websocket.WebSocketException, OSError, ValueError) as error:
            if self._closed:
                raise SandboxOutcomeUnknownError("the terminal was hung up") from None
            cause = SandboxOutcomeUnknownError(f"the terminal's connection broke: {type(error).__name__}")
            raise self._launch.lost(cause) from None

    def _send(self, data: bytes) -> None:
        try:
            for start in range(0, len(data), _FRAME_BYTES):
                self._socket.send_binary(data[start : start + _FRAME_BYTES])
        except (websocket.WebSocketException, OSError) as error:
            raise SandboxException(f"the terminal takes no input any more: {type(error).__name__}") from None

    def _control(self, data: bytes) -> None:
        message = _document(data.decode("utf-8", "replace"))
        if message.get("status") == "error":
            raise SandboxException(f"the service could not open the terminal: {message.get('error')}")
        if message.get("status") == "exited":
            self._ended(_told_exit(json.dumps(message)))

    def _output(self, data: bytes) -> bytes:
        """Return what of the terminal's output is the command's."""
        if self._begun:
            return data
        self._before += data
        if NO_DIRECTORY in self._before:
            raise SandboxNotFoundError(
                f"the working directory {self._launch.command.working_directory!r} does not exist",
                hint="check working_directory",
            )
        _, begin, after = self._before.partition(BEGIN_OF_OUTPUT)
        if not begin:
            return b""
        self._begun = True
        self._type_input()
        return after

    def _type_input(self) -> None:
        command = self._launch.command
        self._send(command.stdin_bytes)
        if not command.keep_stdin_open:
            self._send(_END_OF_TRANSMISSION)

    def _ended(self, end: ProcessExit) -> None:
        self._over = True
        self._exit = end
        self._launch.end_survivors()


def _connect(toolbox: Toolbox, pty: str, seconds: float, ca_bundle: str | None) -> websocket.WebSocket:
    address = toolbox.address
    scheme = "wss" if address.origin.scheme == "https" else "ws"
    url = f"{scheme}://{address.origin.authority}{address.path}/process/pty/{quote(pty)}/connect"
    headers = {name: value for name, value in toolbox.headers().items() if name != "Accept"}
    try:
        return websocket.create_connection(
            url,
            timeout=max(seconds, 0.1),
            header=headers,
            suppress_origin=True,
            redirect_limit=0,
            http_no_proxy=["*"],  # as everywhere: nothing is read from the environment
            sslopt={} if ca_bundle is None else {"ca_certs": ca_bundle},
        )
    except (websocket.WebSocketException, OSError) as error:
        # The foreign text may quote the request's headers.
        raise SandboxException(f"the terminal could not be connected: {type(error).__name__}") from None


def _readable(socket: websocket.WebSocket, timeout: float | None) -> bool:
    """Whether a frame begins to arrive in time; the frame itself may take longer."""
    sock = socket.sock
    if sock is None:
        raise ConnectionError
    sock.settimeout(_FRAME_SECONDS)
    if getattr(sock, "pending", int)():
        return True
    return bool(select.select([sock], [], [], timeout)[0])


def _told_exit(reason: str) -> ProcessExit:
    """Return how the terminal's shell ended, as the reason of a close tells it; -1 stands for a signal."""
    told = _document(reason)
    code = told.get("exitCode")
    text = told.get("exitReason")
    known = isinstance(code, int) and code >= 0
    return ProcessExit(exit_code=code if known else None, status_text=text if isinstance(text, str) else None)


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
