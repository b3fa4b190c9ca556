"""Reading what somebody sent who may have sent anything."""

from __future__ import annotations

import pytest

from ai4j_sandbox_emulator.json_text import MOST_LEVELS, parse_json, whole_number


def test_document_is_read() -> None:
    assert parse_json(b'{"a": [1, 2.5, null, "\\ud83d\\ude00", "\xc3\xa9"]}') == {
        "a": [1, 2.5, None, "\U0001f600", "é"]
    }
    assert parse_json(b"[" * MOST_LEVELS + b"]" * MOST_LEVELS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b'"\xed\xa0\x80"',  # a surrogate in what would be UTF-8 if that could write it
        b'"\\ud800"',
        b'{"a": ["\\udcff"]}',
        b'{"\\udcff": 1}',
        b"NaN",
        b"[-Infinity]",
        b"9" * 5000,
        b"[" * (MOST_LEVELS + 2) + b"]" * (MOST_LEVELS + 2),
        b"[" * 100_000 + b"]" * 100_000,
    ],
)
def test_what_is_no_document_is_one_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(data)


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("42", 42), ("", None), ("-1", None), ("²", None), ("٣", None), ("9" * 5000, None)]
)
def test_number_is_ascii_digits(text: str, number: int | None) -> None:
    assert whole_number(text) == number
