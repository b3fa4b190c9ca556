"""Every test starts from a clean environment: no provider variable of the machine reaches it."""

from __future__ import annotations

import os

import pytest

PROVIDER_PREFIXES = ("E2B_", "CUBE_", "DAYTONA_", "AI4J_", "OPENAI_")
MAKE_VARIABLES = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # `make test` must not be the parent of a make under test


@pytest.fixture(autouse=True)
def _clean_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("live"):
        return
    for name in list(os.environ):
        if name.startswith(PROVIDER_PREFIXES) or name in MAKE_VARIABLES:
            monkeypatch.delenv(name)
