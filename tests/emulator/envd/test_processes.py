"""From events to envd's messages, without a sandbox."""

from __future__ import annotations

import pytest

from ai4j_sandbox.model import OutputStream, SandboxResult
from ai4j_sandbox.process import OutputChunk
from ai4j_sandbox_emulator.envd.codec import Document
from ai4j_sandbox_emulator.envd.processes import end_event, event_messages, terminal_size


@pytest.mark.parametrize(
    ("result", "end"),
    [
        (SandboxResult(exit_code=0), {"exitCode": 0, "exited": True, "status": "exit status 0"}),
        (
            SandboxResult(exit_code=3),
            {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"},
        ),
        (
            SandboxResult(exit_code=137, signal="SIGKILL"),
            {"exitCode": -1, "status": "signal: killed", "error": "signal: killed"},
        ),
        (
            SandboxResult(exit_code=163, signal="SIGRTMIN+1"),
            {"exitCode": -1, "status": "signal: SIGRTMIN+1", "error": "signal: SIGRTMIN+1"},
        ),
        (SandboxResult(status_text="lost"), {"exitCode": -1, "status": "lost", "error": "lost"}),
    ],
)
def test_an_end_is_told_in_the_words_of_go(result: SandboxResult, end: Document) -> None:
    assert end_event(result) == end


@pytest.mark.parametrize(
    ("stream", "terminal", "name", "size"),
    [
        (OutputStream.STDOUT, False, "stdout", 32768),
        (OutputStream.STDERR, False, "stderr", 32768),
        (OutputStream.STDOUT, True, "pty", 16384),
    ],
)
def test_output_is_cut_to_the_size_of_a_read(stream: OutputStream, terminal: bool, name: str, size: int) -> None:
    data = b"x" * size + b"rest"

    told = list(event_messages(OutputChunk(stream, data), terminal=terminal))

    assert told == [{"event": {"data": {name: b"x" * size}}}, {"event": {"data": {name: b"rest"}}}]


@pytest.mark.parametrize(
    ("pty", "size"),
    [({"size": {"rows": 5, "cols": 6}}, (5, 6)), ({"size": {"rows": 5}}, (5, 80)), ({}, (24, 80))],
)
def test_a_terminal_has_a_size_whatever_is_left_out(pty: Document, size: tuple[int, int]) -> None:
    assert (terminal_size(pty).rows, terminal_size(pty).columns) == size
