"""Failures as CubeAPI tells them: JSON for its own, plain text for those of its web framework."""

from __future__ import annotations

from collections.abc import Mapping

from ai4j_sandbox.frozen import EMPTY
from ai4j_sandbox_emulator.reply import Reply, json_reply, text_reply


class ApiError(Exception):
    """A call fails with a status and a text.

    Attributes:
        plain: The web framework refused it, which answers in plain text.
    """

    def __init__(self, status: int, message: str, *, plain: bool = False, headers: Mapping[str, str] = EMPTY) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.plain = plain
        self.headers = headers

    def reply(self) -> Reply:
        """Return the error as an answer."""
        if self.plain:
            return text_reply(self.message, self.status)
        return json_reply({"code": self.status, "message": self.message}, self.status, headers=self.headers)


def unknown_sandbox(sandbox_id: str) -> ApiError:
    """Return the answer for a sandbox that was never there, or is no more."""
    return ApiError(404, f"sandbox {sandbox_id} not found")


def in_transition(sandbox_id: str) -> ApiError:
    """Return the answer to a deletion in the middle of another change."""
    message = f"sandbox {sandbox_id} is changing its state (130490)"
    return ApiError(503, message, headers={"Retry-After": "2"})


def wrong_state(sandbox_id: str, state: str) -> ApiError:
    """Return the answer to a call that does not fit the sandbox's state."""
    return ApiError(409, f"sandbox {sandbox_id} is {state}")


def unreadable(message: str) -> ApiError:
    """Return the answer to a body whose fields are missing or of a wrong type."""
    return ApiError(422, f"Failed to deserialize the JSON body into the target type: {message}", plain=True)
