"""What clients ask of the control API, checked as the service checks it. Pure functions; unknown fields are ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ai4j_sandbox.frozen import empty_mapping, freeze
from ai4j_sandbox_emulator.json_text import parse_json, whole_number

from .errors import ApiError, invalid

DEFAULT_SNAPSHOT = "daytona-small"
MACHINE_SNAPSHOT = "daytona-vm"
"""Snapshot whose sandboxes are machines, which can be paused; all others are containers."""

MOST_PER_PAGE = 200
_RESOURCES = ("cpu", "memory", "disk", "gpu", "gpuType")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """A sandbox that is asked for."""

    name: str | None = None
    snapshot: str = DEFAULT_SNAPSHOT
    dockerfile: str | None = None
    user: str = "daytona"
    env: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    labels: Mapping[str, str] = field(default_factory=empty_mapping)
    public: bool = False
    target: str = "us"
    cpu: int = 1
    memory: int = 1
    disk: int = 3
    gpu: int = 0
    auto_stop: int = 15
    auto_archive: int = 10080
    auto_delete: int = -1
    volumes: tuple[Any, ...] = ()
    network_block_all: bool = False
    network_allow_list: str | None = None
    domain_allow_list: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """Which sandboxes a list is to hold."""

    limit: int = 100
    cursor: str | None = None
    labels: Mapping[str, str] = field(default_factory=empty_mapping)
    states: tuple[str, ...] = ()
    name: str = ""
    sandbox_id: str = ""


def parse_create(body: Mapping[str, Any]) -> CreateRequest:
    """Return what a body asks for.

    Raises:
        ApiError: 400: it does not fit.
    """
    fields = _Fields(body)
    build = fields.take("buildInfo", dict, "object")
    if build is not None and body.get("snapshot"):
        raise invalid("Cannot specify both a snapshot and a build info entry")
    if build is None and any(body.get(name) is not None for name in _RESOURCES):
        raise invalid("Cannot specify Sandbox resources when using a snapshot")
    fields.check_minimum("autoStopInterval", 0)
    fields.check_minimum("autoArchiveInterval", 0)
    return CreateRequest(
        name=fields.take("name", str, "string"),
        snapshot=fields.take("snapshot", str, "string") or ("" if build else DEFAULT_SNAPSHOT),
        dockerfile=None if build is None else str(build.get("dockerfileContent", "")),
        user=fields.take("user", str, "string") or "daytona",
        env=freeze(fields.take("env", dict, "object") or {}),
        labels=freeze(fields.take("labels", dict, "object") or {}),
        public=fields.take("public", bool, "boolean") or False,
        target=fields.take("target", str, "string") or "us",
        cpu=fields.take("cpu", int, "number") or 1,
        memory=fields.take("memory", int, "number") or 1,
        disk=fields.take("disk", int, "number") or 3,
        gpu=fields.take("gpu", int, "number") or 0,
        auto_stop=_given(fields.take("autoStopInterval", int, "number"), 15),
        auto_archive=_given(fields.take("autoArchiveInterval", int, "number"), 10080),
        auto_delete=_given(fields.take("autoDeleteInterval", int, "number"), -1),
        volumes=freeze(fields.take("volumes", list, "array") or []),
        network_block_all=fields.take("networkBlockAll", bool, "boolean") or False,
        network_allow_list=fields.take("networkAllowList", str, "string"),
        domain_allow_list=fields.take("domainAllowList", str, "string"),
    )


def parse_list(query: Mapping[str, str], states: Sequence[str] = ()) -> ListQuery:
    """Return which sandboxes are asked for.

    Args:
        states: What the query says of states, which may be given several times.

    Raises:
        ApiError: 400: it does not fit.
    """
    limit = query_number(query.get("limit", "100"), "limit")
    if not 1 <= limit <= MOST_PER_PAGE:
        raise invalid("limit must not be greater than 200" if limit > 1 else "limit must not be less than 1")
    return ListQuery(
        limit=limit,
        cursor=query.get("cursor"),
        labels=_labels(query.get("labels")),
        states=tuple(states),
        name=query.get("name", ""),
        sandbox_id=query.get("id", ""),
    )


def query_number(text: str, name: str, minimum: int | None = None) -> int:
    """Return a number from a path or query.

    Raises:
        ApiError: 400: it is none, or too small.
    """
    amount = whole_number(text.removeprefix("-"))
    if amount is None:
        raise invalid(f"{name} must be a number conforming to the specified constraints")
    number = -amount if text.startswith("-") else amount
    if minimum is not None and number < minimum:
        raise invalid(f"{name} must not be less than {minimum}")
    return number


def _labels(text: str | None) -> Mapping[str, str]:
    try:
        labels = parse_json(text.encode()) if text else {}
    except ValueError:
        labels = None
    if not isinstance(labels, dict):
        raise ApiError(400, "Invalid labels JSON")
    return labels


def _given(value: int | None, default: int) -> int:
    return default if value is None else value


class _Fields:
    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    def take(self, name: str, kind: type, word: str) -> Any:
        value = self._body.get(name)
        if value is None:
            return None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise invalid(f"{name} must be a {word}")
        return value

    def check_minimum(self, name: str, minimum: int) -> None:
        value = self._body.get(name)
        if isinstance(value, int) and value < minimum:
            raise invalid(f"{name} must not be less than {minimum}")
