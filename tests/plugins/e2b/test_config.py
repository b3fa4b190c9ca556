from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox.errors import SandboxAuthError, SandboxConfigError, SandboxException
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox_e2b.config import SETTINGS, E2BArguments, E2BSandboxConfig, e2b_config
from support.secrets import CANARY, assert_no_secret, everything_said

KEY = {"E2B_API_KEY": "unit-key"}


def config(
    config: dict[str, Any] | None = None,
    *,
    environ: dict[str, str] | None = None,
    arguments: dict[str, Any] | None = None,
    allowed_origins: tuple[str, ...] = (),
    **spec: Any,
) -> E2BSandboxConfig:
    """What a spec with this `config` resolves to, with a key in the environment."""
    settings = SETTINGS.resolve(
        SandboxSpec(config=config or {}, **spec), arguments=arguments, environ=KEY | (environ or {})
    )
    return e2b_config(settings, allowed_origins)


# --- where values come from ---------------------------------------------------------------------------------------


def test_defaults_are_the_contracts() -> None:
    defaults = config()

    assert (str(defaults.api_url), defaults.domain) == ("https://api.e2b.app", "e2b.app")
    assert (defaults.template, defaults.envd_port, defaults.timeout_seconds) == ("base", 49983, 300)
    assert (defaults.delete_on_close, defaults.use_shell_wrap) == (True, True)
    assert (defaults.limits.connect_seconds, defaults.limits.read_seconds) == (10, 120)
    assert (defaults.sandbox_url, defaults.envd_access_token, defaults.timeout_given) == (None, None, False)


ROWS = [
    ("template", "E2B_TEMPLATE_ID", "templateId", "python", "python"),
    ("template", "E2B_TEMPLATE_ID", "templateID", "python", "python"),
    ("template", "E2B_TEMPLATE_ID", "image", "python", "python"),
    ("domain", "E2B_DOMAIN", "apiDomain", "e2b.test", "e2b.test"),
    ("envd_port", "E2B_ENVD_PORT", "envdPort", "3000", 3000),
    ("timeout_seconds", "E2B_TIMEOUT", "timeoutSeconds", "60", 60),
    ("envd_access_token", "E2B_ACCESS_TOKEN", "envdAccessToken", "tok-1", "tok-1"),
]


@pytest.mark.parametrize(("field", "variable", "key", "given", "value"), ROWS)
def test_value_comes_from_the_environment_or_from_the_spec_which_wins(
    field: str, variable: str, key: str, given: str, value: Any
) -> None:
    assert getattr(config(environ={variable: given}), field) == value
    assert (
        getattr(config({key: given}, environ={variable: "9"}, allowed_origins=("https://api.e2b.test",)), field)
        == value
    )


def test_addresses_come_from_the_environment() -> None:
    environ = {"E2B_API_URL": "http://127.0.0.1:3000/base/", "E2B_SANDBOX_URL": "http://[::1]:49983"}

    found = config(environ=environ)

    assert (str(found.api_url), str(found.sandbox_url)) == ("http://127.0.0.1:3000/base", "http://[::1]:49983")


def test_domain_derives_the_control_api() -> None:
    assert str(config(environ={"E2B_DOMAIN": "e2b.test"}).api_url) == "https://api.e2b.test"


def test_image_of_the_spec_is_the_template_and_beats_the_environment_but_not_the_config() -> None:
    assert config(environ={"E2B_TEMPLATE_ID": "env"}, image="python-img").template == "python-img"
    assert config({"templateId": "conf"}, image="python-img").template == "conf"


def test_constructor_argument_beats_everything_and_hides_nothing_else() -> None:
    found = config({"timeoutSeconds": 60}, image="python-img", arguments={"timeout_seconds": 30})

    assert (found.timeout_seconds, found.template) == (30, "python-img")


def test_constructor_takes_every_setting_by_its_name() -> None:
    assert list(E2BArguments.__annotations__) == [setting.name for setting in SETTINGS]


def test_workspace_is_the_directory_that_commands_run_in() -> None:
    assert config(workspace_id="/workspace/").working_directory == "/workspace"
    with pytest.raises(SandboxConfigError, match=r"spec\.workspace_id must be an absolute directory"):
        config(workspace_id="ai4j-demo")


def test_life_that_somebody_asked_for_is_known() -> None:
    assert config({"timeoutSeconds": 300}).timeout_given
    assert config(environ={"E2B_TIMEOUT": "300"}).timeout_given


def test_request_timeout_never_becomes_the_lifetime() -> None:  # C14
    found = config({"timeoutSeconds": 300, "readTimeoutMillis": 30_000})

    assert (found.timeout_seconds, found.limits.read_seconds) == (300, 30)


def test_attached_sandbox_is_destroyed_only_when_its_own_spec_says_so() -> None:
    assert config({"deleteOnClose": True}).destroys_attached
    assert not config().destroys_attached
    assert not config(arguments={"delete_on_close": True}).destroys_attached
    assert not config({"deleteOnClose": False}).destroys_attached


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environ", [{}, {"E2B_API_KEY": ""}, {"E2B_API_KEY": "   "}])
def test_missing_key_is_named(environ: dict[str, str]) -> None:  # H24, K02
    with pytest.raises(SandboxConfigError, match=r"E2B API key is required and missing.*E2B_API_KEY"):
        e2b_config(SETTINGS.resolve(SandboxSpec(), environ=environ))


@pytest.mark.parametrize("value", ["5m", "300s", "", -1, 0, 1.5, True])
def test_lifetime_is_a_positive_number_or_refused(value: Any) -> None:  # C15, I-54
    with pytest.raises(SandboxConfigError, match=r"config\.timeoutSeconds"):
        config({"timeoutSeconds": value})


@pytest.mark.parametrize(("value", "port"), [("49983 ", 49983), ("1", 1), ("65535", 65535)])
def test_port_is_taken(value: str, port: int) -> None:  # K05
    assert config(environ={"E2B_ENVD_PORT": value}).envd_port == port


@pytest.mark.parametrize("value", ["abc", "0", "70000", "-1", "4.5"])
def test_port_out_of_range_names_the_variable(value: str) -> None:  # K05
    with pytest.raises(SandboxConfigError, match="E2B_ENVD_PORT"):
        config(environ={"E2B_ENVD_PORT": value})


@pytest.mark.parametrize("key", ["useShellWrap", "deleteOnClose", "secure", "sendApiKeyAsBearer"])
@pytest.mark.parametrize(
    ("word", "value"),
    [("false", False), ("False", False), ("0", False), ("no", False), ("off", False), ("true", True), ("1", True),
     ("on", True), ("yes", True), (True, True), (False, False)],
)  # fmt: skip
def test_booleans_are_words(key: str, word: Any, value: bool) -> None:  # K06, I-55
    resolved = SETTINGS.resolve(SandboxSpec(config={key: word}), environ=KEY)

    (name,) = (setting.name for setting in SETTINGS if key in setting.config)
    assert resolved[name] is value


def test_word_that_is_no_boolean_is_refused() -> None:  # K06
    with pytest.raises(SandboxConfigError, match=r"config\.deleteOnClose must be true or false"):
        config({"deleteOnClose": "maybe"})


@pytest.mark.parametrize(
    "url", ["127.0.0.1:3000", "localhost:3000", "http://[::1", "ftp://x", "http://u:p@h", "http://h?a=b"]
)
def test_address_that_is_none_is_refused_by_name(url: str) -> None:  # K04
    with pytest.raises(SandboxConfigError, match="E2B_API_URL"):
        config(environ={"E2B_API_URL": url})


@pytest.mark.parametrize("domain", ["http://e2b.app", "e2b.app/x", "a b", "evil.example@x", "-a.b", "", "a..b"])
def test_domain_that_would_lead_elsewhere_is_refused(domain: str) -> None:
    with pytest.raises(SandboxConfigError, match=r"config\.apiDomain"):
        config({"apiDomain": domain})


@pytest.mark.parametrize("key", ["  abc123  ", "abc123\n", "\tabc123"])
def test_outer_blanks_of_a_key_are_trimmed(key: str) -> None:  # J04
    assert config(environ={"E2B_API_KEY": key}).api_key == "abc123"


@pytest.mark.parametrize("key", ["abc\r\nX-Evil: 1", "kéy–value", "a b-canary", "abc\x00def"])
def test_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:  # J04, I-43
    with pytest.raises(SandboxConfigError, match="E2B_API_KEY") as caught:
        config(environ={"E2B_API_KEY": key})

    assert_no_secret(everything_said(caught.value), secret=key)


def test_typing_error_names_the_key_that_was_meant() -> None:
    with pytest.raises(SandboxConfigError, match="did you mean 'deleteOnClose'"):
        config({"deletOnClose": True})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"network": {"allowout": []}}, r"config\.network.*did you mean 'allowOut'"),
        ({"public": True, "network": {"allowPublicTraffic": False}}, "opposite"),
        ({"public": False, "secure": False}, r"needs config\.secure"),
        ({"autoResume": True}, r"needs config\.autoPause"),
        ({"env": {"API_TOKEN": "x"}}, r"config\.env must not hold API_TOKEN"),
        ({"env": {"PORT": 8080}}, r"config\.env must hold only text"),
        ({"env": "AWS_SECRET=sk-123"}, r"config\.env must be a mapping"),
        ({"metadata": {"a": 1}}, r"config\.metadata must hold only text"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SandboxConfigError, match=reason):
        config(options)


# --- whom a credential may go to ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "origin"),
    [
        ({"apiUrl": "http://attacker.example"}, "http://attacker.example"),
        ({"sandboxUrl": "http://attacker.example:81/x"}, "http://attacker.example:81"),
        ({"apiDomain": "attacker.example"}, "https://api.attacker.example"),
    ],
)
def test_key_of_the_host_does_not_go_where_a_document_says(document: dict[str, str], origin: str) -> None:  # I-39
    with pytest.raises(SandboxAuthError, match=origin):
        config(document)
    with pytest.raises(SandboxAuthError, match=origin):
        config(document, arguments={"api_key": "argument-key"})
    assert config(document, allowed_origins=(origin,)).api_key == "unit-key"


def test_key_goes_where_its_own_document_says() -> None:
    found = config({"apiKey": "spec-key", "apiUrl": "http://127.0.0.1:3000"})

    assert (found.api_key, str(found.api_url)) == ("spec-key", "http://127.0.0.1:3000")


def test_token_of_the_host_does_not_go_where_a_document_says() -> None:
    with pytest.raises(SandboxAuthError, match="E2B_ACCESS_TOKEN"):
        config({"apiKey": "k", "sandboxUrl": "http://attacker.example"}, environ={"E2B_ACCESS_TOKEN": "tok"})


def test_no_credential_shows() -> None:  # J07
    found = config({"apiKey": CANARY, "envdAccessToken": CANARY, "env": {"NAME": CANARY}})

    assert_no_secret(repr(found), str(found))


@pytest.mark.parametrize("key", ["apiUrl", "sandboxUrl", "apiDomain", "templateId", "envdPort", "network"])
def test_refused_value_shows_no_credential(key: str) -> None:
    value = f"http://u:{CANARY}@127.0.0.1:1/?token={CANARY}"

    try:
        config({key: value})
    except SandboxException as error:
        assert_no_secret(everything_said(error))
