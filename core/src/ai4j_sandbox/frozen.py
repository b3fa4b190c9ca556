"""Deep immutability: what goes into the data model cannot be changed from outside afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

EMPTY: Mapping[Any, Any] = MappingProxyType({})


def empty_mapping() -> Mapping[Any, Any]:
    """Return the empty read-only mapping, as a dataclass default factory (3.11 refuses it as a plain default)."""
    return EMPTY


def freeze(value: Any) -> Any:
    """Return a copy of `value` in which every nested container is immutable.

    Mappings become read-only mappings, sequences tuples, sets frozensets; entries with a ``None``
    key are dropped (rule of the Java original). Scalars, bytes and foreign objects pass unchanged.
    """
    if isinstance(value, Mapping):
        return MappingProxyType({key: freeze(item) for key, item in value.items() if key is not None})
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Sequence):
        return tuple(freeze(item) for item in value)
    if isinstance(value, Set):
        return frozenset(freeze(item) for item in value)
    return value


def thaw(value: Any) -> Any:
    """Return plain dicts and lists for a frozen `value`, for JSON or for editing a copy."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple | frozenset):
        return [thaw(item) for item in value]
    return value
