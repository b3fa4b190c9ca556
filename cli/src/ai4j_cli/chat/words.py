"""Cutting a typed line into words.

Rules: blanks separate; single and double quotes group; a backslash escapes a quote, a backslash or a blank, and is an
ordinary character before anything else, so that ``C:\\tmp\\x`` survives, quoted or not; adjacent parts join
(``'it''s'`` is ``its``); an empty quoted word is a word.
"""

from __future__ import annotations

_QUOTES = "'\""


class UnclosedQuoteError(ValueError):
    """A quote was opened and not closed."""


def split_words(line: str) -> list[str]:
    """Return the words of a line.

    Raises:
        UnclosedQuoteError: A quote is not closed.
    """
    words: list[str] = []
    word: str | None = None
    quote: str | None = None
    characters = iter(range(len(line)))
    for index in characters:
        character, following = line[index], line[index + 1 : index + 2]
        if character == "\\" and following and (following in f"{_QUOTES}\\" or following.isspace()):
            word = (word or "") + following
            next(characters)
        elif quote:
            word, quote = (word or "", None) if character == quote else ((word or "") + character, quote)
        elif character in _QUOTES:
            word, quote = word or "", character
        elif not character.isspace():
            word = (word or "") + character
        elif word is not None:
            words.append(word)
            word = None
    if quote:
        raise UnclosedQuoteError(f"a {quote} is not closed")
    return words if word is None else [*words, word]
