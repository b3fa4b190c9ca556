from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ai4j_sandbox.errors import SandboxAuthError, SandboxConfigError
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox_daytona.config import SETTINGS, DaytonaArguments, DaytonaSandboxConfig, daytona_config
from support.secrets import CANARY, assert_no_secret, everything_said

KEY = {"DAYTONA_API_KEY": "unit-key"}


def config(
    config: dict[str, Any] | None = None,
    *,
    environ: dict[str, str] | None = None,
    arguments: dict[str, Any] | None = None,
    allowed_origins: tuple[str, ...] = (),
    **spec: Any,
) -> DaytonaSandboxConfig:
    """What a spec with this `config` resolves to, with a key in the environment."""
    settings = SETTINGS.resolve(
        SandboxSpec(config=config or {}, **spec), arguments=arguments, environ=KEY | (environ or {})
    )
    return daytona_config(settings, allowed_origins)


def test_defaults_are_the_contracts() -> None:
    defaults = config()

    assert str(defaults.api_url) == "https://app.daytona.io/api"
    assert (defaults.toolbox_proxy_url, defaults.organization_id, defaults.sandbox_id) == (None, None, None)
    assert (defaults.create_if_missing, defaults.delete_on_close) == (True, False)
    assert (defaults.start_seconds, defaults.poll_seconds) == (60, 1)
    assert (defaults.limits.connect_seconds, defaults.limits.read_seconds) == (10, 60)


def test_values_come_from_environment_spec_and_config_together() -> None:
    """Acceptance 15 of the original: spec beats environment, slashes are trimmed, words become values."""
    environ = {
        "DAYTONA_API_URL": "https://env.example/api/",
        "DAYTONA_ORGANIZATION_ID": "org-1",
        "DAYTONA_TARGET": "eu",
    }
    found = config(
        {
            "apiKey": "spec-key",
            "sandboxId": "id-1",
            "deleteOnClose": "true",
            "connectTimeoutMillis": "1234",
            "target": "us",
        },
        environ=environ,
        image="snap",
        workspace_id="work",
    )

    assert (found.api_key, str(found.api_url)) == ("spec-key", "https://env.example/api")
    assert (found.organization_id, found.create.target) == ("org-1", "us")
    assert (found.create.snapshot, found.create.image) == ("snap", None)
    assert (found.sandbox_id, found.sandbox_name) == ("id-1", "work")
    assert (found.delete_on_close, found.destroys_attached) == (True, True)
    assert found.limits.connect_seconds == 1.234


@pytest.mark.parametrize(
    ("variable", "key", "value", "read"),
    [
        ("DAYTONA_API_KEY", "apiKey", "given", lambda found: found.api_key),
        ("DAYTONA_API_URL", "apiUrl", "https://given", lambda found: str(found.api_url)),
        ("DAYTONA_TOOLBOX_PROXY_URL", "toolboxProxyUrl", "https://given", lambda found: str(found.toolbox_proxy_url)),
        ("DAYTONA_ORGANIZATION_ID", "organizationId", "given", lambda found: found.organization_id),
        ("DAYTONA_TARGET", "target", "given", lambda found: found.create.target),
        (None, "sandboxId", "given", lambda found: found.sandbox_id),
        (None, "sandboxName", "given", lambda found: found.sandbox_name),
        (None, "name", "given", lambda found: found.sandbox_name),
        (None, "createIfMissing", False, lambda found: found.create_if_missing),
        (None, "deleteOnClose", True, lambda found: found.delete_on_close),
        (None, "snapshot", "given", lambda found: found.create.snapshot),
        (None, "image", "given", lambda found: found.create.image),
        (None, "env", {"A": "b"}, lambda found: dict(found.create.environment)),
        (None, "connectTimeoutMillis", 2000, lambda found: found.limits.connect_seconds * 1000),
        (None, "readTimeoutMillis", 2000, lambda found: found.limits.read_seconds * 1000),
        (None, "startTimeoutMillis", 2000, lambda found: found.start_seconds * 1000),
        (None, "pollIntervalMillis", 2000, lambda found: found.poll_seconds * 1000),
    ],
)
def test_every_row_of_the_contracts_table_works(
    variable: str | None, key: str, value: Any, read: Callable[[DaytonaSandboxConfig], Any]
) -> None:
    assert read(config({key: value, "apiKey": "own"} if key != "apiKey" else {key: value})) == value
    if variable is not None:
        assert read(config(environ={variable: value})) == value


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ("workspace_id", lambda found: found.sandbox_name),
        ("image", lambda found: found.create.snapshot),
    ],
)
def test_fields_of_the_spec_that_the_contract_names_work(
    field: str, read: Callable[[DaytonaSandboxConfig], Any]
) -> None:
    assert read(config(**{field: "given"})) == "given"


def test_config_beats_the_specs_field_and_a_constructor_argument_beats_both() -> None:
    assert config({"sandboxName": "conf"}, workspace_id="work").sandbox_name == "conf"
    assert config({"name": "conf"}, arguments={"sandbox_name": "arg"}, workspace_id="work").sandbox_name == "arg"


def test_deleting_what_was_attached_needs_the_documents_own_word() -> None:
    assert config(arguments={"delete_on_close": True}).destroys_attached is False
    assert config({"deleteOnClose": True}).destroys_attached is True


def test_missing_key_names_every_way_to_give_it() -> None:
    """Case K02."""
    with pytest.raises(SandboxConfigError, match=r"Daytona API key.*DAYTONA_API_KEY / config.apiKey"):
        config(environ={"DAYTONA_API_KEY": "   "})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("deletOnClose", True, "deleteOnClose"),
        ("createIfMissing", "maybe", "createIfMissing must be true or false"),
        ("startTimeoutMillis", 0, "startTimeoutMillis must be at least 1"),
        ("pollIntervalMillis", "soon", "pollIntervalMillis must be a whole number"),
        ("autoDeleteInterval", -2, "autoDeleteInterval must be at least -1"),
        ("apiUrl", "127.0.0.1:3000", "apiUrl must be a URL"),
        ("apiUrl", "ftp://x", "apiUrl must be a URL"),
        ("sandboxName", "a/b", "sandboxName must be a plain name"),
        ("networkAllowList", ["everywhere"], "networkAllowList"),
        ("volumes", [{"volumeId": "v"}], "volumes must hold mappings"),
        ("env", {"API_TOKEN": "x"}, "must not hold API_TOKEN"),
        ("env", {"1BAD": "x"}, "no variable name"),
    ],
)
def test_wrong_value_is_refused_by_name(key: str, value: Any, words: str) -> None:
    with pytest.raises(SandboxConfigError, match=words):
        config({key: value})


@pytest.mark.parametrize("word", ["false", "False", "0", "no", "off", False])
def test_words_for_no_mean_no(word: Any) -> None:
    """Case K06."""
    assert config({"deleteOnClose": word, "createIfMissing": word}).create_if_missing is False


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"snapshot": "s", "image": "i"}, "exclude each other"),
        ({"networkBlockAll": True, "networkAllowList": "10.0.0.0/8"}, "networkBlockAll excludes"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(SandboxConfigError, match=words):
        config(values)


@pytest.mark.parametrize("url", ["apiUrl", "toolboxProxyUrl"])
def test_address_from_a_document_does_not_get_the_hosts_key(url: str) -> None:
    with pytest.raises(SandboxAuthError, match=r"evil\.example"):
        config({url: "https://evil.example"})


def test_address_from_a_document_gets_its_own_key_or_the_hosts_where_the_host_allows_it() -> None:
    assert config({"apiUrl": "https://other.example", "apiKey": "its-own"}).api_key == "its-own"
    assert config({"apiUrl": "https://other.example"}, allowed_origins=("https://other.example",)).api_key == "unit-key"


@pytest.mark.parametrize("key", [f"{CANARY}\r\nX-Evil: 1", f"{CANARY} x", f"kéy–{CANARY}"])
def test_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    """Case J04."""
    with pytest.raises(SandboxConfigError) as caught:
        config(environ={"DAYTONA_API_KEY": key})

    assert_no_secret(everything_said(caught.value))


def test_blanks_around_a_key_are_trimmed() -> None:
    """Case J04."""
    assert config(environ={"DAYTONA_API_KEY": "  abc123\n"}).api_key == "abc123"


def test_key_is_in_no_repr() -> None:
    """Case J07."""
    found = config(environ={"DAYTONA_API_KEY": CANARY})

    assert_no_secret(repr(found), str(found))


def test_constructor_arguments_are_the_settings() -> None:
    assert set(DaytonaArguments.__annotations__) == {setting.name for setting in SETTINGS}
