"""Ports of a sandbox on the host's loopback: each connection is made by the agent inside, and copied here."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable

Connect = Callable[[], socket.socket]
"""Opens a connection to the port inside; raises `OSError` when nothing listens."""

COPY_BYTES = 64 * 1024


class PortForwarder:
    """Listens on a free port of 127.0.0.1 and copies every connection to and from the sandbox.

    One thread accepts, and one copies each connection; all end with `close`.
    """

    def __init__(self, connect: Connect, name: str) -> None:
        self._connect = connect
        self._name = name
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._closed = False
        self._threads: set[threading.Thread] = set()
        self._ended = os.eventfd(0, os.EFD_CLOEXEC)
        self._accepting = threading.Thread(target=self._accept, name=name, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Stop listening and cut every connection. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            os.eventfd_write(self._ended, 1)
        self._accepting.join()
        for thread in list(self._threads):
            thread.join()
        os.close(self._ended)

    def _accept(self) -> None:
        with self._listener:
            while True:
                ready, _, _ = select.select([self._listener.fileno(), self._ended], [], [])
                if self._ended in ready:
                    return
                with contextlib.suppress(OSError):  # the client gave up before we came
                    self._start_copying(self._listener.accept()[0])

    def _start_copying(self, outside: socket.socket) -> None:
        thread = threading.Thread(target=self._serve, args=(outside,), name=f"{self._name}-copy", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _serve(self, outside: socket.socket) -> None:
        with outside, contextlib.suppress(OSError), self._connect() as inside:
            copy_both_ways(outside, inside, self._ended)
        self._threads.discard(threading.current_thread())


class _Direction:
    """One direction of a connection: what was read on one side and is not yet written on the other."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source = source
        self.target = target
        self.pending = b""
        self.finished = False

    def move(self, ready: set[int]) -> None:
        """Read and write what is possible now, never waiting; passes the end on."""
        if not self.pending and not self.finished and self.source.fileno() in ready:
            self.pending = self._read()
            self.finished = not self.pending
            if self.finished:
                with contextlib.suppress(OSError):
                    self.target.shutdown(socket.SHUT_WR)
        if self.pending:
            with contextlib.suppress(BlockingIOError):
                self.pending = self.pending[self.target.send(self.pending) :]

    def _read(self) -> bytes:
        try:
            return self.source.recv(COPY_BYTES)
        except ConnectionResetError:
            return b""

    def register(self, events: dict[int, int]) -> None:
        """Add what this direction waits for: room, or data."""
        if self.pending:
            events[self.target.fileno()] = events.get(self.target.fileno(), 0) | select.POLLOUT
        elif not self.finished:
            events[self.source.fileno()] = events.get(self.source.fileno(), 0) | select.POLLIN


def copy_both_ways(one: socket.socket, other: socket.socket, ended: int) -> None:
    """Copy between two sockets until both directions have ended, or `ended` is readable."""
    one.setblocking(False)
    other.setblocking(False)
    directions = (_Direction(one, other), _Direction(other, one))
    while not all(direction.finished and not direction.pending for direction in directions):
        events: dict[int, int] = {ended: select.POLLIN}
        for direction in directions:
            direction.register(events)
        poll = select.poll()
        for descriptor, mask in events.items():
            poll.register(descriptor, mask)
        ready = {descriptor for descriptor, _ in poll.poll()}
        if ended in ready:
            return
        for direction in directions:
            direction.move(ready)
