"""Where a sandbox's ports are: ``<port>-<sandbox id>.<domain>``, made only of parts that cannot change the host."""

from __future__ import annotations

import re

from ai4j_sandbox.errors import SandboxProtocolError

_DOMAIN = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?::\d{1,5})?"
)
_LAST_PORT = 65535
_SANDBOX_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def parse_domain(text: str) -> str:
    """Return a domain as it is used in host names; a leading dot is dropped, a port is kept.

    Raises:
        ValueError: It is no domain (a URL, for instance).
    """
    domain = text.strip().removeprefix(".").lower()
    if not _DOMAIN.fullmatch(domain) or len(domain) > 253:
        raise ValueError("must be a domain such as example.org, without scheme and path")
    port = domain.partition(":")[2]
    if port and not 1 <= int(port) <= _LAST_PORT:
        raise ValueError(f"must have a port from 1 to {_LAST_PORT}, or none")
    return domain


def is_sandbox_id(text: object) -> bool:
    """Whether the text is safe as a part of a host name."""
    return isinstance(text, str) and _SANDBOX_ID.fullmatch(text) is not None


def port_host(port: int, sandbox_id: str, domain: str) -> str:
    """Return the host, and its port if the domain has one, of a sandbox's port.

    Raises:
        SandboxProtocolError: The service named a sandbox or domain that would lead somewhere else.
    """
    if not is_sandbox_id(sandbox_id):
        raise SandboxProtocolError("the service gave the sandbox an id that cannot be part of a host name")
    try:
        return f"{port}-{sandbox_id}.{parse_domain(domain)}"
    except ValueError:
        raise SandboxProtocolError("the service gave the sandbox a domain that is none") from None
