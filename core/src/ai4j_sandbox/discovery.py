"""Which plugins are installed, from metadata alone: nothing is imported, one broken distribution hurts no other.

The only module that uses ``importlib_metadata``, and it uses no more of it than the search for distributions: asked for
the entry points of a group, the library may give up on all of them because one unrelated file is malformed.

Rules:

* Of several distributions with one name the first on the search path counts, as for ``import``; one that lost its
  METADATA does not count. Two in the same directory (an interrupted upgrade): the higher version counts.
* Only the lines of the group asked for are read, so that nothing else in the file can be wrong.
* What could not be read is a `PluginProblem`, never an exception.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import importlib_metadata

from .capability import SPI_VERSION

if TYPE_CHECKING:
    from packaging.version import Version

CORE_DISTRIBUTION = "ai4j-sandbox"
PROVIDERS_GROUP = "ai4j.sandbox_providers"
OBSERVERS_GROUP = "ai4j.sandbox_observers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEntry:
    """One entry point, unread beyond its text.

    Attributes:
        value: Where the plugin is, ``package.module`` or ``package.module:object``; not validated here.
        requires: The distribution's ``Requires-Dist`` lines.
        location: The directory on the search path that holds the distribution's metadata.
    """

    group: str
    name: str
    value: str
    distribution: str
    version: str
    requires: tuple[str, ...] = ()
    location: str | None = None

    def __str__(self) -> str:
        return f"{self.name!r} of {self.distribution} {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginProblem:
    """Why a plugin, or the metadata of a distribution, cannot be used.

    Attributes:
        name: The entry point that cannot be used; without one the problem keeps no plugin from working.
        hint: What to do about it.
    """

    group: str
    reason: str
    distribution: str | None = None
    version: str | None = None
    name: str | None = None
    location: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        advice = f" ({self.hint})" if self.hint else ""
        return f"{self.reason}{advice}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What one look at the search path found, sorted by entry name and distribution."""

    entries: tuple[PluginEntry, ...] = ()
    problems: tuple[PluginProblem, ...] = ()


def discover(group: str, path: Sequence[str] | None = None) -> Discovery:
    """Return the entry points of a group and what is wrong with them.

    Args:
        group: Name of the entry-point group.
        path: Directories to search instead of `sys.path`.
    """
    return _Search(group, path).run()


@functools.cache
def core_version() -> str:
    """Return the version of the running core; a checkout without metadata counts as the SPI version it offers."""
    try:
        return importlib_metadata.version(CORE_DISTRIBUTION)
    except importlib_metadata.PackageNotFoundError:
        return ".".join(map(str, SPI_VERSION))


def canonical_name(name: str) -> str:
    """Return a distribution name the way the index compares names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def forget_directories() -> None:
    """Let the next search see what was installed since the last one, as a notebook's ``%pip install`` does."""
    importlib.invalidate_caches()


def parse_group(text: str, group: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the (name, value) pairs of one section of an ``entry_points.txt``, and the lines that are none."""
    pairs: list[tuple[str, str]] = []
    malformed: list[str] = []
    section = None
    for line in map(str.strip, text.removeprefix("\ufeff").splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == group and line and not line.startswith(("#", ";")):
            name, _, value = (part.strip() for part in line.partition("="))
            if name and value:
                pairs.append((name, value))
            else:
                malformed.append(line)
    return pairs, malformed


class _Distribution(Protocol):
    """What is needed of an ``importlib_metadata`` distribution, whose own types differ between its versions."""

    def read_text(self, filename: str, /) -> str | None: ...
    def locate_file(self, path: str, /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metadata:
    """The part of one distribution's metadata that matters here."""

    name: str
    version: str
    requires: tuple[str, ...]
    entry_points: str
    location: str


class _Search:
    """One look at the search path for one group."""

    def __init__(self, group: str, path: Sequence[str] | None) -> None:
        self._group = group
        self._path = path
        self._problems: dict[PluginProblem, None] = {}  # in order, each once

    def run(self) -> Discovery:
        """Return what there is."""
        chosen = [self._choose(name) for name in self._names_that_mention_the_group()]
        entries = [entry for metadata in chosen if metadata for entry in self._entries(metadata)]
        return Discovery(
            entries=tuple(sorted(entries, key=lambda entry: (entry.name, entry.distribution))),
            problems=tuple(self._problems),
        )

    def _names_that_mention_the_group(self) -> Iterable[str]:
        """Names of the distributions that may have entries; all others are ruled out by one short read."""
        names: dict[str, str] = {}
        for distribution in self._distributions():
            if self._group in self._text(distribution, "entry_points.txt") and (found := self._read(distribution)):
                names.setdefault(canonical_name(found.name), found.name)
        return names.values()

    def _choose(self, name: str) -> _Metadata | None:
        """Return the one of possibly several distributions of one name that counts."""
        found = [metadata for item in self._distributions(name=name) if (metadata := self._read(item))]
        beside = [metadata for metadata in found if metadata.location == found[0].location]
        rivals = {metadata.version: metadata for metadata in beside}
        if len(rivals) < 2:
            return beside[0] if beside else None
        by_age = sorted(rivals.values(), key=_age)
        self._report_rivals(by_age)
        return by_age[-1]

    def _entries(self, metadata: _Metadata) -> list[PluginEntry]:
        pairs, malformed = parse_group(metadata.entry_points, self._group)
        for line in malformed:
            self._report_malformed(metadata, line)
        return [
            PluginEntry(
                group=self._group,
                name=name,
                value=value,
                distribution=metadata.name,
                version=metadata.version,
                requires=metadata.requires,
                location=metadata.location,
            )
            for name, value in dict.fromkeys(pairs)
        ]

    def _distributions(self, **filters: object) -> Iterable[_Distribution]:
        if self._path is not None:
            filters["path"] = list(self._path)
        return importlib_metadata.distributions(**filters)

    def _read(self, distribution: _Distribution) -> _Metadata | None:
        headers = _headers(self._text(distribution, "METADATA") or self._text(distribution, "PKG-INFO"))
        if "name" not in headers:
            self._report(
                f"the metadata folder {_folder(distribution)} has no METADATA and is ignored",
                hint="it is what an interrupted uninstall left behind; delete it",
                location=_location(distribution),
            )
            return None
        return _Metadata(
            name=headers["name"][0],
            version=headers.get("version", ["unknown"])[0],
            requires=tuple(headers.get("requires-dist", ())),
            entry_points=self._text(distribution, "entry_points.txt"),
            location=_location(distribution),
        )

    def _text(self, distribution: _Distribution, filename: str) -> str:
        try:
            return distribution.read_text(filename) or ""
        except (OSError, ValueError) as error:  # ValueError: bytes that are not UTF-8
            self._report(
                f"{filename} in {_folder(distribution)} cannot be read: {error}",
                hint="reinstall that distribution",
                location=_location(distribution),
            )
            return ""

    def _report(self, reason: str, **context: str) -> None:
        self._problems[PluginProblem(group=self._group, reason=reason, **context)] = None

    def _report_rivals(self, rivals: Sequence[_Metadata]) -> None:
        name, location = rivals[-1].name, rivals[-1].location
        versions = ", ".join(metadata.version for metadata in rivals)
        self._report(
            f"{name} is installed {len(rivals)} times in {location} ({versions}); the highest version counts",
            hint=f"run `pip install --force-reinstall {name}`",
            distribution=name,
            location=location,
        )

    def _report_malformed(self, metadata: _Metadata, line: str) -> None:
        self._report(
            f"entry point {line!r} of {metadata.name} {metadata.version} is not of the form 'name = module'",
            hint=f"reinstall {metadata.name}, or tell its author",
            name=line,
            distribution=metadata.name,
            version=metadata.version,
            location=metadata.location,
        )


def _age(metadata: _Metadata) -> tuple[Version, str]:
    """Sorts the versions of one distribution."""
    # Imported late: discovery runs in every process, and hardly ever has to compare two versions.
    from .compatibility import version_of

    return version_of(metadata.version), metadata.version


def _headers(text: str) -> Mapping[str, list[str]]:
    """The header lines of a METADATA file; the ones needed here are never folded."""
    headers: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line:
            break
        name, colon, value = line.partition(":")
        if colon and value.strip():
            headers.setdefault(name.lower(), []).append(value.strip())
    return headers


def _location(distribution: _Distribution) -> str:
    return str(distribution.locate_file(""))


def _folder(distribution: _Distribution) -> str:
    # The folder itself has no public name, but whoever has to delete it must be told which one it is.
    return str(getattr(distribution, "_path", _location(distribution)))
