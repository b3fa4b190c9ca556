"""Keys in, boards out: the loop of ``ai4j top`` on a terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from ai4j_sandbox import SandboxException

from .board import Board, RunningCommand
from .keys import Key
from .tail import Tail
from .watcher import Watcher

ReadKeys = Callable[[], Sequence[Key]]


class Dashboard:
    """What the keys do, and which command's output is followed.

    Args:
        watcher: Where the data comes from.
        show: Shows a board.
    """

    def __init__(self, watcher: Watcher, show: Callable[[Board], None]) -> None:
        self._watcher = watcher
        self._show = show
        self._chosen: tuple[str, int] | None = None
        self._message = ""
        self._followed: tuple[str, int] | None = None
        self._tail: Tail | None = None

    def run(self, read_keys: ReadKeys) -> None:
        """Show, and act on keys, until one says to quit."""
        try:
            self._show(self.board())
            while Key.QUIT not in (keys := read_keys()):
                for key in keys:
                    self._act(key)
                self._show(self.board())
        finally:
            self._follow(None)

    def board(self) -> Board:
        """Return the latest look with what was chosen and followed here."""
        board = replace(self._watcher.board, chosen=self._chosen, message=self._message)
        self._follow(board.chosen_command)
        return replace(board, tail=() if self._tail is None else self._tail.lines)

    def _act(self, key: Key) -> None:
        board = replace(self._watcher.board, chosen=self._chosen)
        if key in (Key.UP, Key.DOWN):
            self._chosen = board.moved(1 if key is Key.DOWN else -1).chosen
            self._message = ""
        elif key is Key.CANCEL and board.chosen_command is not None:
            self._message = f"canceling {board.chosen_command.process.pid}"
            threading.Thread(target=self._cancel, args=(board.chosen_command,), daemon=True).start()

    def _cancel(self, command: RunningCommand) -> None:
        pid = command.process.pid
        try:
            self._message = f"{pid} is canceled" if self._watcher.cancel(command) else f"{pid} had ended"
        except SandboxException as error:
            self._message = f"{pid} could not be canceled: {error.message}"

    def _follow(self, command: RunningCommand | None) -> None:
        key = None if command is None else command.key
        if key == self._followed:
            return
        if self._tail is not None:
            self._tail.let_go()
        process = None if command is None else self._watcher.follow(command)
        self._followed, self._tail = key, None if process is None else Tail(process)
