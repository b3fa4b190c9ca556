"""How a model says what it wants done, and how it reads what came of it.

The loop (`agent`) knows messages, tool calls and outputs; a workflow translates them for the model and back. What runs,
what is asked of the policy, limits, events and the stored conversation are therefore the same in every workflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .model_client import ModelRequest, ModelResponse


class Workflow(Protocol):
    """Translates between the loop and the model. Called from any thread; has no state."""

    def request(self, request: ModelRequest) -> ModelRequest:
        """Return the request as the model is asked."""

    def response(self, response: ModelResponse) -> ModelResponse:
        """Return the answer as the loop takes it: what the model wants done as tool calls."""


@dataclass(frozen=True, slots=True)
class ReactWorkflow:
    """The model calls tools by the service's own protocol; nothing is translated."""

    def request(self, request: ModelRequest) -> ModelRequest:
        """Return the request as it is."""
        return request

    def response(self, response: ModelResponse) -> ModelResponse:
        """Return the answer as it is."""
        return response
