"""Settings: one table, one precedence, errors that name the knob."""

from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox import Decision, FieldDecision, Kind, SandboxConfigError, SandboxSpec, Setting, SettingsTable
from ai4j_sandbox.errors import SandboxAuthError
from ai4j_sandbox.settings import (
    Layer,
    Source,
    credential_text,
    directory_path,
    known_entries,
    origin_of,
    text_entries,
    variable_entries,
)
from support.secrets import CANARY, assert_no_secret, everything_said

TABLE = SettingsTable(
    "demo",
    (
        Setting(
            name="api_key", help="demo API key", env=("DEMO_API_KEY", "OLD_API_KEY"), config=("apiKey",), secret=True
        ),
        Setting(name="api_url", help="demo address", kind=Kind.URL, env=("DEMO_API_URL",), config=("apiUrl",)),
        Setting(
            name="timeout_seconds",
            help="lifetime",
            kind=Kind.INTEGER,
            env=("DEMO_TIMEOUT",),
            config=("timeoutSeconds", "timeout"),
            default=300,
            minimum=1,
            maximum=86_400,
            unit="s",
        ),
        Setting(
            name="delete_on_close", help="destroy at close", kind=Kind.BOOLEAN, config=("deleteOnClose",), default=True
        ),
        Setting(
            name="template",
            help="template",
            env=("DEMO_TEMPLATE",),
            config=("templateId",),
            spec="image",
            default="base",
        ),
        Setting(name="env", help="variables", kind=Kind.MAPPING, config=("env",)),
        Setting(
            name="mode",
            help="mode",
            config=("mode",),
            choices=("fast", "safe"),
            refused_config={"password": "take it from DEMO_API_KEY"},
        ),
    ),
)


def resolve(
    config: dict[str, Any] | None = None,
    *,
    environ: dict[str, str] | None = None,
    image: str | None = None,
    **arguments: Any,
) -> Any:
    return TABLE.resolve(SandboxSpec(config=config or {}, image=image), arguments=arguments, environ=environ or {})


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ({}, ("base", Layer.DEFAULT, "default")),
        ({"environ"}, ("from-environ", Layer.ENVIRONMENT, "DEMO_TEMPLATE")),
        ({"environ", "spec"}, ("from-spec", Layer.SPEC, "spec.image")),
        ({"environ", "spec", "config"}, ("from-config", Layer.CONFIG, "config.templateId")),
        ({"environ", "spec", "config", "argument"}, ("from-argument", Layer.ARGUMENT, "template=")),
    ],
)
def test_precedence_is_argument_config_spec_environment_default(
    layers: set[str], expected: tuple[str, Layer, str]
) -> None:
    settings = resolve(
        {"templateId": "from-config"} if "config" in layers else {},
        environ={"DEMO_TEMPLATE": "from-environ"} if "environ" in layers else {},
        image="from-spec" if "spec" in layers else None,
        template="from-argument" if "argument" in layers else None,
    )

    value, layer, knob = expected
    assert settings["template"] == value
    assert settings.source("template") == Source(layer=layer, knob=knob)


@pytest.mark.parametrize("unset", ["", "   "])
def test_empty_environment_variable_is_unset_and_does_not_hide_the_next(unset: str) -> None:
    settings = resolve(environ={"DEMO_API_KEY": unset, "OLD_API_KEY": "k-old"})

    assert settings["api_key"] == "k-old"


def test_missing_required_value_names_every_way_to_set_it() -> None:
    with pytest.raises(SandboxConfigError, match="demo API key is required and missing") as caught:
        resolve(environ={"DEMO_API_KEY": "   "}).require("api_key")

    assert "DEMO_API_KEY / OLD_API_KEY / config.apiKey" in str(caught.value)


@pytest.mark.parametrize("value", ["300", " 300 ", 300])
def test_integers_are_read_from_numbers_and_digits(value: object) -> None:
    assert resolve({"timeoutSeconds": value})["timeout_seconds"] == 300


@pytest.mark.parametrize("value", ["abc", "4.5", "5m", "1e3", True, 1.5, [], "٣"])
def test_what_is_no_whole_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(SandboxConfigError, match=r"config\.timeoutSeconds must be a whole number"):
        resolve({"timeoutSeconds": value})


@pytest.mark.parametrize("value", ["0", "-1", 0, 2**32, "70000000"])
def test_numbers_out_of_range_are_refused_and_not_replaced_by_the_default(value: object) -> None:
    with pytest.raises(SandboxConfigError, match=r"DEMO_TIMEOUT must be at (least 1|most 86400)"):
        resolve(environ={"DEMO_TIMEOUT": str(value)})


TRUE_WORDS = ("true", "1", "yes", "on", " TRUE ", True)
FALSE_WORDS = ("false", "False", "0", "no", "off", False)


@pytest.mark.parametrize(
    ("word", "expected"), [*((word, True) for word in TRUE_WORDS), *((word, False) for word in FALSE_WORDS)]
)
def test_booleans_are_read_as_words(word: object, expected: bool) -> None:
    assert resolve({"deleteOnClose": word})["delete_on_close"] is expected


@pytest.mark.parametrize("word", ["maybe", "", 1, 0, "2", []])
def test_what_is_no_boolean_word_is_refused(word: object) -> None:
    with pytest.raises(SandboxConfigError, match=r"config\.deleteOnClose must be true or false"):
        resolve({"deleteOnClose": word})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://127.0.0.1:3000/", "http://127.0.0.1:3000"),
        ("http://h/base/", "http://h/base"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("https://api.example", "https://api.example"),
    ],
)
def test_urls_keep_their_path_and_lose_the_trailing_slash(given: str, expected: str) -> None:
    assert resolve({"apiUrl": given})["api_url"] == expected


@pytest.mark.parametrize(
    "url",
    [
        *(
            "127.0.0.1:3000",
            "localhost:3000",
            "http://[::1",
            "ftp://x",
            "http://",
            "http://h:port",
            "http://h:1\r\nX: 1",
        ),
        *("http://h o", "http://h/a b", "http://h\\x", "http://<h>", "http://h\x7f", "http://\ud800"),
        *("http://:80", "http://h:0", "http://h:", "http://h:70000", "http://a..b", "http://."),
    ],
)
def test_bad_urls_are_refused_by_name(url: str) -> None:
    with pytest.raises(SandboxConfigError, match=r"config\.apiUrl must"):
        resolve({"apiUrl": url})


@pytest.mark.parametrize("url", [f"http://user:{CANARY}@host", f"http://host/?token={CANARY}"])
def test_credentials_in_a_url_are_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(SandboxConfigError, match=r"config\.apiUrl must not contain") as caught:
        resolve({"apiUrl": url})

    assert_no_secret(everything_said(caught.value))


@pytest.mark.parametrize("key", [f"{CANARY}\r\nX-Evil: 1", f"{CANARY}\n\n{CANARY}", f"{CANARY}\0"])
def test_a_bad_secret_is_refused_without_being_repeated(key: str) -> None:
    with pytest.raises(SandboxConfigError, match="DEMO_API_KEY must not contain control characters") as caught:
        resolve(environ={"DEMO_API_KEY": key})

    assert_no_secret(everything_said(caught.value))


@pytest.mark.parametrize("key", ["  abc123  ", "abc123\n", "\tabc123"])
def test_blanks_around_a_key_are_trimmed(key: str) -> None:
    assert resolve(environ={"DEMO_API_KEY": key})["api_key"] == "abc123"


def test_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(SandboxConfigError, match=r"config\.deletOnClose: unknown key; did you mean 'deleteOnClose'\?"):
        resolve({"deletOnClose": True})


def test_refused_key_says_why() -> None:
    with pytest.raises(SandboxConfigError, match=r"config\.password: take it from DEMO_API_KEY"):
        resolve({"password": "x"})


def test_value_of_none_is_not_given() -> None:
    settings = resolve({"timeoutSeconds": None})

    assert (settings["timeout_seconds"], settings.given("timeout_seconds")) == (300, False)


def test_check_decides_field_by_field_without_reading_the_environment() -> None:
    spec = SandboxSpec(
        profile="p",
        labels={"a": "b"},
        image="img",
        workspace_id="w",
        config={"mode": "slow", "env": {"A": "1"}, "tmeout": 1},
    )

    assert TABLE.check(spec) == (
        FieldDecision(field="profile", decision=Decision.HONOURED),
        FieldDecision(field="labels", decision=Decision.HONOURED),
        FieldDecision(field="image", decision=Decision.HONOURED),
        FieldDecision(field="workspace_id", decision=Decision.REFUSED, reason="demo would have to ignore it"),
        FieldDecision(field="config.mode", decision=Decision.REFUSED, reason="must be one of fast, safe, got 'slow'"),
        FieldDecision(field="config.env", decision=Decision.HONOURED),
        FieldDecision(field="config.tmeout", decision=Decision.REFUSED, reason="unknown key; did you mean 'timeout'?"),
    )


def test_secrets_are_masked_in_repr_and_display() -> None:
    settings = resolve(environ={"DEMO_API_KEY": CANARY})

    assert_no_secret(repr(settings), settings.shown("api_key"))
    assert settings.shown("api_key") == "[redacted]"


def test_url_from_config_never_receives_the_environment_key() -> None:
    settings = resolve({"apiUrl": "http://attacker.example"}, environ={"DEMO_API_KEY": CANARY})

    with pytest.raises(SandboxAuthError, match=r"config\.apiUrl points to http://attacker\.example") as caught:
        settings.guard_credential(credential="api_key", url="api_url")

    assert "allowed_origins" in str(caught.value)
    assert_no_secret(everything_said(caught.value))


@pytest.mark.parametrize(
    ("config", "environ", "allowed"),
    [
        ({"apiUrl": "http://own.example", "apiKey": "same-layer"}, {}, ()),
        ({"apiUrl": "http://own.example"}, {"DEMO_API_KEY": "k-env"}, ("http://own.example",)),
        ({}, {"DEMO_API_KEY": "k-env", "DEMO_API_URL": "http://own.example"}, ()),
        ({"apiUrl": "http://own.example"}, {}, ()),
    ],
)
def test_url_may_receive_a_key_of_its_own_layer_or_an_allowed_origin(
    config: dict[str, str], environ: dict[str, str], allowed: tuple[str, ...]
) -> None:
    resolve(config, environ=environ).guard_credential(credential="api_key", url="api_url", allowed_origins=allowed)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://H.example:443/x", "https://h.example"),
        ("http://h:80", "http://h"),
        ("http://h:8080/a", "http://h:8080"),
        ("http://[::1]:3000/a", "http://[::1]:3000"),
    ],
)
def test_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert origin_of(url) == origin


def test_markdown_shows_every_setting_with_its_knobs() -> None:
    assert TABLE.markdown().splitlines()[4] == (
        "| `timeout_seconds` | `DEMO_TIMEOUT` | `timeoutSeconds` `timeout` | - | `300` s | lifetime |"
    )


def test_credential_is_guarded_from_an_address_that_is_only_derived() -> None:
    settings = resolve({"templateId": "evil.example"}, environ={"DEMO_API_KEY": "k"})

    with pytest.raises(SandboxAuthError, match="https://api\\.evil\\.example"):
        settings.guard_credential(credential="api_key", url="template", address="https://api.evil.example")
    settings.guard_credential(
        credential="api_key",
        url="template",
        address="https://api.evil.example",
        allowed_origins=["https://api.evil.example/"],
    )


def test_mapping_of_texts() -> None:
    assert text_entries({"a": "1"}) == {"a": "1"}
    with pytest.raises(ValueError, match="unlike the value of a"):
        text_entries({"a": 1})


@pytest.mark.parametrize(
    ("values", "reason"),
    [({"1A": "x"}, "no variable name"), ({"A": "x\0"}, "NUL"), ({"MY_SECRET": "x"}, "must not hold MY_SECRET")],
)
def test_variables_of_a_document_are_checked(values: dict[str, str], reason: str) -> None:
    assert variable_entries({"CI": "true"}) == {"CI": "true"}
    with pytest.raises(ValueError, match=reason):
        variable_entries(values)


# --- durations, and what a mapping may hold -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "given", "value"),
    [
        ("s", 30, 30),
        ("s", 1.5, 1.5),
        ("s", "30", 30),
        ("s", " 750ms ", 0.75),
        ("s", "5m", 300),
        ("s", "1h", 3600),
        ("ms", 30, 30),
        ("ms", "30s", 30_000),
        ("s", "-1", -1),
    ],
)
def test_duration_is_in_the_settings_unit_unless_text_carries_its_own(unit: str, given: Any, value: float) -> None:
    setting = Setting(name="wait", kind=Kind.DURATION, unit=unit, help="How long.")

    assert setting.convert(given, "WAIT") == value


@pytest.mark.parametrize("given", ["", "5 minutes", "1d", "s", "1e9", "nan", True, None, [1], float("nan")])
def test_duration_that_is_none_is_refused(given: Any) -> None:
    setting = Setting(name="wait", kind=Kind.DURATION, unit="s", help="How long.")

    with pytest.raises(SandboxConfigError, match="WAIT must be a number"):
        setting.convert(given, "WAIT")


def test_entry_that_a_service_would_ignore_is_refused_with_the_one_that_was_meant() -> None:
    parse = known_entries("allowOut", "denyOut")

    assert parse({"allowOut": []}) == {"allowOut": []}
    with pytest.raises(ValueError, match="did you mean 'allowOut'"):
        parse({"ALLOWOUT": []})
    with pytest.raises(ValueError, match="known are allowOut, denyOut"):
        parse({"zzz": []})


def test_directory_is_absolute_and_in_its_shortest_spelling() -> None:
    assert directory_path("/a//b/../c/") == "/a/c"
    with pytest.raises(ValueError, match="absolute"):
        directory_path("a")


@pytest.mark.parametrize("text", ["a b", "k\u00e9y"])
def test_credential_that_no_header_can_carry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="letters, digits and punctuation"):
        credential_text(text)


ALIASES = SettingsTable("demo", [Setting(name="template", help="Template.", config=("templateId", "templateID"))])


def test_two_keys_of_one_setting_that_differ_are_refused_with_both_names() -> None:
    spec = SandboxSpec(config={"templateId": "a", "templateID": "b"})
    said = "config.templateId and config.templateID are one setting (template) and differ; leave one out"

    assert [decision.reason for decision in ALIASES.check(spec) if decision.reason] == [said]
    with pytest.raises(SandboxConfigError) as caught:
        ALIASES.resolve(spec, environ={})
    assert str(caught.value) == said


@pytest.mark.parametrize("other", ["a", None])
def test_two_keys_of_one_setting_that_agree_are_one(other: str | None) -> None:
    spec = SandboxSpec(config={"templateID": other, "templateId": "a"})

    assert all(decision.decision is Decision.HONOURED for decision in ALIASES.check(spec))
    assert ALIASES.resolve(spec, environ={})["template"] == "a"


def test_mapping_where_text_belongs_is_called_a_mapping() -> None:
    with pytest.raises(SandboxConfigError, match=r"config\.templateId must be text, got a value of type mapping"):
        ALIASES.resolve(SandboxSpec(config={"templateId": {}}), environ={})


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_variable_that_no_process_can_be_given_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="without NUL and lone surrogates, unlike the value of NAME"):
        variable_entries({"NAME": value})
