"""Every test starts from the same place: no provider variable of the machine reaches it, and Ctrl-C is heard."""

from __future__ import annotations

import os
import signal

import pytest

PROVIDER_PREFIXES = ("E2B_", "CUBE_", "DAYTONA_", "AI4J_", "OPENAI_")
MAKE_VARIABLES = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # `make test` must not be the parent of a make under test


def pytest_configure() -> None:
    # A shell that runs us in the background lets us ignore it, and everything that we start would do so too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _clean_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("live"):
        return
    for name in list(os.environ):
        if name.startswith(PROVIDER_PREFIXES) or name in MAKE_VARIABLES:
            monkeypatch.delenv(name)
