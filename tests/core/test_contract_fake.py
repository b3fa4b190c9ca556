"""The contract suite, proven from both sides.

It holds for a second, independent implementation: `FakeProvider` over processes of this machine shares no code with a
real provider. And it notices what it is there to notice: each sabotage breaks one promise and is found out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ai4j_sandbox.capability import NATIVE, Capabilities, Capability, unsupported
from ai4j_sandbox.model import OutputStream, SandboxCommand
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit
from ai4j_sandbox.testing import FakeProvider, SandboxContract
from ai4j_sandbox.testing.fake import FAKE_INFO
from support.host_processes import host_processes

Piece = OutputChunk | ProcessExit | None


class TestFakeOverHostProcesses(SandboxContract):
    misspelt_setting = ("deletOnClose", "deleteOnClose")

    @pytest.fixture
    def provider(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProvider]:
        with host_processes(tmp_path_factory.mktemp("sandbox")) as processes:
            yield FakeProvider(processes.open_channel, shell_files=True)


# --- promises that a provider breaks before the command runs ------------------------------------------------------


def trims(command: SandboxCommand) -> SandboxCommand:
    return replace(command, command=str(command.command).strip())


def splits(command: SandboxCommand) -> SandboxCommand:
    return replace(command, command=" ".join(command.command).split())


def drops_stdin(command: SandboxCommand) -> SandboxCommand:
    return replace(command, stdin=None)


def ends_stdin_at_nul(command: SandboxCommand) -> SandboxCommand:
    return replace(command, stdin=command.stdin_bytes.split(b"\0")[0])


def pipes_stdin_through_the_line(command: SandboxCommand) -> SandboxCommand:
    return replace(command, command=f"printf '%s' '{command.stdin_bytes.decode()}' | ( {command.command} )", stdin=None)


def tidies_environment(command: SandboxCommand) -> SandboxCommand:
    return replace(command, environment={name: " ".join(text.split()) for name, text in command.environment.items()})


def ignores_environment(command: SandboxCommand) -> SandboxCommand:
    return replace(command, environment={})


def ignores_directory(command: SandboxCommand) -> SandboxCommand:
    return replace(command, working_directory=None)


# --- and afterwards -----------------------------------------------------------------------------------------------


def invents_success(piece: Piece) -> Piece:
    return ProcessExit(exit_code=0) if isinstance(piece, ProcessExit) else piece


def reports_signal_number(piece: Piece) -> Piece:
    if isinstance(piece, ProcessExit) and piece.signal:
        return replace(piece, exit_code=(piece.exit_code or 0) - 128)
    return piece


def decodes_each_chunk(piece: Piece) -> Piece:
    if isinstance(piece, OutputChunk):
        return OutputChunk(piece.stream, piece.data.decode("utf-8", "replace").encode())
    return piece


def tidies_line_ends(piece: Piece) -> Piece:
    if isinstance(piece, OutputChunk):
        return OutputChunk(piece.stream, piece.data.replace(b"\r\n", b"\n"))
    return piece


def merges_streams(piece: Piece) -> Piece:
    return OutputChunk(OutputStream.STDOUT, piece.data) if isinstance(piece, OutputChunk) else piece


@pytest.mark.parametrize(
    ("sabotage", "promise", "arguments"),
    [
        (trims, "test_line_goes_to_the_shell_untrimmed", {}),
        (splits, "test_argument_list_is_neither_split_nor_expanded", {}),
        (drops_stdin, "test_text_arrives_unchanged", {"text": "x"}),
        (ends_stdin_at_nul, "test_text_arrives_unchanged", {"text": "x\0y"}),
        (
            pipes_stdin_through_the_line,
            "test_input_does_not_disturb_the_command_line",
            {"command": "cat # copy it", "output": "x"},
        ),
        (tidies_environment, "test_environment_values_arrive_unchanged", {}),
        (ignores_environment, "test_empty_environment_value_is_set", {}),
        (ignores_directory, "test_missing_working_directory_is_an_error", {}),
        (invents_success, "test_exit_code_is_the_commands_own", {"code": 3}),
        (reports_signal_number, "test_death_by_signal_is_128_plus_its_number", {"signal": "KILL", "code": 137}),
        (decodes_each_chunk, "test_character_that_arrives_in_two_pieces_is_one_character", {}),
        (decodes_each_chunk, "test_bytes_that_are_no_text_are_kept", {}),
        (tidies_line_ends, "test_output_is_not_tidied_up", {}),
        (merges_streams, "test_stdout_and_stderr_are_apart", {}),
    ],
)
def test_suite_finds_out_a_provider_that(
    sabotage: Callable[[Any], Any], promise: str, arguments: Mapping[str, Any], tmp_path: Path
) -> None:
    with host_processes(tmp_path) as processes:

        def script(command: SandboxCommand) -> ProcessChannel:
            if "command" in sabotage.__annotations__:
                return processes.open_channel(sabotage(command))
            return Altered(processes.open_channel(command), sabotage)

        with (
            FakeProvider(script).create_session() as session,
            pytest.raises((AssertionError, pytest.fail.Exception)),
        ):
            getattr(SandboxContract(), promise)(session, **arguments)


def test_suite_skips_by_name_and_with_the_reason_what_is_not_claimed() -> None:
    capabilities = Capabilities({Capability.STDIN: unsupported("the service takes no input")})
    session = FakeProvider(info=replace(FAKE_INFO, capabilities=capabilities)).create_session()

    with pytest.raises(pytest.skip.Exception, match="fake does not support stdin: the service takes no input"):
        SandboxContract().test_text_arrives_unchanged(session, "x")


def test_suite_finds_out_a_provider_that_claims_what_it_has_not() -> None:
    capabilities = Capabilities({Capability.PAUSE: NATIVE})
    session = FakeProvider(info=replace(FAKE_INFO, capabilities=capabilities)).create_session()

    with pytest.raises(AssertionError):
        SandboxContract().test_session_has_the_methods_it_claims_and_no_others(session, Capability.PAUSE)


class Altered(ProcessChannel):
    """Another channel, with its pieces changed on the way."""

    def __init__(self, inner: ProcessChannel, alter: Callable[[Piece], Piece]) -> None:
        self._inner = inner
        self._alter = alter

    def receive(self, timeout: float | None) -> Piece:
        return self._alter(self._inner.receive(timeout))

    def kill(self, signal: str) -> bool:
        return self._inner.kill(signal)

    def close(self) -> None:
        self._inner.close()
