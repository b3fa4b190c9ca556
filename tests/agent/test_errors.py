from __future__ import annotations

from ai4j_agent import AgentError, BlueprintLoadError, ToolError
from ai4j_sandbox.redaction import Scrubber
from support.secrets import CANARY, assert_no_secret, everything_said


def test_what_an_error_says_cannot_drive_a_terminal_and_keeps_its_lines() -> None:
    error = ToolError("no such file: a\x1b[2J\u202eb\nsecond line", hint="look at \x07")

    assert str(error) == "no such file: a\\x1b[2J\\u202eb\nsecond line (look at \\x07)"
    assert error.args == (error.message,)


def test_the_text_of_an_error_is_masked_whatever_its_kind() -> None:
    text = f"cannot read https://user:{CANARY}@host/x with token={CANARY}"

    for error in (AgentError(text, hint=text), ToolError(text), BlueprintLoadError("blueprint.io", text)):
        assert_no_secret(everything_said(error))


def test_a_secret_that_is_known_later_is_masked_in_the_hint_too() -> None:
    error = AgentError(f"cannot use {CANARY}", hint=f"replace {CANARY}").scrubbed(Scrubber([CANARY]))

    assert str(error) == "cannot use [redacted] (replace [redacted])"
    assert_no_secret(everything_said(error))
