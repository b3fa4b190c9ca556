"""What the Tab key offers."""

from __future__ import annotations

import pytest

from ai4j_cli.chat.completion import Knowledge, Suggestion, suggestions

KNOWLEDGE = Knowledge(
    providers=("cubesandbox", "daytona", "local"),
    connecting=("cubesandbox", "daytona"),
    sandbox_ids=lambda provider_id: {"daytona": ["sbx_123", "sbx_124"], "cubesandbox": ["c1"]}.get(provider_id, []),
)


def offered(line: str) -> list[str]:
    return [item.text for item in suggestions(line, KNOWLEDGE)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hello", []),
        ("", []),
        ("/", ["/sandbox ", "/status", "/help", "/quit"]),
        ("/s", ["/sandbox ", "/status"]),
        ("/sandbox", ["/sandbox "]),
        ("/SAND", ["/sandbox "]),
        ("/help x", []),
        ("/sandbox ", ["status", "enable ", "attach ", "disable", "artifacts", "logs"]),
        ("/sandbox a", ["attach ", "artifacts"]),
        ("/sandbox enable ", ["cubesandbox ", "daytona ", "local "]),
        ("/sandbox attach ", ["cubesandbox ", "daytona "]),
        ("/sandbox attach d", ["daytona "]),
        ("/SANDBOX ATTACH D", ["daytona "]),
        ("/sandbox attach daytona ", ["sbx_123", "sbx_124"]),
        ("/sandbox attach daytona sbx_12", ["sbx_123", "sbx_124"]),
        ("/sandbox attach daytona sbx_123", []),
        ("/sandbox attach cube ", ["c1"]),
        ("/sandbox enable daytona --ima", ["--image "]),
        ("/sandbox enable daytona --image ", []),
        ("/sandbox enable daytona 'x", []),
        ("/sandbox status ", []),
        ("/sandbox logs ", []),
    ],
)
def test_what_fits_is_offered(line, expected):
    assert offered(line) == expected


def test_options_of_enable_come_after_the_provider():
    assert {"--workspace ", "--image ", "--delete-on-close ", "--no-create-if-missing "} <= set(
        offered("/sandbox enable daytona ")
    )


def test_options_of_attach_come_after_the_id():
    assert {"--workspace ", "--delete-on-close ", "--create-if-missing "} <= set(
        offered("/sandbox attach daytona sbx_123 ")
    )


def test_a_suggestion_replaces_what_was_typed_of_the_word():
    assert suggestions("/sandbox attach day", KNOWLEDGE) == [Suggestion(text="daytona ", replaces=3, about="provider")]
