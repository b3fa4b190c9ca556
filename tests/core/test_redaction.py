from __future__ import annotations

import base64
import html
import json
import random
import shlex
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

import pytest

from ai4j_sandbox.redaction import (
    MASK,
    STRICT,
    RedactionPolicy,
    Scrubber,
    escape_controls,
    filter_labels,
    fold_key,
    is_sensitive_key,
    mask_message,
    mask_text,
    mask_value,
)
from support.secrets import CANARY

# --- keys -------------------------------------------------------------------------------------------------------

SENSITIVE_KEYS = [
    *("apiKey", "api_key", "api-key", "API_KEY", "X-API-Key", "openai_api_key", "accessToken", "access_token"),
    *("refreshToken", "idToken", "botToken", "clientSecret", "client_secret", "privateKey", "userPassword", "PASSWORD"),
    *("passwd", "authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "credential", "credentials"),
    *("application_token", "GITHUB_TOKEN", "DBPassword", "apikey", "accesstoken", "clientsecret", "session.key"),
    *("APIKey", "secret_name", "apiToken"),
    *("monkey", "hockey", "turkey", "keyboard", "keypress", "tokenizer", "tokenization", "secretary", "cookiecutter"),
]
HARMLESS_KEYS = ["author", "authors", "authored", "compass", "task", "owner", "project", "", "ke", "y", "sec-ret2x"[:3]]


@pytest.mark.parametrize("key", SENSITIVE_KEYS)
def test_key_that_contains_a_sensitive_word_is_sensitive(key: str) -> None:
    """Cases P01 and P02: the contract's contains rule."""
    assert is_sensitive_key(key)


@pytest.mark.parametrize("key", HARMLESS_KEYS)
def test_other_key_is_not(key: str) -> None:
    """Case P02."""
    assert not is_sensitive_key(key)


@pytest.mark.parametrize(
    "key",
    [
        "ｔｏｋｅｎ",  # full width
        "tоken",  # Cyrillic o
        "pаsswоrd",
        "κey",  # Greek kappa
        "t\u200bo\u200bk\u200be\u200bn",  # zero width spaces
        "to\u00adken",  # soft hyphen
        "s.e-c_r e/t",
        "TÓKÉN",
        "ſecret",  # long s
        "𝐤𝐞𝐲",  # mathematical bold
        "toKen",  # Kelvin sign
        "apıkey",
        b"token",
    ],
)
def test_spelling_tricks_do_not_hide_a_key(key: str | bytes) -> None:
    assert is_sensitive_key(key)


@pytest.mark.parametrize("key", [None, 1, 1.5, ("token",), object()])
def test_key_that_is_no_text_is_not_sensitive(key: object) -> None:
    assert not is_sensitive_key(key)


def test_folding_keeps_letters_and_digits() -> None:
    assert fold_key(" API-Key_2 é") == "apikey2e"


def test_host_can_allow_exact_names() -> None:
    """Case P02."""
    policy = RedactionPolicy(allowed_names=frozenset(("keyboard",)))

    assert not policy.is_sensitive("keyboard")
    assert policy.is_sensitive("keyboards")
    assert policy.is_sensitive("Keyboard")
    assert STRICT.is_sensitive("keyboard")


def test_labels_lose_sensitive_keys_and_blanks_around_names() -> None:
    """Case P03."""
    labels = {" task ": "t-1", "apiToken": "x", "maxTokens": "8192", "": "y", "  ": "z", "empty": None, None: "n"}

    assert filter_labels(labels) == {"task": "t-1", "empty": None}


def test_label_values_that_look_like_secrets_are_masked() -> None:
    kept = filter_labels({"task": "sk-live-abcdefghijklmnop1234", "db": "postgres://u:hunter2@h/db", "plain": "a=b"})

    assert kept == {"task": MASK, "db": f"postgres://{MASK}@h/db", "plain": "a=b"}


def test_labels_keep_what_the_policy_allows() -> None:
    policy = RedactionPolicy(allowed_names=frozenset(("keyboard",)))

    assert filter_labels({"keyboard": "de", "token": "x"}, policy) == {"keyboard": "de"}


# --- values that give themselves away -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "gone", "kept"),
    [
        ("postgres://user:hunter2@h/db", ["hunter2", "user"], ["postgres://", "@h/db"]),
        ("postgres://user:p@ss@h/db", ["p@ss", "@ss@"], ["postgres://", "@h/db"]),
        ("postgres://user@h/db?password=hunter2", ["hunter2"], ["postgres://", "@h/db"]),
        ("https://h/x?access_token=abc&x=1", ["abc"], ["https://h/x?access_token=", "&x=1"]),
        ("https://h/x?a=1&sig=abcdef&b=2", ["abcdef"], ["a=1", "&b=2"]),
        ("amqp://:pw@h", [":pw"], ["amqp://", "@h"]),
        ("https://h/cb#access_token=abc", ["=abc"], ["https://h/cb"]),
        ("Authorization: Bearer abcdefgh12345", ["abcdefgh12345"], ["Authorization", "Bearer"]),
        ("Cookie: a=1; session=abcdef\nHost: h", ["a=1", "abcdef"], ["Cookie: ", "\nHost: h"]),
        ("Set-Cookie: sid=abcdef; Path=/", ["abcdef"], ["Set-Cookie: "]),
        ("Basic dXNlcjpwYXNzd29yZA==", ["dXNlcjpwYXNzd29yZA"], ["Basic "]),
    ],
)
def test_secret_parts_of_urls_and_headers_are_masked(text: str, gone: list[str], kept: list[str]) -> None:
    """Case P06."""
    masked = mask_text(text)

    assert [part for part in gone if part in masked] == []
    assert [part for part in kept if part not in masked] == []


@pytest.mark.parametrize(
    "token",
    [
        "e2b_" + "0123456789abcdef" * 2 + "01234567",
        "e2b_" + "A1b2C3d4" * 5,
        "dtn_" + "Ab3" * 20,
        "sk-proj-" + "A1b2_C3-" * 5,
        "sk-ant-api03-" + "A1b2" * 10,
        "sk_live_" + "a1B2" * 6,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2_" * 10,
        "glpat-" + "a1B2" * 5,
        "glptt-" + "a1B2" * 10,
        "xoxb-" + "1234567890-abcdef",
        "xapp-1-" + "A1B2C3-1234567890-abcdef",
        "gsk_" + "a1B2" * 13,
        "whsec_" + "a1B2" * 8,
        "ya29." + "a0A_" * 10,
        "SG." + "a1B2" * 5 + "." + "a1_2" * 10,
        "hf_" + "aB" * 17,
        "npm_" + "a1B2" * 9,
        "AKIA" + "ABCDEFGH23456789",
        "AIza" + "a1-_" * 9,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "eyJhbGciOiJSU0EtT0FFUCJ9.a2V5a2V5a2V5.aXZpdg.Y2lwaGVydGV4dA.dGFnYmFzZTY0",  # encrypted: five parts
    ],
)
def test_known_token_shapes_are_masked_without_any_key_name(token: str) -> None:
    """Case P16."""
    for text in (token, f"failed: {token}.", f'"{token}"', f"x={token};y", f"({token})"):
        masked = mask_text(text)
        assert token not in masked
        assert token[8:24] not in masked
        assert token[-6:] not in masked
        assert MASK in masked


def test_private_key_is_masked_as_a_whole() -> None:
    """Case P16."""
    pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"

    assert mask_text(f"before\n{pem}\nafter") == f"before\n{MASK}\nafter"
    assert "MIIEow" not in mask_text(pem[:50])


@pytest.mark.parametrize(
    "text",
    [
        "plain words, nothing to hide",
        "https://example.com:8080/a/b?x=1&page=2#top",
        "http://host:8080/a@b",
        "user@example.com",
        "/home/user/key.txt",
        "sk-short",
        "ai4j_sandbox_e2b_connectionfailures",
        "maxTokens=8192",
        "basic idea",
        "the bearer of news",
        "",
        "ünï 😀 \0 \n",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert mask_text(text) == text
    assert mask_message(text) == text


def test_masking_twice_is_masking_once() -> None:
    for text in ("postgres://u:p@h/db?password=x", "token=abcdef", "Bearer abcdefgh", "sk-" + "a" * 30):
        assert mask_message(mask_message(text)) == mask_message(text)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("failed (token=abc123)", f"failed (token={MASK})"),
        ('{"apiKey": "abc", "n": 5}', f'{{"apiKey": "{MASK}", "n": 5}}'),
        ("password: hunter2, user: bob", f"password: {MASK}, user: bob"),
        ("AWS_SECRET=sk-123", f"AWS_SECRET={MASK}"),
        ("maxTokens: 8192, token: null", "maxTokens: 8192, token: null"),
        ("client_secret='abc'", f"client_secret='{MASK}'"),
        ("Authorization: Token abcdef0123", f"Authorization: Token {MASK}"),
        ('"Proxy-Authorization": "ApiKey abc"', f'"Proxy-Authorization": "{MASK}"'),
        ("authorization=abc123", f"authorization={MASK}"),
        ("authorization: required", "authorization: required"),
        ("AccountKey=abcd1234==;Endpoint=h", f"AccountKey={MASK};Endpoint=h"),
        ("passphrase=abc123", f"passphrase={MASK}"),
    ],
)
def test_named_values_in_messages_are_masked(text: str, masked: str) -> None:
    assert mask_message(text) == masked


# --- nested values ------------------------------------------------------------------------------------------------


def test_mapping_keeps_numbers_and_booleans_under_sensitive_keys() -> None:
    """Case P03."""
    mapping = {"maxTokens": 8192, "max_tokens": 1, "prompt_tokens": 3, "totalTokens": 9, "useKey": True, "token": "t"}

    assert mask_value(mapping) == {**mapping, "token": MASK}


def test_nested_values_are_masked_and_the_input_is_not_changed() -> None:
    """Case P14."""

    @dataclass
    class Box:
        password: str
        note: str

    value: dict[Any, Any] = {
        "a": [{"token": "t", "n": 1}, ("x", {"secret": ["deep", 5]})],
        "box": Box(password="p", note="n"),
        b"token": b"raw",
        1: "one",
        None: "none",
        "bytes": b"e2b_" + b"0" * 40,
    }
    before = repr(value)

    assert mask_value(value) == {
        "a": [{"token": MASK, "n": 1}, ("x", {"secret": [MASK, 5]})],
        "box": {"password": MASK, "note": "n"},
        b"token": MASK.encode(),
        1: "one",
        None: "none",
        "bytes": MASK.encode(),
    }
    assert repr(value) == before


def test_cycle_ends() -> None:
    """Case P14."""
    value: dict[str, Any] = {"token": "t"}
    value["self"] = value

    assert mask_value(value) == {"token": MASK, "self": "[cycle]"}


def test_same_value_in_two_places_is_no_cycle() -> None:
    shared = {"n": 1}

    assert mask_value([shared, shared]) == [{"n": 1}, {"n": 1}]


def test_fifty_levels_down_is_masked_too() -> None:
    """Case P14."""
    value: Any = {"token": "t"}
    for _ in range(50):
        value = {"down": [value]}

    masked = repr(mask_value(value))

    assert "'t'" not in masked
    assert MASK in masked


def test_named_tuple_is_masked_by_its_names() -> None:
    class Login(NamedTuple):
        password: str
        user: str

    assert mask_value([Login(password="p", user="u")]) == [{"password": MASK, "user": "u"}]


@pytest.mark.parametrize("value", [memoryview(b"raw"), Path("/p"), ValueError("p"), deque(["p"])])
def test_object_of_any_type_under_a_sensitive_key_is_masked(value: object) -> None:
    masked = mask_value({"token": value, "note": 1})

    assert masked in ({"token": MASK, "note": 1}, {"token": MASK.encode(), "note": 1})


def test_chain_of_objects_without_end_is_masked_as_far_as_it_is_shown() -> None:
    @dataclass
    class Link:
        token: str
        following: object

    chain: object = None
    for _ in range(5000):
        chain = Link(CANARY, chain)

    masked = repr(mask_value(chain))

    assert "[too deep]" in masked
    assert CANARY not in masked


def test_read_only_mapping_is_masked_like_any_other() -> None:
    assert mask_value(MappingProxyType({"token": "t"})) == {"token": MASK}


# --- known values -------------------------------------------------------------------------------------------------

SECRET = "SECRETKEY1234"


def printf_q(text: str) -> str:
    """Return `text` as bash's ``printf %q`` writes what has no control characters."""
    return "".join(sign if sign.isalnum() or sign in "_@%+=:,./-\n" else f"\\{sign}" for sign in text)


@pytest.mark.parametrize("secret", ['p%ss w"rd/1', "a&b<c zq81", SECRET, "ünï côde", "a'b\\c d", "line1x\nline2y"])
@pytest.mark.parametrize(
    "spell",
    [
        str,
        lambda text: quote(text, safe=""),
        quote,
        quote_plus,
        lambda text: json.dumps(text),
        lambda text: json.dumps(text, ensure_ascii=False),
        lambda text: json.dumps(json.dumps(text)),
        lambda text: repr(json.dumps(text)),
        lambda text: json.dumps(text).replace("/", "\\/"),  # PHP
        lambda text: json.dumps(text).replace("&", "\\u0026").replace("<", "\\u003c"),  # Go
        lambda text: quote(quote(text, safe=""), safe=""),
        lambda text: text.encode().hex().upper(),
        printf_q,
        repr,
        shlex.quote,
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
        lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
        lambda text: base64.b64encode(f"me:{text}:more".encode()).decode(),
        lambda text: base64.b64encode(f"u:{text}".encode()).decode(),
    ],
)
def test_known_secret_is_masked_in_every_spelling(secret: str, spell: Any) -> None:
    """Case P09."""
    spelled = spell(secret)

    masked = Scrubber([secret]).text(f"<<{spelled}>>")

    assert secret not in masked
    assert spelled not in masked
    assert MASK in masked


def test_parts_of_a_structured_secret_are_masked_but_not_its_punctuation() -> None:
    """Case P08."""
    scrubber = Scrubber(['{\n  "n": 5,\n  "pass": "zq81xv77", "more": ["yr92yw88"]\n}'])

    assert scrubber.text("n: 5 pass: zq81xv77 { }") == f"n: 5 pass: {MASK} {{ }}"
    assert scrubber.text("it was yr92yw88") == f"it was {MASK}"


@pytest.mark.parametrize(
    ("secret", "part"),
    [
        ("user: someone\npassword: zq81xv77\n", "zq81xv77"),
        ("a: b\r\npassword: 'zq81xv77'  # the old one\r\n", "zq81xv77"),
        ('{"private_key": "-----BEGIN KEY-----\\nMIIEvQIBADAN\\n-----END KEY-----\\n"}', "MIIEvQIBADAN"),
        ('{"inner": "{\\"pass\\": \\"zq81xv77\\"}"}', "zq81xv77"),
        ('{"pin": 48151623}', "48151623"),
        ("postgres://user:zq81xv77@host/db", "zq81xv77"),
        ("postgres://user:zq81%40xv77@host/db", "zq81@xv77"),
    ],
)
def test_part_of_a_secret_with_a_structure_is_masked_on_its_own(secret: str, part: str) -> None:
    assert (
        Scrubber([secret]).text(f"it was <{part}>, true, user@host {{ }}") == "it was <[redacted]>, true, user@host { }"
    )


@pytest.mark.parametrize("secret", [None, "", "a", "abc"])
def test_value_too_short_to_be_masked_is_ignored(secret: str | None) -> None:
    scrubber = Scrubber([secret])

    assert not scrubber
    assert scrubber.text("abc") == "abc"


def test_longer_secret_wins_over_one_it_contains() -> None:
    assert Scrubber(["abcd", "abcdefgh"]).data(b"abcdefgh abcd") == b"[redacted] [redacted]"


def test_scrubber_does_not_show_what_it_knows() -> None:
    assert repr(Scrubber([SECRET])) == "Scrubber(<1 secrets>)"


def test_scrubber_can_learn_without_changing() -> None:
    first = Scrubber([SECRET])
    second = first.with_secrets(["other-secret"])

    assert first.text("other-secret") == "other-secret"
    assert second.text(f"other-secret {SECRET}") == f"{MASK} {MASK}"


@pytest.mark.parametrize("text", ["lone \ud800 surrogate", "nul \0", "😀"])
def test_any_text_can_be_scrubbed(text: str) -> None:
    assert Scrubber([SECRET]).text(text + SECRET) == text + MASK


# --- streams ------------------------------------------------------------------------------------------------------


def fed(scrubber: Scrubber, chunks: list[bytes]) -> bytes:
    """Feed the chunks and return everything that was shown; no single piece may show a secret either."""
    stream = scrubber.stream()
    return b"".join([*(stream.feed(chunk) for chunk in chunks), stream.finish()])


@pytest.mark.parametrize(
    ("chunks", "shown"),
    [
        ([b"xx SECRET", b"KEY1234 yy"], b"xx [redacted] yy"),
        ([b"tail SECRETKEY12"], b"tail SECRETKEY12"),
        ([b"SECRETKEY123", b"5 SECRETKEY1234"], b"SECRETKEY1235 [redacted]"),
        ([b"SECRETKEY1234" * 3], b"[redacted]" * 3),
        ([b"SSECRETKEY1234"], b"S[redacted]"),
        ([b"", b"a", b""], b"a"),
        ([], b""),
    ],
)
def test_stream_hides_secrets_and_loses_nothing(chunks: list[bytes], shown: bytes) -> None:
    """Cases P11 and P12."""
    assert fed(Scrubber([SECRET]), chunks) == shown


@pytest.mark.parametrize("text", [b"xx SECRETKEY1234 yy SECRETKEY12", b"SECRESECRETKEY1234SECRETKEY1234S"])
def test_stream_shows_the_same_wherever_it_is_cut_in_three(text: bytes) -> None:
    scrubber = Scrubber([SECRET])
    expected = scrubber.data(text)

    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            assert fed(scrubber, [text[:first], text[first:second], text[second:]]) == expected


def test_stream_shows_the_same_byte_by_byte() -> None:
    scrubber = Scrubber([SECRET, "SECRETKEY12", "Y1234567", "\n\n\n\n"])
    text = b"aSECRETKEY1234567\n\n\n\n\nSECRETKEY12SECRETKEY1x" * 3

    assert fed(scrubber, [bytes([byte]) for byte in text]) == scrubber.data(text)


def test_stream_of_overlapping_secrets_shows_none_of_them_however_it_is_cut() -> None:
    secrets = ["abab", "ababab", "babaX", "abcd", "cdab"]
    scrubber = Scrubber(secrets)
    chance = random.Random(7)

    for _ in range(2000):
        text = bytes(chance.choice(b"abcdX") for _ in range(chance.randrange(24)))
        cuts = sorted(chance.randrange(len(text) + 1) for _ in range(3))
        chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        shown = fed(scrubber, chunks)
        assert [secret for secret in secrets if secret.encode() in shown.replace(MASK.encode(), b"|")] == []


def test_stream_holds_back_only_what_might_become_a_secret() -> None:
    stream = Scrubber([SECRET]).stream()

    assert stream.feed(b"progress 10%\r") == b"progress 10%\r"
    assert stream.feed(b"SEC") == b""
    assert stream.feed(b"OND") == b"SECOND"
    assert stream.finish() == b""
    assert stream.finish() == b""


def test_stream_without_secrets_passes_chunks_through_untouched() -> None:
    chunk = b"x" * 100

    assert Scrubber().stream().feed(chunk) is chunk


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('API_KEY="a b c" x', 'API_KEY="[redacted]" x'),
        ("api_key: 'a b c'", "api_key: '[redacted]'"),
        ('{"token":"a\\"b"} z', '{"token":"[redacted]"} z'),
        ("run --password hunter2 now", "run --password [redacted] now"),
        ("--token is required", "--token is required"),
        ("config.password: take it from E2B_API_KEY", "config.password: take it from E2B_API_KEY"),
    ],
)
def test_named_values_are_masked_whole_and_prose_is_not(text: str, masked: str) -> None:
    assert mask_message(text) == masked


@pytest.mark.parametrize(
    "write", [lambda secret: quote(secret, safe="").lower(), lambda secret: secret.encode().hex(), html.escape]
)
def test_lower_case_escapes_hexadecimal_and_html_give_a_known_secret_away_too(write: Callable[[str], str]) -> None:
    assert Scrubber(["a/b+c&d-zq81"]).text(f"<{write('a/b+c&d-zq81')}>") == "<[redacted]>"


def test_value_nested_without_end_is_masked_as_far_as_it_is_shown() -> None:
    deep: Any = {"token": CANARY}
    for _ in range(5000):
        deep = [deep]

    masked = repr(mask_value({"deep": deep, "api_key": CANARY}))

    assert "[too deep]" in masked
    assert CANARY not in masked


def test_secret_of_brackets_without_end_is_a_secret_like_any_other() -> None:
    secret = "[" * 100_000

    assert Scrubber([secret]).text(f"a {secret} b") == f"a {MASK} b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢字", "plain é 漢字"),
        ("\x1b[2J\a\x7f\x9b", "\\x1b[2J\\x07\\x7f\\x9b"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202etxt.exe\u2028", "\\u202etxt.exe\\u2028"),
        ("caf\udce9", "caf\\udce9"),
    ],
)
def test_control_characters_are_shown_escaped(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


def test_control_characters_that_are_wanted_stay() -> None:
    assert escape_controls("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("unit", "end"),
    [
        *(
            ("token.", " :"),
            ("token", " ="),
            ("token:", ""),
            ("'", ":"),
            ("token'", "="),
            ("-token", " "),
            ("token ", ""),
        ),
        *(
            ("a.", " x://y"),
            ("a://", "@"),
            ("a://@", ""),
            ("a:", "://b@"),
            ("?a.", "="),
            ("&key", " ="),
            ("&pass", "="),
        ),
        *(("Cookie:", ""), ("Bearer ", ""), ("authorization: token ", ""), ("-----BEGIN A-----", "")),
        *(
            ("sk-", ""),
            ("sk-a-", " "),
            ("-eyJ", ""),
            ("-eyJ", ".b."),
            ("-eyJ", ".bbbb."),
            ("eyJaaaaaa.", ""),
            ("e2b_a", ""),
        ),
    ],
)
def test_no_text_takes_more_time_than_its_length_is_worth(unit: str, end: str) -> None:
    # What grows with a power of the length would take minutes here.
    text = unit * (300_000 // len(unit)) + end

    assert mask_message(text)
