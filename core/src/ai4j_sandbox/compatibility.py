"""Whether a version lies in the range a distribution requires, read from its metadata before anything is imported.

Our own comparison instead of a dependency, because the question is narrow: one name, numeric releases, and
pip has already judged the range once, at install time. What it understands are the comparison clauses of a
``Requires-Dist`` line (``>=0.1,<0.2``, ``~=0.1``, ``==0.1.*``). Whatever else a line holds (a marker, a URL, a local
version) admits: the SPI range in `ProviderInfo.spi` is checked afterwards anyway.

Pre-releases count as the release they lead to: core 0.2.0rc1 already offers the SPI of 0.2.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping

Release = tuple[int, ...]

_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?(?P<clauses>[^();@]*)\)?\s*(?P<marker>;.*)?"
)
_CLAUSE = re.compile(r"\s*(?P<operator>~=|===?|!=|<=?|>=?)\s*v?(?P<release>\d+(?:\.\d+)*)(?P<prefix>\.\*)?")
_COMPARISONS: Mapping[str, Callable[[Release, Release], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "===": operator.eq,
    "!=": operator.ne,
}


def canonical_name(name: str) -> str:
    """Return a distribution name the way the index compares names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def release_of(version: str) -> Release:
    """Return the numbers a version begins with, ``(0, 2, 0)`` for ``0.2.0rc1``; empty when there are none."""
    match = re.match(r"\s*v?(\d+(?:\.\d+)*)", version)
    return _release(match[1]) if match else ()


def unmet_requirement(requirements: Iterable[str], name: str, version: str) -> str | None:
    """Return the first of `requirements` on the distribution `name` that `version` does not meet, or ``None``."""
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None or match["marker"] or canonical_name(match["name"]) != canonical_name(name):
            continue
        if not all(_admits(clause, release_of(version)) for clause in match["clauses"].split(",")):
            return requirement.strip()
    return None


def _admits(clause: str, version: Release) -> bool:
    match = _CLAUSE.match(clause)
    if match is None or not version:
        return True
    bound = _release(match["release"])
    if match["operator"] == "~=":
        return _at_least(version, bound) and version[: len(bound) - 1] == bound[:-1]
    if match["prefix"]:
        return (_padded(version, len(bound))[: len(bound)] == bound) is (match["operator"] != "!=")
    width = max(len(version), len(bound))
    return _COMPARISONS[match["operator"]](_padded(version, width), _padded(bound, width))


def _at_least(version: Release, bound: Release) -> bool:
    width = max(len(version), len(bound))
    return _padded(version, width) >= _padded(bound, width)


def _padded(release: Release, width: int) -> Release:
    return release + (0,) * (width - len(release))


def _release(digits: str) -> Release:
    return tuple(int(part) for part in digits.split("."))
