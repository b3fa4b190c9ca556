"""The table of exit codes in `docs/cli.md`, for every command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest

from ai4j_cli.failures import ExitCode, exit_code_of_all
from ai4j_cli.lazy_group import LazyGroup
from ai4j_cli.main import program
from ai4j_sandbox import Capabilities, Capability, SandboxAuthError, SandboxConfigError
from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox.testing.fake import FAKE_INFO
from support.command_line import document_of, invoke, registry_of
from support.secrets import CANARY, assert_no_secret

NAMES_A_PROVIDER = [
    "sandbox run --provider {} -- true",
    "sandbox ls --provider {}",
    "sandbox info {}/x",
    "sandbox exec {}/x -- true",
    "sandbox cp {}/x:a b",
    "sandbox artifacts {}/x *",
    "sandbox port {}/x 80",
    "sandbox pause {}/x",
    "sandbox resume {}/x",
    "sandbox extend {}/x 1h",
    "sandbox rm {}/x",
    "sandbox cleanup --yes --provider {}",
    "top --once --provider {}",
    "providers show {}",
    "providers check {} -",
    "providers doctor {}",
]
READS_A_FILE = [
    "sandbox run --spec {} -- true",
    "sandbox run --stdin {} -- true",
    "sandbox run --upload {} -- true",
    "sandbox cp {} fake/x:y",
    "providers check fake {}",
    "blueprint check {}",
    "session show {}",
    "session verify {}",
    "chat --scripted {}",
    "chat --blueprint {}",
]
ANSWERS_JSON = [*NAMES_A_PROVIDER, "session show {}", "blueprint check {}"]


def ai4j(line: str, **options) -> click.testing.Result:
    """Run one line, cut at blanks; a word ``""`` is an empty one."""
    words = ["" if word == '""' else word for word in line.split(" ")]
    return invoke(*words, registry=registry_of(FakeProvider()), **options)


@pytest.mark.parametrize("line", NAMES_A_PROVIDER)
def test_an_unknown_provider_is_a_wrong_request(line):
    result = ai4j(line.format("nobody"))

    assert (result.exit_code, result.stdout) == (2, "")
    assert "no sandbox provider 'nobody'" in result.stderr


@pytest.mark.parametrize("line", READS_A_FILE)
def test_a_file_that_is_not_there_is_a_wrong_request(line, tmp_path):
    result = ai4j(line.format(tmp_path / "none"))

    assert (result.exit_code, result.stdout) == (2, "")
    assert "No such file" in result.stderr or "does not exist" in result.stderr


@pytest.mark.parametrize("line", ANSWERS_JSON)
def test_an_error_is_one_json_document_with_the_exit_code(line):
    group, _, rest = line.format("nobody").partition(" ")
    command, _, arguments = rest.partition(" ")
    json_line = f"top --json {rest}" if group == "top" else f"{group} {command} --json {arguments}"

    result = ai4j(json_line)

    document = document_of(result)
    assert (document["exitCode"], sorted(document)) == (result.exit_code, ["error", "exitCode"])
    assert result.exit_code == 2


@pytest.mark.parametrize("line", NAMES_A_PROVIDER)
def test_a_credential_in_place_of_a_name_is_refused_and_not_repeated(line):
    result = ai4j(line.format(f"https://somebody:{CANARY}@example.org"))

    assert result.exit_code == 2
    assert_no_secret(result.output)


@pytest.mark.parametrize("line", ["sandbox ls --provider {}", "sandbox rm {}/x", "sandbox cleanup --yes --provider {}"])
def test_what_a_provider_cannot_do_is_a_wrong_request(line):
    less = Capabilities({key: FAKE_INFO.capabilities[key] for key in Capability if key is not Capability.LISTING})

    class Unlisted(FakeProvider):
        list_sessions = None

    provider = Unlisted(info=replace(FAKE_INFO, provider_id="less", capabilities=less))

    result = invoke(*line.format("less").split(), registry=registry_of(provider))

    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot list or remove sandboxes" in result.stderr


def test_rm_destroys_nothing_when_one_of_its_providers_does_not_exist():
    provider = FakeProvider()
    sandbox = provider.create_session().session_id

    result = invoke("sandbox", "rm", f"fake/{sandbox}", "nobody/x", registry=registry_of(provider))

    assert (result.exit_code, provider.sandboxes[sandbox].alive) == (2, True)


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ([], ExitCode.DONE),
        ([SandboxConfigError("a wrong setting")], ExitCode.USAGE),
        ([SandboxAuthError("the key is not accepted")], ExitCode.FAILED),
        ([SandboxConfigError("a wrong setting"), SandboxAuthError("the key is not accepted")], ExitCode.FAILED),
    ],
)
def test_of_several_failures_a_sandbox_that_failed_counts_most(failures, code):
    assert exit_code_of_all(failures) == code


# --- empty words ----------------------------------------------------------------------------------------------------


def commands(group: LazyGroup = program, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command of this distribution with its path."""
    for name, lazy in group._lazy.items():
        command = lazy.load()
        if isinstance(command, LazyGroup):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def takes_text() -> list[tuple[str, ...]]:
    """Every option of every command that takes a value, but the shell line: an empty one does nothing, as it says."""
    return [
        (*path, max(parameter.opts, key=len))
        for path, command in commands()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.is_flag and "--shell" not in parameter.opts
    ]


@pytest.mark.parametrize("words", takes_text(), ids=" ".join)
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_value_is_refused_and_never_means_the_default(words, value):
    *path, option = words

    result = invoke(*path, option, value, registry=registry_of(FakeProvider()))

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"'{option}'" in result.stderr


@pytest.mark.parametrize(
    "line",
    [
        'sandbox info ""',
        "sandbox info fake/",
        'sandbox exec "" -- true',
        'sandbox rm ""',
        'sandbox cp "" fake/x:a',
        'sandbox cp fake/x:a ""',
        'sandbox artifacts fake/x ""',
        'sandbox extend fake/x ""',
        'providers show ""',
        'providers doctor ""',
        'providers check fake ""',
        'session show ""',
        'blueprint check ""',
    ],
)
def test_an_empty_argument_is_refused(line):
    assert ai4j(line).exit_code == 2


@pytest.mark.parametrize("option", ["--owner=", "--label=team="])
def test_cleaning_up_is_never_for_an_owner_that_was_not_named(option):
    provider = FakeProvider()
    sandbox = provider.create_session().session_id

    invoke("sandbox", "cleanup", "--yes", option, registry=registry_of(provider))

    assert provider.sandboxes[sandbox].alive


def test_a_blank_variable_names_no_provider(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("AI4J_SANDBOX_PROVIDER", " ")

    result = invoke("sandbox", "info", "x", registry=registry_of(FakeProvider()))

    assert "whose sandbox is x?" in result.stderr
