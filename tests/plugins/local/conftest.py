"""Sandboxes of both tiers for the tests of the local provider."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox_local import LocalProvider

TIERS = ("namespace", "syscall-filter")

CreateSession = Callable[..., SandboxSession]


@pytest.fixture
def create() -> Iterator[CreateSession]:
    """Return a function that creates a session from config keys; all are closed after the test."""
    with ExitStack() as sessions:

        def create_session(*, workspace_id: str | None = None, **config: object) -> SandboxSession:
            spec = SandboxSpec(workspace_id=workspace_id, config=config)
            return sessions.enter_context(LocalProvider().create_session(spec))

        yield create_session


@pytest.fixture
def namespace(create: CreateSession) -> SandboxSession:
    """Return a session of the default tier."""
    return create(isolation="namespace")


@pytest.fixture(params=TIERS)
def session(request: pytest.FixtureRequest, create: CreateSession) -> SandboxSession:
    """Return a session of each tier."""
    return create(isolation=request.param)


@pytest.fixture
def loopback_port() -> Iterator[int]:
    """Give a port of the host's loopback on which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def shared_directory() -> Iterator[Path]:
    """Give a host directory that belongs to an ordinary user, with one file in it."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "given").write_text("given\n")
        if os.geteuid() == 0:
            for path in (directory, directory / "given"):
                os.chown(path, 4242, 4242)
        yield directory
