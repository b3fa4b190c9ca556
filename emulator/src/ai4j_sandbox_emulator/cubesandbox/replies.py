"""What CubeAPI tells, as JSON documents. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ai4j_sandbox.frozen import thaw
from ai4j_sandbox_emulator.envd.daemon import VERSION
from ai4j_sandbox_emulator.sandbox import Sandbox
from ai4j_sandbox_emulator.snapshots import Snapshot
from ai4j_sandbox_emulator.state import Phase

from .requests import CreateRequest
from .servers import ServerKind

CLIENT_ID = "emulator"
DOMAIN = "cube.app"
UNKNOWN_ENVD = "0.2.0"

Document = dict[str, Any]


@dataclass(slots=True)
class Record:
    """What this face keeps about a sandbox beside the sandbox itself.

    Attributes:
        created: The request it was made with.
        window: Idle window in seconds, as it is now; ``None`` for no end.
        network, allow_internet_access: Recorded, and replaced by updates.
        generation: How often the network was changed.
    """

    created: CreateRequest
    window: float | None
    network: Mapping[str, Any]
    allow_internet_access: bool | None
    generation: int = 1


def moment(seconds: float) -> str:
    """Return seconds since 1970 as RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def short(sandbox: Sandbox, server: ServerKind) -> Document:
    """Return a sandbox as connect and resume tell it."""
    return {**_identity(sandbox, server), "domain": DOMAIN}


def created(sandbox: Sandbox, server: ServerKind) -> Document:
    """Return a sandbox as its creation tells it: the one time that its traffic token is told."""
    token = sandbox.request.traffic_token
    return short(sandbox, server) | ({} if token is None else {"trafficAccessToken": token})


def listed(sandbox: Sandbox, record: Record, server: ServerKind) -> Document:
    """Return a sandbox as lists tell it; one that never ends has no end."""
    ends_at = sandbox.lifetime.ends_at
    return {
        **_identity(sandbox, server),
        "startedAt": moment(sandbox.lifetime.started_at),
        **({} if ends_at is None else {"endAt": moment(ends_at)}),
        "cpuCount": 2,
        "memoryMB": 2048,
        "metadata": dict(sandbox.request.metadata),
        "state": state(sandbox.phase),
        "volumeMounts": thaw(record.created.volume_mounts),
    }


def detail(sandbox: Sandbox, record: Record, server: ServerKind) -> Document:
    """Return everything about a sandbox."""
    return {**listed(sandbox, record, server), "domain": DOMAIN}


def state(phase: Phase) -> str:
    """Return the phase in CubeAPI's words."""
    return str(phase) if phase in (Phase.PAUSING, Phase.PAUSED) else "running"


def policy(record: Record) -> Document:
    """Return what the network of a sandbox may do."""
    return {
        "allowInternetAccess": record.allow_internet_access is not False,
        **thaw(record.network),
        "generation": record.generation,
        "source": "sandbox",
    }


def snapshot(kept: Snapshot) -> Document:
    """Return a snapshot."""
    return {
        "snapshotID": kept.snapshot_id,
        "names": list(kept.names),
        "status": "ready",
        "originSandboxID": kept.source_id,
        "createdAt": moment(kept.created_at),
    }


def _identity(sandbox: Sandbox, server: ServerKind) -> Document:
    return {
        "templateID": sandbox.request.template,
        "sandboxID": sandbox.sandbox_id,
        "clientID": CLIENT_ID,
        "envdVersion": VERSION if server.tells_envd_version else UNKNOWN_ENVD,
    }
