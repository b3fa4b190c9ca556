"""Signed URLs for files: anybody who has one may read or write one path, without the token. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Literal

from ai4j_sandbox_emulator.json_text import whole_number
from ai4j_sandbox_emulator.secret_text import same_secret

Operation = Literal["read", "write"]


class SignatureError(Exception):
    """The request may not touch the file; the text is the server's."""


def signature(path: str, operation: Operation, user: str, token: str, expiration: str | None = None) -> str:
    """Return the signature of a request; `path` and `user` exactly as they are in its query."""
    parts = [path, operation, user, token, *([] if expiration is None else [expiration])]
    digest = hashlib.sha256(":".join(parts).encode()).digest()
    return "v1_" + base64.b64encode(digest).decode("ascii").rstrip("=")


def check_access(
    token: str | None, operation: Operation, headers: Mapping[str, str], query: Mapping[str, str], now: float
) -> None:
    """Refuse a file request that has neither the token nor a valid signature.

    Raises:
        SignatureError: It may not touch the file.
    """
    if token is None:
        return
    header = headers.get("X-Access-Token")
    if header is not None:
        if not same_secret(header, token):
            raise SignatureError("access token present in header but does not match")
        return
    if "signature" not in query:
        raise SignatureError("missing signature query parameter")
    if not is_signed(token, operation, query):
        raise SignatureError("invalid signature")
    expiration = query.get("signature_expiration")
    if expiration is not None and (whole_number(expiration) or 0) < now:
        raise SignatureError("signature is already expired")


def is_signed(token: str, operation: Operation, query: Mapping[str, str]) -> bool:
    """Whether the query's signature was made with this token, expired or not."""
    expected = signature(
        query.get("path", ""), operation, query.get("username", ""), token, query.get("signature_expiration")
    )
    return same_secret(query.get("signature", ""), expected)
