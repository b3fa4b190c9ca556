"""What people see, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest

from ai4j_cli.application import Application
from ai4j_cli.rendering import one_line, print_lines, print_table, printable, progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_control_characters_are_made_visible_and_text_is_not_touched():
    """Case A12."""
    assert printable("\x1b]0;owned\x07\x9b31m\u202e") == r"\x1b]0;owned\x07\x9b31m\u202e"
    assert printable("größe — 😀 [redacted]\nline") == "größe — 😀 [redacted]\nline"


def test_a_line_stays_one_line_whatever_is_in_it(capsys):
    spoofed = "report\nai4j: all is well\x1b[31m.txt"
    shown = r"report\nai4j: all is well\x1b[31m.txt"
    stream = io.StringIO()

    Application().say(spoofed)
    print_lines(stream, [spoofed])
    print_table(stream, ("NAME",), [(spoofed,)])

    assert one_line(spoofed) == shown
    assert capsys.readouterr().err == f"ai4j: {shown}\n"
    assert [line.rstrip() for line in stream.getvalue().splitlines()] == [shown, "NAME", shown]


def test_a_table_shows_text_that_looks_like_markup_as_it_is():
    stream = io.StringIO()

    print_table(stream, ("A", "B"), [("[red]x[/red]", ":smile:"), ("[redacted]", "\x1b[31m")])

    assert [line.split() for line in stream.getvalue().splitlines()] == [
        ["A", "B"],
        ["[red]x[/red]", ":smile:"],
        ["[redacted]", "\\x1b[31m"],
    ]


def test_a_terminal_gets_styles_unless_no_color_is_set(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    plain, styled = Terminal(), Terminal()

    monkeypatch.delenv("NO_COLOR", raising=False)
    print_table(styled, ("A",), [("x",)])
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(plain, ("A",), [("x",)])

    assert "\x1b[" in styled.getvalue()
    assert "\x1b" not in plain.getvalue()


@pytest.mark.parametrize(("verbose", "said"), [(False, ""), (True, "ai4j: uploading\n")])
def test_progress_away_from_a_terminal_is_told_only_when_asked_for(capsys, verbose, said):
    application = Application()
    application.verbose = verbose

    with progress(application, io.StringIO(), "uploading"):
        pass

    assert capsys.readouterr().err == said


def test_progress_on_a_terminal_leaves_nothing_behind(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()

    with progress(Application(), stream, "uploading"):
        pass

    assert "uploading" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")  # the line is erased
