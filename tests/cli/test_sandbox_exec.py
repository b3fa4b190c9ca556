"""`ai4j sandbox exec` and `artifacts` in a fake sandbox that exists: it stays, whatever happens."""

from __future__ import annotations

import pytest

from ai4j_sandbox import SandboxSpec
from ai4j_sandbox.testing import FakeProvider, FakeResult
from support.command_line import document_of, invoke, registry_of
from support.secrets import CANARY, assert_no_secret


def existing(result: FakeResult | None = None) -> tuple[FakeProvider, str]:
    """A provider with one sandbox whose every command does the same, and that sandbox's id."""
    provider = FakeProvider(lambda command: result or FakeResult())
    return provider, provider.create_session(SandboxSpec()).session_id


def test_everything_after_the_first_separator_reaches_the_command_unchanged():
    """Case O03."""
    provider, sandbox = existing()

    invoke(
        "sandbox", "exec", f"fake/{sandbox}", "--", "grep", "--count", "x", "--", "-f", registry=registry_of(provider)
    )

    assert provider.commands[0].command == ("grep", "--count", "x", "--", "-f")


def test_options_of_the_command_are_not_ours_even_without_a_separator():
    provider, sandbox = existing()

    invoke("sandbox", "exec", f"fake/{sandbox}", "ls", "--json", "--cwd", "x", registry=registry_of(provider))

    assert provider.commands[0].command == ("ls", "--json", "--cwd", "x")


def test_output_and_exit_code_are_the_commands_and_the_sandbox_stays():
    provider, sandbox = existing(FakeResult(stdout="out", stderr="err", exit_code=7))

    result = invoke("sandbox", "exec", "--provider", "fake", sandbox, "x", registry=registry_of(provider))

    assert (result.exit_code, result.stdout, result.stderr) == (7, "out", "err")
    assert provider.sandboxes[sandbox].alive


def test_input_is_passed_on_byte_for_byte():
    """Case E11."""
    provider, sandbox = existing(FakeResult(echoes_stdin=True))

    result = invoke(
        "sandbox", "exec", f"fake/{sandbox}", "cat", registry=registry_of(provider), stdin=b"\x00\x01\x02\xff"
    )

    assert result.stdout_bytes == b"\x00\x01\x02\xff"


def test_json_tells_the_session_as_running_because_the_sandbox_is():
    provider, sandbox = existing(FakeResult(stdout="hi"))

    document = document_of(invoke("sandbox", "exec", "--json", f"fake/{sandbox}", "x", registry=registry_of(provider)))

    assert (document["session"]["sandboxSessionId"], document["session"]["status"]) == (sandbox, "RUNNING")
    assert (document["result"]["stdout"], document["exitCode"]) == ("hi", 0)


def test_the_provider_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("AI4J_SANDBOX_PROVIDER", "fake")
    provider, sandbox = existing(FakeResult(stdout="hi"))

    assert invoke("sandbox", "exec", sandbox, "x", registry=registry_of(provider)).stdout == "hi"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "a sandbox is needed"),
        (("--", "ls"), "a command is needed"),
        (("some-id", "ls"), "providers that can attach: fake"),
        (("fake/some-id",), "a command is needed"),
        (("--provider", "other", "fake/some-id", "ls"), "contradicts --provider other"),
        (("--tty", "fake/some-id", "ls"), "--tty needs a terminal"),
        (("nobody/some-id", "ls"), "no sandbox provider 'nobody'"),
    ],
)
def test_a_wrong_request_is_told_and_nothing_runs(arguments, problem):
    provider, _ = existing()

    result = invoke("sandbox", "exec", *arguments, registry=registry_of(provider))

    assert (result.exit_code, provider.commands) == (2, [])
    assert problem in result.stderr


def test_a_sandbox_that_does_not_exist_is_no_reason_to_make_one():
    provider = FakeProvider()

    result = invoke("sandbox", "exec", "fake/nope", "true", registry=registry_of(provider))

    assert (result.exit_code, result.stderr) == (125, "ai4j: no fake sandbox 'nope'\n")
    assert provider.sandboxes == {}


def test_a_provider_that_cannot_attach_says_what_it_can():
    class Creator(FakeProvider):
        connect = None  # type: ignore[assignment]  # a provider without this ability

    result = invoke("sandbox", "exec", "fake/x", "true", registry=registry_of(Creator()))

    assert result.exit_code == 2
    assert "cannot attach to a sandbox that exists; it can do: streaming" in result.stderr


def test_a_credential_on_the_command_line_is_refused_without_being_repeated():
    provider, sandbox = existing()

    result = invoke(
        "sandbox", "exec", "--config", f"apiKey={CANARY}", f"fake/{sandbox}", "true", registry=registry_of(provider)
    )

    assert result.exit_code == 2
    assert_no_secret(result.output)


def test_shell_needs_a_terminal():
    provider, sandbox = existing()

    result = invoke("sandbox", "shell", f"fake/{sandbox}", registry=registry_of(provider))

    assert (result.exit_code, provider.commands) == (2, [])
    assert "needs a terminal" in result.stderr


# --- artifacts ----------------------------------------------------------------------------------------------------


def test_artifacts_are_listed_and_saved(tmp_path):
    provider, sandbox = existing()
    provider.sandboxes[sandbox].files.write("/out/a.txt", "hello")

    result = invoke(
        "sandbox",
        "artifacts",
        f"fake/{sandbox}",
        "/out/*.txt",
        "--download",
        str(tmp_path),
        registry=registry_of(provider),
    )

    assert result.exit_code == 0
    assert "/out/a.txt  5      2cf24dba" in result.stdout
    assert (tmp_path / "out" / "a.txt").read_text() == "hello"


def test_artifacts_need_a_pattern():
    provider, sandbox = existing()

    assert invoke("sandbox", "artifacts", f"fake/{sandbox}", registry=registry_of(provider)).exit_code == 2
