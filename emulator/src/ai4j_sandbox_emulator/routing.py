"""Method and path to handler. Each face says itself what an unknown path or method answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web

from .reply import Reply

Handler = Callable[[web.Request, dict[str, str]], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Match:
    """A handler and the parameters from the path."""

    handler: Handler
    parameters: dict[str, str]


@dataclass(frozen=True, slots=True)
class Miss:
    """Nothing handles the request; `path_known` tells a wrong method from a wrong path."""

    path_known: bool


class Router:
    """A table of routes such as ``GET /sandboxes/{sandbox_id}``. A parameter is one path segment, percent-decoded."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = []

    def add(self, method: str, template: str, handler: Handler) -> None:
        """Let `handler` answer requests of this method whose raw path fits the template."""
        pattern = "".join(
            f"(?P<{part[1:-1]}>[^/]+)" if part.startswith("{") else re.escape(part)
            for part in re.split(r"(\{\w+\})", template)
        )
        self._routes.append((method, re.compile(pattern), handler))

    def find(self, method: str, raw_path: str) -> Match | Miss:
        """Return what handles a request."""
        path_known = False
        for allowed, pattern, handler in self._routes:
            found = pattern.fullmatch(raw_path)
            if found and allowed == method:
                return Match(handler, {name: unquote(value) for name, value in found.groupdict().items()})
            path_known = path_known or found is not None
        return Miss(path_known)
