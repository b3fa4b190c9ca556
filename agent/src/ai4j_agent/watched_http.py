"""requests sessions whose connections a watchdog can cut, also while the head of the answer is still arriving.

Imported when the first request is sent, because it imports requests.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from ai4j_sandbox.deadline import Deadline


class Watchdog:
    """Cuts the connection of one exchange at the deadline, which wakes whoever reads from it."""

    def __init__(self, deadline: Deadline) -> None:
        self._seconds = deadline.remaining()
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._late = False
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        if self._seconds is not None:
            self._timer = threading.Timer(self._seconds, self._cut)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *details: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._forget()

    def watch(self, connection: socket.socket) -> None:
        """Take the connection of the exchange: from here on it can be cut."""
        if self._timer is None:
            return
        with self._lock:
            self._forget()
            # A descriptor of our own: the other may be closed, and its number taken, when the time comes.
            self._connection = socket.socket(fileno=os.dup(connection.fileno()))
            if self._late:
                self._shut()

    def _cut(self) -> None:
        with self._lock:
            self._late = True
            self._shut()

    def _shut(self) -> None:
        if self._connection is not None:
            with suppress(OSError):  # it ended at the same moment
                self._connection.shutdown(socket.SHUT_RDWR)

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_EXCHANGE: ContextVar[Watchdog | None] = ContextVar("_EXCHANGE", default=None)
"""The watchdog of the exchange this thread is beginning."""


def new_session() -> requests.Session:
    """Return a session whose connections can be watched; it reads neither proxies nor netrc."""
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", _WatchedAdapter())
    session.mount("https://", _WatchedAdapter())
    return session


def watched_post(session: requests.Session, url: str, watchdog: Watchdog, **options: Any) -> requests.Response:
    """Post, with the watchdog on the connection before the head of the answer is read."""
    token = _EXCHANGE.set(watchdog)
    try:
        return session.post(url, **options)
    finally:
        _EXCHANGE.reset(token)


class _WatchedConnection(HTTPConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3's own
        _watch(self)
        return super().getresponse()


class _WatchedTlsConnection(HTTPSConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3's own
        _watch(self)
        return super().getresponse()


def _watch(connection: HTTPConnection) -> None:
    watchdog = _EXCHANGE.get()
    if watchdog is not None and connection.sock is not None:
        watchdog.watch(connection.sock)


class _WatchedPool(HTTPConnectionPool):
    ConnectionCls = _WatchedConnection


class _WatchedTlsPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedTlsConnection


class _WatchedAdapter(HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _WatchedPool, "https": _WatchedTlsPool}


def _is_not_ours(record: logging.LogRecord) -> bool:
    return _EXCHANGE.get() is None


# urllib3 logs header lines it cannot read as they are, and a server may quote the key in one.
logging.getLogger("urllib3.connection").addFilter(_is_not_ours)
