"""Ports of a sandbox on the host's loopback."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox_local.ports import PortForwarder
from support.waiting import eventually


@pytest.fixture
def echo_port() -> Iterator[int]:
    """Give the port of a server that gives back what it reads, and ends when its reader does."""

    def serve(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data)

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture
def forwarder(echo_port: int) -> Iterator[PortForwarder]:
    forwarder = PortForwarder(lambda: socket.create_connection(("127.0.0.1", echo_port)), "test")
    yield forwarder
    forwarder.close()


def test_bytes_flow_both_ways_and_ends_are_passed_on(forwarder: PortForwarder) -> None:
    sent = bytes(range(256)) * 20_000
    received = bytearray()
    with socket.create_connection(("127.0.0.1", forwarder.port)) as connection:
        writer = threading.Thread(target=lambda: (connection.sendall(sent), connection.shutdown(socket.SHUT_WR)))
        writer.start()
        while data := connection.recv(65536):
            received += data
        writer.join()

    assert bytes(received) == sent


def test_close_cuts_open_connections_and_ends_the_threads(forwarder: PortForwarder) -> None:
    with socket.create_connection(("127.0.0.1", forwarder.port)) as connection:
        connection.sendall(b"x")
        assert connection.recv(1) == b"x"

        forwarder.close()

        assert connection.recv(1) == b""
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test")]


def test_connection_ends_when_nothing_listens_inside() -> None:
    def refuse() -> socket.socket:
        raise ConnectionRefusedError

    forwarder = PortForwarder(refuse, "test")
    with socket.create_connection(("127.0.0.1", forwarder.port)) as connection:
        assert connection.recv(1) == b""
    forwarder.close()


def test_server_inside_answers_through_the_forwarded_port(namespace: SandboxSession) -> None:
    namespace.files.write("page", "hello")
    namespace.start(SandboxCommand(command="exec python3 -m http.server 8000 2>log", command_id="server"))
    url = namespace.port_url(8000).url

    assert eventually(lambda: answers(url))
    with urllib.request.urlopen(f"{url}/page") as response:
        assert response.read() == b"hello"
    assert namespace.port_url(8000).url == url


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url).close()
    except OSError:
        return False
    return True
