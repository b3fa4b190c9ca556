"""Members of a JSON answer: what is not of the type it should be counts as missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ai4j_sandbox.errors import SandboxProtocolError


def as_object(document: Any) -> Mapping[str, Any]:
    """Return an answer as the JSON object that it should be.

    Raises:
        SandboxProtocolError: It is none.
    """
    if not isinstance(document, dict):
        raise SandboxProtocolError(f"a JSON object was expected from the service, got {type(document).__name__}")
    return document


def text_member(document: Mapping[str, Any], name: str) -> str | None:
    """Return a member that is text and not empty."""
    value = document.get(name)
    return value if isinstance(value, str) and value else None


def text_members(document: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return a member that maps names to texts, without what it maps to anything else."""
    value = document.get(name)
    entries = value.items() if isinstance(value, dict) else ()
    return {key: text for key, text in entries if isinstance(text, str)}
