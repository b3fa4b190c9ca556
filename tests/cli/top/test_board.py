"""The dashboard's data, its keys and its picture."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from ai4j_cli.top.board import Board, SandboxView
from ai4j_cli.top.keys import Key, keys_of
from ai4j_cli.top.screen import live_picture, picture
from ai4j_sandbox import SandboxStatus, SandboxSummary
from ai4j_sandbox.spi import Metrics, ProcessSummary


def view(session_id: str, *commands: str, **attributes) -> SandboxView:
    """A running sandbox with these commands."""
    summary = SandboxSummary(session_id=session_id, provider_id="p", status=SandboxStatus.RUNNING)
    processes = tuple(
        ProcessSummary(pid=pid, command=text, command_id=f"id-{pid}") for pid, text in enumerate(commands, 1)
    )
    return SandboxView(summary=summary, processes=processes, **attributes)


BOARD = Board(sandboxes=(view("a", "one", "two"), view("b"), view("c", "three")))


def test_the_first_command_is_chosen_until_another_is():
    assert BOARD.chosen_command == BOARD.commands[0]
    assert Board().chosen_command is None


@pytest.mark.parametrize(
    ("steps", "chosen"), [((1,), "two"), ((1, 1), "three"), ((1, 1, 1), "three"), ((-1,), "one"), ((1, 1, -1), "two")]
)
def test_keys_move_through_the_commands_of_all_sandboxes(steps, chosen):
    board = BOARD
    for step in steps:
        board = board.moved(step)

    assert board.chosen_command.process.command == chosen


def test_a_command_that_ended_is_chosen_no_longer():
    board = replace(BOARD.moved(2), sandboxes=BOARD.sandboxes[:1])

    assert board.chosen_command.process.command == "one"


def test_moving_over_nothing_changes_nothing():
    assert Board().moved(1) == Board()


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        (b"", []),
        (b"\x1b[A", [Key.UP]),
        (b"\x1bOB", [Key.DOWN]),
        (b"jjc", [Key.DOWN, Key.DOWN, Key.CANCEL]),
        (b"\x1b[B\x1b[Bkq", [Key.DOWN, Key.DOWN, Key.UP, Key.QUIT]),
        (b"x\xff\x1b[Zz\n", []),
        (b"\x03", [Key.QUIT]),
    ],
)
def test_keys_are_told_apart_however_fast_they_come(typed, keys):
    assert keys_of(typed) == keys


def drawn(board: Board) -> str:
    """Return the picture as text."""
    target = io.StringIO()
    Console(file=target, width=120, markup=False, highlight=False, emoji=False).print(live_picture(board, 100_000))
    return target.getvalue()


def test_the_picture_shows_use_where_it_is_known():
    metrics = Metrics(cpu_percent=12.4, memory_bytes=3 * 1024**2, memory_limit_bytes=1024**3)

    assert "12%  3.0M/1.0G  -     0" in drawn(Board(sandboxes=(view("a", metrics=metrics),)))


def test_the_picture_shows_the_chosen_command_and_what_it_says():
    shown = drawn(replace(BOARD.moved(1), tail=("hello",)))

    assert ">  2    p/a      two" in shown
    assert "output of 2 in p/a\nhello" in "\n".join(line.rstrip() for line in shown.splitlines())


def test_the_picture_shows_problems_instead_of_hiding_them():
    shown = drawn(Board(sandboxes=(view("a", problem="unreachable"),), failures=("q: no key",)))

    assert "unreachable" in shown
    assert "q: no key" in shown


def test_no_control_character_gets_into_the_picture():
    evil = "\x1b]0;owned\x07"

    shown = drawn(Board(sandboxes=(view("a", evil, problem=evil),), failures=(evil,), tail=(evil,), message=evil))

    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_one_look_has_neither_output_nor_keys():
    target = io.StringIO()

    Console(file=target, width=120, markup=False, highlight=False, emoji=False).print(picture(BOARD, 100_000))

    assert "three" in target.getvalue()
    assert "output of" not in target.getvalue()
    assert "cancel" not in target.getvalue()
