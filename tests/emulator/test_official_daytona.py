"""The official daytona SDK, unchanged, newest and 0.190: one run per version, one test per operation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ai4j_sandbox_emulator import Emulator
from support.official_sdk import once_for_all_workers, operation_names, python_with, run_operations

OFFICIAL = Path(__file__).parent / "official"
SCRIPT = OFFICIAL / "daytona_operations.py"
FACES = {"daytona-newest": "daytona-newer", "daytona-0.190": "daytona"}
REPORT_SECONDS = 400  # the first run installs the SDK


@pytest.fixture(scope="session", params=FACES)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    def make() -> dict[str, str]:
        with Emulator((FACES[request.param],)) as emulator:
            return run_operations(python_with(OFFICIAL / f"{request.param}.txt"), SCRIPT, emulator.environment)

    in_parallel = "PYTEST_XDIST_WORKER" in os.environ
    directory = tmp_path_factory.getbasetemp()
    return once_for_all_workers((directory.parent if in_parallel else directory) / f"{request.param}.json", make)


@pytest.mark.timeout(REPORT_SECONDS)
@pytest.mark.parametrize("name", operation_names(SCRIPT))
def test_official_sdk(report: dict[str, str], name: str) -> None:
    if report[name].startswith("skipped: "):
        pytest.skip(report[name].removeprefix("skipped: "))

    assert report[name] == "ok"
