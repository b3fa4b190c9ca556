"""How a model is shown output: cases A10, A11, B13."""

from __future__ import annotations

import pytest

from ai4j_agent.coding.output_view import failure_text, shown
from ai4j_sandbox import SandboxResult


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("a\r\nb\r\n", "a\r\nb\r\n"),
        ("10%\r20%\r\nb\r\n", "20%\r\nb\r\n"),
        ("working\r", "working\r"),
        ("\x1b[31mred\x1b[0m \x1b[2Kgone", "red gone"),
        ("plain\n\n text\n", "plain\n\n text\n"),
        ("", ""),
    ],
)
def test_output_as_it_stands_at_the_end(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (SandboxResult(exit_code=2, stdout="cannot access 'q'\n"), "exit code 2\ncannot access 'q'"),
        (SandboxResult(exit_code=1, stdout="out\n", stderr="err\n"), "exit code 1\nout\nerr"),
        (SandboxResult(exit_code=None), "exit code unknown"),
        (SandboxResult(exit_code=None, timed_out=True, stderr="slow"), "timed out\nslow"),
        (SandboxResult(exit_code=None, canceled=True), "canceled"),
    ],
)
def test_the_words_of_a_failure_hold_both_streams(result: SandboxResult, expected: str) -> None:
    assert failure_text(result) == expected


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b]0;title\x07subject", "subject"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ended\nnext", "0;never ended\nnext"),
        ("\x1b(B\x1b[?25lx\x1b[38:5:1my\x1b7", "xy"),
        ("\x1bPdevice\x1b\\z", "z"),
        ("\x1b", ""),
    ],
)
def test_no_escape_sequence_gets_through_and_no_text_is_lost(text: str, seen: str) -> None:
    assert shown(text) == seen
