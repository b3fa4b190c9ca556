"""A chat on a terminal: line editing, history, completion."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.output import ColorDepth

from ai4j_cli.rendering import one_line, printable
from ai4j_cli.terminal import mode_kept
from ai4j_sandbox.redaction import mask_message

from .completion import Knowledge, suggestions
from .directive import DirectiveError, parse_directive

_IDS_KEPT_SECONDS = 30.0


class PromptConsole:
    """A chat on the terminal this program was started from.

    Args:
        history: File for the lines typed.
        knowledge: What completion may offer.
    """

    def __init__(self, history: Path, knowledge: Knowledge) -> None:
        history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        history.touch(mode=0o600)
        color_depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None
        self._lines: PromptSession[str] = PromptSession(
            history=ChatHistory(str(history)),
            completer=ChatCompleter(knowledge),
            complete_while_typing=False,
            complete_in_thread=True,
            color_depth=color_depth,
        )
        self._answers: PromptSession[str] = PromptSession(color_depth=color_depth)

    def read(self, place: str) -> str | None:
        """Return the next line typed; ``None`` after Ctrl-D. Raises `KeyboardInterrupt` for Ctrl-C."""
        return self._typed(self._lines, f"{one_line(place)}> ")

    def ask(self, question: str) -> str:
        """Ask something that a word answers; nothing for Ctrl-D."""
        self.write("\n".join(question.split("\n")[:-1]) + "\n")
        return self._typed(self._answers, f"{printable(question.rpartition(chr(10))[2])} ") or ""

    def _typed(self, session: PromptSession[str], prompt: str) -> str | None:
        # A signal that ends the prompt at a bad moment would leave the terminal raw.
        with mode_kept(sys.stdin.fileno()):
            try:
                return session.prompt(prompt)
            except EOFError:
                return None

    def write(self, text: str) -> None:
        """Write to the terminal."""
        sys.stdout.write(printable(text))
        sys.stdout.flush()


class ChatHistory(FileHistory):
    """The lines typed, over all chats, without those that may hold a credential."""

    def store_string(self, string: str) -> None:
        """Keep a line."""
        if may_be_kept(string):
            super().store_string(string)


def may_be_kept(line: str) -> bool:
    """Whether a line may be written to a file: nothing in it looks like a credential, and it was understood."""
    command, _, argument = line.strip().partition(" ")
    if mask_message(line) != line:
        return False
    if command.lower() != "/sandbox":
        return True
    try:
        parse_directive(argument)
    except DirectiveError:
        return False
    return True


class ChatCompleter(Completer):
    """`suggestions` for the terminal."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what can follow."""
        for item in suggestions(document.text_before_cursor, self._knowledge):
            yield Completion(item.text, start_position=-item.replaces, display_meta=item.about)


def remembering(ask: Callable[[str], Sequence[str]]) -> Callable[[str], Sequence[str]]:
    """Return `ask` with its answers kept for a while, so that completion does not ask a service for every key."""
    kept: dict[str, tuple[float, Sequence[str]]] = {}

    def answer(name: str) -> Sequence[str]:
        asked_at, known = kept.get(name, (float("-inf"), ()))
        if time.monotonic() - asked_at > _IDS_KEPT_SECONDS:
            known = ask(name)
            kept[name] = (time.monotonic(), known)
        return known

    return answer
