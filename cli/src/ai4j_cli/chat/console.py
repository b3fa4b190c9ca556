"""How a chat reads and writes, and the plain way: lines of text, for pipes and tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TextIO

from ai4j_cli.rendering import printable


class ChatConsole(Protocol):
    """Where a chat takes place."""

    def read(self, place: str) -> str | None:
        """Return the next line typed; ``None`` at the end of the input.

        Args:
            place: Where commands run now, for a prompt.

        Raises:
            KeyboardInterrupt: The line was abandoned.
        """

    def ask(self, question: str) -> str:
        """Ask something that a word answers; nothing at the end of the input."""

    def write(self, text: str) -> None:
        """Show text at once, whoever wrote it; control characters are made visible."""


class PlainConsole:
    """A chat over two text streams. What is read is not echoed, and nothing prompts."""

    def __init__(self, source: TextIO, target: TextIO) -> None:
        self._source = source
        self._target = target

    def read(self, place: str) -> str | None:
        """Return the next line; ``None`` at the end."""
        line = self._source.readline()
        return line.rstrip("\r\n") if line else None

    def ask(self, question: str) -> str:
        """Ask, and take the next line for the answer."""
        self.write(f"{question}\n")
        return self.read("") or ""

    def write(self, text: str) -> None:
        """Write the text."""
        self._target.write(printable(text))
        self._target.flush()


def tell(console: ChatConsole, lines: Iterable[str]) -> None:
    """Show lines."""
    console.write("".join(f"{line}\n" for line in lines))
