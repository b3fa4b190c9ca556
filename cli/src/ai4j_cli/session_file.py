"""``ai4j session show`` and ``verify``: a stored agent session, looked at."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .application import Application, json_option, pass_application
from .options import complete_file
from .parameters import file_name

if TYPE_CHECKING:
    from ai4j_agent import AgentSessionSnapshot

SEAL_KEY_VARIABLE = "AI4J_SEAL_KEY"


def seal_key() -> bytes | None:
    """Return the key that event logs are sealed with, if there is one."""
    return os.environ.get(SEAL_KEY_VARIABLE, "").encode() or None


def _loaded(file: str) -> AgentSessionSnapshot:
    """Return the snapshot in a file. A file that holds none is a wrong request, not a failing store."""
    from ai4j_agent import AgentConfigError, AgentSessionSnapshot, SessionStoreError

    try:
        return AgentSessionSnapshot.from_json(Path(file).read_text("utf-8"))
    except OSError as error:
        raise AgentConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AgentConfigError(f"{file} is not a session snapshot: it is not UTF-8") from None
    except SessionStoreError as error:
        raise AgentConfigError(f"{file}: {error.message}", hint=error.hint) from None


@click.command("show")
@click.argument("file", metavar="FILE", type=file_name, shell_complete=complete_file)
@click.option("--messages", "with_messages", is_flag=True, help="Also what was said.")
@json_option
@pass_application
def show(application: Application, file: str, with_messages: bool) -> None:
    """Show the session snapshot in FILE: when, how much, which sandbox, and every event."""
    from .failures import write_json
    from .rendering import print_lines

    snapshot = _loaded(file)
    if application.as_json:
        document = snapshot.to_dict()
        write_json(document if with_messages else _without_messages(document))
        return
    print_lines(sys.stdout, _facts(snapshot))
    _print_events(snapshot)
    if with_messages:
        said = (f"{item.role}: {item.text or _calls(item)}" for item in snapshot.messages)
        print_lines(sys.stdout, ["", *(line for text in said for line in text.split("\n"))])


@click.command("verify")
@click.argument("file", metavar="FILE", type=file_name, shell_complete=complete_file)
@json_option
@pass_application
def verify(application: Application, file: str) -> int:
    """Check the event log of the session in FILE: edited, reordered, dropped, cut off or added events are named.

    For a log that was sealed with a key, $AI4J_SEAL_KEY holds it. Exit code 1 when the log is not intact.
    """
    from ai4j_agent import AgentEventLog

    from .failures import ExitCode, write_json
    from .rendering import print_lines

    snapshot = _loaded(file)
    log = AgentEventLog(seal_key=seal_key())
    found = log.check(snapshot.events, snapshot.event_log_head)
    if application.as_json:
        write_json(
            {
                "sessionId": snapshot.session_id,
                "valid": found.valid,
                "events": len(snapshot.events),
                "fault": found.fault,
                "firstBrokenIndex": found.first_broken_index,
                "detail": found.detail,
            }
        )
    else:
        print_lines(sys.stdout, [f"{snapshot.session_id}: {len(snapshot.events)} events, {found.detail}"])
    return ExitCode.DONE if found.valid else ExitCode.NEGATIVE


def _without_messages(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in ("memory", "memorySnapshot")}


def _facts(snapshot: AgentSessionSnapshot) -> Iterator[str]:
    yield f"session: {snapshot.session_id}"
    yield f"run: {snapshot.run_id}"
    yield f"created: {_when(snapshot.metadata.created_at_epoch_ms)}"
    yield f"updated: {_when(snapshot.metadata.updated_at_epoch_ms)}"
    yield f"messages: {len(snapshot.messages)}"
    binding = snapshot.sandbox_binding
    if binding is None:
        yield "sandbox: none"
    else:
        yield f"sandbox: {binding.provider_id}/{binding.sandbox_session_id} ({binding.status})"


def _print_events(snapshot: AgentSessionSnapshot) -> None:
    from .rendering import print_lines, print_table

    rows = [
        (str(entry.sequence), _when(entry.recorded_at_epoch_ms), str(entry.event.type), entry.event.message or "")
        for entry in snapshot.events
    ]
    if rows:
        print_lines(sys.stdout, ("",))
        print_table(sys.stdout, ("NO", "WHEN", "EVENT", "MESSAGE"), rows)


def _when(epoch_ms: int | None) -> str:
    from datetime import UTC, datetime

    return "-" if epoch_ms is None else datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _calls(message: Any) -> str:
    return ", ".join(f"({call.name})" for call in message.tool_calls)
