"""A small HTTP client for emulator tests: no retries, no decoding of its own, and it sees how a connection ends."""

from __future__ import annotations

import base64
import http.client
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

API_KEY = "e2b_" + "0" * 40
TIMEOUT_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as a document."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Frame:
    """One Connect envelope with its JSON payload."""

    flags: int
    document: Any


class EmulatorClient:
    """Calls to the control API of one emulator."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Return the answer to one request; a document is sent as JSON, bytes as they are."""
        connection = self.connect()
        try:
            connection.request(method, path, *self._content(body, {"X-API-Key": API_KEY, **(headers or {})}))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        """Return a fresh connection."""
        return http.client.HTTPConnection(self._address, timeout=TIMEOUT_SECONDS)

    def create(self, version: int = 2, **document: Any) -> Box:
        """Make a sandbox."""
        path = "/v2/sandboxes" if version == 2 else "/sandboxes"
        answer = self.call("POST", path, {"templateID": "base", **document})
        assert answer.status == 201, answer
        return Box(self, answer.json["sandboxID"], answer.json.get("envdAccessToken"))

    @staticmethod
    def _content(body: Any, headers: Mapping[str, str]) -> tuple[bytes | None, dict[str, str]]:
        if body is None or isinstance(body, bytes):
            return body, dict(headers)
        return json.dumps(body).encode(), {"Content-Type": "application/json", **headers}


class Box:
    """Calls into one sandbox."""

    def __init__(self, client: EmulatorClient, sandbox_id: str, token: str | None) -> None:
        self.client = client
        self.sandbox_id = sandbox_id
        self.token = token

    @property
    def headers(self) -> dict[str, str]:
        """What routes a request to the sandbox's daemon, and lets it in."""
        routing = {"E2b-Sandbox-Id": self.sandbox_id, "E2b-Sandbox-Port": "49983"}
        return routing if self.token is None else {**routing, "X-Access-Token": self.token}

    def control(self, method: str, suffix: str = "", body: Any = None) -> Answer:
        """Return the answer of a control call about this sandbox."""
        return self.client.call(method, f"/sandboxes/{self.sandbox_id}{suffix}", body)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Return the answer of the daemon; header names are given with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.call(method, path, body, {**self.headers, **named})

    def rpc(self, method: str, document: Any, **headers: str) -> Answer:
        """Return the answer of a unary call such as ``process.Process/List``."""
        return self.call("POST", f"/{method}", document, **headers)

    def open(self, method: str, document: Any, **headers: str) -> Stream:
        """Begin a streaming call."""
        payload = document if isinstance(document, bytes) else json.dumps(document).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = self.client.connect()
        content = {"Content-Type": "application/connect+json", **self.headers, **named}
        connection.request("POST", f"/{method}", struct.pack(">BI", 0, len(payload)) + payload, content)
        return Stream(connection)

    def start(self, *argv: str, **options: Any) -> Stream:
        """Start a command; keywords beside ``headers`` are fields of the request."""
        headers = options.pop("headers", {})
        envs, cwd = options.pop("envs", {}), options.pop("cwd", None)
        process = {"cmd": argv[0], "args": argv[1:], "envs": envs, **({} if cwd is None else {"cwd": cwd})}
        return self.open("process.Process/Start", {"process": process, "stdin": False, **options}, **headers)

    def run(self, *argv: str, **options: Any) -> Outcome:
        """Run a command to its end."""
        return outcome(list(self.start(*argv, **options)))


class Stream:
    """The frames of a streaming answer, as they arrive. Iterate it to the end, or close it."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self.response = connection.getresponse()
        self._ended = False

    def __iter__(self) -> Iterator[Frame]:
        try:
            while (frame := self.read()) is not None:
                yield frame
        finally:
            self.close()

    def read(self) -> Frame | None:
        """Return the next frame; ``None`` at a regular end of the body."""
        prefix = self.response.read(5)
        if not prefix:
            return None
        flags, length = struct.unpack(">BI", prefix)
        return Frame(flags, json.loads(self.response.read(length)))

    def pid(self) -> int:
        """Read the start event and return its process id."""
        frame = self.read()
        assert frame is not None
        return int(frame.document["event"]["start"]["pid"])

    def close(self) -> None:
        """Leave."""
        self.response.close()
        self._connection.close()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole process stream, folded."""

    stdout: bytes
    stderr: bytes
    end: Any
    error: Any


def outcome(frames: list[Frame]) -> Outcome:
    """Fold the frames of a process stream; the last must be its end."""
    *messages, last = frames
    assert last.flags & 2, frames
    events = [frame.document["event"] for frame in messages]
    data = [event["data"] for event in events if "data" in event]
    ends = [event["end"] for event in events if "end" in event]
    return Outcome(
        stdout=b"".join(base64.b64decode(item["stdout"]) for item in data if "stdout" in item),
        stderr=b"".join(base64.b64decode(item["stderr"]) for item in data if "stderr" in item),
        end=ends[0] if ends else None,
        error=last.document.get("error"),
    )
