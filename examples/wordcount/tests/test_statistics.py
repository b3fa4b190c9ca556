"""What is counted."""

from __future__ import annotations

import pytest
from wordcount.statistics import TextStatistics, measure


def test_the_figures_of_a_text() -> None:
    assert measure("To be, or not to be. That is the question.", top=2) == TextStatistics(
        word_count=10, distinct_words=8, sentence_count=2, most_used=(("be", 2), ("to", 2))
    )


def test_an_empty_text_has_no_average() -> None:
    statistics = measure("")

    assert (statistics.word_count, statistics.words_per_sentence, statistics.most_used) == (0, 0.0, ())


def test_the_average_length_of_a_sentence() -> None:
    assert measure("One two three. Four.").words_per_sentence == 2.0


def test_a_negative_top_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        measure("x", top=-1)
