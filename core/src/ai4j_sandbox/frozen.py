"""Deep immutability: what goes into the data model cannot be changed from outside afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

EMPTY: Mapping[Any, Any] = MappingProxyType({})

DEEPEST_NESTING = 200
"""How many containers may lie in each other. JSON and YAML readers, and Python itself, give up at some 1000."""


def empty_mapping() -> Mapping[Any, Any]:
    """Return the empty read-only mapping, as a dataclass default factory (3.11 refuses it as a plain default)."""
    return EMPTY


def freeze(value: Any) -> Any:
    """Return a copy of `value` in which every nested container is immutable.

    Mappings become read-only mappings, sequences tuples, sets frozensets; entries with a ``None``
    key are dropped (rule of the Java original). Scalars, bytes and foreign objects pass unchanged.

    Raises:
        ValueError: It is nested deeper than `DEEPEST_NESTING`, or holds itself.
    """
    return _frozen(value, DEEPEST_NESTING)


def _frozen(value: Any, levels: int) -> Any:
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, Mapping | Sequence | Set):
        return value
    if levels == 0:
        raise ValueError(f"must not be nested deeper than {DEEPEST_NESTING} levels")
    if isinstance(value, Mapping):
        return MappingProxyType({key: _frozen(item, levels - 1) for key, item in value.items() if key is not None})
    items = (_frozen(item, levels - 1) for item in value)
    return frozenset(items) if isinstance(value, Set) else tuple(items)


def type_name(value: object) -> str:
    """Return what to call the type of a value in a message: a frozen container by the word it is known by."""
    if isinstance(value, Mapping):
        return "mapping"
    return "list" if isinstance(value, tuple) else type(value).__name__


def thaw(value: Any) -> Any:
    """Return plain dicts and lists for a frozen `value`, for JSON or for editing a copy."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple | frozenset):
        return [thaw(item) for item in value]
    return value
