"""What can follow what was typed so far. Pure: what there is to know comes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ai4j_cli.parameters import provider_by_name

from .directive import OPTIONS, SandboxAction
from .words import UnclosedQuoteError, split_words

CHAT_COMMANDS: Mapping[str, str] = {
    "/sandbox": "status, enable, attach, disable, artifacts, logs",
    "/status": "the session in two lines",
    "/help": "what can be typed",
    "/quit": "end the session",
}

_ACTIONS: Mapping[SandboxAction, str] = {
    SandboxAction.STATUS: "where commands run, after a look",
    SandboxAction.ENABLE: "create a sandbox and work in it",
    SandboxAction.ATTACH: "work in a sandbox that exists",
    SandboxAction.DISABLE: "work on this machine",
    SandboxAction.ARTIFACTS: "files the sandbox has to offer",
    SandboxAction.LOGS: "what happened in the sandbox",
}
_WITH_ARGUMENTS = (SandboxAction.ENABLE, SandboxAction.ATTACH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One way to go on.

    Attributes:
        text: What to put in place of the last `replaces` characters.
        about: What it is, in a few words.
    """

    text: str
    replaces: int
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What completion may offer.

    Attributes:
        providers: Installed provider ids.
        connecting: Those that can attach.
        sandbox_ids: Asked for the sandboxes of a provider; answers from memory or from the service.
    """

    providers: Sequence[str] = ()
    connecting: Sequence[str] = ()
    sandbox_ids: Callable[[str], Sequence[str]] = lambda provider_id: ()


def suggestions(line: str, knowledge: Knowledge) -> list[Suggestion]:
    """Return the ways to go on after `line`."""
    if not line.startswith("/"):
        return []
    command, blank, argument = line.partition(" ")
    if not blank:
        return [
            Suggestion(text=f"{name} " if name == "/sandbox" else name, replaces=len(command), about=about)
            for name, about in CHAT_COMMANDS.items()
            if name.startswith(command.lower())
        ]
    return _after_sandbox(argument, knowledge) if command.lower() == "/sandbox" else []


def _after_sandbox(argument: str, knowledge: Knowledge) -> list[Suggestion]:
    try:
        words = split_words(argument)
    except UnclosedQuoteError:
        return []
    typed = "" if not argument or argument[-1].isspace() else words.pop()
    return [
        Suggestion(text=text, replaces=len(typed), about=about)
        for text, about in _choices(words, typed, knowledge).items()
        if text.lower().startswith(typed.lower()) and text != typed
    ]


def _choices(before: list[str], typed: str, knowledge: Knowledge) -> Mapping[str, str]:
    if not before:
        return {
            f"{action} " if action in _WITH_ARGUMENTS else action.value: about for action, about in _ACTIONS.items()
        }
    action = before[0].lower()
    if action not in _WITH_ARGUMENTS:
        return {}
    if len(before) == 1:
        able = knowledge.connecting if action == SandboxAction.ATTACH else knowledge.providers
        return {f"{name} ": "provider" for name in able}
    if action == SandboxAction.ATTACH and len(before) == 2:
        provider_id = provider_by_name(before[1])
        return dict.fromkeys(knowledge.sandbox_ids(provider_id), "sandbox")
    return _options(before, typed)


def _options(before: list[str], typed: str) -> Mapping[str, str]:
    last = OPTIONS.get(before[-1].lower())
    if last is not None and last.takes_value:
        return {}  # its value
    unlikely = "--create-if-missing" if before[0].lower() == SandboxAction.ENABLE else "--no-create-if-missing"
    return {f"{name} ": "option" for name in OPTIONS if name != unlikely}
