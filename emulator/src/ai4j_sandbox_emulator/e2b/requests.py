"""What the control API is asked for, read from JSON and checked. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ai4j_sandbox.frozen import empty_mapping, freeze

from .errors import ApiError, invalid

MOST_SECONDS = 24 * 3600
"""Longest life of a sandbox (the Pro plan's)."""

DEFAULT_SECONDS_V1 = 15
DEFAULT_SECONDS_V2 = 300
LEAST_REFRESH_SECONDS = 15
MOST_FORKS = 100
ALL_TRAFFIC = "0.0.0.0/0"

T = TypeVar("T")
DefaultT = TypeVar("DefaultT")

_NETWORK_KEYS = ("allowOut", "denyOut", "egressProxy", "rules", "dnsServers", "httpsPorts")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """A sandbox as asked for.

    Attributes:
        allow_internet_access: As given; ``None`` when it was not. The emulator records it and enforces nothing.
        network: The network part as given, recorded likewise.
        volume_mounts: As given, recorded likewise.
    """

    template: str
    seconds: int
    secure: bool
    auto_pause: bool = False
    auto_pause_memory: bool = True
    auto_resume: bool = False
    metadata: Mapping[str, str] = field(default_factory=empty_mapping)
    environment: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    allow_internet_access: bool | None = None
    network: Mapping[str, Any] = field(default_factory=empty_mapping)
    volume_mounts: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for name in ("metadata", "environment", "network", "volume_mounts"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

    @property
    def allow_public_traffic(self) -> bool:
        """Whether ports other than envd's are open to everybody."""
        return self.network.get("allowPublicTraffic", True) is not False


def create_request(body: Any, *, version: int) -> CreateRequest:
    """Return the sandbox that a create body asks for.

    Raises:
        ApiError: 400, and why.
    """
    document = _object(body)
    auto_resume = _typed(document, "autoResume", dict, {}).get("enabled") is True
    network = _typed(document, "network", dict, {})
    request = CreateRequest(
        template=_required(document, "templateID", str),
        seconds=_seconds(document, DEFAULT_SECONDS_V1 if version == 1 else DEFAULT_SECONDS_V2),
        secure=version > 1 or _typed(document, "secure", bool, False),
        auto_pause=_typed(document, "autoPause", bool, False),
        auto_pause_memory=_typed(document, "autoPauseMemory", bool, True),
        auto_resume=auto_resume,
        metadata=_texts(document, "metadata"),
        environment=_texts(document, "envVars"),
        allow_internet_access=_typed(document, "allow_internet_access", bool, None),
        network=network,
        volume_mounts=tuple(_typed(document, "volumeMounts", list, [])),
    )
    _check_pause(request)
    _check_network(network, secure=request.secure)
    return request


def network_update(body: Any) -> tuple[dict[str, Any], bool | None]:
    """Return the new network rules and internet access; what is left out is cleared.

    Raises:
        ApiError: 400, and why.
    """
    document = _object(body)
    network = {key: document[key] for key in _NETWORK_KEYS if key in document}
    _check_network(network, secure=True)
    return network, _typed(document, "allow_internet_access", bool, None)


def connect_seconds(body: Any, *, version: int) -> int:
    """Return the time to live of a connect body; only the first version insists on it.

    Raises:
        ApiError: 400, and why.
    """
    document = _object(body)
    if version == 1:
        _required(document, "timeout", int)
    return _seconds(document, DEFAULT_SECONDS_V2)


def timeout_seconds(body: Any) -> int:
    """Return the new time to live; 0 and less mean now.

    Raises:
        ApiError: 400, and why.
    """
    seconds = _required(_object(body), "timeout", int)
    return _within_limit(max(0, seconds))


def refresh_seconds(body: Any) -> int:
    """Return how long a refresh prolongs.

    Raises:
        ApiError: 400, and why.
    """
    seconds = _typed(_object(body), "duration", int, 0)
    if not 0 <= seconds <= 3600:
        raise invalid("duration must be between 0 and 3600")
    return max(seconds, LEAST_REFRESH_SECONDS)


def keeps_memory(body: Any) -> bool:
    """Whether a pause keeps the processes.

    Raises:
        ApiError: 400, and why.
    """
    return _typed(_object(body), "memory", bool, True)


def fork_request(body: Any) -> tuple[int, int]:
    """Return the time to live and the number of copies of a fork.

    Raises:
        ApiError: 400, and why.
    """
    document = _object(body)
    count = _typed(document, "count", int, 1)
    if not 1 <= count <= MOST_FORKS:
        raise ApiError(400, f"Fork count must be between 1 and {MOST_FORKS}")
    return _seconds(document, DEFAULT_SECONDS_V1), count


def snapshot_name(body: Any) -> str | None:
    """Return the name asked for, if any.

    Raises:
        ApiError: 400, and why.
    """
    name = _typed(_object(body), "name", str, None)
    if name is not None and not re.fullmatch(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?(:[a-z0-9._-]+)?", name):
        raise ApiError(400, f"Invalid snapshot name: {name}")
    return name


# --- checks -----------------------------------------------------------------------------------------------------------


def _object(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise invalid("request body must be an object")
    return body


def _required(document: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = _typed(document, name, kind, None)
    if value is None:
        raise invalid(f'property "{name}" is missing')
    return value


def _typed(document: Mapping[str, Any], name: str, kind: type[T], default: DefaultT) -> T | DefaultT:
    value = document.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise invalid(f'property "{name}" must be of type {kind.__name__}')
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        raise invalid(f'property "{name}" must be a number of 32 bits')
    return value


def _texts(document: Mapping[str, Any], name: str) -> dict[str, str]:
    texts: dict[str, str] = _typed(document, name, dict, {})
    for key, value in texts.items():
        if not isinstance(value, str):
            raise invalid(f'property "{name}.{key}" must be of type str')
    return texts


def _list_of_texts(document: Mapping[str, Any], name: str) -> list[str]:
    texts: list[str] = _typed(document, name, list, [])
    if not all(isinstance(text, str) for text in texts):
        raise invalid(f'property "{name}" must be a list of str')
    return texts


def _seconds(document: Mapping[str, Any], default: int) -> int:
    seconds = _typed(document, "timeout", int, default)
    if seconds <= 0:
        raise ApiError(400, "Timeout must be greater than 0")
    return _within_limit(seconds)


def _within_limit(seconds: int) -> int:
    if seconds > MOST_SECONDS:
        raise ApiError(400, f"Timeout cannot be greater than {MOST_SECONDS // 3600} hours")
    return seconds


def _check_pause(request: CreateRequest) -> None:
    if request.auto_pause_memory:
        return
    if not request.auto_pause:
        raise ApiError(400, "autoPauseMemory=false requires autoPause")
    if request.auto_resume:
        raise ApiError(400, "autoPauseMemory=false cannot be combined with autoResume")


def _check_network(network: Mapping[str, Any], *, secure: bool) -> None:
    if network.get("allowPublicTraffic") is False and not secure:
        raise ApiError(400, "allowPublicTraffic=false requires secure=true")
    denied = _list_of_texts(network, "denyOut")
    for entry in denied:
        if not _is_address(entry):
            raise ApiError(400, f"invalid denied CIDR or IP: {entry}")
    domains = [entry for entry in _list_of_texts(network, "allowOut") if not _is_address(entry)]
    if domains and ALL_TRAFFIC not in denied:
        raise ApiError(
            400, f"When specifying allowed domains in allow out, you must include '{ALL_TRAFFIC}' in deny out"
        )


def _is_address(entry: object) -> bool:
    try:
        ipaddress.ip_network(str(entry), strict=False)
    except ValueError:
        return False
    return True
