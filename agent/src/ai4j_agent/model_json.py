"""JSON that a model or its service wrote: anything may be in it, and none of it may break the program."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

DEEPEST_LEVEL = 100
"""Far below what recursion over the data can take."""


def parsed_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is no JSON, or nested deeper than `DEEPEST_LEVEL`.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    level = [value]
    for _ in range(DEEPEST_LEVEL):
        level = [inner for item in level for inner in _inside(item)]
    if level:
        raise _too_deep()
    return value


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> ValueError:
    return ValueError(f"nested deeper than {DEEPEST_LEVEL} levels")
