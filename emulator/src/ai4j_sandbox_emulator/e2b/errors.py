"""Failures of the control API."""

from __future__ import annotations

from ai4j_sandbox_emulator.reply import Reply, json_reply


class ApiError(Exception):
    """A call fails with an HTTP status and a text."""

    def __init__(self, status: int, message: str, error_code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.error_code = error_code

    def document(self) -> dict[str, object]:
        """Return the error body."""
        code = {} if self.error_code is None else {"error_code": self.error_code}
        return {"code": self.status, "message": self.message, **code}

    def reply(self) -> Reply:
        """Return the error as an answer."""
        return json_reply(self.document(), self.status)


def unknown_sandbox(sandbox_id: str) -> ApiError:
    """Return the answer for a sandbox that was never there, was killed or has expired: nothing tells them apart."""
    return ApiError(404, f"Sandbox \"{sandbox_id}\" doesn't exist or you don't have access to it")


def invalid(message: str) -> ApiError:
    """Return the answer to a body or query that does not fit the schema."""
    return ApiError(400, f"validation error: {message}")
