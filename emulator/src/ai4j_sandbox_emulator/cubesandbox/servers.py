"""What kind of server the face is: releases of CubeSandbox differ where a client notices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKind:
    """The switches by which releases differ.

    Attributes:
        connect_demands_timeout: Connecting without one is answered with 422.
        default_seconds: Idle window of a sandbox that asks for none; ``None`` for no end.
        applies_environment: Variables given at creation reach the processes.
        destroys_paused: A paused sandbox can be destroyed; otherwise the answer is 500.
        lists_by_state: There is a second version of the list, with paused sandboxes in it.
        takes_never: A timeout of -1 means never.
        tells_envd_version: Otherwise every envd is called 0.2.0.
    """

    connect_demands_timeout: bool = False
    default_seconds: int | None = None
    applies_environment: bool = True
    destroys_paused: bool = True
    lists_by_state: bool = True
    takes_never: bool = True
    tells_envd_version: bool = True


CURRENT = ServerKind()
"""A server of about version 0.7."""

OLDER = ServerKind(
    connect_demands_timeout=True,
    default_seconds=15,
    applies_environment=False,
    destroys_paused=False,
    lists_by_state=False,
    takes_never=False,
    tells_envd_version=False,
)
"""A server of about version 0.2."""
