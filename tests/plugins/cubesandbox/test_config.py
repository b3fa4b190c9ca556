from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox.errors import SandboxAuthError, SandboxConfigError, SandboxException
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.settings import Kind
from ai4j_sandbox_cubesandbox.config import SETTINGS, CubeArguments, CubeSandboxConfig, cube_config
from support.secrets import CANARY, assert_no_secret, everything_said


def config(
    config: dict[str, Any] | None = None,
    *,
    environ: dict[str, str] | None = None,
    arguments: dict[str, Any] | None = None,
    allowed_origins: tuple[str, ...] = (),
    **spec: Any,
) -> CubeSandboxConfig:
    """What a spec with this `config` resolves to."""
    settings = SETTINGS.resolve(SandboxSpec(config=config or {}, **spec), arguments=arguments, environ=environ or {})
    return cube_config(settings, allowed_origins)


# --- where values come from ---------------------------------------------------------------------------------------


def test_defaults_are_the_contracts() -> None:  # H39
    defaults = config()

    assert str(defaults.api_url) == "http://127.0.0.1:3000"
    assert (defaults.api_key, defaults.template, defaults.working_directory) == (None, None, None)
    assert (defaults.reach.domain, defaults.envd_port, defaults.user) == ("cube.app", 49983, "root")
    assert (defaults.timeout_seconds, defaults.timeout_given) == (300, False)
    assert (defaults.limits.read_seconds, defaults.envelope_limit_bytes) == (30, 64 * 1024 * 1024)
    assert (defaults.delete_on_close, defaults.keep_alive, defaults.use_login_shell) == (True, True, True)


ROWS = [
    ("template", "CUBE_TEMPLATE_ID", ["templateId", "templateID"], "tpl-9", "tpl-9"),
    ("envd_port", "CUBE_ENVD_PORT", ["envdPort", "envdHTTPPort", "dataPort"], "49999", 49999),
    ("timeout_seconds", "CUBE_TIMEOUT", ["timeoutSeconds", "timeout"], "60", 60),
]


@pytest.mark.parametrize(
    ("field", "variable", "key", "given", "value"),
    [(field, variable, key, given, value) for field, variable, keys, given, value in ROWS for key in keys],
)
def test_value_comes_from_the_environment_or_from_the_spec_which_wins(
    field: str, variable: str, key: str, given: str, value: Any
) -> None:
    assert getattr(config(environ={variable: given}), field) == value
    assert getattr(config({key: given}, environ={variable: "9"}), field) == value


@pytest.mark.parametrize("key", ["closeDestroysSandbox", "destroyOnClose", "deleteOnClose"])
def test_close_flag_has_three_names(key: str) -> None:
    assert not config({key: "false"}).delete_on_close


@pytest.mark.parametrize("key", ["apiUrl", "apiURL", "baseUrl", "baseURL"])
def test_address_of_the_api_has_four_names(key: str) -> None:
    assert str(config({key: "http://h:1/base/"}).api_url) == "http://h:1/base"


@pytest.mark.parametrize(
    ("given", "domain"),
    [("cube.app", "cube.app"), (".cube.app", "cube.app"), ("cube.app:8080", "cube.app:8080")],
)
@pytest.mark.parametrize("key", ["sandboxDomain", "domain"])
def test_domain_is_taken_as_it_is_used(key: str, given: str, domain: str) -> None:  # K08
    assert config({key: given}).reach.domain == domain
    assert config(environ={"CUBE_SANDBOX_DOMAIN": given}).reach.domain == domain


def test_domain_with_a_scheme_is_refused() -> None:  # K08
    with pytest.raises(SandboxConfigError, match=r"config\.sandboxDomain must be a domain"):
        config({"sandboxDomain": "http://cube.app"})


def test_image_of_the_spec_is_the_template_and_beats_the_environment_but_not_the_config() -> None:
    assert config(environ={"CUBE_TEMPLATE_ID": "env"}, image="img").template == "img"
    assert config({"templateId": "conf"}, image="img").template == "conf"


def test_constructor_takes_every_setting_by_its_name() -> None:
    assert list(CubeArguments.__annotations__) == [setting.name for setting in SETTINGS]


def test_environment_and_spec_are_merged() -> None:  # H38, H45
    environ = {
        "CUBE_API_URL": "http://env:3000",
        "CUBE_API_KEY": "env-key",
        "CUBE_TEMPLATE_ID": "env-tpl",
        "CUBE_SANDBOX_DOMAIN": "env.app",
        "CUBE_ENVD_PORT": "40000",
        "CUBE_TIMEOUT": "5m",
        "CUBE_REQUEST_TIMEOUT": "10",
    }

    found = config(
        {"sandboxDomain": "spec.app", "timeoutSeconds": 600, "requestTimeoutMillis": 60_000}, environ=environ
    )

    assert (str(found.api_url), found.api_key, found.template) == ("http://env:3000", "env-key", "env-tpl")
    assert (found.reach.domain, found.envd_port) == ("spec.app", 40000)
    assert (found.timeout_seconds, found.limits.read_seconds) == (600, 60)


# --- the fall-back to E2B's variables -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"CUBE_API_URL": "", "E2B_API_URL": "http://h:1"}, "http://h:1"),
        ({"CUBE_API_URL": "http://c:1", "E2B_API_URL": "http://h:1"}, "http://c:1"),
        ({}, "http://127.0.0.1:3000"),
    ],
)
def test_e2b_address_is_used_only_without_our_own(environ: dict[str, str], url: str) -> None:  # K03, H43, H44
    assert str(config(environ=environ).api_url) == url


E2B = {"E2B_API_URL": "http://e:1", "E2B_API_KEY": "e2b-key"}


@pytest.mark.parametrize(
    ("environ", "key", "withheld"),
    [
        (E2B, "e2b-key", False),
        (E2B | {"CUBE_API_KEY": "cube-key"}, "cube-key", False),
        (E2B | {"CUBE_API_KEY": " "}, "e2b-key", False),  # I-57: an empty variable is unset
        (E2B | {"CUBE_API_URL": "http://c:1"}, None, True),  # I-50
        ({"E2B_API_KEY": "e2b-key"}, None, True),  # I-50: the default address is not E2B's
        ({"E2B_API_KEY": "e2b-key", "CUBE_ACCEPT_E2B_KEY": "true"}, "e2b-key", False),
    ],
)
def test_e2b_key_goes_only_to_an_address_of_its_own_family(
    environ: dict[str, str], key: str | None, withheld: bool
) -> None:
    found = config(environ=environ)

    assert (found.api_key, found.withheld_key) == (key, withheld)


def test_e2b_key_goes_to_an_origin_that_the_host_allows() -> None:
    environ = E2B | {"CUBE_API_URL": "http://c:1"}

    assert config(environ=environ, allowed_origins=("http://c:1",)).api_key == "e2b-key"


@pytest.mark.parametrize("environ", [E2B, {"E2B_API_KEY": "e2b-key"}])
def test_e2b_key_does_not_keep_a_cluster_without_keys_from_being_used(environ: dict[str, str]) -> None:
    found = config({"apiUrl": "http://c:1"}, environ=environ)

    assert (str(found.api_url), found.api_key, found.withheld_key) == ("http://c:1", None, True)


# --- durations: one rule ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "options", "seconds"),
    [
        ({"CUBE_REQUEST_TIMEOUT": "30"}, {}, 30),
        ({"CUBE_REQUEST_TIMEOUT": "750ms"}, {}, 0.75),
        ({"CUBE_REQUEST_TIMEOUT": "30s"}, {}, 30),
        ({}, {"requestTimeout": 30}, 30),
        ({}, {"requestTimeout": "30"}, 30),
        ({}, {"requestTimeout": "2m"}, 120),
        ({}, {"requestTimeout": 999}, 999),
        ({}, {"requestTimeoutMillis": 750}, 0.75),  # H33
        ({}, {"requestTimeoutMillis": "750"}, 0.75),
        ({}, {"requestTimeoutMillis": "2s"}, 2),
        ({"CUBE_REQUEST_TIMEOUT": "30"}, {"requestTimeoutMillis": 750}, 0.75),
    ],
)
def test_request_timeout_is_in_the_unit_of_its_name(
    environ: dict[str, str], options: dict[str, Any], seconds: float
) -> None:  # I-56
    assert config(options, environ=environ).limits.read_seconds == seconds


@pytest.mark.parametrize("value", [1000, "1000", 30_000])
def test_request_timeout_that_may_be_meant_in_milliseconds_is_refused(value: Any) -> None:  # I-56
    with pytest.raises(SandboxConfigError, match=r"config\.requestTimeout must be at most 999"):
        config({"requestTimeout": value})


def test_constructor_argument_beats_the_other_spelling_in_the_config() -> None:
    found = config({"requestTimeoutMillis": 750}, arguments={"request_timeout": 5})

    assert found.limits.read_seconds == 5


def test_both_spellings_at_once_are_refused() -> None:
    with pytest.raises(SandboxConfigError, match="twice"):
        config({"requestTimeout": 30, "requestTimeoutMillis": 750})


@pytest.mark.parametrize(
    ("given", "seconds"), [("300", 300), ("5m", 300), ("1500ms", 2), ("1h", 3600), (60, 60), (-1, -1), ("-1", -1)]
)
def test_idle_window_is_in_seconds_and_may_carry_a_unit(given: Any, seconds: int) -> None:
    assert config({"timeoutSeconds": given}).timeout_seconds == seconds
    assert config(environ={"CUBE_TIMEOUT": str(given)}).timeout_seconds == seconds


@pytest.mark.parametrize("value", [0, "0", -5, "5 minutes", "abc", "", True, [300]])
def test_idle_window_that_is_none_is_refused(value: Any) -> None:  # C15, I-54
    with pytest.raises(SandboxConfigError, match=r"config\.timeoutSeconds"):
        config({"timeoutSeconds": value})


def test_idle_window_that_somebody_asked_for_is_known() -> None:
    assert config({"timeout": 300}).timeout_given
    assert config(environ={"CUBE_TIMEOUT": "300"}).timeout_given


# --- three ways to a sandbox ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "scheme", "port", "node"),
    [
        ({}, "http", None, None),
        ({"CUBE_PROXY_NODE_IP": "10.0.0.1"}, "http", None, ("10.0.0.1", 80)),
        ({"CUBE_PROXY_NODE_IP": "10.0.0.1", "CUBE_PROXY_PORT_HTTP": "8080"}, "http", 8080, ("10.0.0.1", 8080)),
        ({"CUBE_PROXY_NODE_IP": "[::1]", "CUBE_PROXY_PORT_HTTP": "443"}, "https", 443, ("::1", 443)),
        ({"CUBE_PROXY_NODE_IP": "node", "CUBE_PROXY_SCHEME": "https"}, "https", None, ("node", 443)),
        ({"CUBE_PROXY_PORT_HTTP": "443", "CUBE_PROXY_SCHEME": "http"}, "http", 443, None),
    ],
)
def test_way_through_a_proxy(
    environ: dict[str, str], scheme: str, port: int | None, node: tuple[str, int] | None
) -> None:
    reach = config(environ=environ).reach

    assert (reach.scheme, reach.port, reach.node) == (scheme, port, node)


@pytest.mark.parametrize("address", ["http://10.0.0.1", "10.0.0.1:80", "10.0.0.1/x", "a b"])
def test_address_of_a_node_is_only_that(address: str) -> None:
    with pytest.raises(SandboxConfigError, match="CUBE_PROXY_NODE_IP"):
        config(environ={"CUBE_PROXY_NODE_IP": address})


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["apiKey", "api_key", "apikey", "e2bApiKey"])
def test_key_in_a_spec_is_refused_with_the_way_it_should_go(key: str) -> None:  # H42
    with pytest.raises(
        SandboxConfigError, match=rf"config\.{key}: is never read from a spec: set CUBE_API_KEY"
    ) as caught:
        config({key: CANARY})

    assert_no_secret(everything_said(caught.value))


def test_traffic_token_in_a_spec_is_refused() -> None:
    with pytest.raises(SandboxConfigError, match="CUBE_TRAFFIC_ACCESS_TOKEN"):
        config({"trafficAccessToken": CANARY})


@pytest.mark.parametrize(("value", "port"), [("49983 ", 49983), ("1", 1), ("65535", 65535)])
def test_port_is_taken(value: str, port: int) -> None:  # K05
    assert config(environ={"CUBE_ENVD_PORT": value}).envd_port == port


@pytest.mark.parametrize("value", ["abc", "0", "70000", "-1", "4.5"])
def test_port_out_of_range_names_the_variable(value: str) -> None:  # K05
    with pytest.raises(SandboxConfigError, match="CUBE_ENVD_PORT"):
        config(environ={"CUBE_ENVD_PORT": value})


@pytest.mark.parametrize(
    "setting", [setting for setting in SETTINGS if setting.kind is Kind.BOOLEAN], ids=lambda s: s.name
)
@pytest.mark.parametrize(
    ("word", "value"),
    [("false", False), ("False", False), ("0", False), ("no", False), ("off", False), ("true", True), ("1", True),
     (True, True), (False, False)],
)  # fmt: skip
def test_booleans_are_words(setting: Any, word: Any, value: bool) -> None:  # K06, I-55
    assert SETTINGS.resolve(SandboxSpec(), arguments={setting.name: word}, environ={})[setting.name] is value


def test_word_that_is_no_boolean_is_refused() -> None:  # K06
    with pytest.raises(SandboxConfigError, match=r"config\.closeDestroysSandbox must be true or false"):
        config({"closeDestroysSandbox": "maybe"})


@pytest.mark.parametrize(
    "url", ["127.0.0.1:3000", "localhost:3000", "http://[::1", "ftp://x", "http://u:p@h", "http://h?a=b"]
)
def test_address_that_is_none_is_refused_by_name(url: str) -> None:  # K04
    with pytest.raises(SandboxConfigError, match="CUBE_API_URL"):
        config(environ={"CUBE_API_URL": url})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:3000/", "http://127.0.0.1:3000"),
        ("http://h/base/", "http://h/base"),
        ("http://[::1]:3000", "http://[::1]:3000"),
    ],
)
def test_address_keeps_its_path_and_no_slash(url: str, shown: str) -> None:  # K04
    assert str(config(environ={"CUBE_API_URL": url}).api_url) == shown


@pytest.mark.parametrize("key", ["  abc123  ", "abc123\n", "\tabc123"])
def test_outer_blanks_of_a_key_are_trimmed(key: str) -> None:  # J04
    assert config(environ={"CUBE_API_KEY": key}).api_key == "abc123"


@pytest.mark.parametrize("key", ["abc\r\nX-Evil: 1", "kéy–value", "a b-canary", "abc\x00def"])
def test_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:  # J04, I-43
    with pytest.raises(SandboxConfigError, match="CUBE_API_KEY") as caught:
        config(environ={"CUBE_API_KEY": key})

    assert_no_secret(everything_said(caught.value), secret=key)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"closeDestroySandbox": True}, "did you mean 'closeDestroysSandbox'"),
        ({"network": {"allowout": []}}, r"config\.network.*did you mean 'allowOut'"),
        ({"autoResume": True}, r"needs config\.autoPause"),
        ({"envVars": {"API_TOKEN": "x"}}, r"config\.envVars must not hold API_TOKEN"),
        ({"envVars": {"PORT": 8080}}, r"config\.envVars must hold only text"),
        ({"envVars": "AWS_SECRET=sk-123"}, r"config\.envVars must be a mapping"),
        ({"metadata": {"a": 1}}, r"config\.metadata must hold only text"),
        ({"user": "root:x"}, r"config\.user must be the name of a Linux user"),
        ({"connectEnvelopeLimitBytes": 0}, r"config\.connectEnvelopeLimitBytes must be at least"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SandboxConfigError, match=reason) as caught:
        config(options)

    assert "sk-123" not in everything_said(caught.value)  # I-45


# --- whom a credential may go to ----------------------------------------------------------------------------------


def test_key_of_the_host_does_not_go_where_a_document_says() -> None:  # I-39, K14
    document = {"apiUrl": "http://attacker.example"}
    asked = E2B | {"CUBE_ACCEPT_E2B_KEY": "true"}
    for source in ({"environ": {"CUBE_API_KEY": "k"}}, {"arguments": {"api_key": "k"}}, {"environ": asked}):
        with pytest.raises(SandboxAuthError, match=r"http://attacker\.example"):
            config(document, **source)  # type: ignore[arg-type]  # keyword arguments of two kinds

    allowed = config(document, environ={"CUBE_API_KEY": "k"}, allowed_origins=("http://attacker.example",))
    assert allowed.api_key == "k"


@pytest.mark.parametrize(
    ("document", "origin"),
    [
        ({"envdBaseUrl": "http://attacker.example:81"}, "http://attacker.example:81"),
        ({"proxyUrl": "https://attacker.example"}, "https://attacker.example"),
        ({"proxyNodeIp": "10.6.6.6"}, "http://10.6.6.6"),
        ({"sandboxDomain": "attacker.example"}, "http://attacker.example"),
    ],
)
def test_token_of_the_host_does_not_go_where_a_document_says(document: dict[str, str], origin: str) -> None:
    environ = {"CUBE_TRAFFIC_ACCESS_TOKEN": "tok"}

    with pytest.raises(SandboxAuthError, match=origin):
        config(document, environ=environ)
    assert config(document, environ=environ, allowed_origins=(origin,)).traffic_access_token == "tok"


def test_address_in_a_document_is_fine_without_a_credential() -> None:
    assert str(config({"apiUrl": "http://h:1"}).api_url) == "http://h:1"


def test_no_credential_shows() -> None:  # J07
    environ = {"CUBE_API_KEY": CANARY, "CUBE_TRAFFIC_ACCESS_TOKEN": CANARY}

    found = config({"envVars": {"NAME": CANARY}}, environ=environ)

    assert_no_secret(repr(found), str(found))


@pytest.mark.parametrize(
    "key", ["apiUrl", "envdBaseUrl", "proxyUrl", "sandboxDomain", "templateId", "envdPort", "user"]
)
def test_refused_value_shows_no_credential(key: str) -> None:
    value = f"http://u:{CANARY}@127.0.0.1:1/?token={CANARY}"

    try:
        config({key: value})
    except SandboxException as error:
        assert_no_secret(everything_said(error))
