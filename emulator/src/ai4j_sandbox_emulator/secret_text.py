"""Comparing what a request says with a secret."""

from __future__ import annotations

import hmac


def same_secret(given: str, secret: str) -> bool:
    """Whether they are the same. Takes as long either way, and any header: its bytes may be no UTF-8."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())
