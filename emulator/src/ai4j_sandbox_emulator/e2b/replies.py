"""What the control API tells, as JSON documents. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ai4j_sandbox.frozen import thaw
from ai4j_sandbox_emulator.envd.daemon import VERSION
from ai4j_sandbox_emulator.metrics import Sample
from ai4j_sandbox_emulator.sandbox import LogEntry, Sandbox
from ai4j_sandbox_emulator.snapshots import Snapshot
from ai4j_sandbox_emulator.state import Phase

from .requests import CreateRequest

CLIENT_ID = "emulator"

Document = dict[str, Any]


@dataclass(slots=True)
class Record:
    """What this face keeps about a sandbox beside the sandbox itself.

    Attributes:
        created: The request it was made with.
        network, allow_internet_access: Recorded, and replaced by updates.
    """

    created: CreateRequest
    network: Mapping[str, Any]
    allow_internet_access: bool | None


def moment(seconds: float) -> str:
    """Return seconds since 1970 as RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def short(sandbox: Sandbox) -> Document:
    """Return a sandbox as create, connect, resume and fork tell it."""
    document: Document = {**_identity(sandbox), "domain": None}
    if sandbox.request.access_token is not None:
        document["envdAccessToken"] = sandbox.request.access_token
    if sandbox.request.traffic_token is not None:
        document["trafficAccessToken"] = sandbox.request.traffic_token
    return document


def detail(sandbox: Sandbox, record: Record) -> Document:
    """Return everything about a sandbox."""
    document = listed(sandbox, record)
    if sandbox.request.access_token is not None:
        document["envdAccessToken"] = sandbox.request.access_token
    return {
        **document,
        "domain": None,
        "allowInternetAccess": record.allow_internet_access,
        "network": _without_password(record.network),
        "lifecycle": {
            "onTimeout": "pause" if record.created.auto_pause else "kill",
            "autoResume": record.created.auto_resume,
        },
    }


def listed(sandbox: Sandbox, record: Record) -> Document:
    """Return a sandbox as lists tell it."""
    sample = sandbox.samples[-1] if sandbox.samples else None
    return {
        **_identity(sandbox),
        "startedAt": moment(sandbox.lifetime.started_at),
        "endAt": moment(sandbox.lifetime.ends_at or sandbox.lifetime.started_at),
        "cpuCount": sample.cpu_count if sample else 2,
        "memoryMB": sample.memory_total // 1024**2 if sample else 512,
        "diskSizeMB": sample.disk_total // 1024**2 if sample else 1024,
        "state": state(sandbox.phase),
        "metadata": dict(sandbox.request.metadata),
        "volumeMounts": thaw(record.created.volume_mounts),
    }


def state(phase: Phase) -> str:
    """Return the phase in the API's two words; one that is being paused counts as paused."""
    return "paused" if phase in (Phase.PAUSING, Phase.PAUSED) else "running"


def metric(sample: Sample) -> Document:
    """Return one measurement."""
    return {
        "timestamp": moment(sample.taken_at),
        "timestampUnix": int(sample.taken_at),
        "cpuCount": sample.cpu_count,
        "cpuUsedPct": sample.cpu_used_percent,
        "memUsed": sample.memory_used,
        "memTotal": sample.memory_total,
        "memCache": sample.memory_cache,
        "diskUsed": sample.disk_used,
        "diskTotal": sample.disk_total,
    }


def log_entry(entry: LogEntry) -> Document:
    """Return one log line."""
    return {
        "timestamp": moment(entry.logged_at),
        "level": entry.level,
        "message": entry.message,
        "fields": dict(entry.fields),
    }


def log_line(entry: LogEntry) -> Document:
    """Return one log line in the first version's form."""
    fields = "".join(f" {name}={value}" for name, value in entry.fields.items())
    return {"timestamp": moment(entry.logged_at), "line": entry.message + fields}


def snapshot(kept: Snapshot) -> Document:
    """Return a snapshot."""
    return {"snapshotID": kept.snapshot_id, "names": list(kept.names)}


def _identity(sandbox: Sandbox) -> Document:
    return {
        "templateID": sandbox.request.template,
        "alias": sandbox.request.template,
        "sandboxID": sandbox.sandbox_id,
        "clientID": CLIENT_ID,
        "envdVersion": VERSION,
    }


def _without_password(network: Mapping[str, Any]) -> Document:
    document: Document = thaw(network)
    if isinstance(document.get("egressProxy"), dict):
        document["egressProxy"].pop("password", None)
    return document
