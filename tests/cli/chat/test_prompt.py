"""What is remembered of what was typed, and how completion asks."""

from __future__ import annotations

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from ai4j_cli.chat.completion import Knowledge
from ai4j_cli.chat.prompt import ChatCompleter, ChatHistory, may_be_kept, remembering
from support.secrets import CANARY, assert_no_secret


@pytest.mark.parametrize("line", ["fix the tests", "/sandbox attach cube id /w", "/help", "/SANDBOX status"])
def test_an_ordinary_line_is_kept(line):
    assert may_be_kept(line)


@pytest.mark.parametrize(
    "line",
    [
        "/sandbox enable e2b --api-key=abc",
        "/sandbox enable e2b abc",
        "my key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789",
        "see https://user:hunter22@host/",
    ],
)
def test_a_line_that_may_hold_a_credential_is_not_kept(line):
    assert not may_be_kept(line)


def test_the_history_file_never_holds_a_refused_line(tmp_path):
    history = ChatHistory(str(tmp_path / "history"))

    history.append_string("hello")
    history.append_string(f"/sandbox enable e2b --api-key {CANARY}")

    kept = (tmp_path / "history").read_text()
    assert "hello" in kept
    assert_no_secret(kept)


def test_completion_replaces_the_word_being_typed():
    completer = ChatCompleter(Knowledge(providers=("local",)))

    (found,) = completer.get_completions(Document("/sandbox enable lo"), CompleteEvent())

    assert (found.text, found.start_position) == ("local ", -2)


def test_a_service_is_not_asked_for_every_key():
    asked: list[str] = []

    def ask(name: str) -> list[str]:
        asked.append(name)
        return [f"{name}-1"]

    ids = remembering(ask)

    assert (ids("a"), ids("a"), ids("b"), asked) == (["a-1"], ["a-1"], ["b-1"], ["a", "b"])
