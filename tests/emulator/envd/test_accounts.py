"""Users and what paths mean to them."""

from __future__ import annotations

import base64

import pytest

from ai4j_sandbox_emulator.envd.accounts import Account, Accounts, PathError, UnknownUserError, basic_user, resolve
from ai4j_sandbox_emulator.envd.connect import Code, ConnectError

USER = Account("user", "/home/user")
ACCOUNTS = Accounts.usual("/home/user")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", "/home/user"),
        ("a/b", "/home/user/a/b"),
        ("./a/../b", "/home/user/b"),
        ("/etc/hosts", "/etc/hosts"),
        ("~", "/home/user"),
        ("~/a", "/home/user/a"),
        ("a~b", "/home/user/a~b"),
    ],
)
def test_a_path_is_made_absolute(given: str, meant: str) -> None:
    assert resolve(given, USER) == meant


@pytest.mark.parametrize("given", ["~other", "~other/a", "a\0b"])
def test_a_path_that_cannot_be_meant_is_refused(given: str) -> None:
    with pytest.raises(PathError):
        resolve(given, USER)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("Basic " + base64.b64encode(b"root:").decode(), "root"),
        ("basic " + base64.b64encode(b"root:ignored").decode(), "root"),
        ("Bearer abc", None),
        ("Basic ???", None),
        ("Basic " + base64.b64encode(b"\xff").decode(), None),
        ("", None),
    ],
)
def test_the_user_is_in_the_basic_credentials(header: str, name: str | None) -> None:
    assert basic_user(header) == name


def test_the_first_user_is_the_default() -> None:
    assert ACCOUNTS.find(None) == ACCOUNTS.of_request({}) == USER


def test_an_unknown_user_is_told_as_envd_does() -> None:
    with pytest.raises(UnknownUserError, match="invalid username: 'ghost'"):
        ACCOUNTS.find("ghost")
    with pytest.raises(ConnectError) as caught:
        ACCOUNTS.of_request({"Authorization": "Basic " + base64.b64encode(b"ghost:").decode()})
    assert caught.value.code is Code.UNAUTHENTICATED
