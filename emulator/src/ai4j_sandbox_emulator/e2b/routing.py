"""Which sandbox and port a request is for: by headers on the shared host, by the first label on others. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ai4j_sandbox_emulator.json_text import whole_number

_LABEL = re.compile(r"(?P<port>[0-9]{1,5})-(?P<sandbox_id>[a-z0-9]+)(?:-[a-z0-9]+)?")


class RoutingError(Exception):
    """The request names no sandbox that could exist; the text is the proxy's."""


@dataclass(frozen=True, slots=True)
class Target:
    """A port of a sandbox."""

    sandbox_id: str
    port: int


def target_of(host: str, headers: Mapping[str, str]) -> Target | None:
    """Return what a request is for; ``None`` when it is for the control API.

    Raises:
        RoutingError: It is for a sandbox, and cannot be.
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if _is_shared(name):
        return _by_headers(headers)
    found = _LABEL.fullmatch(name.partition(".")[0])
    return None if found is None else Target(found["sandbox_id"], int(found["port"]))


def _is_shared(name: str) -> bool:
    if name == "localhost" or name.startswith("sandbox."):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _by_headers(headers: Mapping[str, str]) -> Target | None:
    sandbox_id, port = headers.get("E2b-Sandbox-Id"), headers.get("E2b-Sandbox-Port")
    if sandbox_id is None and port is None:
        return None
    if sandbox_id is None or port is None:
        raise RoutingError("missing header")
    number = whole_number(port)
    if number is None or not 0 < number < 65536:
        raise RoutingError("invalid sandbox port")
    return Target(plain_id(sandbox_id), number)


def plain_id(given: str) -> str:
    """Return the sandbox id in `given`, which may carry a client id behind a dash.

    Raises:
        RoutingError: It is none.
    """
    sandbox_id, _, rest = given.partition("-")
    if not re.fullmatch(r"[a-z0-9]+", sandbox_id) or "-" in rest:
        raise RoutingError("Invalid sandbox ID")
    return sandbox_id
