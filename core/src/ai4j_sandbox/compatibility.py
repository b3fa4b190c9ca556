"""Whether a version lies in the range a distribution requires, read from its metadata before anything is imported.

A line on that distribution that cannot be read is not met: nobody knows what it asks for. One that holds under other
circumstances (a marker) admits: the SPI range in `ProviderInfo.spi` is checked afterwards anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

LOWEST = Version("0.dev0")


def version_of(text: str) -> Version:
    """Return a version for sorting; one that cannot be read is the lowest."""
    try:
        return Version(text)
    except InvalidVersion:
        return LOWEST


def unmet_requirement(requirements: Iterable[str], name: str, version: str) -> str | None:
    """Return the first of `requirements` on the distribution `name` that `version` does not meet, or ``None``."""
    installed = version_of(version)
    if installed is LOWEST:
        return None
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            if _named(text) == canonicalize_name(name):
                return text.strip()
            continue
        if canonicalize_name(requirement.name) != canonicalize_name(name) or requirement.marker:
            continue
        # A pre-release of the core counts: it already offers the SPI of the release it leads to.
        if not requirement.specifier.contains(installed, prereleases=True):
            return text.strip()
    return None


def _named(text: str) -> str:
    """The distribution that a malformed requirement is about: what stands before anything that is no name."""
    return canonicalize_name(re.split(r"[^A-Za-z0-9._-]", text.strip(), maxsplit=1)[0])
