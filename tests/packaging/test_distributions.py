"""What every distribution of the repository has in common."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from ai4j_sandbox.discovery import PROVIDERS_GROUP, PluginEntry
from ai4j_sandbox.plugin import contributed_provider
from support.distributions import ROOT, SourceDistribution, source_distributions

DISTRIBUTIONS = source_distributions()
LOCK_FILES = re.compile(r"(uv|poetry|pdm|Pipfile)\.lock|pylock(\..+)?\.toml|requirements.*\.txt", re.IGNORECASE)
every_distribution = pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)


def own_requirements(distribution: SourceDistribution) -> list[str]:
    return [line for line in distribution.requirements if line.startswith("ai4j-")]


def provider_entries() -> Iterator[tuple[SourceDistribution, str, str]]:
    for distribution in DISTRIBUTIONS:
        entries = distribution.project.get("entry-points", {}).get(PROVIDERS_GROUP, {})
        yield from ((distribution, name, value) for name, value in entries.items())


@every_distribution
def test_it_is_built_by_hatchling(distribution: SourceDistribution) -> None:
    assert distribution.pyproject["build-system"]["build-backend"] == "hatchling.build"


@every_distribution
def test_its_wheel_holds_the_package_named_like_it(distribution: SourceDistribution) -> None:
    packages = distribution.pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

    assert packages == [f"src/{distribution.package}"]
    assert (distribution.source / "__init__.py").is_file()


@every_distribution
def test_it_tells_type_checkers_that_it_is_typed(distribution: SourceDistribution) -> None:
    assert (distribution.source / "py.typed").is_file()


@every_distribution
def test_it_says_what_it_is(distribution: SourceDistribution) -> None:
    project = distribution.project

    assert (project["license"], project["requires-python"]) == ("Apache-2.0", ">=3.11")
    assert project["description"]
    assert (distribution.folder / project["readme"]).read_text().strip()


@every_distribution
def test_it_requires_ours_by_range(distribution: SourceDistribution) -> None:
    for requirement in own_requirements(distribution):
        assert re.fullmatch(r"ai4j-[a-z0-9-]+(\[[a-z,]+\])?>=0\.1,<0\.2", requirement)


@every_distribution
def test_everything_but_the_core_requires_the_core(distribution: SourceDistribution) -> None:
    requires_core = any(line.startswith("ai4j-sandbox>") for line in own_requirements(distribution))

    assert requires_core is (distribution.project["name"] != "ai4j-sandbox")


def test_all_have_one_version_while_it_is_0_x() -> None:
    versions = {str(distribution): distribution.project["version"] for distribution in DISTRIBUTIONS}

    assert set(versions.values()) == {"0.1.0"}, versions


@pytest.mark.parametrize(("distribution", "name", "value"), list(provider_entries()), ids=str)
def test_the_entry_point_is_named_like_the_provider_it_contributes(
    distribution: SourceDistribution, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(distribution.folder / "src"))
    project = distribution.project
    entry = PluginEntry(
        group=PROVIDERS_GROUP,
        name=name,
        value=value,
        distribution=project["name"],
        version=project["version"],
        requires=tuple(distribution.requirements),
    )

    info = contributed_provider(entry).info

    assert (info.provider_id, project["name"]) == (name, f"ai4j-sandbox-{name}")
    assert value == f"{distribution.package}.hooks"


def test_no_file_records_download_addresses() -> None:
    found = []
    for directory, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        found += [os.path.join(directory, name) for name in files if LOCK_FILES.fullmatch(name)]

    assert found == []
