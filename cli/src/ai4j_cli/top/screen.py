"""The board as a picture."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ai4j_cli.fleet import span
from ai4j_cli.rendering import one_line, printable
from ai4j_sandbox.spi import Metrics

from .board import Board, SandboxView

_KEYS = "up/down choose   c cancel the command   q quit"
_SANDBOX_COLUMNS = ("SANDBOX", "STATE", "AGE", "ENDS IN", "CPU", "MEMORY", "DISK", "COMMANDS")
_UNITS = (("G", 1024**3), ("M", 1024**2), ("K", 1024))


def picture(board: Board, now_ms: int) -> RenderableType:
    """Return the sandboxes and the commands that run."""
    return Group(*_tables(board, now_ms))


def live_picture(board: Board, now_ms: int) -> RenderableType:
    """Return the same, the output of the chosen command, and what the keys do."""
    return Group(*_tables(board, now_ms), *_below(board))


def _tables(board: Board, now_ms: int) -> Iterator[RenderableType]:
    yield _sandboxes(board, now_ms)
    for failure in board.failures:
        yield Text(one_line(failure), style="red")
    yield Text()
    yield _commands(board)


def _below(board: Board) -> Iterator[RenderableType]:
    chosen = board.chosen_command
    if chosen is not None:
        yield Text()
        yield Text(f"output of {chosen.process.pid} in {chosen.address}", style="bold")
        yield Text(printable("\n".join(board.tail)) or "(nothing yet)")
    yield Text()
    yield Text(one_line(board.message) or _KEYS, style="dim")


def _sandboxes(board: Board, now_ms: int) -> Table:
    table = _table(*_SANDBOX_COLUMNS)
    for view in board.sandboxes:
        table.add_row(*map(_cell, _cells(view, now_ms)))
    return table


def _cells(view: SandboxView, now_ms: int) -> tuple[str, ...]:
    summary, metrics = view.summary, view.metrics or Metrics()
    cpu = metrics.cpu_percent
    return (
        view.address,
        summary.state or summary.status.lower(),
        span(None if summary.created_at_epoch_ms is None else now_ms - summary.created_at_epoch_ms),
        span(None if summary.expires_at_epoch_ms is None else summary.expires_at_epoch_ms - now_ms),
        "-" if cpu is None else f"{cpu:.0f}%",
        _use(metrics.memory_bytes, metrics.memory_limit_bytes),
        _use(metrics.disk_bytes, metrics.disk_limit_bytes),
        view.problem or str(len(view.processes)),
    )


def _commands(board: Board) -> Table:
    table = _table("", "PID", "SANDBOX", "COMMAND")
    chosen = board.chosen_command
    for command in board.commands:
        marker = ">" if chosen is not None and command.key == chosen.key else ""
        words = command.process.command.replace("\n", " ")
        table.add_row(*map(_cell, (marker, str(command.process.pid), command.address, words)))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    return table


def _cell(text: str) -> Text:
    return Text(one_line(text))


def _use(used: int | None, limit: int | None) -> str:
    if used is None:
        return "-"
    return _amount(used) if limit is None else f"{_amount(used)}/{_amount(limit)}"


def _amount(count: int) -> str:
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return f"{count}B"
