"""Base URLs as they come out of settings: checked once, then trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlencode, urlsplit

from ai4j_sandbox.errors import SandboxConfigError

_DEFAULT_PORTS = {"http": 80, "https": 443}

QueryValue = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a connection goes: scheme, host (no brackets) and port."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The ``Host`` header: host, and the port unless it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if _DEFAULT_PORTS[self.scheme] == self.port else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseUrl:
    """The address of a service.

    Attributes:
        path: Path that every call's path is appended to; empty, or ``/…`` without a trailing slash.
        setting: The knob it came from, for error messages.
    """

    origin: Origin
    path: str = ""
    setting: str = "base URL"

    @classmethod
    def parse(cls, text: str, *, setting: str = "base URL") -> Self:
        """Return the base URL that `text` means; a trailing slash is dropped, a base path is kept.

        Raises:
            SandboxConfigError: It is no ``http(s)://host[:port][/path]``; the message names `setting`.
        """
        text = text.strip()
        # Text with an "@" may hold a password, so it is never repeated.
        shown = "a value with user info" if "@" in text else repr(text)
        if any(character.isspace() or not character.isprintable() for character in text):
            raise SandboxConfigError(f"{setting} must not contain blanks or control characters")
        scheme, separator, rest = text.partition("://")
        if not separator:
            raise SandboxConfigError(
                f"{setting} must start with http:// or https://, got {shown}", hint=f"write {setting}=https://<host>"
            )
        if scheme.lower() not in _DEFAULT_PORTS:
            raise SandboxConfigError(f"{setting} must be an http or https URL, got the scheme {scheme!r}")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise SandboxConfigError(f"{setting} has no valid host and port: {shown}") from None
        if parts.username is not None or parts.password is not None:
            raise SandboxConfigError(
                f"{setting} must not contain user info", hint="put the credential into its own setting"
            )
        if not host or port == 0:
            raise SandboxConfigError(f"{setting} has no valid host and port: {shown}")
        if "?" in rest or "#" in rest:
            raise SandboxConfigError(f"{setting} must not have a query or a fragment")
        origin = Origin(scheme.lower(), _ascii_host(host, setting), port or _DEFAULT_PORTS[scheme.lower()])
        return cls(origin=origin, path=quote(parts.path, safe="/%:@!$&'()*+,;=~").rstrip("/"), setting=setting)

    def target(self, path: str, query: Mapping[str, QueryValue] | None = None) -> str:
        """Return path and query of a call below this base; `path` is already percent-encoded."""
        pairs = [(name, _query_text(value)) for name, value in (query or {}).items() if value is not None]
        whole = f"{self.path}{path}" or "/"
        return f"{whole}?{urlencode(pairs, quote_via=quote)}" if pairs else whole

    def __str__(self) -> str:
        return f"{self.origin}{self.path}"


def path_segment(value: str, name: str) -> str:
    """Return `value` encoded as exactly one path segment.

    Raises:
        SandboxConfigError: It is empty or would change the path (``.``, ``..``).
    """
    if value in ("", ".", ".."):
        raise SandboxConfigError(f"{name} must not be {value!r}")
    return quote(value, safe="")


def _query_text(value: QueryValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ascii_host(host: str, setting: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise SandboxConfigError(f"{setting} has a host name that cannot be written in DNS: {host!r}") from None
