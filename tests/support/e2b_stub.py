"""E2B on a loopback port that is played, not run: every answer of the control API and every stream is given.

For tests of single answers; the emulator is there for everything that has to really happen.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Self

from ai4j_sandbox_e2b import E2BSandboxProvider
from support.envd_stub import END_OF_STREAM, EXITED, START, STREAM
from support.http_stub import HttpStub, Recorded, Reply

JSON = {"Content-Type": "application/json"}
CREATED: Mapping[str, Any] = {"sandboxID": "sid123", "templateID": "base", "clientID": "c", "envdVersion": "0.6.13"}
KEY = "unit-key"

Answer = Reply | Callable[[Recorded], Reply]


def answer(document: Any = None, status: int = 200, **headers: str) -> Reply:
    """Return a JSON answer."""
    body = b"" if document is None else json.dumps(document).encode()
    return Reply(status=status, headers=JSON | headers, body=body)


def stream(*frames: bytes) -> Reply:
    """Return a whole stream of envelopes."""
    return Reply(headers=STREAM, body=b"".join(frames))


USUAL: Mapping[str, Answer] = {
    "POST /sandboxes": answer(CREATED, 201),
    "GET /sandboxes/sid123": answer({**CREATED, "state": "running"}),
    "DELETE /sandboxes/sid123": Reply(status=204),
    "GET /v2/sandboxes": answer([]),
    "GET /health": Reply(status=204),
    "POST /process.Process/Start": stream(START, EXITED, END_OF_STREAM),
}


@dataclass
class E2BStub:
    """Answers by method and path; what is not given is answered as usual, or 404 like an unknown path."""

    answers: dict[str, Answer] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    usual: ClassVar[Mapping[str, Answer]] = USUAL

    def __post_init__(self) -> None:
        self.http = HttpStub(self._answer, tls=self.tls)

    def environ(self, **variables: str) -> dict[str, str]:
        """Return the variables that lead to this server, for both planes."""
        return {"E2B_API_KEY": KEY, "E2B_API_URL": self.http.url, "E2B_SANDBOX_URL": self.http.url, **variables}

    def provider(self, **arguments: Any) -> E2BSandboxProvider:
        """Return a provider that uses this server."""
        return E2BSandboxProvider(environ=self.environ(), **arguments)

    @property
    def asked(self) -> list[str]:
        """Every request as ``"METHOD /path"``, in order."""
        return [f"{request.method} {request.path}" for request in self.http.requests]

    def requests(self, call: str) -> list[Recorded]:
        """Return the requests of one call."""
        return [request for request in self.http.requests if f"{request.method} {request.path}" == call]

    def starts(self) -> list[dict[str, Any]]:
        """Return what was started, our own kill commands left out."""
        started = (json.loads(request.body[5:]) for request in self.requests("POST /process.Process/Start"))
        return [item for item in started if "ai4j-kill" not in item["process"]["args"]]

    def __enter__(self) -> Self:
        self.http.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.http.__exit__(kind, value, traceback)

    def _answer(self, request: Recorded) -> Reply:
        call = f"{request.method} {request.path}"
        found = self.answers.get(call) or self.usual.get(call)
        if found is None:
            return Reply(status=404, body=b"404 page not found")
        return found(request) if callable(found) else found


def in_turn(*answers: Reply) -> Callable[[Recorded], Reply]:
    """Return an answer that is another one each time; the last one stays."""
    waiting = list(answers)
    return lambda request: waiting.pop(0) if len(waiting) > 1 else waiting[0]


def is_kill(request: Recorded) -> bool:
    """Whether a Start runs our kill script."""
    return b"ai4j-kill" in request.body


def unless_kill(reply: Reply, killed: Iterable[bytes] = (START, EXITED, END_OF_STREAM)) -> Callable[[Recorded], Reply]:
    """Return the answer to Start that plays a command, and lets our kill script succeed."""
    return lambda request: stream(*killed) if is_kill(request) else reply
