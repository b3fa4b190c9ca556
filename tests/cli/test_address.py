"""How a command line names sandboxes and the files in them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from ai4j_cli.address import SandboxAddress, SandboxPath, place, sandbox_address
from support.secrets import CANARY, assert_no_secret


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", SandboxAddress(session_id="abc")),
        ("e2b/abc", SandboxAddress(session_id="abc", provider_id="e2b")),
        ("daytona/team/box", SandboxAddress(session_id="team/box", provider_id="daytona")),
    ],
)
def test_an_address_is_an_id_with_or_without_its_provider(text, expected):
    assert sandbox_address(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize("text", ["", " ", "/", "/abc", "e2b/", "e2b/ "])
def test_an_address_without_an_id_is_refused(text):
    with pytest.raises(click.BadParameter, match="ID or PROVIDER/ID"):
        sandbox_address(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc:/etc/x", SandboxPath(sandbox=SandboxAddress(session_id="abc"), path="/etc/x")),
        ("e2b/abc:x:y", SandboxPath(sandbox=SandboxAddress(session_id="abc", provider_id="e2b"), path="x:y")),
        ("abc:", SandboxPath(sandbox=SandboxAddress(session_id="abc"), path=".")),
        ("file", Path("file")),
        ("-", Path("-")),
        ("./with:colon", Path("with:colon")),
        ("/with:colon", Path("/with:colon")),
        ("~/with:colon", Path("~/with:colon")),
        ("C:\\x", Path("C:\\x")),
    ],
)
def test_a_place_is_in_a_sandbox_when_an_address_and_a_colon_come_first(text, expected):
    assert place(text) == expected


@pytest.mark.parametrize("text", [f"e2b/https://me:{CANARY}@example.org", f"e2b/sk-{'a' * 20}", f"sk-{'a' * 20}/id"])
def test_what_holds_a_credential_is_no_address_and_is_not_repeated(text):
    with pytest.raises(click.BadParameter) as caught:
        sandbox_address(text)

    assert "credential" in caught.value.message
    assert_no_secret(caught.value.message)
    assert "aaaa" not in caught.value.message


def test_no_path_is_not_the_current_directory():
    with pytest.raises(click.BadParameter, match="must not be empty"):
        place("")
