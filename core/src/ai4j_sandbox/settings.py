"""Provider settings: one table per provider, from which everything about them follows.

A table gives resolution, validation, error texts, the admission of `spec.config`, the documentation of the
settings and what ``ai4j providers show`` prints. One precedence for all providers:

    constructor argument  >  spec.config  >  spec field  >  environment  >  default

An empty environment variable is unset. A wrong value is an error that names the variable or key, never a silent
default. An unknown ``config`` key is an error with the nearest known key.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any
from urllib.parse import urlsplit

from .capability import Decision, FieldDecision
from .errors import SandboxAuthError, SandboxConfigError
from .frozen import empty_mapping, freeze, type_name
from .model import ENVIRONMENT_NAME, SandboxSpec, is_utf8
from .redaction import MASK, is_sensitive_key, mask_text

SUMMARY_FIELDS = ("provider_id", "profile", "labels")
"""Spec fields that every provider accepts: they are part of the session summary."""

_SPEC_FIELDS = ("image", "workspace_id")
_TRUE_WORDS = frozenset(("true", "1", "yes", "on"))
_FALSE_WORDS = frozenset(("false", "0", "no", "off"))
_DURATION = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,6})?) *(ms|s|m|h)?")
_NOT_IN_URLS = re.compile(r"[\s\x00-\x20\x7f-\x9f\"<>\\^`{|}\ud800-\udfff]")  # RFC 3986 knows none of them unescaped
_MILLIS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


class Kind(StrEnum):
    """What a setting's value is; text is parsed, anything else must be of the type already."""

    TEXT = "text"
    INTEGER = "integer"
    DURATION = "duration"
    """A number of the setting's `unit`; text may carry a unit of its own (``750ms``, ``30s``, ``5m``, ``1h``)."""
    BOOLEAN = "boolean"
    URL = "url"
    MAPPING = "mapping"
    LIST = "list"


class Layer(IntEnum):
    """Where a value came from. Larger is closer to the caller and wins."""

    DEFAULT = 0
    ENVIRONMENT = 1
    SPEC = 2
    CONFIG = 3
    ARGUMENT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a resolved value came from: the layer and the knob as the user would write it."""

    layer: Layer
    knob: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of a provider's settings table.

    Attributes:
        name: Python name: the constructor argument and the key of `ResolvedSettings`.
        env: Environment variables, the first set one wins.
        config: Keys of `SandboxSpec.config` that mean the same; two of them must not differ.
        spec: The `SandboxSpec` field that also sets it (``"image"``, ``"workspace_id"``).
        refused_config: Keys of `config` that look like this setting but must not be used, with the reason.
        secret: The value is never shown, stored or sent anywhere but to its service.
        minimum, maximum: Inclusive bounds of an integer.
        choices: The words a text may be.
        parse: Further parsing or checking; raises `ValueError` with what is wrong.
        unit: ``"s"``, ``"ms"``, ``"bytes"``, for the documentation.
        help: One line for people.
    """

    name: str
    help: str
    kind: Kind = Kind.TEXT
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    spec: str | None = None
    default: Any = None
    secret: bool = False
    refused_config: Mapping[str, str] = field(default_factory=empty_mapping)
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    parse: Callable[[Any], Any] | None = None
    unit: str | None = None

    @property
    def knobs(self) -> str:
        """Every way to set it, for messages: ``"E2B_TIMEOUT / config.timeoutSeconds"``."""
        config = (f"config.{key}" for key in self.config)
        spec = (f"spec.{self.spec}",) if self.spec else ()
        return " / ".join((*self.env, *config, *spec, f"{self.name}="))

    def convert(self, value: Any, knob: str) -> Any:
        """Return `value` as this setting's type.

        Raises:
            SandboxConfigError: It cannot be one; the message names `knob` and never shows a secret.
        """
        try:
            converted = self._typed(value)
            self._check(converted)
            return self.parse(converted) if self.parse else converted
        except ValueError as error:
            shown = "" if self.secret else f", got {_shown(value)}"
            raise SandboxConfigError(f"{knob} {error}{shown}", hint=self._advice()) from None

    def _typed(self, value: Any) -> Any:
        if self.kind is Kind.DURATION:
            return _to_duration(value, self.unit or "s")
        return _CONVERTERS[self.kind](value)

    def _check(self, value: Any) -> None:
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"must be at most {self.maximum}")
        if self.choices and value not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}")

    def _advice(self) -> str:
        return f"set {self.knobs}: {self.help}"


def _shown(value: Any) -> str:
    if isinstance(value, str | bool | int | float):
        return repr(mask_text(value) if isinstance(value, str) else value)[:100]
    return f"a value of type {type_name(value)}"


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    text = value.strip()
    if not text:
        raise ValueError("must not be blank")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ValueError("must not contain control characters or line breaks")
    return text


def _to_integer(value: Any) -> int:
    if isinstance(value, str):
        digits = value.strip()
        if not digits.removeprefix("-").isascii() or not digits.removeprefix("-").isdigit():
            raise ValueError("must be a whole number")
        return int(digits)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


def _to_duration(value: Any, unit: str) -> float:
    """Return a number of `unit`; only text can say that it is in another one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a number")
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"must be a number of {unit}, or one with a unit of its own: ms, s, m or h")
    return float(match[1]) * _MILLIS[match[2] or unit] / _MILLIS[unit]


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().casefold() if isinstance(value, str) else None
    if word in _TRUE_WORDS:
        return True
    if word in _FALSE_WORDS:
        return False
    raise ValueError("must be true or false")


def _to_url(value: Any) -> str:
    text = _to_text(value)
    if _NOT_IN_URLS.search(text):
        raise ValueError("must be a URL, which holds no blanks, quotes, backslashes or brackets like < and {")
    try:
        parts = urlsplit(text)
        port = parts.port  # parsed lazily; raises for a bad port
    except ValueError:
        raise ValueError("must be a URL such as http://host:port") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("must be a URL that starts with http:// or https://")
    if not all((parts.hostname or "").removesuffix(".").split(".")):
        raise ValueError("must be a URL with a host, such as http://host:port")
    if port == 0 or (port is None and parts.netloc.endswith(":")):
        raise ValueError("must be a URL whose port is from 1 to 65535, or without one")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not contain a user name or password")
    if parts.query or parts.fragment:
        raise ValueError("must not contain a query or fragment")
    return text.rstrip("/")


def _to_mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError("must be a mapping with text keys")
    return freeze(value)  # type: ignore[no-any-return]  # freeze keeps the kind of its argument


def _to_list(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, Sequence):
        raise ValueError("must be a list")
    return freeze(value)  # type: ignore[no-any-return]  # freeze keeps the kind of its argument


def text_entries(values: Mapping[str, Any]) -> Mapping[str, str]:
    """Return a mapping whose values all are text (a `Setting.parse`).

    Raises:
        ValueError: One is not.
    """
    for name, value in values.items():
        if not isinstance(value, str):
            raise ValueError(f"must hold only text, unlike the value of {mask_text(name)}")
    return values


def variable_entries(values: Mapping[str, Any]) -> Mapping[str, str]:
    """Return environment variables that may stand in a document (a `Setting.parse`).

    Raises:
        ValueError: A name is none, or sensitive; a value is not text, or cannot be given to a process.
    """
    for name, value in text_entries(values).items():
        if not ENVIRONMENT_NAME.fullmatch(name):
            raise ValueError(f"holds {mask_text(name)!r}, which is no variable name")
        if "\0" in value or not is_utf8(value):
            raise ValueError(f"must hold only text without NUL and lone surrogates, unlike the value of {name}")
        if is_sensitive_key(name):
            raise ValueError(
                f"must not hold {name}: give a secret to the one command that needs it, in its environment"
            )
    return values


def credential_text(text: str) -> str:
    """Return a key or token that a header can carry (a `Setting.parse`).

    Raises:
        ValueError: It holds blanks or something outside ASCII.
    """
    if not text.isascii() or " " in text:
        raise ValueError("must consist of letters, digits and punctuation, as the service gave it")
    return text


def directory_path(text: str) -> str:
    """Return an absolute directory of a sandbox, in its shortest spelling (a `Setting.parse`).

    Raises:
        ValueError: It is not absolute.
    """
    if not text.startswith("/"):
        raise ValueError("must be an absolute directory of the sandbox")
    return posixpath.normpath(text)


def _advice_for(key: str, known: Sequence[str]) -> str:
    """Say which name was probably meant, or which there are."""
    from difflib import get_close_matches  # late: only a typing error needs it

    folded = {name.casefold(): name for name in known}
    nearest = get_close_matches(key.casefold(), folded, n=1)
    return f"did you mean {folded[nearest[0]]!r}?" if nearest else f"known are {', '.join(known)}"


def known_entries(*names: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return a `Setting.parse` for a mapping that a service reads only these entries of, and ignores the others."""

    def parse(values: Mapping[str, Any]) -> Mapping[str, Any]:
        for key in values:
            if key not in names:
                advice = _advice_for(key, names)
                raise ValueError(f"must not hold {mask_text(key)!r}, which the service would ignore; {advice}")
        return values

    return parse


_CONVERTERS: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.TEXT: _to_text,
    Kind.INTEGER: _to_integer,
    Kind.BOOLEAN: _to_boolean,
    Kind.URL: _to_url,
    Kind.MAPPING: _to_mapping,
    Kind.LIST: _to_list,
}


class ResolvedSettings(Mapping[str, Any]):
    """Settings of one provider for one session: name to value, and where each came from. Hidden from ``repr``."""

    __slots__ = ("_sources", "_table", "_values")

    def __init__(self, table: SettingsTable, values: Mapping[str, Any], sources: Mapping[str, Source]) -> None:
        self._table = table
        self._values = values
        self._sources = sources

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"ResolvedSettings({self._table.provider_id!r})"

    def source(self, name: str) -> Source:
        """Where the value of a setting came from."""
        return self._sources[name]

    def given(self, name: str) -> bool:
        """Whether somebody set it, as opposed to its default."""
        return self._sources[name].layer is not Layer.DEFAULT

    def shown(self, name: str) -> str:
        """The value for people: a secret is masked, an absent one is ``-``."""
        value = self._values[name]
        if value is None:
            return "-"
        if self._table[name].secret:
            return MASK
        if isinstance(value, Mapping):
            return f"<{len(value)} entries>"
        return mask_text(str(value))

    def require(self, name: str) -> Any:
        """Return a value that must be there.

        Raises:
            SandboxConfigError: It is not set; the message names every way to set it.
        """
        value = self._values[name]
        if value is None:
            setting = self._table[name]
            label = setting.help.split(";")[0].rstrip(".")
            raise SandboxConfigError(
                f"{label} is required and missing", hint=f"set {setting.knobs}", provider_id=self._table.provider_id
            )
        return value

    def guard_credential(
        self, *, credential: str, url: str, allowed_origins: Sequence[str] = (), address: str | None = None
    ) -> None:
        """Refuse to send a credential to an address that a less trusted document named.

        A URL in `spec.config` can come from a blueprint somebody else wrote. It must not receive a credential
        that the host gave by environment or constructor, unless the host allows that origin.

        Args:
            credential, url: Names of the two settings.
            allowed_origins: What the host allows.
            address: The URL that is made from the setting `url`, when that is only a part of it (a domain).

        Raises:
            SandboxAuthError: The URL is from `spec.config`, the credential is not, and the origin is not allowed.
        """
        if self._values[credential] is None or self._values[url] is None:
            return
        named, secret = self._sources[url], self._sources[credential]
        if named.layer is not Layer.CONFIG or secret.layer in (Layer.CONFIG, Layer.DEFAULT):
            return
        origin = origin_of(address or self._values[url])
        if origin in map(origin_of, allowed_origins):
            return
        raise SandboxAuthError(
            f"{named.knob} points to {origin}, which may not receive the credential from {secret.knob}",
            hint=f"pass allowed_origins=[{origin!r}] to the provider if you trust that address",
            provider_id=self._table.provider_id,
        )


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL, the way browsers compare origins."""
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    port = "" if parts.port in (None, default) else f":{parts.port}"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}"


class SettingsTable:
    """All settings of one provider."""

    __slots__ = ("_by_key", "_by_name", "provider_id", "settings")

    def __init__(self, provider_id: str, settings: Sequence[Setting]) -> None:
        self.provider_id = provider_id
        self.settings = tuple(settings)
        self._by_name = {setting.name: setting for setting in self.settings}
        self._by_key = {key: setting for setting in self.settings for key in setting.config}

    def __getitem__(self, name: str) -> Setting:
        return self._by_name[name]

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.settings)

    def check(self, spec: SandboxSpec | None) -> tuple[FieldDecision, ...]:
        """Decide for every given field of a spec whether it is honoured; nothing is read but the spec."""
        if spec is None:
            return ()
        decisions = [
            FieldDecision(field=name, decision=Decision.HONOURED) for name in SUMMARY_FIELDS if getattr(spec, name)
        ]
        decisions += (self._check_field(spec, name) for name in _SPEC_FIELDS if getattr(spec, name) is not None)
        decisions += (self._check_key(key, value) for key, value in spec.config.items())
        for setting in self.settings:
            if reason := _contradiction(setting, spec.config):
                decisions.append(FieldDecision(field="config", decision=Decision.REFUSED, reason=reason))
        return tuple(decisions)

    def _check_field(self, spec: SandboxSpec, name: str) -> FieldDecision:
        setting = next((setting for setting in self.settings if setting.spec == name), None)
        if setting is None:
            reason = f"{self.provider_id} would have to ignore it"
            return FieldDecision(field=name, decision=Decision.REFUSED, reason=reason)
        return self._check_value(name, setting, getattr(spec, name))

    def _check_key(self, key: str, value: Any) -> FieldDecision:
        setting = self._by_key.get(key)
        if setting is None:
            return FieldDecision(field=f"config.{key}", decision=Decision.REFUSED, reason=self._unknown(key))
        if value is None:  # "not given", as a YAML key without a value
            return FieldDecision(field=f"config.{key}", decision=Decision.HONOURED)
        return self._check_value(f"config.{key}", setting, value)

    def _check_value(self, field_name: str, setting: Setting, value: Any) -> FieldDecision:
        try:
            setting.convert(value, field_name)
        except SandboxConfigError as error:
            reason = error.message.removeprefix(field_name).strip()
            return FieldDecision(field=field_name, decision=Decision.REFUSED, reason=reason)
        return FieldDecision(field=field_name, decision=Decision.HONOURED)

    def _unknown(self, key: str) -> str:
        for setting in self.settings:
            if key in setting.refused_config:
                return setting.refused_config[key]
        return f"unknown key; {_advice_for(key, sorted(self._by_key))}"

    def resolve(
        self,
        spec: SandboxSpec | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> ResolvedSettings:
        """Return every setting's value and source for one session.

        Args:
            spec: The request.
            arguments: Constructor arguments by setting name; ``None`` values are "not given".
            environ: The environment, read now; the process's own by default.

        Raises:
            SandboxConfigError: A value is wrong, a config key is not known, or two keys of one setting differ.
        """
        spec = spec or SandboxSpec()
        environ = os.environ if environ is None else environ
        for key in spec.config:
            if key not in self._by_key:
                raise SandboxConfigError(f"config.{key}: {self._unknown(key)}", provider_id=self.provider_id)
        values: dict[str, Any] = {}
        sources: dict[str, Source] = {}
        for setting in self.settings:
            if reason := _contradiction(setting, spec.config):
                raise SandboxConfigError(reason, provider_id=self.provider_id)
            raw, source = _find(setting, spec, arguments or {}, environ)
            values[setting.name] = raw if source.layer is Layer.DEFAULT else setting.convert(raw, source.knob)
            sources[setting.name] = source
        return ResolvedSettings(self, values, sources)

    def markdown(self) -> str:
        """Return the table as Markdown, for the provider's documentation page."""
        lines = [
            "| Setting | Environment | `config` key | Spec field | Default | Meaning |",
            "|---|---|---|---|---|---|",
        ]
        for setting in self.settings:
            cells = (
                f"`{setting.name}`",
                _codes(setting.env),
                _codes(setting.config),
                _codes((setting.spec,) if setting.spec else ()),
                _default_text(setting),
                setting.help,
            )
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)


NO_SETTINGS = SettingsTable("this provider", ())
"""The table of a provider that takes no configuration: every key is refused."""


def _contradiction(setting: Setting, config: Mapping[str, Any]) -> str | None:
    """Say which keys of a document set one setting to different values: to take one would be to ignore the other."""
    first, *others = [key for key in setting.config if config.get(key) is not None] or [""]
    for other in others:
        if config[other] != config[first]:
            return f"config.{first} and config.{other} are one setting ({setting.name}) and differ; leave one out"
    return None


def _find(
    setting: Setting, spec: SandboxSpec, arguments: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[Any, Source]:
    """Return the raw value of the strongest layer that has one."""
    if arguments.get(setting.name) is not None:
        return arguments[setting.name], Source(layer=Layer.ARGUMENT, knob=f"{setting.name}=")
    for key in setting.config:
        if spec.config.get(key) is not None:
            return spec.config[key], Source(layer=Layer.CONFIG, knob=f"config.{key}")
    if setting.spec and getattr(spec, setting.spec) is not None:
        return getattr(spec, setting.spec), Source(layer=Layer.SPEC, knob=f"spec.{setting.spec}")
    for name in setting.env:
        if environ.get(name, "").strip():
            return environ[name], Source(layer=Layer.ENVIRONMENT, knob=name)
    return setting.default, Source(layer=Layer.DEFAULT, knob="default")


def _codes(names: Sequence[str]) -> str:
    return " ".join(f"`{name}`" for name in names) or "-"


def _default_text(setting: Setting) -> str:
    if setting.default is None or setting.default == {}:
        return "-"
    value = str(setting.default).lower() if isinstance(setting.default, bool) else str(setting.default)
    return f"`{value}`" + (f" {setting.unit}" if setting.unit else "")
