"""Canary secrets: values planted where secrets live, and the check that they turn up nowhere."""

from __future__ import annotations

import traceback

CANARY = "CANARY-zq81xv77-do-not-print"


def everything_said(error: BaseException) -> str:
    """Return all an error can show: text, repr, attributes and the traceback with its causes."""
    return "\n".join((str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception(error))))


def assert_no_secret(*texts: object, secret: str = CANARY) -> None:
    """Fail when the secret, or a recognisable part of it, is in any of the texts."""
    for text in texts:
        said = text if isinstance(text, str) else repr(text)
        assert secret not in said
        assert secret[:16] not in said
