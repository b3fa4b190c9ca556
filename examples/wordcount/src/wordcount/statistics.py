"""What can be counted."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass

from .words import sentence_count, words

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStatistics:
    """The figures of one text.

    Attributes:
        most_used: Words with their counts, the most used first; of equals, the alphabetically first.
    """

    word_count: int
    distinct_words: int
    sentence_count: int
    most_used: tuple[tuple[str, int], ...]

    @property
    def words_per_sentence(self) -> float:
        """The average length of a sentence; 0 for a text without sentences."""
        return self.word_count / self.sentence_count if self.sentence_count else 0.0


def measure(text: str, *, top: int = 5) -> TextStatistics:
    """Return the figures of a text.

    Args:
        text: Any text.
        top: How many of the most used words to name.

    Raises:
        ValueError: `top` is negative.
    """
    if top < 0:
        raise ValueError(f"top must not be negative, got {top}")
    counts = Counter(words(text))
    _log.debug("counted %d words, %d distinct", counts.total(), len(counts))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return TextStatistics(
        word_count=counts.total(),
        distinct_words=len(counts),
        sentence_count=sentence_count(text),
        most_used=tuple(ranked[:top]),
    )
