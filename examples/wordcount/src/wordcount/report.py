"""Statistics for people and for programs."""

from __future__ import annotations

import json

from .statistics import TextStatistics


def as_text(statistics: TextStatistics) -> str:
    """Return the figures as aligned lines."""
    rows = {
        "words": str(statistics.word_count),
        "distinct": str(statistics.distinct_words),
        "sentences": str(statistics.sentence_count),
        "most used": ", ".join(f"{word} {count}" for word, count in statistics.most_used) or "-",
    }
    return "\n".join(f"{name:<12}{value}" for name, value in rows.items())


def as_json(statistics: TextStatistics) -> str:
    """Return the figures as one JSON object."""
    return json.dumps(
        {
            "words": statistics.word_count,
            "distinct": statistics.distinct_words,
            "sentences": statistics.sentence_count,
            "wordsPerSentence": round(statistics.words_per_sentence, 2),
            "mostUsed": dict(statistics.most_used),
        },
        ensure_ascii=False,
    )
