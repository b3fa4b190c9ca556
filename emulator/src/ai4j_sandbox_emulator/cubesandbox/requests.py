"""What CubeAPI is asked for, read from JSON and checked. Pure. Unknown keys are ignored, as the server ignores them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ai4j_sandbox.frozen import empty_mapping, freeze

from .errors import ApiError, unreadable
from .servers import ServerKind

NEVER = -1
MOST_FORKS = 100
ALL_TRAFFIC = "0.0.0.0/0"

T = TypeVar("T")
DefaultT = TypeVar("DefaultT")

_ALIASES = {"allow_out": "allowOut", "deny_out": "denyOut"}
_NETWORK_KEYS = ("allowPublicTraffic", "allowOut", "denyOut", "maskRequestHost", "rules")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_RESERVED = frozenset(
    ("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "NODE_PATH", "BASH_ENV", "ENV", "IFS", "CLASSPATH")
)
_MOST_VALUE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """A sandbox as the server understands what it was asked for.

    Attributes:
        seconds: Idle window; ``None`` for no end.
        allow_internet_access: Recorded; the emulator enforces nothing.
        network: Recorded likewise, but for `allowPublicTraffic`.
    """

    template: str
    seconds: int | None
    auto_pause: bool = False
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
        """Whether ports are open to everybody."""
        return self.network.get("allowPublicTraffic", True) is not False


def create_request(body: Any, server: ServerKind) -> CreateRequest:
    """Return the sandbox that a create body asks for.

    Raises:
        ApiError: 400 or 422, and why.
    """
    document = _object(body)
    lifecycle = _typed(document, "lifecycle", dict, {})
    request = CreateRequest(
        template=_required(document, "templateID", str),
        seconds=_window(_typed(document, "timeout", int, None), server),
        auto_pause=_auto_pause(document, lifecycle),
        auto_resume=_auto_resume(document, lifecycle),
        metadata=_texts(document, "metadata"),
        environment=_texts(document, "envVars") or _texts(document, "envs"),
        allow_internet_access=_typed(document, "allow_internet_access", bool, None),
        network=_network(_typed(document, "network", dict, {})),
        volume_mounts=tuple(_typed(document, "volumeMounts", list, [])),
    )
    _check_variables(request.environment)
    _check_network(request.network, request.allow_internet_access)
    return request


def network_update(body: Any) -> tuple[dict[str, Any], bool | None]:
    """Return the new network rules and internet access; here, and only here, the latter may be spelt both ways.

    Raises:
        ApiError: 400 or 422, and why.
    """
    document = _object(body)
    network = _network(document)
    snake = _typed(document, "allow_internet_access", bool, None)
    internet = _typed(document, "allowInternetAccess", bool, snake)
    _check_network(network, internet)
    return network, internet


def connect_window(body: Any, server: ServerKind) -> int | None:
    """Return the idle window that connecting asks for; ``None`` when it asks for none.

    Raises:
        ApiError: 400 or 422, and why.
    """
    document = _object(body)
    if server.connect_demands_timeout:
        _required(document, "timeout", int)
    seconds = _typed(document, "timeout", int, None)
    if seconds is not None and (seconds == 0 or seconds < (NEVER if server.takes_never else 0)):
        raise ApiError(400, "timeout must be positive")
    return seconds


def timeout_window(body: Any, server: ServerKind) -> int:
    """Return the idle window that is set: 0 and more, or `NEVER`.

    Raises:
        ApiError: 400 or 422, and why.
    """
    seconds = _required(_object(body), "timeout", int)
    if seconds < (NEVER if server.takes_never else 0):
        raise ApiError(400, "timeout must not be negative")
    return seconds


def refresh_seconds(body: Any) -> int:
    """Return how long a refresh prolongs.

    Raises:
        ApiError: 400, and why.
    """
    seconds = _typed(_object(body), "duration", int, 60)
    if not (seconds == NEVER or 0 < seconds <= 3600):
        raise ApiError(400, "duration must be between 1 and 3600")
    return seconds


def snapshot_name(body: Any) -> str | None:
    """Return the name of a new snapshot, if it has one.

    Raises:
        ApiError: 422, and why.
    """
    return _typed(_object(body), "name", str, None)


def rollback_target(body: Any) -> str:
    """Return the snapshot to go back to.

    Raises:
        ApiError: 422, and why.
    """
    return _required(_object(body), "snapshotID", str)


def fork_request(body: Any) -> tuple[int, int | None]:
    """Return how many copies are asked for, and their idle window.

    Raises:
        ApiError: 400 or 422, and why.
    """
    document = _object(body)
    count = _typed(document, "count", int, 1)
    if not 1 <= count <= MOST_FORKS:
        raise ApiError(400, f"count must be between 1 and {MOST_FORKS}")
    return count, _typed(document, "timeout", int, None)


# --- checks -----------------------------------------------------------------------------------------------------------


def _object(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise unreadable("expected a map")
    return body


def _required(document: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = _typed(document, name, kind, None)
    if value is None:
        raise unreadable(f"missing field `{name}`")
    return value


def _typed(document: Mapping[str, Any], name: str, kind: type[T], default: DefaultT) -> T | DefaultT:
    value = document.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise unreadable(f"{name}: invalid type, expected {kind.__name__}")
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        raise unreadable(f"{name}: invalid value: integer `{value}`, expected i32")
    return value


def _texts(document: Mapping[str, Any], name: str) -> dict[str, str]:
    texts: dict[str, str] = _typed(document, name, dict, {})
    for key, value in texts.items():
        if not isinstance(value, str):
            raise unreadable(f"{name}.{key}: invalid type, expected a string")
    return texts


def _window(seconds: int | None, server: ServerKind) -> int | None:
    if seconds is None:
        return server.default_seconds
    if seconds == NEVER and server.takes_never:
        return None
    if seconds <= 0:
        raise ApiError(400, "timeout must be positive")
    return seconds


def _auto_pause(document: Mapping[str, Any], lifecycle: Mapping[str, Any]) -> bool:
    on_timeout = lifecycle.get("onTimeout", lifecycle.get("on_timeout"))
    if on_timeout not in (None, "kill", "pause"):
        raise unreadable(f"lifecycle.onTimeout: unknown variant `{on_timeout}`")
    return _typed(document, "autoPause", bool, False) if on_timeout is None else on_timeout == "pause"


def _auto_resume(document: Mapping[str, Any], lifecycle: Mapping[str, Any]) -> bool:
    given = lifecycle.get("autoResume", lifecycle.get("auto_resume", document.get("autoResume")))
    return given.get("enabled") is True if isinstance(given, Mapping) else given is True


def _network(given: Mapping[str, Any]) -> dict[str, Any]:
    named = {_ALIASES.get(key, key): value for key, value in given.items()}
    for name in ("allowOut", "denyOut"):
        if not all(isinstance(entry, str) for entry in _typed(named, name, list, [])):
            raise unreadable(f"{name}: invalid type, expected a sequence of strings")
    return {key: named[key] for key in _NETWORK_KEYS if key in named}


def _check_variables(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name) or name in _RESERVED:
            raise ApiError(400, f"environment variable name {name} is not allowed (130400)")
        if len(value.encode()) > _MOST_VALUE_BYTES or any(ord(character) < 32 for character in value):
            raise ApiError(400, f"the value of {name} is too long or holds control characters (130400)")


def _check_network(network: Mapping[str, Any], allow_internet_access: bool | None) -> None:
    domains = [entry for entry in network.get("allowOut") or () if not _is_address(entry)]
    denied = allow_internet_access is False or ALL_TRAFFIC in (network.get("denyOut") or ())
    if domains and not denied:
        raise ApiError(400, f"allowOut holds the domain {domains[0]}, which needs the rest to be denied")


def _is_address(entry: object) -> bool:
    try:
        ipaddress.ip_network(str(entry), strict=False)
    except ValueError:
        return False
    return True
