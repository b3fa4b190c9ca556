"""Who may import whom: DESIGN's table, kept."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support.distributions import SourceDistribution, imported_modules, source_distributions

CORE = "ai4j_sandbox"
VENDOR_PLUGIN = {CORE, "ai4j_sandbox_wire"}
MAY_IMPORT: Mapping[str, set[str]] = {
    "ai4j_sandbox": set(),
    "ai4j_sandbox_wire": {CORE},
    "ai4j_sandbox_daytona": VENDOR_PLUGIN,
    "ai4j_sandbox_e2b": VENDOR_PLUGIN,
    "ai4j_sandbox_cubesandbox": VENDOR_PLUGIN,
    "ai4j_sandbox_local": {CORE},
    "ai4j_sandbox_otel": {CORE},
    "ai4j_sandbox_sample": {CORE},
    "ai4j_sandbox_emulator": {CORE},
    "ai4j_agent": {CORE},
    "ai4j_cli": {CORE, "ai4j_agent"},
}
# distributions whose module has another name
IMPORTED_AS = {"opentelemetry-api": "opentelemetry", "pyyaml": "yaml", "websocket-client": "websocket"}
DISTRIBUTIONS = source_distributions()


def all_imports(distribution: SourceDistribution) -> set[str]:
    return {
        name
        for module, path in distribution.modules().items()
        for name in imported_modules(module, path, deferred=True)
    }


def top_level(names: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def module_graph(distribution: SourceDistribution) -> dict[str, set[str]]:
    """Module to the modules of the same package that it imports while it is imported itself."""
    modules = distribution.modules()
    return {
        module: {known_module(name, modules) for name in imported_modules(module, path, deferred=False)} - {module, ""}
        for module, path in modules.items()
    }


def known_module(name: str, modules: Mapping[str, Path]) -> str:
    """The module that an imported name is or is in; empty for one of another package."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def test_every_distribution_has_its_row_in_the_table() -> None:
    assert {distribution.package for distribution in DISTRIBUTIONS} <= set(MAY_IMPORT)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_only_the_allowed_packages_of_ours_are_imported(distribution: SourceDistribution) -> None:
    ours = {name for name in top_level(all_imports(distribution)) if name.startswith("ai4j_")}

    assert ours - {distribution.package} <= MAY_IMPORT[distribution.package]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_every_foreign_package_that_is_imported_is_required(distribution: SourceDistribution) -> None:
    required = (re.match(r"[\w.-]+", line) for line in distribution.requirements)
    names = {match[0].lower() for match in required if match}
    allowed = {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}

    foreign = top_level(all_imports(distribution)) - sys.stdlib_module_names - {distribution.package}

    assert foreign <= allowed


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_there_is_no_import_cycle(distribution: SourceDistribution) -> None:
    try:
        TopologicalSorter(module_graph(distribution)).prepare()
    except CycleError as error:
        pytest.fail(f"modules that import each other: {' -> '.join(error.args[1])}")


def test_metadata_is_looked_up_in_one_module_only() -> None:
    users = {
        module
        for distribution in DISTRIBUTIONS
        for module, path in distribution.modules().items()
        if "importlib_metadata" in top_level(imported_modules(module, path, deferred=True))
    }

    assert users == {"ai4j_sandbox.discovery"}


def loaded_by(program: str) -> set[str]:
    """Names of the modules that a program has loaded when it ends."""
    code = f"{program}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_importing_the_core_loads_nothing_but_its_root() -> None:
    added = loaded_by("import ai4j_sandbox") - loaded_by("pass")

    assert {name for name in added if name.startswith("ai4j_")} == {"ai4j_sandbox"}
    assert top_level(added) <= sys.stdlib_module_names | {"ai4j_sandbox"}


def test_listing_providers_loads_hook_modules_only() -> None:
    """Case L11."""
    loaded = loaded_by("from ai4j_sandbox import default_registry\ndefault_registry().infos()")

    plugins = {name for name in loaded if name.startswith("ai4j_") and name.partition(".")[0] != "ai4j_sandbox"}
    assert {name for name in plugins if "." in name and not name.endswith(".hooks")} == set()
    assert loaded.isdisjoint({"requests", "urllib3", "http.client", "marshmallow"})


@pytest.mark.parametrize(
    ("package", "provider"),
    [
        ("ai4j_sandbox_e2b", "E2BSandboxProvider"),
        ("ai4j_sandbox_cubesandbox", "CubeSandboxProvider"),
        ("ai4j_sandbox_daytona", "DaytonaSandboxProvider"),
    ],
)
def test_calling_a_control_plane_does_not_load_requests(package: str, provider: str) -> None:
    program = f"""
import socket
from {package} import {provider}

with socket.create_server(("127.0.0.1", 0)) as unused:
    port = unused.getsockname()[1]
health = {provider}(api_url=f"http://127.0.0.1:{{port}}", api_key="key").health()
assert "could not connect" in health.summary, health
"""

    assert loaded_by(program).isdisjoint({"requests", "urllib3", "http.client"})
