"""JSON and numbers from somebody who may have sent anything, and JSON that may quote it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ai4j_sandbox.model import is_utf8

MOST_LEVELS = 100
"""How deep a document may be nested. Real servers follow 128 (serde) to 10,000 levels (Go), and nobody needs ten."""

_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")


def parse_json(data: bytes) -> Any:
    """Return the document that bytes hold.

    Raises:
        ValueError: They hold none: it is not UTF-8 or not JSON, is nested too deep, holds a number like ``NaN`` that
            JSON has not, or an escaped surrogate without its other half, which stands for no character.
    """
    try:
        text = data.decode()
        document = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    _check_levels(document)
    if "\\u" in text and not is_utf8(json.dumps(document, ensure_ascii=False)):
        raise ValueError("invalid escape code: a surrogate without its other half")
    return document


def _check_levels(document: Any) -> None:
    nodes, levels = [document], 0
    while nodes:
        if levels > MOST_LEVELS:
            raise ValueError("it is nested too deep")
        levels += 1
        nodes = [child for node in nodes for child in _children(node)]


def _children(node: Any) -> Iterable[Any]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


def _no_number(name: str) -> None:
    raise ValueError(f"invalid value {name}")


def json_bytes(document: Any) -> bytes:
    """Return a document as UTF-8. Bytes of a header that it quotes may be none; they become question marks."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def whole_number(text: str) -> int | None:
    """Return the number that ASCII digits say; ``None`` for anything else, and for more than 18 of them."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None
