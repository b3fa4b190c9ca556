"""`ai4j sandbox run` against a provider that only plays: what reaches the provider, what is told, which exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ai4j_sandbox import (
    Capability,
    OutputChunk,
    OutputStream,
    SandboxCapacityError,
    SandboxCleanupError,
    SandboxCommand,
    SandboxFileError,
)
from ai4j_sandbox.capability import unsupported
from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox.testing.fake import FAKE_INFO, FakeSession
from support.command_line import document_of, invoke, registry_of, run_fake
from support.secrets import CANARY, assert_no_secret


def always(result: FakeResult) -> FakeProvider:
    """A provider whose every command does the same."""
    return FakeProvider(lambda command: result)


# --- the command --------------------------------------------------------------------------------------------------


def test_everything_after_the_first_separator_reaches_the_command_unchanged():
    provider = always(FakeResult())

    run_fake("--", "grep", "--count", "x", "--", "-f", provider=provider)

    assert provider.commands[0].command == ("grep", "--count", "x", "--", "-f")


def test_options_of_the_command_are_not_ours_even_without_a_separator():
    provider = always(FakeResult())

    run_fake("pytest", "--json", "-v", "--", "--provider", provider=provider)

    assert provider.commands[0].command == ("pytest", "--json", "-v", "--", "--provider")


def test_a_single_argument_is_a_program_and_not_a_shell_line():
    provider = always(FakeResult())

    run_fake("--", "echo $HOME; ls", provider=provider)

    assert provider.commands[0].command == ("echo $HOME; ls",)


def test_shell_runs_a_line():
    provider = always(FakeResult())

    run_fake("--shell", "echo  $HOME | cat ", provider=provider)

    assert provider.commands[0].command == "echo  $HOME | cat "


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "a command is needed"),
        (("--",), "a command is needed"),
        (("--shell", "ls", "--", "ls"), "not both"),
        (("--download", "out", "--", "ls"), "--download needs --artifact"),
        (("--output-limit", "1K", "--", "ls"), "--output-limit is for --json"),
        (("--tty", "--stdin", "-", "--", "ls"), "--tty cannot be combined"),
        (("--tty", "--", "ls"), "--tty needs a terminal"),
        (("--timeout", "0", "--", "ls"), "not a positive number of seconds"),
        (("--timeout", "nan", "--", "ls"), "not a positive number of seconds"),
        (("--env", "NOT_SET_ANYWHERE", "--", "ls"), "NOT_SET_ANYWHERE is not set here"),
        (("--upload", "/no/such/thing", "--", "ls"), "does not exist"),
        (("--label", "x", "--", "ls"), "KEY=VALUE"),
        (("--stdin", "/no/such/thing", "--", "ls"), "does not exist"),
        (("--stdin", "/", "--", "ls"), "is a directory"),
        (("--env", "1X=2", "--", "ls"), "environment name '1X' is not valid"),
        (("--nonsense", "--", "ls"), "No such option"),
        (("--config", "nonsense=1", "--", "ls"), "config.nonsense: unknown key"),
        (("--config", "x={", "--", "ls"), "--config x, line 1"),
    ],
)
def test_a_wrong_request_is_told_and_nothing_runs(arguments, problem):
    provider = always(FakeResult())

    result = run_fake(*arguments, provider=provider)

    assert (result.exit_code, result.stdout, provider.commands) == (2, "", [])
    assert problem in result.stderr


def test_options_become_the_spec_and_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("FROM_HERE", "here")
    provider = always(FakeResult())
    options = {
        "--image": "python:3.12",
        "--workspace": "w1",
        "--label": "team=blue",
        "--config": "deleteOnClose=false",
        "--cwd": "/src",
        "--timeout": "1.5",
        "--artifact": "*.xml",
    }

    run_fake(
        *(word for option in options.items() for word in option),
        "--env", "A=b=c", "--env", "FROM_HERE", "--", "true",
        provider=provider,
    )  # fmt: skip

    (sandbox,) = provider.sandboxes.values()
    (command,) = provider.commands
    assert (sandbox.spec.image, sandbox.spec.workspace_id) == ("python:3.12", "w1")
    assert (dict(sandbox.spec.labels), dict(sandbox.spec.config)) == ({"team": "blue"}, {"deleteOnClose": False})
    assert dict(command.environment) == {"A": "b=c", "FROM_HERE": "here"}
    assert (command.working_directory, command.timeout_millis, command.artifacts) == ("/src", 1500, ("*.xml",))


def test_options_win_over_the_spec_file(tmp_path):
    provider = always(FakeResult())
    (tmp_path / "spec.yaml").write_text("providerId: fake\nimage: old\nprofile: ci\nlabels: {a: x, b: y}\n")

    result = invoke(
        "sandbox", "run", "--spec", str(tmp_path / "spec.yaml"), "--image", "new", "--label", "b=z", "true",
        registry=registry_of(provider),
    )  # fmt: skip

    (sandbox,) = provider.sandboxes.values()
    assert result.exit_code == 0
    assert (sandbox.spec.image, sandbox.spec.profile, dict(sandbox.spec.labels)) == ("new", "ci", {"a": "x", "b": "z"})


def test_the_provider_comes_from_the_environment_when_nothing_else_names_one(monkeypatch):
    monkeypatch.setenv("AI4J_SANDBOX_PROVIDER", "fake")
    provider = always(FakeResult())

    result = invoke("sandbox", "run", "true", registry=registry_of(provider))

    assert (result.exit_code, len(provider.commands)) == (0, 1)


def test_without_any_choice_the_provider_is_local_and_its_absence_says_what_to_install():
    result = invoke("sandbox", "run", "true", registry=registry_of(FakeProvider()))

    assert result.exit_code == 2
    assert "hint: pip install ai4j-sandbox-local" in result.stderr


# --- streams and exit codes ---------------------------------------------------------------------------------------


def test_output_is_passed_on_byte_by_byte_each_stream_on_its_own():
    chunks = (
        OutputChunk(OutputStream.STDOUT, b"\xff\x00\xe2\x82"),
        OutputChunk(OutputStream.STDERR, b"\x1b[31mred\n"),
        OutputChunk(OutputStream.STDOUT, b"\xac\r\n"),
    )

    result = run_fake("true", provider=always(FakeResult(output=chunks)))

    assert (result.stdout_bytes, result.stderr_bytes) == (b"\xff\x00\xe2\x82\xac\r\n", b"\x1b[31mred\n")


@pytest.mark.parametrize("code", [0, 1, 2, 42, 127, 255])
def test_the_exit_code_of_the_command_passes_through(code):
    assert run_fake("x", provider=always(FakeResult(exit_code=code))).exit_code == code


@pytest.mark.parametrize("code", [None, 256, -1])
def test_an_exit_code_that_cannot_be_passed_on_is_never_success(code):
    assert run_fake("x", provider=always(FakeResult(exit_code=code))).exit_code == 125


def test_a_timeout_is_124_and_keeps_what_was_written():
    result = run_fake("--timeout", "0.01", "x", provider=always(FakeResult(stdout="half", blocks=True)))

    assert (result.exit_code, result.stdout) == (124, "half")
    assert result.stderr == "ai4j: the command was stopped: it took longer than --timeout\n"


def test_binary_input_reaches_the_command_whole():
    result = run_fake("cat", provider=always(FakeResult(echoes_stdin=True)), stdin=b"\x00\x01\x02\xff")

    assert result.stdout_bytes == b"\x00\x01\x02\xff"


def test_input_comes_from_a_file_when_told(tmp_path):
    (tmp_path / "data").write_bytes(b"\xfe\xff" * 100_000)

    result = run_fake("--stdin", str(tmp_path / "data"), "cat", provider=always(FakeResult(echoes_stdin=True)))

    assert result.stdout_bytes == b"\xfe\xff" * 100_000


def test_input_for_a_provider_that_cannot_pass_it_on_is_refused_before_the_command_runs():
    capabilities = FAKE_INFO.capabilities.narrowed({Capability.STDIN: unsupported("no input")})
    provider = FakeProvider(info=replace(FAKE_INFO, capabilities=capabilities))

    result = run_fake("cat", provider=provider, stdin=b"x")

    assert (result.exit_code, provider.commands) == (2, [])
    assert "does not support stdin" in result.stderr


def test_a_command_that_does_not_read_its_input_is_not_an_error():
    assert run_fake("true", provider=always(FakeResult(stdout="done")), stdin=b"x" * 100_000).stdout == "done"


# --- failures of the sandbox --------------------------------------------------------------------------------------


def test_a_failure_of_the_sandbox_is_125_with_the_advice_and_without_a_traceback():
    error = SandboxCapacityError("no room", hint="try later")

    result = run_fake("true", provider=always(FakeResult(raises=error)))

    assert (result.exit_code, result.stdout, result.stderr) == (125, "", "ai4j: no room\nai4j: hint: try later\n")


def test_an_unexpected_error_is_one_line_unless_debug_is_asked_for():
    def broken(command: SandboxCommand) -> FakeResult:
        raise ZeroDivisionError("oops")

    quiet = run_fake("true", provider=FakeProvider(broken))
    debug = invoke(
        "--debug", "sandbox", "run", "--provider", "fake", "true", registry=registry_of(FakeProvider(broken))
    )

    assert quiet.stderr == "ai4j: unexpected ZeroDivisionError: oops (`ai4j --debug ...` shows where)\n"
    assert "Traceback (most recent call last)" in debug.stderr
    assert (quiet.exit_code, debug.exit_code) == (125, 125)


def test_a_broken_stream_is_not_taken_for_the_end_of_the_command():
    result = run_fake("true", provider=always(FakeResult(stdout="half", breaks=True)))

    assert (result.exit_code, result.stdout) == (125, "half")
    assert "ended without an exit" in result.stderr


def test_the_sandbox_is_closed_whatever_happens():
    providers = [
        always(FakeResult()),
        always(FakeResult(breaks=True)),
        always(FakeResult(raises=SandboxCapacityError("x"))),
    ]

    for provider in providers:
        run_fake("true", provider=provider)

    assert [sandbox.alive for provider in providers for sandbox in provider.sandboxes.values()] == [False] * 3


class Clinging(FakeProvider):
    """A provider whose sandboxes cannot be destroyed."""

    def _create(self, spec):
        session = super()._create(spec)

        def destroy() -> None:
            raise SandboxCapacityError("the service is busy")

        session._destroy = destroy
        return session


def test_a_sandbox_that_cannot_be_removed_makes_a_good_run_fail_and_is_named():
    provider = Clinging(lambda command: FakeResult(stdout="fine"))

    result = run_fake("true", provider=provider)

    (session_id,) = provider.sandboxes
    assert (result.exit_code, result.stdout) == (125, "fine")
    assert f"ai4j: sandbox {session_id} may still exist\n" in result.stderr


def test_a_sandbox_that_cannot_be_removed_does_not_hide_the_failure_of_the_command():
    result = run_fake("--json", "x", provider=Clinging(lambda command: FakeResult(exit_code=3)))

    document = document_of(result)
    assert (result.exit_code, document["exitCode"], document["result"]["exitCode"]) == (3, 3, 3)
    assert [failure["type"] for failure in document["failures"]] == [SandboxCleanupError.__name__]


# --- JSON ---------------------------------------------------------------------------------------------------------


def test_json_is_the_only_thing_on_stdout_and_holds_all():
    provider = always(FakeResult(stdout="— 😀\n", stderr="warn", exit_code=3))

    result = run_fake("--json", "--image", "i", "true", provider=provider)

    document = document_of(result)
    (session_id,) = provider.sandboxes
    assert result.stdout.isascii()
    assert (result.exit_code, result.stderr) == (3, "")
    assert sorted(document) == ["downloads", "exitCode", "failures", "isolation", "result", "session"]
    assert document["result"]["stdout"] == "— 😀\n"
    assert document["result"]["stderr"] == "warn"
    assert {key: document["session"][key] for key in ("providerId", "sandboxSessionId", "status", "image")} == {
        "providerId": "fake",
        "sandboxSessionId": session_id,
        "status": "CLOSED",
        "image": "i",
    }


def test_json_keeps_no_more_output_than_asked_for():
    result = run_fake("--json", "--output-limit", "2K", "true", provider=always(FakeResult(stdout=b"x" * 9000)))

    assert document_of(result)["result"]["capturedStdout"]["totalBytes"] == 9000
    assert len(result.stdout) < 8000


def test_a_failure_is_json_too():
    error = SandboxCapacityError("no room", hint="try later", retry_after=3)

    result = run_fake("--json", "true", provider=always(FakeResult(raises=error)))

    failure = document_of(result)["error"]
    assert result.exit_code == 125
    assert (failure["type"], failure["message"], failure["hint"]) == ("SandboxCapacityError", "no room", "try later")
    assert (failure["retryable"], failure["retryAfter"]) == (True, 3)


def test_a_lost_command_has_its_partial_output_in_the_json():
    result = run_fake("--json", "true", provider=always(FakeResult(stdout="half", breaks=True)))

    assert document_of(result)["error"]["result"]["stdout"] == "half"


def test_a_wrong_request_is_json_too():
    result = run_fake("--json", "--timeout", "soon", "true", provider=FakeProvider())

    assert (result.exit_code, document_of(result)["exitCode"]) == (2, 2)
    assert "soon" in document_of(result)["error"]["message"]


# --- files --------------------------------------------------------------------------------------------------------


def test_uploads_are_there_before_the_command_runs(tmp_path):
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "deep" / "a.txt").write_text("A")
    (tmp_path / "b.txt").write_text("B")
    provider = always(FakeResult())

    run_fake(
        "--upload", str(tmp_path / "src"), "--upload", f"{tmp_path / 'b.txt'}:/etc/c.txt", "--upload",
        str(tmp_path / "b.txt"), "--config", "deleteOnClose=false", "true", provider=provider,
    )  # fmt: skip

    (sandbox,) = provider.sandboxes.values()
    files = sandbox.files
    assert (files.read("deep/a.txt"), files.read("/etc/c.txt"), files.read("b.txt")) == (b"A", b"B", b"B")


def working_in(directory: str, files: dict[str, str]) -> FakeProvider:
    """A provider whose command leaves these files, in a directory that ``pwd -P`` tells."""

    def script(command: SandboxCommand) -> FakeResult:
        return FakeResult(stdout=f"{directory}\n") if command.command == "pwd -P" else FakeResult(files=files)

    return FakeProvider(script)


def test_artifacts_are_saved_by_their_path_below_the_working_directory(tmp_path):
    provider = working_in("/w", {"a/report.txt": "1", "b/report.txt": "2"})

    result = run_fake(
        "--cwd", "/w", "--artifact", "**/report.txt", "--download", str(tmp_path / "out"), "--json", "make",
        provider=provider,
    )  # fmt: skip

    assert (tmp_path / "out/a/report.txt").read_text() == "1"
    assert (tmp_path / "out/b/report.txt").read_text() == "2"
    assert document_of(result)["downloads"] == [
        {"artifact": f"/w/{name}/report.txt", "file": str(tmp_path / "out" / name / "report.txt")} for name in "ab"
    ]


def test_an_artifact_that_cannot_be_saved_fails_the_run_and_not_the_others(tmp_path):
    provider = working_in("/w", {"a\\..\\..\\x": "evil", "good": "good"})

    result = run_fake(
        "--cwd", "/w", "--artifact", "*", "--download", str(tmp_path / "out"), "make", provider=provider
    )  # fmt: skip

    assert result.exit_code == 125
    assert "would leave the download folder" in result.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good"]


def test_verbose_tells_where_the_artifacts_went(tmp_path):
    provider = working_in("/w", {"r.txt": "hello"})

    result = run_fake(
        "-v", "--cwd", "/w", "--artifact", "r.txt", "--download", str(tmp_path), "make", provider=provider
    )  # fmt: skip

    digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert f"ai4j: artifact /w/r.txt -> {Path(tmp_path, 'r.txt')} (5 bytes, sha256 {digest})\n" in result.stderr


def test_nothing_but_the_output_is_written_where_nobody_watches():
    provider = working_in("/w", {"r.txt": "hello"})

    result = run_fake("--artifact", "r.txt", "make", provider=provider)

    assert (result.stdout, result.stderr) == ("", "")


# --- secrets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", [f"apiKey={CANARY}", f"auth={{password: {CANARY}}}", f"x=[{{token: {CANARY}}}]"])
def test_a_credential_on_the_command_line_is_refused_without_being_repeated(setting):
    result = run_fake("--config", setting, "true", provider=FakeProvider())

    assert result.exit_code == 2
    assert "a credential does not belong on the command line" in result.stderr
    assert_no_secret(result.output)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_secret_variable_is_in_no_message(options, monkeypatch):
    monkeypatch.setenv("APP_TOKEN", CANARY)

    def failing(command: SandboxCommand) -> FakeResult:
        raise RuntimeError(f"cannot use {command.environment['APP_TOKEN']}")

    result = invoke(
        "--debug", "sandbox", "run", "--provider", "fake", "--env", "APP_TOKEN", *options, "true",
        registry=registry_of(FakeProvider(failing)),
    )  # fmt: skip

    assert result.exit_code == 125
    assert "unexpected RuntimeError: cannot use [redacted]" in result.stderr
    assert_no_secret(result.output)


def test_a_secret_of_the_spec_file_is_in_no_message(tmp_path):
    (tmp_path / "spec.yaml").write_text(f"config:\n  deleteOnClose: true\n  auth: {{password: {CANARY}}}\n")

    result = run_fake("--spec", str(tmp_path / "spec.yaml"), "true", provider=FakeProvider())

    assert result.exit_code == 2
    assert_no_secret(result.output)


def test_control_characters_in_an_error_do_not_reach_the_terminal():
    error = SandboxCapacityError("\x1b]0;owned\x07\x1b[31mred")

    result = run_fake("true", provider=always(FakeResult(raises=error)))

    assert result.stderr == "ai4j: \\x1b]0;owned\\x07\\x1b[31mred\n"


def test_the_session_masks_a_secret_variable_in_its_events(monkeypatch):
    provider = FakeProvider(lambda command: FakeResult(status_text=f"died of {CANARY}", exit_code=1))

    result = run_fake("--json", "--env", f"DB_PASSWORD={CANARY}", "true", provider=provider)

    assert_no_secret(str(document_of(result)["result"]["events"]))


def test_a_secret_in_a_label_is_not_in_the_session_that_json_shows(monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", CANARY)

    options = ("--label", f"note={CANARY}", "--env", "MY_API_TOKEN", "--json")
    done = run_fake(*options, "--", "make", provider=FakeProvider({"make": FakeResult()}))

    assert_no_secret(done.stdout, done.stderr)
    assert document_of(done)["session"]["labels"] == {"note": "[redacted]"}


# --- artifacts that could not be collected ----------------------------------------------------------------------------


@pytest.fixture
def no_artifacts(monkeypatch):
    """Let nothing be collected."""

    def refuse(session, command):
        raise SandboxFileError("the file service is down")

    monkeypatch.setattr(FakeSession, "_find_artifacts", refuse)


@pytest.mark.parametrize(("line", "code"), [("make", 125), ("fail", 3)])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_artifacts_that_could_not_be_collected_are_told_and_no_success(no_artifacts, line, code, options):
    provider = FakeProvider({"make": "built\n", "fail": FakeResult(exit_code=3)})

    result = run_fake("--artifact", "*.xml", *options, "-c", line, provider=provider)

    assert (result.exit_code, result.stderr.count("the artifacts could not be collected: ")) == (code, 1)
    assert "the file service is down" in result.stderr
    if options:
        document = document_of(result)
        assert (document["exitCode"], document["result"]["exitCode"]) == (code, 0 if line == "make" else 3)
        assert "the file service is down" in document["result"]["artifactsError"]


@pytest.mark.parametrize("words", [("exec", "--artifact", "*", "{}", "--", "make"), ("artifacts", "{}", "*")])
def test_the_same_in_a_sandbox_that_exists(no_artifacts, words):
    provider = FakeProvider(lambda command: FakeResult())
    address = f"fake/{provider.create_session().session_id}"

    result = invoke("sandbox", *(word.format(address) for word in words), registry=registry_of(provider))

    assert result.exit_code == 125
    assert "ai4j: the artifacts could not be collected: " in result.stderr


def test_names_of_artifacts_steer_no_terminal():
    provider = FakeProvider({"make": FakeResult(files={"a\nai4j: fine\x1b[31m": "x"})})

    result = run_fake("-v", "--artifact", "*", "-c", "make", provider=provider)

    (line,) = [line for line in result.stderr.splitlines() if "artifact" in line]
    assert line.startswith(r"ai4j: artifact /workspace/a\nai4j: fine\x1b[31m (1 bytes, sha256 ")


@pytest.mark.parametrize("words", [("--nonsense", "--json"), ("--json", "--timeout", "soon"), ("--json",)])
def test_a_wrong_command_line_is_told_in_json_wherever_json_stands(words):
    result = run_fake(*words, provider=FakeProvider())

    assert (result.exit_code, document_of(result)["exitCode"]) == (2, 2)


def test_a_json_that_belongs_to_the_command_is_not_ours():
    assert run_fake("--nonsense", "--", "tool", "--json", provider=FakeProvider()).stdout == ""
