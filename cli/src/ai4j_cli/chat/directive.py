"""What a ``/sandbox`` line asks for, as data. Nothing is looked up and nothing is contacted.

Whatever is not understood is refused without repeating a value: it may be a credential, and those belong into the
environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ai4j_cli.parameters import provider_by_name
from ai4j_sandbox.frozen import empty_mapping, freeze
from ai4j_sandbox.redaction import mask_text

from .words import UnclosedQuoteError, split_words


class SandboxAction(StrEnum):
    """What to do with the chat's sandbox."""

    STATUS = "status"
    ENABLE = "enable"
    ATTACH = "attach"
    DISABLE = "disable"
    ARTIFACTS = "artifacts"
    LOGS = "logs"


ACTION_WORDS: Mapping[str, SandboxAction] = {
    **{action.value: action for action in SandboxAction},
    "create": SandboxAction.ENABLE,
    "off": SandboxAction.DISABLE,
}

USAGE: Mapping[SandboxAction, str] = {
    SandboxAction.STATUS: "/sandbox status",
    SandboxAction.ENABLE: "/sandbox enable <provider> [options]",
    SandboxAction.ATTACH: "/sandbox attach <provider> <id> [workspace] [options]",
    SandboxAction.DISABLE: "/sandbox disable",
    SandboxAction.ARTIFACTS: "/sandbox artifacts [glob...]",
    SandboxAction.LOGS: "/sandbox logs [lines]",
}

_NO_CREDENTIALS = "Credentials must come from environment or local config, never from the command line"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxDirective:
    """One ``/sandbox`` line. ``None`` means not given: then the provider's default counts.

    Attributes:
        provider_id: As typed, aliases replaced.
        sandbox_id: The sandbox to attach to.
        patterns: For ``artifacts``: what to look for.
        lines: For ``logs``: how many.
    """

    action: SandboxAction
    provider_id: str | None = None
    sandbox_id: str | None = None
    workspace: str | None = None
    image: str | None = None
    delete_on_close: bool | None = None
    create_if_missing: bool | None = None
    settings: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    patterns: tuple[str, ...] = ()
    lines: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", freeze(self.settings))


class DirectiveError(ValueError):
    """The line cannot be meant; the message never repeats a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of ``enable`` and ``attach``.

    Attributes:
        attribute: Which attribute of the directive it sets.
        constant: What it sets it to when it takes no value.
    """

    attribute: str
    constant: bool | None = None

    @property
    def takes_value(self) -> bool:
        """Whether a value follows."""
        return self.constant is None


OPTIONS: Mapping[str, Option] = {
    "--workspace": Option(attribute="workspace"),
    "--sandbox-name": Option(attribute="workspace"),
    "--sandbox-id": Option(attribute="sandbox_id"),
    "--image": Option(attribute="image"),
    "--snapshot": Option(attribute="image"),
    "--config": Option(attribute="settings"),
    "--delete-on-close": Option(attribute="delete_on_close", constant=True),
    "--keep-on-close": Option(attribute="delete_on_close", constant=False),
    "--create-if-missing": Option(attribute="create_if_missing", constant=True),
    "--no-create-if-missing": Option(attribute="create_if_missing", constant=False),
}


def parse_directive(argument: str) -> SandboxDirective:
    """Return what follows ``/sandbox``, understood.

    Raises:
        DirectiveError: It cannot be meant.
    """
    try:
        words = split_words(argument)
    except UnclosedQuoteError as error:
        raise DirectiveError(str(error)) from None
    if not words:
        return SandboxDirective(action=SandboxAction.STATUS)
    if any(mask_text(word) != word for word in words):
        raise DirectiveError(f"The line holds what looks like a credential. {_NO_CREDENTIALS}")
    action = ACTION_WORDS.get(words[0].lower())
    if action is None:
        actions = ", ".join(SandboxAction)
        raise DirectiveError(f"Unknown /sandbox action: {_safe(words[0])}; there are: {actions}")
    return _PARSERS[action](action, words[1:])


def _parse_bare(action: SandboxAction, words: list[str]) -> SandboxDirective:
    if words:
        raise DirectiveError(f"Usage: {USAGE[action]}")
    return SandboxDirective(action=action)


def _parse_artifacts(action: SandboxAction, words: list[str]) -> SandboxDirective:
    return SandboxDirective(action=action, patterns=tuple(words))


def _parse_logs(action: SandboxAction, words: list[str]) -> SandboxDirective:
    if len(words) > 1 or (words and not (words[0].isascii() and words[0].isdigit() and int(words[0]))):
        raise DirectiveError(f"Usage: {USAGE[action]}")
    return SandboxDirective(action=action, lines=int(words[0]) if words else None)


def _parse_opening(action: SandboxAction, words: list[str]) -> SandboxDirective:
    """Read ``enable`` and ``attach``: positional words, then options in any order; the last of two wins."""
    needed = ("provider_id", "sandbox_id") if action is SandboxAction.ATTACH else ("provider_id",)
    if len(words) < len(needed) or any(word.startswith("--") or not word.strip() for word in words[: len(needed)]):
        raise DirectiveError(f"Usage: {USAGE[action]}")
    positional, rest = words[: len(needed)], words[len(needed) :]
    given: dict[str, Any] = dict(zip(needed, positional, strict=True))
    workspace = rest.pop(0) if action is SandboxAction.ATTACH and rest and not rest[0].startswith("--") else None
    given |= _options(rest)
    given["provider_id"] = provider_by_name(positional[0])
    if workspace is not None:
        given["workspace"] = _one_workspace(workspace, given.get("workspace"))
    return SandboxDirective(action=action, **given)


def _one_workspace(positional: str, option: str | None) -> str:
    if not positional.strip():
        raise DirectiveError("the workspace must not be empty")
    if option not in (None, positional):
        raise DirectiveError("the workspace is given twice, differently")
    return positional


def _options(words: list[str]) -> dict[str, Any]:
    """Return the attributes that options set."""
    given: dict[str, Any] = {}
    remaining = list(words)
    while remaining:
        name, equals, value = remaining.pop(0).partition("=")
        option = OPTIONS.get(name.lower())
        if option is None:
            raise _unknown(name)
        if not option.takes_value:
            given[option.attribute] = _flag(name, option, value if equals else None)
            continue
        if not equals and remaining and not remaining[0].startswith("--"):
            value = remaining.pop(0)
        if not value.strip():
            raise DirectiveError(f"Missing value for {name}")
        if option.attribute == "settings":
            given["settings"] = given.get("settings", {}) | _setting(value)
        else:
            given[option.attribute] = value
    return given


def _setting(value: str) -> dict[str, str]:
    key, equals, text = value.partition("=")
    if not key or not equals:
        raise DirectiveError("--config must be written as --config KEY=VALUE")
    return {key: text}


def _flag(name: str, option: Option, value: str | None) -> bool:
    words = {"true": True, "false": False}
    if value is None:
        return bool(option.constant)
    if value.lower() not in words:
        raise DirectiveError(f"{name} takes no value, or true or false")
    return words[value.lower()] is option.constant


def _unknown(name: str) -> DirectiveError:
    if name.startswith("--"):
        return DirectiveError(f"Unknown /sandbox option: {_safe(name)}. {_NO_CREDENTIALS}")
    return DirectiveError(f"A word too many in the /sandbox command. {_NO_CREDENTIALS}")


def _safe(word: str) -> str:
    """Return a word that was not understood if it looks like a name; otherwise nothing of it."""
    looks_like_name = re.fullmatch(r"(?:--)?[A-Za-z]+(?:-[A-Za-z]+)*", word) and len(word) <= 40
    return word if looks_like_name else "(not shown)"


_PARSERS = {
    SandboxAction.STATUS: _parse_bare,
    SandboxAction.DISABLE: _parse_bare,
    SandboxAction.ENABLE: _parse_opening,
    SandboxAction.ATTACH: _parse_opening,
    SandboxAction.ARTIFACTS: _parse_artifacts,
    SandboxAction.LOGS: _parse_logs,
}
