"""What counts as a secret, and how it is masked.

Three rules, one place each:

* `is_sensitive_key`: the seeds' rule for names (seed 1 section 5, CubeSandbox page section 6). A key that
  *contains* one of eight words, after folding, is sensitive. Labels with such a key are dropped.
* `mask_text`: values that look like a secret whatever they are called: token shapes, URL user info and
  query secrets, credentials in headers, PEM blocks.
* `Scrubber`: values this process *knows* to be secret, in every usual spelling, also across chunk borders.

And one for what is shown: `escape_controls`, because names and words from a sandbox may hold anything.
"""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from .frozen import DEEPEST_NESTING

MASK = "[redacted]"

SENSITIVE_PARTS = (
    "secret",
    "token",
    "key",
    "password",
    "passwd",
    "credential",
    "cookie",
    "authorization",
)

# Letters that are drawn like Latin ones and survive NFKC: Cyrillic, Greek, dotless i.
_LOOK_ALIKES = str.maketrans(
    {
        "а": "a", "е": "e", "о": "o", "р": "p", "с": "c", "у": "y", "х": "x", "к": "k", "ѕ": "s", "і": "i",
        "ј": "j", "ԁ": "d", "т": "t",
        "ο": "o", "κ": "k", "ε": "e", "ρ": "p", "α": "a", "υ": "u", "ν": "v", "ι": "i", "τ": "t", "γ": "y",
        "ı": "i",
    }
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RedactionPolicy:
    """Exact key names a host allows although the contains rule would drop them (``keyboard``)."""

    allowed_names: frozenset[str] = frozenset()

    def is_sensitive(self, key: object) -> bool:
        """Whether an entry with this key must be dropped or masked."""
        return key not in self.allowed_names and is_sensitive_key(key)


STRICT = RedactionPolicy()


def fold_key(key: str) -> str:
    """Fold spelling tricks out of a key: case, width, accents, look-alikes, separators, invisible characters."""
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", key).casefold())
    return "".join(character for character in text.translate(_LOOK_ALIKES) if character.isalnum())


def is_sensitive_key(key: object) -> bool:
    """Whether the folded key contains one of `SENSITIVE_PARTS` (the contract's contains rule)."""
    if isinstance(key, bytes):
        key = key.decode("utf-8", "replace")
    if not isinstance(key, str):
        return False
    folded = fold_key(key)
    return any(part in folded for part in SENSITIVE_PARTS)


def filter_labels(labels: Mapping[Any, str | None], policy: RedactionPolicy = STRICT) -> dict[str, str | None]:
    """Return the labels that may be stored or sent: keys stripped, sensitive ones dropped, values masked."""
    kept: dict[str, str | None] = {}
    for key, value in labels.items():
        name = key.strip() if isinstance(key, str) else ""
        if name and not policy.is_sensitive(name):
            kept[name] = value if value is None else mask_text(str(value))
    return kept


# --- values that give themselves away ---------------------------------------------------------------------------

# All patterns take time in proportion to the text, whatever it is: whoever writes it may want to hold us up. So a name
# is tried where it begins and nowhere else (a look behind, then a run that is never given back), and what is looked for
# behind it is near.

_QUERY_NAMES = (
    r"(?:(?=[\w.-]*(?:secret|token|key|passw(?:or)?d|credential|cookie|authorization|signature))[\w.-]++"
    r"|pass|pwd|auth|sig|jwt)"
)
# Each with what every match of it contains: most text has none of these, and looking for them is far cheaper.
_VALUE_PATTERNS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "-----BEGIN",
        re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL),
        MASK,
    ),
    # User info runs to the last "@" before the path, or, with a password, to any "@": passwords are often not
    # percent-encoded. A port ("host:8080/a@b") is no password.
    (
        "://",
        re.compile(
            r"(?P<scheme>(?<![a-zA-Z0-9+.-])[a-zA-Z0-9+.-]++://)"
            r"(?:[^\s/?#\"'<>]*@|[^\s/?#\"'<>:@]*:(?!\d{1,5}(?:[/?#\s]|$))[^\s\"'<>@]{0,512}@)"
        ),
        rf"\g<scheme>{MASK}@",
    ),
    (
        "=",
        re.compile(rf"(?P<name>[?&;#]{_QUERY_NAMES}=)[^&#;\s\"'<>]+", re.IGNORECASE),
        rf"\g<name>{MASK}",
    ),
    (
        ":",
        re.compile(r"(?P<name>\b(?:Set-)?Cookie:\s*)(?=[^\s=]{1,256}=)[^\r\n\"']+", re.IGNORECASE),
        rf"\g<name>{MASK}",
    ),
    (
        "",
        re.compile(r"(?P<scheme>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
        rf"\g<scheme>{MASK}",
    ),
    (
        "",
        re.compile(
            r"(?<![A-Za-z0-9])(?:"
            r"e2b_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{16,}"
            r"|sk_e2b_[A-Za-z0-9]{16,}"
            r"|dtn_[A-Za-z0-9]{16,}"
            r"|sk-(?:[A-Za-z]+-)*[A-Za-z0-9_-]{16,}"
            r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
            r"|gh[pousr]_[A-Za-z0-9]{20,}"
            r"|github_pat_[A-Za-z0-9_]{20,}"
            r"|gl(?:pat|ptt|rt|dt|soat)-[A-Za-z0-9_-]{16,}"
            r"|(?:xox[abeprs]|xapp)-[A-Za-z0-9-]{10,}"
            r"|hf_[A-Za-z0-9]{20,}"
            r"|npm_[A-Za-z0-9]{30,}"
            r"|pypi-[A-Za-z0-9_-]{30,}"
            r"|gsk_[A-Za-z0-9]{30,}"
            r"|whsec_[A-Za-z0-9+/=]{16,}"
            r"|AIza[A-Za-z0-9_-]{30,}"
            r"|ya29\.[A-Za-z0-9_-]{20,}"
            r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
            r"|(?:AKIA|ASIA)[A-Z0-9]{16}"
            r")"
        ),
        MASK,
    ),
    # JSON web tokens: encrypted ones have five parts, signed ones three.
    (
        "eyJ",
        re.compile(
            r"(?<![\w-])(?=[\w-]++(?:(?:\.[\w-]*+){4}|\.[\w-]{4,}+\.))(?P<before>(?:[\w-]*?[_-])?)"
            r"eyJ[\w-]{6,}+(?:(?:\.[\w-]*+){4}|\.[\w-]{4,}+\.[\w-]*+)",
            re.ASCII,
        ),
        rf"\g<before>{MASK}",
    ),
)


_SENSITIVE_WORD = (
    r"(?:secret|token|passw(?:or)?d|passphrase|credential|cookie|authorization"
    r"|(?:api|access|account|private|session|signing)[_-]?key)"
)

# A named value in prose, JSON, a header or a shell: ``token=abc``, ``"apiKey": "a b"``, ``Authorization: Token abc12``.
_ASSIGNMENT = re.compile(
    rf"(?P<name>(?P<open>[\"']?)(?<![\w.-])(?=[\w.-]*{_SENSITIVE_WORD})[\w.-]++(?P=open)\s*+(?P<sign>[:=])\s*+"
    r"(?:(?:ApiKey|Basic|Bearer|Digest|Negotiate|Token)\s++)?)"
    r"(?:(?P<quote>[\"'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\])+)|(?P<value>[^\s\"',;&}{\[\]()]{3,}))",
    re.IGNORECASE | re.DOTALL,
)
# An option with its value: ``--password hunter2``.
_OPTION = re.compile(
    rf"(?P<name>(?<!\S)(?=-[\w-]*{_SENSITIVE_WORD})-[\w-]++\s++)(?P<value>[^\s\"']{{3,}})", re.IGNORECASE
)
_PLAIN_VALUE = re.compile(r"(?i)\d+(?:\.\d+)?|true|false|null|none")


def _mask_assignment(match: re.Match[str]) -> str:
    if match["quoted"] is not None:
        return f"{match['name']}{match['quote']}{MASK}"
    # "password: must be set" is prose; a colon alone makes a value only of what does not look like a word.
    if match["sign"] == ":" and _is_word(match["value"]):
        return match[0]
    return match[0] if _PLAIN_VALUE.fullmatch(match["value"]) else f"{match['name']}{MASK}"


def _mask_option(match: re.Match[str]) -> str:
    return match[0] if _is_word(match["value"]) else f"{match['name']}{MASK}"


def _is_word(value: str) -> bool:
    return value.rstrip(".,;:").isalpha()


# What moves a terminal's cursor, ends a line, turns the direction of writing, or cannot be written as UTF-8.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str, *, keep: str = "") -> str:
    """Return `text` with control characters written as Python would (``\\x1b``), save those in `keep`."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], text)


def mask_text(text: str) -> str:
    """Mask every part of `text` that looks like a secret by itself; the rest is unchanged."""
    for needed, pattern, replacement in _VALUE_PATTERNS:
        if needed in text:
            text = pattern.sub(replacement, text)
    return text


def mask_message(text: str) -> str:
    """Mask a message meant for people (an error, an event): `mask_text`, and named values such as ``token=abc``."""
    text = mask_text(text)
    if ":" in text or "=" in text:
        text = _ASSIGNMENT.sub(_mask_assignment, text)
    return _OPTION.sub(_mask_option, text)


def mask_value(value: Any, policy: RedactionPolicy = STRICT) -> Any:
    """Return a masked deep copy of a nested value; the input is not changed.

    Under a sensitive key only numbers, booleans and ``None`` keep value and type (``maxTokens: 8192`` is no
    secret). What has named fields, a dataclass or a named tuple, becomes a mapping of them. Cycles end in
    ``"[cycle]"``, what is nested deeper than `frozen.DEEPEST_NESTING` in ``"[too deep]"``.
    """
    return _mask_nested(value, policy, sensitive=False, ancestors=())


def _mask_nested(value: Any, policy: RedactionPolicy, *, sensitive: bool, ancestors: tuple[int, ...]) -> Any:
    if isinstance(value, str):
        return MASK if sensitive else mask_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        masked = MASK if sensitive else mask_text(bytes(value).decode("latin-1"))
        return masked.encode("latin-1")
    if id(value) in ancestors:
        return "[cycle]"
    below = (*ancestors, id(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        value = dict(zip(value._fields, value, strict=True))
    if len(ancestors) > DEEPEST_NESTING and isinstance(value, Mapping | list | tuple | set | frozenset):
        return "[too deep]"
    if isinstance(value, Mapping):
        return {
            key: _mask_nested(item, policy, sensitive=sensitive or policy.is_sensitive(key), ancestors=below)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        items = [_mask_nested(item, policy, sensitive=sensitive, ancestors=below) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    # Of an object of another type nobody knows what its text would show.
    return MASK if sensitive and not isinstance(value, Number | None) else value


# --- values this process knows ---------------------------------------------------------------------------------

_SHORTEST_SECRET = 4  # masking shorter values would blank ordinary text
_SHORTEST_PART = 6  # a part of a structured secret must be distinctive to be masked on its own


def _structured_parts(secret: str) -> Iterable[str]:
    """The distinctive parts of a secret with a structure, JSON, lines or a URL, which can leak without the whole."""
    try:
        document = json.loads(secret)
    except (ValueError, RecursionError):  # RecursionError: brackets without end
        document = None
    if isinstance(document, dict | list):
        for leaf in _leaves(document):
            yield leaf
            yield from _structured_parts(leaf)  # a private key in a JSON document has lines of its own
    elif "\n" in secret:
        for line in secret.splitlines():
            yield line.strip()
            value = re.split(r"[:=]\s*", line, maxsplit=1)[-1]
            yield value.strip().strip("\"'")
            yield re.split(r"\s#", value, maxsplit=1)[0].strip().strip("\"'")
    elif password := re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/?#:@]*:([^\s/?#]+)@", secret):
        yield password[1]
        yield unquote(password[1])


def _leaves(document: Any) -> Iterable[str]:
    """The texts of a JSON document, and its numbers as text."""
    pending = [document]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, int) and not isinstance(item, bool):
            yield str(item)


def _inside_repr(text: str) -> Iterable[str]:
    """What Python writes for `text` between the quotes of a repr, which differs with the quotes in the text around."""
    yield repr(text)[1:-1]
    yield repr(f"{text}\"'")[1:-4]


def _spellings(secret: str) -> Iterable[str]:
    """The ways one value gets written: raw, URL, HTML, JSON, repr, shell, hexadecimal, base64 at each alignment."""
    yield secret
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret), quote(quote(secret, safe=""), safe="")):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda escape: escape[0].lower(), encoded)
    yield html.escape(secret)
    for inside in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield inside
        yield json.dumps(inside)[1:-1]  # JSON as a text in JSON
        yield from _inside_repr(inside)
        yield inside.replace("/", "\\/")  # as PHP writes it
        yield re.sub("[&<>]", lambda sign: f"\\u{ord(sign[0]):04x}", inside)  # as Go writes it
    yield from _inside_repr(secret)
    yield shlex.quote(secret)
    if "'" in secret:
        yield shlex.quote(secret)[1:-1]
    yield re.sub(r"[^\w@%+=:,./-]", r"\\\g<0>", secret)  # as bash's printf %q writes it
    raw = secret.encode("utf-8", "surrogateescape")
    yield raw.hex()
    yield raw.hex().upper()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(raw).decode("ascii").rstrip("=")
        # Inside a longer base64 text the value starts at one of three alignments; drop the edge
        # characters that mix with neighbours ("user:secret" in a Basic header).
        for shift in (0, 1, 2):
            aligned = encode(b"\0" * shift + raw).decode("ascii").rstrip("=")
            yield aligned[4 if shift else 0 : -1]


class Scrubber:
    """Masks the secret values it was told about in text and bytes.

    Immutable once made; `with_secrets` returns a larger one. Values shorter than four characters are
    ignored, because masking them would blank ordinary text.
    """

    __slots__ = ("_forms", "_pattern", "_secrets")

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        self._secrets = frozenset(secret for secret in secrets if secret and len(secret) >= _SHORTEST_SECRET)
        texts = {form for secret in self._secrets for form in _forms(secret)}
        encoded = (text.encode("utf-8", "surrogateescape") for text in texts)
        # Longest first: an alternation then finds the leftmost, longest form.
        self._forms = tuple(sorted(encoded, key=len, reverse=True))
        self._pattern = re.compile(b"|".join(re.escape(form) for form in self._forms) or b"(?!)")

    def __bool__(self) -> bool:
        return bool(self._forms)

    def __repr__(self) -> str:
        return f"Scrubber(<{len(self._secrets)} secrets>)"

    def with_secrets(self, secrets: Iterable[str | None]) -> Scrubber:
        """Return a scrubber that also knows `secrets`."""
        return Scrubber((*self._secrets, *secrets))

    def text(self, text: str) -> str:
        """Return `text` with every known secret, and everything that looks like one, masked."""
        raw = text.encode("utf-8", "surrogatepass")
        return mask_message(self.data(raw).decode("utf-8", "surrogatepass"))

    def data(self, data: bytes) -> bytes:
        """Return `data` with every known secret masked; nothing else is touched."""
        return self._pattern.sub(MASK.encode(), data) if self._occurs_in(data) else data

    def stream(self) -> StreamScrubber:
        """Return a scrubber for one stream that arrives in chunks."""
        return StreamScrubber(self)

    def _occurs_in(self, data: bytes) -> bool:
        # Substring search is some fifty times faster than the alternation, and almost always says no.
        return any(form in data for form in self._forms)

    def _undecided(self, data: bytes) -> int:
        """Length of the longest tail of `data` that begins some form and may go on in the next chunk."""
        longest = 0
        for form in self._forms:
            window = data[-(len(form) - 1) :]
            start = window.find(form[:1])
            while 0 <= start < len(window) - longest:
                if form.startswith(window[start:]):
                    longest = len(window) - start
                    break
                start = window.find(form[:1], start + 1)
        return longest


def _forms(secret: str) -> Iterable[str]:
    """Every text that gives `secret` away: its spellings, and those of its distinctive parts."""
    parts = [part for part in _structured_parts(secret) if len(part) >= _SHORTEST_PART]
    for value in (secret, *parts):
        for spelling in _spellings(value):
            if len(spelling) >= _SHORTEST_SECRET:
                yield spelling


class StreamScrubber:
    """Masks known secrets in a stream of chunks, wherever the chunk borders fall.

    A tail that could be the beginning of a secret is held back until the next chunk decides, and
    handed out by `finish` when the stream ends: nothing is lost.
    """

    __slots__ = ("_held", "_scrubber")

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what can be shown of everything received so far and not yet shown."""
        if not self._scrubber:
            return chunk
        data = self._held + chunk
        cut = len(data) - self._scrubber._undecided(data)
        shown: list[bytes] = []
        position = 0
        if self._scrubber._occurs_in(data):
            for match in self._scrubber._pattern.finditer(data):
                if match.start() >= cut:
                    break
                shown += (data[position : match.start()], MASK.encode())
                position = match.end()
                # A match may reach into the undecided tail; what follows it is decided anew.
                cut = len(data) - self._scrubber._undecided(data[position:])
        shown.append(data[position:cut])
        self._held = data[cut:]
        return b"".join(shown)

    def finish(self) -> bytes:
        """Return the held-back tail at the end of the stream."""
        held, self._held = self._held, b""
        return self._scrubber.data(held)
