"""Pages, order and filters."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ai4j_sandbox_emulator.e2b import listing
from ai4j_sandbox_emulator.e2b.errors import ApiError
from ai4j_sandbox_emulator.e2b.listing import Key
from ai4j_sandbox_emulator.sandbox import LogEntry


class Item(NamedTuple):
    at: float
    item_id: str


ITEMS = [Item(1, "a"), Item(3, "c"), Item(2, "b"), Item(3, "d")]


def pages(*, ascending: bool, limit: int) -> list[list[str]]:
    found: list[list[str]] = []
    query = {"limit": str(limit)}
    while True:
        page = listing.page(ITEMS, lambda item: Key(item.at, item.item_id), query, ascending=ascending)
        found.append([item.item_id for item in page.items])
        if page.next_token is None:
            return found
        query["nextToken"] = page.next_token


@pytest.mark.parametrize(
    ("ascending", "limit", "expected"),
    [
        (False, 100, [["d", "c", "b", "a"]]),
        (True, 100, [["a", "b", "c", "d"]]),
        (False, 1, [["d"], ["c"], ["b"], ["a"]]),
        (True, 3, [["a", "b", "c"], ["d"]]),
        (False, 4, [["d", "c", "b", "a"]]),
    ],
)
def test_pages_hold_every_item_once_in_order(ascending: bool, limit: int, expected: list[list[str]]) -> None:
    assert pages(ascending=ascending, limit=limit) == expected


@pytest.mark.parametrize("token", [Key(1, "a").token(ascending=True), "%%%", "YQ=="])
def test_a_token_of_another_order_or_none_is_refused(token: str) -> None:
    with pytest.raises(ApiError, match="Invalid next token"):
        listing.page(ITEMS, lambda item: Key(item.at, item.item_id), {"nextToken": token})


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "101"}, {"limit": "x"}])
def test_a_limit_beyond_reason_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(ApiError, match="limit must be between 1 and 100"):
        listing.page(ITEMS, lambda item: Key(item.at, item.item_id), query)


def test_states_and_order_have_defaults_and_limits() -> None:
    assert listing.states({}) == {"running", "paused"}
    assert listing.is_ascending({}) is False
    with pytest.raises(ApiError, match="state must be"):
        listing.states({"state": "gone"})
    with pytest.raises(ApiError, match="order must be"):
        listing.is_ascending({"order": "up"})


@pytest.mark.parametrize(
    ("value", "metadata"),
    [
        ("", {}),
        ("a=b&c=d", {"a": "b", "c": "d"}),
        ("a=b%2520c", {"a": "b c"}),
        ("a%253Db=c%2526d", {"a=b": "c&d"}),
    ],
)
def test_metadata_is_escaped_as_a_whole_and_in_parts(value: str, metadata: dict[str, str]) -> None:
    assert listing.metadata_filter({"metadata": value}) == metadata


def entry(at: float, level: str, message: str) -> LogEntry:
    return LogEntry(logged_at=at, level=level, message=message)


ENTRIES = [entry(1, "info", "made"), entry(2, "error", "broke"), entry(3, "info", "ended")]


@pytest.mark.parametrize(
    ("query", "messages"),
    [
        ({}, ["ended", "broke", "made"]),
        ({"direction": "forward"}, ["made", "broke", "ended"]),
        ({"level": "warn"}, ["broke"]),
        ({"search": "e", "limit": "2"}, ["ended", "broke"]),
        ({"direction": "forward", "cursor": "2000"}, ["broke", "ended"]),
        ({"cursor": "2000"}, ["made"]),
    ],
)
def test_logs_are_filtered(query: dict[str, str], messages: list[str]) -> None:
    assert [item.message for item in listing.log_page(ENTRIES, query)] == messages
