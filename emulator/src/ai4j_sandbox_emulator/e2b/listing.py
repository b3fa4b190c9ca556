"""Lists: filters, order and pages. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from urllib.parse import parse_qsl, unquote_plus

from ai4j_sandbox_emulator.json_text import whole_number
from ai4j_sandbox_emulator.sandbox import LogEntry, Sandbox

from .errors import ApiError, invalid
from .replies import moment, state

LIMIT = 100
MOST_LOG_LINES = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Key:
    """Where an item stands in a list: by time, then by id."""

    at: float
    item_id: str

    def token(self, *, ascending: bool) -> str:
        """Return the page token that goes on after this item."""
        text = f"{moment(self.at)}__{self.item_id}" + ("__asc" if ascending else "")
        return base64.urlsafe_b64encode(text.encode()).decode("ascii")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and the token of the next page unless this is the last."""

    items: Sequence[T]
    next_token: str | None


def page(items: Sequence[T], key: Callable[[T], Key], query: Mapping[str, str], *, ascending: bool = False) -> Page[T]:
    """Return the page that a query asks for.

    Raises:
        ApiError: 400, and why.
    """
    limit = _limit(query)
    ordered = sorted(items, key=lambda item: (moment(key(item).at), key(item).item_id), reverse=not ascending)
    token = query.get("nextToken")
    if token:
        after = _position(token, ascending=ascending)
        ordered = [item for item in ordered if _comes_after(key(item), after, ascending=ascending)]
    shown = ordered[:limit]
    more = len(ordered) > limit
    return Page(shown, key(shown[-1]).token(ascending=ascending) if more else None)


def _comes_after(key: Key, position: tuple[str, str], *, ascending: bool) -> bool:
    own = (moment(key.at), key.item_id)
    return own > position if ascending else own < position


def _position(token: str, *, ascending: bool) -> tuple[str, str]:
    try:
        parts = base64.urlsafe_b64decode(token.encode()).decode().split("__")
    except (binascii.Error, UnicodeError):
        parts = []
    if len(parts) != (3 if ascending else 2):
        raise ApiError(400, "Invalid next token")
    return parts[0], parts[1]


def _limit(query: Mapping[str, str]) -> int:
    limit = whole_number(query.get("limit") or str(LIMIT))
    if limit is None or not 1 <= limit <= LIMIT:
        raise invalid(f"limit must be between 1 and {LIMIT}")
    return limit


def is_ascending(query: Mapping[str, str]) -> bool:
    """Whether the oldest comes first.

    Raises:
        ApiError: 400 for another order than the two.
    """
    order = query.get("order") or "desc"
    if order not in ("asc", "desc"):
        raise invalid("order must be asc or desc")
    return order == "asc"


def states(query: Mapping[str, str]) -> set[str]:
    """Return the states that a query asks for; both by default.

    Raises:
        ApiError: 400 for another state.
    """
    asked = set((query.get("state") or "running,paused").split(","))
    if not asked <= {"running", "paused"}:
        raise invalid("state must be running or paused")
    return asked


def matching(sandboxes: Sequence[Sandbox], query: Mapping[str, str]) -> list[Sandbox]:
    """Return the sandboxes that fit the filters.

    Raises:
        ApiError: 400 for a filter that cannot be read.
    """
    wanted, metadata, template = states(query), metadata_filter(query), query.get("template")
    started_after = _started_after(query)
    return [
        sandbox
        for sandbox in sandboxes
        if state(sandbox.phase) in wanted
        and metadata.items() <= sandbox.request.metadata.items()
        and template in (None, "", sandbox.request.template)
        and sandbox.lifetime.started_at >= started_after
    ]


def metadata_filter(query: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata asked for: a query string inside the query, escaped as a whole and in its parts."""
    return dict(parse_qsl(unquote_plus(query.get("metadata", "")), keep_blank_values=True))


def _started_after(query: Mapping[str, str]) -> float:
    text = query.get("startedAfter")
    if not text:
        return 0
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise invalid("startedAfter must be a time") from None


_LEVELS = ("debug", "info", "warn", "error")


def log_page(entries: Sequence[LogEntry], query: Mapping[str, str]) -> list[LogEntry]:
    """Return the log lines that a query asks for, the newest first unless it says forward.

    Raises:
        ApiError: 400 for a filter that cannot be read.
    """
    forward = _one_of(query, "direction", ("backward", "forward")) == "forward"
    least = _LEVELS.index(_one_of(query, "level", _LEVELS))
    cursor = query_number(query, "cursor")
    found = [
        entry
        for entry in entries
        if _LEVELS.index(entry.level) >= least
        and query.get("search", "") in entry.message
        and (cursor is None or (entry.logged_at * 1000 >= cursor) == forward)
    ]
    limit = query_number(query, "limit")
    if limit is None or limit > MOST_LOG_LINES:
        limit = MOST_LOG_LINES
    return found[:limit] if forward else found[::-1][:limit]


def _one_of(query: Mapping[str, str], name: str, allowed: Sequence[str]) -> str:
    value = query.get(name) or allowed[0]
    if value not in allowed:
        raise invalid(f"{name} must be one of {', '.join(allowed)}")
    return value


def query_number(query: Mapping[str, str], name: str) -> int | None:
    """Return a number from a query; ``None`` where it is not given.

    Raises:
        ApiError: 400: it is none.
    """
    text = query.get(name)
    if not text:
        return None
    number = whole_number(text)
    if number is None:
        raise invalid(f"{name} must be a number")
    return number
