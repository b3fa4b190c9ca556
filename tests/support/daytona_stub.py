"""Daytona on a loopback port that is played, not run: every answer of the control API and the toolbox is given.

For tests of single answers; the emulator is there for everything that has to really happen.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from ai4j_sandbox_daytona import DaytonaSandboxProvider
from support.http_stub import HttpStub, Recorded, Reply

KEY = "unit-key"
JSON = {"Content-Type": "application/json"}
SANDBOX_ID = "id-1"

Answer = Reply | Callable[[Recorded], Reply]


def answer(document: Any = None, status: int = 200, **headers: str) -> Reply:
    """Return a JSON answer."""
    body = b"" if document is None else json.dumps(document).encode()
    return Reply(status=status, headers=JSON | headers, body=body)


def executed(result: str = "", exit_code: int | None = 0) -> Reply:
    """Return the toolbox's answer to a text."""
    return answer({"exitCode": exit_code, "result": result})


class DaytonaStub:
    """Answers by method and path; a list of answers is played one after the other, and its last again and again.

    Paths are those of the control API (``GET /sandbox/id-1``) and of the toolbox (``POST /id-1/process/execute``).
    What is not given is 404.

    Args:
        tls: Speak TLS, with the certificate in this context.
    """

    def __init__(self, answers: Mapping[str, Answer | list[Answer]], *, tls: ssl.SSLContext | None = None) -> None:
        self.http = HttpStub(self._answer, tls=tls)
        self._answers = {call: list(given) if isinstance(given, list) else [given] for call, given in answers.items()}
        self._otherwise: list[Answer] = []

    def sandbox(self, state: str = "started", **more: Any) -> dict[str, Any]:
        """Return a sandbox as the control API describes it."""
        return {"id": SANDBOX_ID, "name": "work", "state": state, "toolboxProxyUrl": self.http.url, **more}

    def play(self, call: str, *answers: Answer) -> None:
        """Give the answers to one call."""
        self._answers[call] = list(answers)

    def provider(self, **arguments: Any) -> DaytonaSandboxProvider:
        """Return a provider that uses this server."""
        environ = {"DAYTONA_API_KEY": KEY, "DAYTONA_API_URL": self.http.url}
        return DaytonaSandboxProvider(environ=environ, **arguments)

    def answer_all_else(self, answer: Answer) -> None:
        """Give the answer to whatever is not given one."""
        self._otherwise = [answer]

    @property
    def calls(self) -> list[str]:
        """What was asked, in order."""
        return [f"{request.method} {request.path}" for request in self.http.requests]

    def bodies(self, call: str) -> list[dict[str, Any]]:
        """Return the JSON bodies of one call."""
        return [
            json.loads(request.body) for request in self.http.requests if f"{request.method} {request.path}" == call
        ]

    def _answer(self, request: Recorded) -> Reply:
        waiting = self._answers.get(f"{request.method} {request.path}") or self._otherwise
        if not waiting:
            return answer({"statusCode": 404, "message": f"{request.path} not found"}, 404)
        given = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return given(request) if callable(given) else given

    def __enter__(self) -> Self:
        self.http.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.http.__exit__(kind, value, traceback)
