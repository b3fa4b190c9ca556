"""What the control API answers with. Pure functions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ai4j_sandbox.frozen import thaw
from ai4j_sandbox_emulator.snapshots import Snapshot

from .records import Record
from .requests import DEFAULT_SNAPSHOT, MACHINE_SNAPSHOT

ORGANIZATION = "00000000-0000-4000-8000-000000000001"
_DESIRED = {
    "started": "started",
    "stopped": "stopped",
    "archived": "archived",
    "paused": "paused",
    "destroying": "destroyed",
}


def time_text(seconds: float) -> str:
    """Return a time as the service writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def listed(record: Record, now: float, toolbox_url: str) -> dict[str, Any]:
    """Return a sandbox as a list shows it."""
    asked = record.asked
    return {
        "id": record.sandbox_id,
        "organizationId": ORGANIZATION,
        "name": record.name,
        "snapshot": asked.snapshot or None,
        "user": asked.user,
        "labels": dict(record.labels),
        "public": record.public,
        "networkBlockAll": asked.network_block_all,
        "target": asked.target,
        "cpu": asked.cpu,
        "gpu": asked.gpu,
        "memory": asked.memory,
        "disk": asked.disk,
        "kvm": False,
        "state": record.shown(now),
        "desiredState": _DESIRED.get(record.state, "started"),
        "errorReason": record.error_reason,
        "recoverable": record.recoverable,
        "backupState": "None",
        "autoStopInterval": record.auto_stop,
        "autoArchiveInterval": record.auto_archive,
        "autoDeleteInterval": record.auto_delete,
        "createdAt": time_text(record.created_at),
        "updatedAt": time_text(record.updated_at),
        "lastActivityAt": time_text(record.last_activity_at),
        "sandboxClass": "linux-vm" if record.is_machine else "container",
        "daemonVersion": "0.190.0",
        "runnerId": "emulator",
        "toolboxProxyUrl": toolbox_url,
    }


def detail(record: Record, now: float, toolbox_url: str) -> dict[str, Any]:
    """Return a sandbox as a call about itself shows it."""
    asked = record.asked
    build = {} if asked.dockerfile is None else {"buildInfo": _build_info(asked.dockerfile, record.created_at)}
    return {
        **listed(record, now, toolbox_url),
        "env": dict(asked.env),
        "volumes": thaw(asked.volumes),
        "networkAllowList": asked.network_allow_list,
        "domainAllowList": asked.domain_allow_list,
        **build,
    }


def _build_info(dockerfile: str, created_at: float) -> dict[str, Any]:
    when = time_text(created_at)
    return {"dockerfileContent": dockerfile, "snapshotRef": "built", "createdAt": when, "updatedAt": when}


def snapshot(name: str, created_at: float) -> dict[str, Any]:
    """Return a snapshot."""
    when = time_text(created_at)
    return {
        "id": f"snapshot-{name}",
        "organizationId": ORGANIZATION,
        "general": name in (DEFAULT_SNAPSHOT, MACHINE_SNAPSHOT),
        "name": name,
        "imageName": name,
        "state": "active",
        "size": 1,
        "entrypoint": None,
        "cpu": 1,
        "gpu": 0,
        "mem": 1,
        "disk": 3,
        "errorReason": None,
        "createdAt": when,
        "updatedAt": when,
        "lastUsedAt": when,
    }


def kept(item: Snapshot) -> dict[str, Any]:
    """Return a snapshot that was made of a sandbox."""
    return snapshot(item.snapshot_id, item.created_at)


def volume(volume_id: str, name: str, created_at: float) -> dict[str, Any]:
    """Return a volume."""
    when = time_text(created_at)
    return {
        "id": volume_id,
        "name": name,
        "organizationId": ORGANIZATION,
        "state": "ready",
        "createdAt": when,
        "updatedAt": when,
        "lastUsedAt": when,
        "errorReason": None,
    }
