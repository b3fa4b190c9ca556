"""From a text to its words and sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_SENTENCE_END = re.compile(r"[.!?…]+(?:[\"'”’)]*)(?:\s+|$)")


def words(text: str) -> Iterator[str]:
    """Yield the words of a text in order, folded so that spellings of one word are equal.

    Hyphens and apostrophes inside a word belong to it.
    """
    composed = unicodedata.normalize("NFKC", text)
    for match in _WORD.finditer(composed):
        yield match[0].casefold()


def sentence_count(text: str) -> int:
    """Return how many sentences a text has; one that lacks its full stop at the end counts too."""
    parts = _SENTENCE_END.split(text)
    return sum(1 for part in parts if _WORD.search(part))
