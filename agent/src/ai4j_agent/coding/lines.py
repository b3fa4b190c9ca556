"""Lines of a text as files have them: ended by a line feed and by nothing else that Python counts as a line end."""

from __future__ import annotations


def lines_of(text: str) -> list[str]:
    """Return the lines with their ends; the last one may have none."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines
