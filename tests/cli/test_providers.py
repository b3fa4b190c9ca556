"""`ai4j providers`: what it shows, what it never loads, never prints, and when it says no."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ai4j_sandbox import ProviderRegistration, Requirement, SandboxConnectionError
from ai4j_sandbox.settings import Kind, Setting, SettingsTable
from ai4j_sandbox.spi import Health
from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox.testing.fake import FAKE_INFO
from support.command_line import document_of, invoke, registry_of
from support.plugin_site import PluginSite
from support.secrets import CANARY, assert_no_secret


class Remote(FakeProvider):
    """A provider with an account: settings of every kind, and a health that a test decides."""

    settings = SettingsTable(
        "remote",
        (
            Setting(name="api_key", env=("REMOTE_KEY",), config=("apiKey",), secret=True, help="The account's key."),
            Setting(name="timeout", env=("REMOTE_TIMEOUT",), kind=Kind.INTEGER, default=300, help="Life in seconds."),
            Setting(name="image", spec="image", help="Template."),
        ),
    )

    def __init__(self, answer: Health | Exception = Health(healthy=True, summary="reachable")) -> None:  # noqa: B008
        requirement = Requirement(any_of=("REMOTE_KEY", "REMOTE_TOKEN"), hint="set REMOTE_KEY")
        super().__init__(info=replace(FAKE_INFO, provider_id="remote", requirements=(requirement,)))
        self._answer = answer

    def health(self) -> Health:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.fixture
def site(tmp_path):
    """Installed distributions: one plugin that works, one that does not."""
    plugins = PluginSite(tmp_path / "site")
    plugins.distribution("good-plugin", providers={"good": "good_hooks"})
    plugins.provider_module("good_hooks", "good")
    plugins.distribution("bad-plugin", "2.1", providers={"bad": "bad_hooks"})
    plugins.module("bad_hooks", "raise RuntimeError('\\x1b[31mboom')")
    with plugins.importable():
        yield plugins


# --- list ---------------------------------------------------------------------------------------------------------


def test_list_shows_providers_without_loading_them():
    def factory():
        raise AssertionError("the provider was loaded")

    registry = registry_of()
    registry.register(ProviderRegistration(info=Remote().info, factory=factory))

    result = invoke("providers", "list", registry=registry)

    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["ID", "NAME", "ISOLATION", "DISTRIBUTION", "STILL", "NEEDS"],
        ["remote", "Fake", "none", "ai4j-sandbox", "0.1.0", "set", "REMOTE_KEY"],
    ]


def test_list_shows_a_broken_plugin_with_its_distribution_and_the_reason(site):
    result = invoke("providers", "list", registry=registry_of(path=site.directory))

    assert result.exit_code == 0
    assert "good-plugin 1.0" in result.stdout
    assert "broken bad: plugin 'bad' of bad-plugin 2.1 does not work: RuntimeError: \\x1b[31mboom" in result.stdout
    assert result.stderr == ""


def test_list_as_json(site):
    document = document_of(invoke("providers", "list", "--json", registry=registry_of(path=site.directory)))

    told = [(info["providerId"], info["isolation"], info["location"]) for info in document["providers"]]
    assert told == [("good", "CONTAINER", "remote")]
    assert [(problem["name"], problem["distribution"]) for problem in document["problems"]] == [("bad", "bad-plugin")]


def test_a_requirement_that_is_met_is_not_listed(monkeypatch):
    monkeypatch.setenv("REMOTE_TOKEN", "x")

    document = document_of(invoke("providers", "list", "--json", registry=registry_of(Remote())))

    assert document["providers"][0]["unmetRequirements"] == []


def test_lines_are_neither_cut_nor_coloured_away_from_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    registry = registry_of()
    registry.register(
        ProviderRegistration(info=replace(FAKE_INFO, display_name="word " * 60), factory=FakeProvider),
    )

    result = invoke("providers", "list", registry=registry)

    assert "\x1b" not in result.stdout
    assert len(result.stdout.splitlines()) == 2


# --- show ---------------------------------------------------------------------------------------------------------


def test_show_tells_each_value_and_where_it_comes_from_and_masks_secrets(monkeypatch):
    monkeypatch.setenv("REMOTE_KEY", CANARY)

    result = invoke("providers", "show", "remote", registry=registry_of(Remote()))

    rows = {line.split()[0]: line.split()[1:3] for line in result.stdout.splitlines() if line}
    assert (rows["api_key"], rows["timeout"], rows["image"]) == (
        ["[redacted]", "REMOTE_KEY"],
        ["300", "default"],
        ["-", "default"],
    )
    assert_no_secret(result.output)


def test_show_tells_a_wrong_value_beside_the_right_ones(monkeypatch):
    monkeypatch.setenv("REMOTE_TIMEOUT", "soon")

    document = document_of(invoke("providers", "show", "remote", "--json", registry=registry_of(Remote())))

    problems = {setting["name"]: setting["problem"] for setting in document["settings"]}
    assert problems == {
        "api_key": None,
        "timeout": "REMOTE_TIMEOUT must be a whole number, got 'soon'",
        "image": None,
    }


def test_show_lists_every_capability_with_its_level_and_reason():
    lines = invoke("providers", "show", "fake", registry=registry_of(FakeProvider())).stdout.splitlines()

    assert any(line.split() == ["files", "emulated", "files", "are", "kept", "in", "memory"] for line in lines)
    assert any(line.startswith("snapshot") and "unsupported" in line for line in lines)


def test_show_of_an_unknown_provider_names_those_there_are():
    result = invoke("providers", "show", "e3b", registry=registry_of(FakeProvider()))

    assert result.exit_code == 2
    assert "fake" in result.stderr
    assert "hint: pip install ai4j-sandbox-e2b" in result.stderr


# --- check --------------------------------------------------------------------------------------------------------


def check(tmp_path, text, *options):
    """Check a spec file against the fake."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(text)
    return invoke("providers", "check", "fake", str(spec), *options, registry=registry_of(FakeProvider()))


def test_check_decides_field_by_field_and_refuses_with_1(tmp_path):
    result = check(tmp_path, "image: x\nconfig: {deleteOnCLose: true, deleteOnClose: maybe}\n", "--json")

    assert (result.exit_code, document_of(result)["accepted"]) == (1, False)
    assert [tuple(decision.values()) for decision in document_of(result)["decisions"]] == [
        ("image", "honoured", None),
        ("config.deleteOnCLose", "refused", "unknown key; did you mean 'deleteOnClose'?"),
        ("config.deleteOnClose", "refused", "must be true or false, got 'maybe'"),
    ]


def test_check_accepts_with_0(tmp_path):
    result = check(tmp_path, "providerId: fake\nlabels: {team: blue}\n")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "accepted by fake"


def test_check_refuses_a_spec_for_another_provider(tmp_path):
    result = check(tmp_path, "providerId: e2b\n")

    assert result.exit_code == 1
    assert "provider_id" in result.stdout


def test_check_reads_standard_input():
    result = invoke(
        "providers", "check", "fake", "-", registry=registry_of(FakeProvider()), stdin=b'{"image": "x"}'
    )  # fmt: skip

    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nimage: x\na: 2\n", "spec.yaml, line 3: key 'a' is given twice"),
        ("imgae: x\n", "imgae: unknown key; did you mean 'image'?"),
        ("- image\n", "must be a JSON object"),
        ("image: 3.12\n", "image: Not a valid string"),
    ],
)
def test_a_document_that_is_no_spec_is_2(tmp_path, text, problem):
    result = check(tmp_path, text)

    assert result.exit_code == 2
    assert problem in result.stderr


def test_a_file_that_is_not_there_is_2():
    result = invoke("providers", "check", "fake", "nowhere.yaml", registry=registry_of(FakeProvider()))

    assert (result.exit_code, result.stderr) == (2, "ai4j: nowhere.yaml cannot be read: No such file or directory\n")


# --- doctor -------------------------------------------------------------------------------------------------------


def test_doctor_is_content_when_all_that_are_configured_are_healthy(monkeypatch):
    result = invoke("providers", "doctor", registry=registry_of(FakeProvider(), Remote()))

    assert result.exit_code == 0
    assert "fake: healthy - nothing real to go wrong" in result.stdout
    assert "remote: not configured - something it needs is not set\n    -> set REMOTE_KEY" in result.stdout
    assert "python: 3." in result.stdout


def test_doctor_asked_for_one_that_is_not_configured_says_no():
    assert invoke("providers", "doctor", "remote", registry=registry_of(Remote())).exit_code == 1


def test_doctor_gives_advice_for_what_is_ill_and_says_no(monkeypatch):
    monkeypatch.setenv("REMOTE_KEY", CANARY)
    ill = Health(healthy=False, summary="refused", advice=("renew the key",), details={"status": 401})

    result = invoke("providers", "doctor", "--json", registry=registry_of(FakeProvider(), Remote(ill)))

    assert (result.exit_code, document_of(result)["working"]) == (1, False)
    assert document_of(result)["providers"][1] == {
        "providerId": "remote",
        "condition": "unhealthy",
        "summary": "refused",
        "advice": ["renew the key"],
        "details": {"status": 401},
    }
    assert_no_secret(result.output)


def test_a_health_check_that_fails_is_an_answer_and_the_others_are_still_asked(monkeypatch):
    monkeypatch.setenv("REMOTE_KEY", "x")
    broken = Remote(SandboxConnectionError("no route", hint="check REMOTE_URL"))

    result = invoke("providers", "doctor", registry=registry_of(FakeProvider(), broken))

    assert result.exit_code == 1
    assert "remote: unhealthy - no route\n    -> check REMOTE_URL" in result.stdout
    assert "fake: healthy" in result.stdout


def test_doctor_of_a_provider_without_a_health_check_finds_nothing_against_it(site):
    result = invoke("providers", "doctor", "good", registry=registry_of(path=site.directory))

    assert result.exit_code == 0
    assert "good: cannot tell - it loads" in result.stdout


def test_doctor_tells_what_is_wrong_with_plugins(site):
    result = invoke("providers", "doctor", registry=registry_of(path=site.directory))

    assert "broken bad: plugin 'bad' of bad-plugin 2.1 does not work" in result.stdout
