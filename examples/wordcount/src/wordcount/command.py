"""The ``wordcount`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .report import as_json, as_text
from .statistics import measure


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of a file, or of standard input; return the exit code."""
    parser = argparse.ArgumentParser(prog="wordcount", description="Count the words of a text.")
    parser.add_argument("file", nargs="?", type=Path, help="a UTF-8 text; standard input by default")
    parser.add_argument("--top", type=int, default=5, help="how many of the most used words to name")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        text = options.file.read_text(encoding="utf-8") if options.file else sys.stdin.read()
        statistics = measure(text, top=options.top)
    except (OSError, ValueError) as error:
        print(f"wordcount: {error}", file=sys.stderr)
        return 1
    print(as_json(statistics) if options.json else as_text(statistics))
    return 0
