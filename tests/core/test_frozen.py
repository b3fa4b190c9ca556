from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from ai4j_sandbox.frozen import EMPTY, empty_mapping, freeze, thaw, type_name


def test_nested_containers_are_frozen_all_the_way_down() -> None:
    frozen = freeze({"list": [1, [2]], "map": {"set": {3}}, "tuple": ([4],)})

    assert frozen == {"list": (1, (2,)), "map": {"set": frozenset({3})}, "tuple": ((4,),)}
    assert isinstance(frozen["map"], MappingProxyType)


def test_frozen_value_shares_nothing_that_can_change() -> None:
    hosts = ["a"]
    value: dict[str, Any] = {"hosts": hosts, "map": {"k": hosts}, "raw": bytearray(b"x")}
    frozen = freeze(value)

    hosts.append("evil")
    value["new"] = 1
    value["map"]["k2"] = 2
    value["raw"][0] = 0

    assert frozen == {"hosts": ("a",), "map": {"k": ("a",)}, "raw": b"x"}


def test_frozen_mapping_refuses_changes() -> None:
    with pytest.raises(TypeError):
        freeze({"a": 1})["a"] = 2
    with pytest.raises(TypeError):
        EMPTY["a"] = 1  # type: ignore[index] # what must not work


@pytest.mark.parametrize("value", ["text", b"bytes", 1, 1.5, True, None, object])
def test_scalars_pass_unchanged(value: object) -> None:
    assert freeze(value) is value


def test_entries_without_a_key_are_dropped_and_without_a_value_kept() -> None:
    assert freeze({None: 1, "a": None}) == {"a": None}


def test_order_is_kept() -> None:
    assert list(freeze({"b": 1, "a": 2})) == ["b", "a"]


def test_thawing_gives_containers_of_ones_own() -> None:
    frozen = freeze({"list": [1, {"k": "v"}]})

    thawed = thaw(frozen)
    thawed["list"].append(2)

    assert thawed == {"list": [1, {"k": "v"}, 2]}
    assert frozen == {"list": (1, {"k": "v"})}


def test_empty_mapping_is_one_and_the_same() -> None:
    assert empty_mapping() is EMPTY


def test_what_is_nested_too_deeply_or_holds_itself_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    endless: dict[str, Any] = {}
    endless["self"] = endless

    for value in (deep, endless):
        with pytest.raises(ValueError, match="must not be nested deeper than 200 levels"):
            freeze(value)


@pytest.mark.parametrize(
    ("value", "name"), [(EMPTY, "mapping"), ({}, "mapping"), ((), "list"), ([], "list"), (None, "NoneType")]
)
def test_type_is_called_by_the_word_that_callers_know(value: object, name: str) -> None:
    assert type_name(value) == name
