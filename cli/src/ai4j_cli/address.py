"""How a command line names a sandbox, and a file in one: ``[PROVIDER/]ID`` and ``[PROVIDER/]ID:PATH``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import click

from .parameters import as_typed, provider_by_name, word

_HOST_PATH = re.compile(r"[/.~]|[A-Za-z]:\\")  # an absolute or explicitly relative path, or one with a drive


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxAddress:
    """An existing sandbox.

    Attributes:
        session_id: Its id at its provider.
        provider_id: Whose it is; ``None`` leaves that to ``--provider`` and the environment.
    """

    session_id: str
    provider_id: str | None = None

    def __str__(self) -> str:
        return f"{self.provider_id}/{self.session_id}" if self.provider_id else self.session_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPath:
    """A path inside a sandbox; relative to the sandbox's default directory unless it is absolute."""

    sandbox: SandboxAddress
    path: str


def sandbox_address(text: str) -> SandboxAddress:
    """Read ``[PROVIDER/]ID``."""
    text = as_typed(text)
    provider_id, slash, session_id = text.partition("/")
    if not slash:
        provider_id, session_id = "", text
    if not session_id.strip() or (slash and not provider_id):
        raise click.BadParameter("must be written as ID or PROVIDER/ID")
    word(text)  # refuses a credential
    return SandboxAddress(session_id=session_id, provider_id=provider_by_name(provider_id) or None)


def place(text: str) -> SandboxPath | Path:
    """Read a source or destination: ``[PROVIDER/]ID:PATH`` is in a sandbox, everything else on this machine.

    What starts with ``/``, ``.`` or ``~`` is on this machine even when it holds a colon.
    """
    if not text:  # Path("") would be the current directory: "$UNSET" must not copy that
        raise click.BadParameter("must not be empty")
    sandbox, colon, path = text.partition(":")
    if not colon or _HOST_PATH.match(text):
        return Path(text)
    return SandboxPath(sandbox=sandbox_address(sandbox), path=as_typed(path) or ".")
