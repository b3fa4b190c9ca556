"""What a word is, and what a sentence."""

from __future__ import annotations

import pytest
from wordcount.words import sentence_count, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("To be, or not to be", ["to", "be", "or", "not", "to", "be"]),
        ("mother-in-law", ["mother-in-law"]),
        ("don't", ["don't"]),
        ("'quoted' - dash", ["quoted", "dash"]),
        ("snake_case 42", ["snake", "case", "42"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("cafe\u0301 café", ["café", "café"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert list(words(text)) == expected


def test_a_typographic_apostrophe_belongs_to_its_word() -> None:
    """Fails: ``’`` (U+2019), which word processors write for ``'``, still splits a word in two."""
    assert list(words("It’s what you don’t say")) == ["it’s", "what", "you", "don’t", "say"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("...", 0),
        ("One. Two! Three?", 3),
        ("No full stop", 1),
        ("Wait... what?!", 2),
        ('She said "stop." He did.', 2),
        ("Version 3.11 is out.", 1),
    ],
)
def test_sentences(text: str, expected: int) -> None:
    assert sentence_count(text) == expected
