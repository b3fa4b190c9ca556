"""Connections: opened with limits, driven without blocking, kept for reuse while they are provably alive.

Rules:

* A socket never blocks. Reading tries first and waits afterwards, so bytes that TLS holds back are never waited
  for, and a wait that runs out leaves the connection as it was.
* A connection is used by one exchange at a time. Any thread may `wake` it; only its user closes it.
* A pooled connection is looked at before it is used again: one that the peer closed, or that says something
  unasked, is dropped. So nothing is sent into a connection known to be dead, and no request is ever sent twice here.
* After a fork the child forgets the parent's connections.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable

from ai4j_sandbox.deadline import Clock, Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxConnectionError,
    SandboxException,
    SandboxTimeoutError,
)

from .base_url import Origin
from .errors import StreamCutError
from .http1 import ResponseReader
from .trust import Trust

RECEIVE_BYTES = 256 * 1024

_MOST_LEFTOVERS = 4  # reads spent on the rest of an answer before its connection is given up
_LEFTOVER_SECONDS = 0.005  # and how long for each: far less than a new connection takes

_WANT = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection:
    """One open connection to an origin, plain or TLS.

    Attributes:
        reader: Reads the response of the current exchange; what is left of it is drained before the next one.
    """

    def __init__(self, sock: socket.socket, origin: Origin) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.origin = origin
        self.reader: ResponseReader | None = None
        self._early: bytes | None = None
        self.idle_since = 0.0

    def send(self, data: bytes, deadline: Deadline, patience: float) -> None:
        """Send all of `data`.

        Raises:
            SandboxTimeoutError: The peer took nothing for `patience` seconds, or not all until the deadline.
            StreamCutError: The connection broke.
        """
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except _WANT as want:
                if not self._wait(want, deadline.bound(patience), otherwise=select.POLLOUT):
                    raise SandboxTimeoutError(f"{self.origin} did not take the whole request in time") from None
            except OSError as error:
                raise StreamCutError(f"the connection to {self.origin} broke: {_reason(error)}") from None

    def receive(self, timeout: float | None) -> bytes | None:
        """Return the next bytes, ``b""`` when the peer closed, ``None`` when nothing came within `timeout` seconds.

        Raises:
            StreamCutError: The connection broke.
        """
        if self._early is not None:
            early, self._early = self._early, None
            return early
        deadline = Deadline(timeout)
        while True:
            try:
                return self._socket.recv(RECEIVE_BYTES)
            except _WANT as want:
                if timeout == 0 or not self._wait(want, deadline.remaining(), otherwise=select.POLLIN):
                    return None
            except OSError as error:
                raise StreamCutError(f"the connection to {self.origin} was cut: {_reason(error)}") from None

    def answers_already(self) -> bool:
        """Whether the peer said something, or closed, though the request is still being sent."""
        # Readable is not enough: TLS sends its own messages after the handshake. What was read is given out later.
        if self._early is None:
            self._early = self.receive(0)
        return self._early is not None

    def usable(self) -> bool:
        """Whether the connection is alive and silent, so that a new request may be sent on it.

        Takes what is left of the previous response, if it has arrived by now.
        """
        reader = self.reader or ResponseReader()
        try:
            for _ in range(_MOST_LEFTOVERS):
                data = self.receive(0 if reader.complete else _LEFTOVER_SECONDS)
                if data is None:
                    return reader.reusable
                if not data or reader.complete:
                    return False
                reader.feed(data)
        except SandboxException:
            return False
        return False

    def wake(self) -> None:
        """End the connection under whoever waits for it, in another thread."""
        # Past the TLS layer, whose own shutdown would take its state away under a reader.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket. Only for whoever uses the connection."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _wait(self, want: OSError, timeout: float | None, *, otherwise: int) -> bool:
        """Wait until what the socket wants is possible; TLS may want to write in order to read."""
        events = otherwise
        if isinstance(want, ssl.SSLWantReadError):
            events = select.POLLIN
        elif isinstance(want, ssl.SSLWantWriteError):
            events = select.POLLOUT
        return bool(self._poll(events, timeout))

    def _poll(self, events: int, timeout: float | None) -> list[tuple[int, int]]:
        poller = select.poll()
        poller.register(self._socket, events)
        return poller.poll(None if timeout is None else max(0.0, timeout) * 1000)


class Dialer:
    """Opens connections.

    Args:
        ca_bundle: File with the certificates to trust instead of the usual ones.
        ca_setting: The knob that names this file, for error messages.
        address: Host and port to connect to whatever the URL says, for services reached through a proxy node that
            routes by the ``Host`` header.
        setting: The knob that names the host, for error messages.
        hint: What to do when the host's name cannot be resolved.
    """

    def __init__(
        self,
        *,
        ca_bundle: str | None = None,
        ca_setting: str | None = None,
        address: tuple[str, int] | None = None,
        setting: str | None = None,
        hint: str | None = None,
    ) -> None:
        self._trust = Trust(ca_bundle=ca_bundle, setting=ca_setting)
        self._address = address
        self._setting = setting
        self._hint = hint
        self._context: ssl.SSLContext | None = None

    def connect(self, origin: Origin, deadline: Deadline) -> Connection:
        """Return a new connection.

        Raises:
            SandboxConfigError: The CA bundle cannot be read.
            SandboxConnectionError: The host is unknown or refuses, or its certificate is not trusted. Nothing was sent.
            SandboxTimeoutError: It did not answer in time. Nothing was sent.
        """
        host, port = self._address or (origin.host, origin.port)
        sock = self._connect_any(host, port, deadline)
        try:
            _set_options(sock)
            if origin.scheme == "https":
                sock.settimeout(_seconds(deadline))
                sock = self._tls().wrap_socket(sock, server_hostname=origin.host)
            return Connection(sock, origin)
        except TimeoutError:
            sock.close()
            raise self._too_slow(host, port) from None
        except (ssl.SSLError, OSError) as error:
            sock.close()
            raise self._untrusted(origin, error) from None
        except BaseException:
            sock.close()
            raise

    def _connect_any(self, host: str, port: int, deadline: Deadline) -> socket.socket:
        failure: OSError | None = None
        addresses = self._resolve(host, port)
        for tried, (family, kind, protocol, _, address) in enumerate(addresses):
            sock = socket.socket(family, kind, protocol)
            try:
                # Each address gets its share of the time, so that a dead one does not take the others' chance.
                sock.settimeout(_seconds(deadline, share=len(addresses) - tried))
                sock.connect(address)
                return sock
            except OSError as error:
                sock.close()
                failure = error
        if isinstance(failure, TimeoutError):
            raise self._too_slow(host, port)
        raise SandboxConnectionError(
            f"could not connect to {host}:{port}: {_reason(failure)}",
            hint=self._check("the service must run and be reachable from here"),
            outcome=Outcome.NOT_STARTED,
        )

    def _resolve(self, host: str, port: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        try:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)  # type: ignore[return-value]  # IPv6 has more
        except (OSError, UnicodeError):
            raise SandboxConnectionError(
                f"the host name {host!r} could not be resolved",
                hint=self._hint or self._check("there may be no DNS entry for it"),
                outcome=Outcome.NOT_STARTED,
            ) from None

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = self._trust.context()
        return self._context

    def _too_slow(self, host: str, port: int) -> SandboxTimeoutError:
        return SandboxTimeoutError(
            f"connecting to {host}:{port} took too long",
            hint=self._check("a firewall may swallow the packets"),
            outcome=Outcome.NOT_STARTED,
        )

    def _untrusted(self, origin: Origin, error: OSError) -> SandboxConnectionError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return SandboxConnectionError(
                f"the certificate of {origin} is not trusted: {error.verify_message}",
                hint=self._trust.hint,
                retryable=False,
                outcome=Outcome.NOT_STARTED,
            )
        return SandboxConnectionError(
            f"no TLS connection to {origin}: {_reason(error)}",
            hint=self._check("the port may speak plain http"),
            outcome=Outcome.NOT_STARTED,
        )

    def _check(self, guess: str) -> str:
        return f"check {self._setting}; {guess}" if self._setting else guess


class ConnectionPool:
    """Keeps idle connections of any number of origins for reuse. Thread-safe and fork-safe."""

    def __init__(
        self,
        dial: Callable[[Origin, Deadline], Connection],
        *,
        most_idle: int = 32,
        idle_seconds: float = 60.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._dial = dial
        self._most_idle = most_idle
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    def take(self, origin: Origin, deadline: Deadline) -> Connection:
        """Return a live connection for one exchange: an idle one, or a new one.

        Raises:
            SandboxConnectionError, SandboxTimeoutError: As `Dialer.connect`.
        """
        while (connection := self._pop(origin)) is not None:
            if self._clock() - connection.idle_since < self._idle_seconds and connection.usable():
                return connection
            connection.close()
        return self._dial(origin, deadline)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose exchange is over, or close it when there is no room."""
        connection.idle_since = self._clock()
        self._forget_parents()
        with self._lock:
            if not self._closed and len(self._idle) < self._most_idle:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the idle connections, and those in use once they are given back."""
        with self._lock:
            self._closed = True
        self.drop_idle()

    def drop_idle(self) -> None:
        """Close the idle connections: the other side may have forgotten them without a word."""
        with self._lock:
            idle = list(self._idle)
            self._idle.clear()
        for connection in idle:
            connection.close()

    def _pop(self, origin: Origin) -> Connection | None:
        self._forget_parents()
        with self._lock:
            # The youngest first: it is the least likely to have been closed by the peer.
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index].origin == origin:
                    return self._idle.pop(index)
        return None

    def _forget_parents(self) -> None:
        if self._pid == os.getpid():
            return
        inherited, self._idle = self._idle, []
        self._lock = threading.Lock()  # the inherited one may be held by a thread that does not exist here
        self._pid = os.getpid()
        for connection in inherited:
            connection.close()  # closes this process's descriptor only; the parent's connection lives on


def _set_options(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A peer that vanished without a word is noticed within a minute, also under a command without a deadline.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # not every system lets it be set
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)


def _seconds(deadline: Deadline, share: int = 1) -> float | None:
    """What is left as a socket timeout, for which 0 would mean "do not block"."""
    left = deadline.remaining()
    return None if left is None else max(left / share, 0.001)


def _reason(error: OSError | None) -> str:
    """The system's words for an error, without what a library may have added."""
    if error is None:
        return "no address"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "TLS failure").lower().replace("_", " ")
    return os.strerror(error.errno).lower() if error.errno else type(error).__name__
