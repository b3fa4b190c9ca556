"""Signed URLs: the documented signature, and every way not to be let in."""

from __future__ import annotations

import base64
import hashlib

import pytest

from ai4j_sandbox_emulator.envd.signature import SignatureError, check_access, signature

TOKEN = "t" * 64


def digest(text: str) -> str:
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def test_a_signature_covers_path_operation_user_and_token() -> None:
    assert signature("a/b.txt", "read", "", TOKEN) == digest(f"a/b.txt:read::{TOKEN}")


def test_a_signature_covers_its_expiration() -> None:
    assert signature("/a", "write", "root", TOKEN, "17") == digest(f"/a:write:root:{TOKEN}:17")


SIGNED = {"path": "/a", "username": "user", "signature": signature("/a", "read", "user", TOKEN)}
EXPIRING = {"path": "/a", "signature_expiration": "100", "signature": signature("/a", "read", "", TOKEN, "100")}


@pytest.mark.parametrize(
    ("headers", "query"),
    [({"X-Access-Token": TOKEN}, {}), ({}, SIGNED), ({}, EXPIRING), ({"X-Access-Token": TOKEN}, {"signature": "no"})],
)
def test_token_or_signature_lets_in(headers: dict[str, str], query: dict[str, str]) -> None:
    check_access(TOKEN, "read", headers, query, now=100)


@pytest.mark.parametrize(
    ("headers", "query", "now", "reason"),
    [
        ({}, {}, 0, "missing signature query parameter"),
        ({"X-Access-Token": "other"}, SIGNED, 0, "access token present in header but does not match"),
        ({}, {**SIGNED, "path": "/b"}, 0, "invalid signature"),
        ({}, {**SIGNED, "username": "root"}, 0, "invalid signature"),
        ({}, {**EXPIRING, "signature_expiration": "200"}, 0, "invalid signature"),
        ({}, EXPIRING, 101, "signature is already expired"),
    ],
)
def test_everything_else_is_kept_out(headers: dict[str, str], query: dict[str, str], now: float, reason: str) -> None:
    with pytest.raises(SignatureError) as caught:
        check_access(TOKEN, "read", headers, query, now)

    assert str(caught.value) == reason


def test_a_signature_for_reading_does_not_let_write() -> None:
    with pytest.raises(SignatureError, match="invalid signature"):
        check_access(TOKEN, "write", {}, SIGNED, now=0)


def test_an_unsecured_sandbox_asks_for_nothing() -> None:
    check_access(None, "read", {}, {}, now=0)
