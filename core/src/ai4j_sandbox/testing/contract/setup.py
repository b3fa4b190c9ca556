"""What the contract tests share: one session for each test, skipping by name, waiting with a bound."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from ai4j_sandbox.capability import Capability
from ai4j_sandbox.model import SandboxCommand, SandboxResult, SandboxSpec, SandboxStatus
from ai4j_sandbox.spi import SandboxProvider, SandboxSession

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
"""How long a test waits for something that must happen before it fails."""


class ContractSetup:
    """Fixtures of the suite. A provider author overrides `provider`."""

    spec: ClassVar[SandboxSpec | None] = None
    """What to create sessions from; ``None`` for the provider's defaults."""

    misspelt_setting: ClassVar[tuple[str, str] | None] = None
    """A typing error of a `config` key and the key that was meant."""

    def spec_with(self, provider: SandboxProvider, **fields: Any) -> SandboxSpec:
        """Return `spec` with the provider's id and some fields replaced."""
        return replace(self.spec or SandboxSpec(), provider_id=provider.provider_id, **fields)

    @pytest.fixture
    def provider(self) -> SandboxProvider:
        """Return the provider under test."""
        raise NotImplementedError("override the fixture `provider` in your subclass of SandboxContract")

    @pytest.fixture
    def session(self, provider: SandboxProvider) -> Iterator[SandboxSession]:
        """Give a live session that is closed after the test."""
        with provider.create_session(self.spec) as session:
            yield session

    @pytest.fixture
    def folder(self, session: SandboxSession) -> Iterator[str]:
        """Give the path of a fresh, empty directory inside the sandbox."""
        path = run(session, "mktemp -d").stdout.rstrip("\n")
        yield path
        if session.status is SandboxStatus.RUNNING:
            run(session, ["rm", "-rf", path])


def run(session: SandboxSession, command: str | list[str], **options: Any) -> SandboxResult:
    """Run a command to its end."""
    return session.execute(SandboxCommand(command=command, **options))


def require(session: SandboxSession, *capabilities: Capability) -> None:
    """Skip the test, by name and with the reason, when the session lacks one of the capabilities."""
    for capability in capabilities:
        if capability not in session.capabilities:
            reason = session.capabilities[capability].reason or "no reason given"
            pytest.skip(f"{session.provider_id} does not support {capability}: {reason}")


def require_tool(session: SandboxSession, tool: str) -> None:
    """Skip the test when a program it needs is not installed in the sandbox."""
    if run(session, f"command -v {shlex.quote(tool)}").exit_code != 0:
        pytest.skip(f"{session.provider_id} has no {tool} in its sandbox")


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true within the bound."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_alive(session: SandboxSession, pid: str) -> bool:
    """Whether a process of the sandbox still runs; one that only waits to be reaped does not."""
    status = run(session, f"cat /proc/{int(pid)}/stat")
    return status.exit_code == 0 and status.stdout.rpartition(")")[2].split()[0] not in "ZX"


class Background(threading.Thread, Generic[T]):
    """Runs one call in a thread; `result` waits for it, with a bound, and raises what it raised."""

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self._answers: list[T] = []
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Make the call."""
        try:
            self._answers.append(self._call())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asks for the result
            self._error = error

    def result(self) -> T:
        """Return what the call returned."""
        self.join(PATIENCE_SECONDS * 2)
        assert not self.is_alive(), "the call did not return"
        if self._error is not None:
            raise self._error
        return self._answers[0]


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail when the block takes longer."""
    started = time.monotonic()
    yield
    taken = time.monotonic() - started
    assert taken < seconds, f"took {taken:.2f} s, more than {seconds} s"
