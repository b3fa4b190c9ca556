"""A command on a terminal of the sandbox, over the toolbox's websocket.

The service opens a terminal with a shell on it. A script, uploaded beforehand, is what we type; it tells by a mark
where the command's own output begins, so that prompt and echo of the shell never show.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
from typing import Any
from urllib.parse import quote

import websocket

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import Outcome, SandboxException, SandboxNotFoundError, SandboxOutcomeUnknownError
from ai4j_sandbox.model import OutputStream, TerminalSize
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit
from ai4j_sandbox_wire.trust import Trust

from .channel import Launch
from .toolbox import ASK_SECONDS, Toolbox
from .wrapping import BEGIN_OF_OUTPUT, NO_DIRECTORY, Word

_END_OF_TRANSMISSION = b"\x04\x04"  # a terminal's end of input; within a line the first only hands over the line
_FRAME_BYTES = 32 * 1024  # the daemon takes frames of at most 64 KiB
_MOST_FRAME_BYTES = 16 * 1024 * 1024  # and sends none that is anywhere near as long
_SEND_SECONDS = 60.0
_HANG_UP_SECONDS = 1.0
_GIVE_UP_SECONDS = 2.0


class FrameSocket(websocket.WebSocket):
    """A websocket whose reads wait as long as they are told; a frame that is not whole by then is gone on with."""

    _deadline = Deadline(None)

    def next_frame(self, timeout: float | None) -> tuple[int, bytes] | None:
        """Return opcode and content of the next frame; ``None`` when it is not whole within `timeout` seconds.

        Raises:
            websocket.WebSocketException, OSError, ValueError: The connection broke, or what came is no frame.
        """
        self._deadline = Deadline(timeout)
        try:
            frame: Any = self.recv_frame()  # type: ignore[no-untyped-call]
        except websocket.WebSocketTimeoutException:
            return None
        return frame.opcode, frame.data

    def _recv(self, bufsize: int) -> bytes:  # what `recv_frame` reads with
        if self.sock is None:
            raise ConnectionError
        if (self.frame_buffer.length or 0) > _MOST_FRAME_BYTES:
            raise websocket.WebSocketProtocolException("a frame is longer than any that the service sends")
        held_back = getattr(self.sock, "pending", int)()  # by TLS, where `poll` cannot see it
        if not held_back and not self._readable(self.sock):
            raise websocket.WebSocketTimeoutException
        data: bytes = super()._recv(bufsize)  # type: ignore[no-untyped-call]
        return data

    def _readable(self, sock: socket.socket) -> bool:
        poll = select.poll()  # unlike `select.select`, it takes every descriptor
        poll.register(sock, select.POLLIN)
        left = self._deadline.remaining()
        return bool(poll.poll(None if left is None else left * 1000))


class TerminalChannel(ProcessChannel):
    """One command on a terminal. Made by `open`."""

    def __init__(self, launch: Launch, connection: FrameSocket) -> None:
        self._launch = launch
        self._socket = connection
        self._before = b""  # what came before the command began
        self._begun = False
        self._over = False
        self._closed = False

    @classmethod
    def open(cls, launch: Launch, size: TerminalSize, deadline: Deadline, trust: Trust) -> TerminalChannel:
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
        with contextlib.ExitStack() as undo:
            undo.callback(_give_up, launch)
            channel = cls(launch, _connect(toolbox, running.mark, deadline.bound(ASK_SECONDS), trust))
            undo.callback(channel.close)
            channel._type_line(running.terminal_line().encode())
            undo.pop_all()
        return channel

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        """Return the next piece of output or the exit (`ProcessChannel.receive`)."""
        frame = self._next_frame(timeout)
        if frame is None:
            return None
        opcode, data = frame
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return self._ended(_told_exit(data[2:]), "its connection was closed without a word about it")
        if opcode == websocket.ABNF.OPCODE_TEXT:
            return self._control(data)
        if opcode == websocket.ABNF.OPCODE_PING:
            self._try_to_send(data, websocket.ABNF.OPCODE_PONG)
        elif opcode in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_CONT):
            shown = self._output(data)
            return OutputChunk(OutputStream.STDOUT, shown) if shown else None
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
            self._socket.settimeout(_HANG_UP_SECONDS)
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
            self._try_to_send(_END_OF_TRANSMISSION)

    def resize(self, size: TerminalSize) -> None:
        """Change the terminal's size (`ProcessChannel.resize`)."""
        path = f"/process/pty/{self._launch.running.mark}/resize"
        self._launch.toolbox.call("POST", path, json={"cols": size.columns, "rows": size.rows})

    # --- frames -------------------------------------------------------------------------------------------------

    def _next_frame(self, timeout: float | None) -> tuple[int, bytes] | None:
        try:
            return self._socket.next_frame(timeout)
        except (websocket.WebSocketException, OSError, ValueError) as error:
            raise self._lost(f"its connection broke: {type(error).__name__}") from None

    def _lost(self, how: str) -> SandboxException:
        if self._closed:
            return SandboxOutcomeUnknownError("the terminal was hung up")
        return SandboxOutcomeUnknownError(
            f"how the command on the terminal ended is not known: {how}", hint="it may still run in the sandbox"
        )

    def _send(self, data: bytes, opcode: int = websocket.ABNF.OPCODE_BINARY) -> None:
        try:
            for start in range(0, len(data), _FRAME_BYTES):
                self._socket.send(data[start : start + _FRAME_BYTES], opcode)
        except (websocket.WebSocketException, OSError) as error:
            raise SandboxException(f"the terminal takes no input any more: {type(error).__name__}") from None

    def _try_to_send(self, data: bytes, opcode: int = websocket.ABNF.OPCODE_BINARY) -> None:
        """Send what the command may have ended without; if it has, its end tells."""
        with contextlib.suppress(SandboxException):
            self._send(data, opcode)

    def _control(self, data: bytes) -> ProcessExit | None:
        message = _document(data)
        if message.get("status") == "error":
            raise SandboxException(f"the service could not open the terminal: {str(message.get('error'))[:200]}")
        if message.get("status") == "exited":
            return self._ended(_told_exit(data), "the service says that it ended, and not how")
        return None

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
            self._before = self._before[-len(NO_DIRECTORY) :]  # as much as may be the beginning of a mark
            return b""
        self._begun = True
        self._type_input()
        return after

    def _type_line(self, line: bytes) -> None:
        try:
            self._send(line)
        except SandboxException as error:
            raise self._lost(error.message) from None

    def _type_input(self) -> None:
        command = self._launch.command
        self._try_to_send(command.stdin_bytes)
        if not command.keep_stdin_open:
            self._try_to_send(_END_OF_TRANSMISSION)

    def _ended(self, end: ProcessExit | None, otherwise: str) -> ProcessExit:
        if end is None:
            raise self._lost(otherwise)
        self._over = True
        self._launch.end_survivors()
        return end


def _give_up(launch: Launch) -> None:
    """End a terminal on which nothing was started, or nobody knows what."""
    with contextlib.suppress(SandboxException):
        deadline = Deadline(_GIVE_UP_SECONDS)
        launch.toolbox.call("DELETE", f"/process/pty/{launch.running.mark}", deadline=deadline)
    launch.tidy(launch.running.clean_text())


def _connect(toolbox: Toolbox, pty: str, seconds: float, trust: Trust) -> FrameSocket:
    address = toolbox.address
    secure = address.origin.scheme == "https"
    url = f"{'wss' if secure else 'ws'}://{address.origin.authority}{address.path}/process/pty/{quote(pty)}/connect"
    headers = {name: value for name, value in toolbox.headers().items() if name != "Accept"}
    try:
        connection = websocket.create_connection(
            url,
            timeout=max(seconds, 0.1),
            class_=FrameSocket,
            header=headers,
            suppress_origin=True,
            redirect_limit=0,
            http_no_proxy=["*"],  # as everywhere: nothing is read from the environment
            sslopt={"context": trust.context()} if secure else {},
        )
    except (websocket.WebSocketException, OSError, ValueError) as error:
        # The foreign text may quote the request's headers.
        raise SandboxException(
            f"the terminal could not be connected: {type(error).__name__}",
            hint=trust.hint if isinstance(error, ssl.SSLCertVerificationError) else None,
            http_status=getattr(error, "status_code", None),
            outcome=Outcome.NOT_STARTED,
        ) from None
    assert isinstance(connection, FrameSocket)  # noqa: S101 - as `class_` says
    connection.settimeout(_SEND_SECONDS)
    return connection


def _told_exit(words: bytes) -> ProcessExit | None:
    """Return how the terminal's shell ended, if that is told; -1 stands for a signal."""
    told = _document(words)
    code, text = told.get("exitCode"), told.get("exitReason")
    if not isinstance(code, int) or isinstance(code, bool):
        return None
    return ProcessExit(exit_code=code if code >= 0 else None, status_text=text if isinstance(text, str) else None)


def _document(words: bytes) -> dict[str, Any]:
    try:
        document = json.loads(words)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
