"""JSON that a model or its service wrote: anything may be in it, and none of it may break the program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

DEEPEST_LEVEL = 100
"""Far below what recursion over the data can take."""


def parsed_json(text: str | bytes, *, strict: bool = False) -> Any:
    """Return the value of a JSON text.

    Args:
        text: What to read.
        strict: Refuse what parsers read differently, so that what one judges is what another runs: a key given twice,
            and ``NaN`` and the like.

    Raises:
        ValueError: It is no JSON, or nested deeper than `DEEPEST_LEVEL`.
    """
    try:
        value = json.loads(text, **_STRICT) if strict else json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    level = [value]
    for _ in range(DEEPEST_LEVEL):
        level = [inner for item in level for inner in _inside(item)]
    if level:
        raise _too_deep()
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} is given twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_STRICT: Mapping[str, Any] = {"object_pairs_hook": _without_repeats, "parse_constant": _no_constant}


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> ValueError:
    return ValueError(f"nested deeper than {DEEPEST_LEVEL} levels")
