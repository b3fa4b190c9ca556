"""How a chat reads and writes, and the plain way: lines of text, for pipes and tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TextIO

from ai4j_cli.rendering import one_line, printable


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
    """A chat over two text streams. What is read is not echoed.

    Args:
        source: Where lines come from.
        target: Where text goes.
        prompts: Say that a line is waited for, as for somebody on a terminal.
    """

    def __init__(self, source: TextIO, target: TextIO, *, prompts: bool = False) -> None:
        self._source = source
        self._target = target
        self._prompts = prompts

    def read(self, place: str) -> str | None:
        """Return the next line; ``None`` at the end."""
        if self._prompts:
            self.write(f"{one_line(place)}> ")
        return self._line()

    def ask(self, question: str) -> str:
        """Ask, and take the next line for the answer."""
        self.write(f"{question}\n")
        return self._line() or ""

    def write(self, text: str) -> None:
        """Write the text."""
        self._target.write(printable(text))
        self._target.flush()

    def _line(self) -> str | None:
        line = self._source.readline()
        return line.rstrip("\r\n") if line else None


def tell(console: ChatConsole, lines: Iterable[str]) -> None:
    """Show lines; each is one line, whatever is in it."""
    console.write("".join(f"{one_line(line)}\n" for line in lines))
