"""Failures of the control API and of the daemon in a sandbox, with their several bodies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from aiohttp import web

from ai4j_sandbox_emulator.reply import Reply, json_reply

_CODES = {
    400: "BAD_REQUEST",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    408: "REQUEST_TIMEOUT",
    409: "CONFLICT",
    410: "GONE",
    422: "UNPROCESSABLE_ENTITY",
    500: "INTERNAL_SERVER_ERROR",
}
_PREFIXES = {
    400: "bad request",
    403: "forbidden",
    404: "not found",
    408: "request timeout",
    409: "conflict",
    410: "gone",
}


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


class ApiError(Exception):
    """A call of the control API fails."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    def reply(self, request: web.Request) -> Reply:
        """Return the error as an answer."""
        document = {
            "path": request.path,
            "timestamp": _now(),
            "statusCode": self.status,
            "error": HTTPStatus(self.status).phrase,
            "message": self.message,
        }
        return json_reply(document, self.status)


class ToolboxError(Exception):
    """A call of the daemon fails.

    Attributes:
        wordless: The daemon of 0.190 sends the status alone.
        code: The newer daemon's word for it, instead of the status's own.
    """

    def __init__(self, status: int, message: str, *, wordless: bool = False, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.wordless = wordless
        self.code = code


@dataclass(frozen=True, slots=True)
class Envelopes:
    """How the daemon words its failures.

    Attributes:
        newer: Every failure has a body with code and source, as the clients of 0.226 expect.
    """

    newer: bool = False

    def reply(self, error: ToolboxError, request: web.Request) -> Reply:
        """Return a failure as an answer."""
        if error.wordless and not self.newer:
            return Reply(status=error.status)
        prefix = _PREFIXES.get(error.status)
        document = {
            "statusCode": error.status,
            "message": f"{prefix}: {error.message}" if prefix else error.message,
            "code": (error.code if self.newer else None) or _CODES.get(error.status, "INTERNAL_SERVER_ERROR"),
            "timestamp": _now(),
            "path": request.path,
            "method": request.method,
        }
        if self.newer:
            document["source"] = "DAYTONA_DAEMON"
        return json_reply(document, error.status)


def unknown_sandbox(name_or_id: str) -> ApiError:
    """Return the answer for a sandbox that does not exist, or no longer."""
    return ApiError(404, f"Sandbox with ID or name {name_or_id} not found")


def invalid(*messages: str) -> ApiError:
    """Return the answer to a body or query that does not fit; the validator's messages are joined."""
    return ApiError(400, ", ".join(messages))
