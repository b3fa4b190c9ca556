"""Glob patterns for artifacts, as pure functions of text.

* ``*`` and ``?`` match within one name, ``[a-c]`` and ``[!a-c]`` one character of it, ``**`` as a whole name any number
  of directories.
* A name that begins with a dot is matched only by a pattern that spells the dot: ``**/*`` takes neither ``.git/config``
  nor ``.env``.
* Everything else is literal, the backslash too; ``[*]`` is a literal star. Case counts.
"""

from __future__ import annotations

import re

_WILDCARD = re.compile(r"[*?\[]")
_TOKEN = re.compile(
    r"(?P<stars>\*+)|(?P<one>\?)|\[(?P<negated>[!^]?)(?P<members>\]?[^\]]*)\]|(?P<literal>.)", re.DOTALL
)
_VISIBLE = "(?=[^./])"  # a name begins here, and not with a dot
_ANY_DIRECTORIES = rf"(?:{_VISIBLE}[^/]+/)*"


def split_glob(pattern: str) -> tuple[str, str]:
    """Split a pattern into the directory before the first wildcard and the rest, which begins there.

    The directory is ``"."`` for the working directory itself; the rest is never empty.
    """
    names = re.sub("/+", "/", pattern).split("/")
    wild = next((index for index, name in enumerate(names) if _WILDCARD.search(name)), len(names))
    cut = min(wild, len(names) - 1)
    directory = "/".join(names[:cut]) or ("/" if pattern.startswith("/") else ".")
    return directory, "/".join(names[cut:])


def glob_depth(rest: str) -> int | None:
    """Return how many names deep the rest of a pattern can match; ``None`` for any depth."""
    names = rest.split("/")
    return None if "**" in names else len(names)


def glob_regex(rest: str) -> re.Pattern[str]:
    """Return a regular expression; its `fullmatch` accepts the paths that the rest of a pattern means."""
    *directories, last = rest.split("/")
    parts = [_ANY_DIRECTORIES if name == "**" else f"{_name_regex(name)}/" for name in directories]
    parts.append(f"{_ANY_DIRECTORIES}{_name_regex('*')}" if last == "**" else _name_regex(last))
    return re.compile("".join(parts))


def _name_regex(name: str) -> str:
    visible = _VISIBLE if _WILDCARD.match(name) else ""
    return visible + "".join(map(_token_regex, _TOKEN.finditer(name)))


def _token_regex(token: re.Match[str]) -> str:
    if token["stars"]:
        return "[^/]*"
    if token["one"]:
        return "[^/]"
    if token["members"] is not None:
        return _members_regex(token["members"], negated=bool(token["negated"]))
    return re.escape(token["literal"])


def _members_regex(members: str, *, negated: bool) -> str:
    # A hyphen between two characters makes a range; everything else in the brackets is itself.
    escaped = re.sub(r"(?<=.)\\-(?=.)", "-", re.escape(members), flags=re.DOTALL)
    try:
        regex = f"(?!/)[{'^' if negated else ''}{escaped}]"
        re.compile(regex)
    except re.error:
        return "(?!)"  # an empty set and a reversed range match nothing
    return regex
