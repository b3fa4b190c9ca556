"""An envd on a loopback port that is played, not run: a test decides what its commands write and how they end.

It understands the calls that a command needs. A kill script is recognised by its name and ends the command's stream,
as killing the processes would.
"""

from __future__ import annotations

import base64
import json
import queue
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.connect import encode_envelope, unary_error
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.envd_client import EnvdClient, EnvdOptions
from ai4j_sandbox_wire.http import HttpClient
from ai4j_sandbox_wire.message import HttpLimits
from support.http_stub import Ending, HttpStub, Recorded, Reply

STREAM = {"Content-Type": "application/connect+json"}
END_OF_STREAM = encode_envelope(b"{}", end_of_stream=True)

Piece = bytes | Ending


def event(**fields: Any) -> bytes:
    """One process event as envelope: ``event(start={"pid": 7})``."""
    return encode_envelope(json.dumps({"event": fields}, separators=(",", ":")).encode())


def output(data: bytes, stream: str = "stdout") -> bytes:
    return event(data={stream: base64.b64encode(data).decode()})


def failure(code: str, message: str = "") -> bytes:
    return encode_envelope(json.dumps({"error": {"code": code, "message": message}}).encode(), end_of_stream=True)


START = event(start={"pid": 7})
EXITED = event(end={"exited": True, "status": "exit status 0"})
KILLED = event(end={"exitCode": -1, "status": "signal: killed", "error": "signal: killed"})


class EnvdStub:
    """Plays one command at a time. `say` what its stream sends; `calls` tells what else was asked."""

    def __init__(self, *pieces: Piece, ends_when_killed: bool = True) -> None:
        self._pieces: queue.Queue[Piece] = queue.Queue()
        self._ends_when_killed = ends_when_killed
        self._transport = DirectTransport()
        self.calls: list[tuple[str, Any]] = []
        self.starts: list[Recorded] = []
        self.kills: list[list[str]] = []
        self.kill_exit = 0
        self.input = bytearray()
        self.input_closed = threading.Event()
        self.refusals: dict[str, Reply] = {}
        self.say(*pieces)
        self.http = HttpStub(self._answer)

    def say(self, *pieces: Piece) -> None:
        """Let the command's stream send these pieces next; an `Ending` ends it so."""
        for piece in pieces:
            self._pieces.put(piece)

    def client(self, **options: Any) -> EnvdClient:
        limits = HttpLimits(connect_seconds=2, read_seconds=2, call_seconds=5)
        http = HttpClient(
            BaseUrl.parse(self.http.url),
            send=self._transport.send,
            open_stream=self._transport.open,
            explain=unary_error,
            limits=limits,
        )
        return EnvdClient(http, EnvdOptions(**options))

    def __enter__(self) -> Self:
        self.http.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pieces.put(Ending.CUT)
        self.http.__exit__(kind, value, traceback)
        self._transport.close()

    def _answer(self, request: Recorded) -> Reply:
        method = request.path.rpartition("/")[2]
        if method in self.refusals:
            return self.refusals[method]
        if method in ("Start", "Connect"):
            return self._stream(request)
        document = json.loads(request.body)
        self.calls.append((method, document))
        if method == "SendInput":
            kind = "pty" if "pty" in document["input"] else "stdin"
            self.input += base64.b64decode(document["input"][kind])
        if method == "CloseStdin":
            self.input_closed.set()
        return Reply(headers={"Content-Type": "application/json"}, body=b"{}")

    def _stream(self, request: Recorded) -> Reply:
        document = json.loads(request.body[5:])
        arguments = document["process"].get("args", [])
        if "ai4j-kill" in arguments:
            self.kills.append(arguments[3:])
            if self._ends_when_killed and self.kill_exit == 0:
                self.say(KILLED, END_OF_STREAM)
            end = event(end={"exitCode": self.kill_exit, "exited": True})
            return Reply(headers=STREAM, body=START + end + END_OF_STREAM)
        self.starts.append(request)
        ending: list[Ending] = []
        return _Played(headers=STREAM, body=self._played(ending), chunked=True, endings=ending)

    def _played(self, ending: list[Ending]) -> Iterator[bytes]:
        while True:
            piece = self._pieces.get()
            if isinstance(piece, Ending):
                ending.append(piece)
                return
            yield piece
            if piece == END_OF_STREAM or piece[:1] == b"\2":
                return


class _Played(Reply):
    """A reply whose ending is decided while its body is sent."""

    def __init__(self, *, endings: list[Ending], **fields: Any) -> None:
        super().__init__(**fields)
        object.__setattr__(self, "_endings", endings)

    def __getattribute__(self, name: str) -> Any:
        if name == "ending":
            endings = object.__getattribute__(self, "_endings")
            return endings[0] if endings else Ending.KEEP
        return object.__getattribute__(self, name)
