"""The values of options: text to data, with messages that say what is wrong."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

PROVIDER_ALIASES: Mapping[str, str] = {"cube": "cubesandbox"}

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTE_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A host file or directory and where it goes in the sandbox."""

    source: Path
    destination: str


def word(text: str) -> str:
    """Read a name that goes to a provider or a sandbox, as it was typed.

    Raises:
        click.BadParameter: As `file_name`.
    """
    return as_typed(file_name(text))


def provider_name(text: str) -> str:
    """Read a provider's id, or another name for it.

    Raises:
        click.BadParameter: As `word`.
    """
    return provider_by_name(word(text))


def provider_by_name(name: str) -> str:
    """Return the provider's id that a name stands for; `name` itself where it stands for none."""
    return PROVIDER_ALIASES.get(name.lower(), name)


def file_name(text: str) -> str:
    """Read the name of something on this machine.

    Raises:
        click.BadParameter: It is empty ("$UNSET" must not silently mean the default), or holds what looks like a
            credential, which is refused before it gets into a message, a table or the path of a request.
    """
    from ai4j_sandbox.redaction import mask_text

    if not text.strip():
        raise click.BadParameter("must not be empty")
    if mask_text(text) != text:
        raise click.BadParameter("holds what looks like a credential, which does not belong on the command line")
    return text


def folder(text: str) -> Path:
    """Read the path of a directory, which need not exist."""
    path = Path(file_name(text))
    if path.exists() and not path.is_dir():
        raise click.BadParameter(f"{text!r} is a file")
    return path


def label(text: str) -> tuple[str, str]:
    """Read ``KEY=VALUE``; services do not keep labels without a value."""
    name, value = pair(text)
    return name, word(value)


def as_typed(text: str) -> str:
    """Return a word of the command line by the bytes that were typed: UTF-8, even where the locale says otherwise."""
    try:
        return os.fsencode(text).decode()
    except UnicodeError:
        return text


def upload(text: str) -> Upload:
    """Read ``PATH[:DEST]``. Without DEST a file keeps its name and a directory's content goes to the default directory.

    A path that exists as written, colons included, has no DEST.
    """
    source, colon, destination = text.rpartition(":")
    if not colon or os.path.exists(text):
        source, destination = text, ""
    if not source:  # Path("") would be the current directory: "$UNSET:dest" must not copy that
        raise click.BadParameter(f"{text!r} names no path; write .:{destination} for the current directory")
    path = Path(source)
    if not path.exists():
        raise click.BadParameter(f"{source!r} does not exist")
    return Upload(source=path, destination=as_typed(destination) or ("." if path.is_dir() else as_typed(path.name)))


def variable(text: str) -> tuple[str, str]:
    """Read ``NAME=VALUE``, or ``NAME`` for the value it has in our own environment."""
    name, equals, value = text.partition("=")
    if not name:
        raise click.BadParameter("must be written as NAME=VALUE or NAME")
    if equals:
        return name, value
    if name not in os.environ:
        raise click.BadParameter(f"{name} is not set here; write {name}=VALUE, or export it first")
    return name, os.environ[name]


def pair(text: str) -> tuple[str, str]:
    """Read ``KEY=VALUE``, as it was typed."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter("must be written as KEY=VALUE")
    return as_typed(name), as_typed(value)


def seconds(text: str) -> float:
    """Read a positive, finite number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise click.BadParameter(f"{text!r} is not a positive number of seconds")
    return value


def duration(text: str) -> float:
    """Read a time span: seconds, or a number with ``s``, ``m``, ``h`` or ``d``."""
    unit = _SECONDS.get(text[-1:].lower())
    try:
        return seconds(text if unit is None else text[:-1]) * (unit or 1)
    except click.BadParameter:
        raise click.BadParameter(f"{text!r} is not a time span such as 90, 30m, 2h or 7d") from None


def size(text: str) -> int:
    """Read a number of bytes, with ``K``, ``M`` or ``G`` for powers of 1024."""
    digits = text.rstrip("kmgKMG")
    unit = _BYTE_UNITS.get(text[len(digits) :].lower())
    if unit is None or not (digits.isascii() and digits.isdigit()):
        raise click.BadParameter(f"{text!r} is not a number of bytes such as 65536, 64K or 10M")
    return int(digits) * unit
