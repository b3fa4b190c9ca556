"""How a model is shown what a command wrote. The `SandboxResult` itself is not changed."""

from __future__ import annotations

import re

from ai4j_sandbox.model import SandboxResult

# Colours and moves (CSI), titles and links (OSC and the like, up to their end), and every other escape sequence.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-~])|[\x1b\x9b]")
_FAILURE_CHARACTERS = 4000


def shown(text: str) -> str:
    """Return text as it stands on a terminal at the end: progress collapsed to its last state, no colours and titles.

    A carriage return within a line lets the line begin again; before a line feed it is part of the line's end.
    """
    text = _ESCAPES.sub("", text)
    if "\r" not in text:
        return text
    return "\n".join(map(_last_state, text.split("\n")))


def failure_text(result: SandboxResult) -> str:
    """Return what a command that failed said, both streams, for a message: some services merge them into stdout."""
    text = "\n".join(part.strip() for part in (shown(result.stdout), shown(result.stderr)) if part.strip())
    how = _how_it_ended(result)
    return f"{how}\n{text[-_FAILURE_CHARACTERS:]}" if text else how


def _last_state(line: str) -> str:
    end = "\r" if line.endswith("\r") else ""
    states = [state for state in line.split("\r") if state]
    return (states[-1] if states else "") + end


def _how_it_ended(result: SandboxResult) -> str:
    if result.timed_out:
        return "timed out"
    if result.canceled:
        return "canceled"
    return f"exit code {'unknown' if result.exit_code is None else result.exit_code}"
