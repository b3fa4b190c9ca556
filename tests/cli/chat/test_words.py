"""Cutting a typed line into words."""

from __future__ import annotations

import pytest

from ai4j_cli.chat.words import UnclosedQuoteError, split_words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  \t ", []),
        ("attach  cube\tid", ["attach", "cube", "id"]),
        ("'a b' \"c d\"", ["a b", "c d"]),
        ("'it''s'", ["its"]),
        ("a'b c'd", ["ab cd"]),
        ("''", [""]),
        ('--workspace "" foo', ["--workspace", "", "foo"]),
        (r"C:\tmp\x", [r"C:\tmp\x"]),
        (r'"C:\tmp\x y"', [r"C:\tmp\x y"]),
        (r"a\ b", ["a b"]),
        (r"\"x\"", ['"x"']),
        (r'"say \"hi\""', ['say "hi"']),
        (r"'it\'s'", ["it's"]),
        (r"a\\b", [r"a\b"]),
        ("trailing\\", ["trailing\\"]),
        ("größe ✓", ["größe", "✓"]),
    ],
)
def test_words_are_cut_as_people_mean_them(line, words):
    assert split_words(line) == words


@pytest.mark.parametrize("line", ["'", 'a "b c', r"'it\'"])
def test_a_quote_that_is_not_closed_is_refused(line):
    with pytest.raises(UnclosedQuoteError, match="is not closed"):
        split_words(line)
