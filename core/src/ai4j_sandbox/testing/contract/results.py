"""Promises about what comes back: exit codes, signals, output as it was written, limits."""

from __future__ import annotations

import pytest

from ai4j_sandbox.capability import Capability
from ai4j_sandbox.errors import SandboxConfigError, SandboxNotFoundError
from ai4j_sandbox.model import SandboxEventType, StreamMode
from ai4j_sandbox.spi import SandboxSession

from .setup import ContractSetup, at_most, require, run


class ResultsContract(ContractSetup):
    """What a finished command tells."""

    @pytest.mark.parametrize("code", [0, 1, 3, 124, 255])
    def test_exit_code_is_the_commands_own(self, session: SandboxSession, code: int) -> None:
        result = run(session, f"exit {code}")

        assert (result.exit_code, result.signal, result.timed_out, result.canceled) == (code, None, False, False)

    @pytest.mark.parametrize(
        ("command", "code"), [("nosuchcmd_xyz", 127), ("/etc/passwd", 126), ("if", 2), ("cd /tmp && exit 4", 4)]
    )
    def test_what_the_shell_itself_reports_is_a_result(self, session: SandboxSession, command: str, code: int) -> None:
        with at_most(5):
            result = run(session, command)

        assert result.exit_code == code

    @pytest.mark.parametrize(("signal", "code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
    def test_death_by_signal_is_128_plus_its_number(self, session: SandboxSession, signal: str, code: int) -> None:
        result = run(session, f"kill -{signal} $$")

        assert result.exit_code == code
        assert result.signal in (f"SIG{signal}", None)  # None where the service reports nothing but the number
        assert not result.timed_out

    def test_death_of_the_only_process_by_signal_is_reported_alike(self, session: SandboxSession) -> None:
        result = run(session, ["sh", "-c", "kill -9 $$"])

        assert result.exit_code == 137

    def test_result_names_its_command_and_how_long_it_took(self, session: SandboxSession) -> None:
        result = run(session, "sleep 0.2", command_id="the-id")

        assert result.command_id == "the-id"
        assert result.duration_millis is not None
        assert 150 <= result.duration_millis < 10_000

    def test_stdout_and_stderr_are_apart(self, session: SandboxSession) -> None:
        require(session, Capability.SEPARATE_STREAMS)

        result = run(session, "echo out; echo err >&2")

        assert (result.stdout, result.stderr, result.streams) == ("out\n", "err\n", StreamMode.SEPARATE)

    def test_no_output_is_empty_text(self, session: SandboxSession) -> None:
        result = run(session, "true")

        assert (result.stdout, result.stderr) == ("", "")
        assert (result.stdout_bytes, result.stderr_bytes) == (b"", b"")

    def test_output_is_not_tidied_up(self, session: SandboxSession) -> None:
        result = run(session, r"printf '\n\nfoo\r\nbar 10%%\r100%%\n\n'")

        assert result.stdout_bytes == b"\n\nfoo\r\nbar 10%\r100%\n\n"

    def test_bytes_that_are_no_text_are_kept(self, session: SandboxSession) -> None:
        result = run(session, r"printf 'a\377b\0c'")

        assert result.stdout_bytes == b"a\xffb\0c"
        assert result.stdout == "a\ufffdb\0c"

    def test_binary_output_of_every_byte_value_survives(self, session: SandboxSession) -> None:
        escapes = "".join(f"\\{value:03o}" for value in range(256))

        result = run(session, ["printf", escapes])

        assert result.stdout_bytes == bytes(range(256))

    def test_output_that_looks_like_a_frame_header_is_kept(self, session: SandboxSession) -> None:
        result = run(session, r"printf '\001\000\000\000\000\000\000\005hello'")

        assert result.stdout_bytes == b"\x01\0\0\0\0\0\0\x05hello"

    def test_character_that_arrives_in_two_pieces_is_one_character(self, session: SandboxSession) -> None:
        result = run(session, r"printf '\303'; sleep 0.2; printf '\251 \360\237'; sleep 0.2; printf '\230\200'")

        assert result.stdout == "é 😀"

    def test_character_that_never_completes_is_one_replacement(self, session: SandboxSession) -> None:
        result = run(session, r"printf 'ok\360\237\230'")

        assert (result.stdout, result.exit_code) == ("ok\ufffd", 0)

    def test_one_long_line_arrives_whole(self, session: SandboxSession) -> None:
        result = run(session, r"head -c 70000 /dev/zero | tr '\0' a")

        assert result.stdout == "a" * 70_000

    def test_output_over_the_limit_keeps_head_and_tail_and_tells_the_truth(self, session: SandboxSession) -> None:
        result = run(session, "seq 1 200000", output_limit_bytes=4096)

        assert result.stdout_truncated
        assert result.stdout_total_bytes == 1_288_895
        assert len(result.stdout_bytes) == 4096
        assert result.stdout.startswith("1\n2\n3\n")
        assert result.stdout.endswith("199999\n200000\n")

    def test_cut_output_is_told_by_exactly_one_event(self, session: SandboxSession) -> None:
        result = run(session, "for i in 1 2 3 4 5; do seq 1 20000; sleep 0.05; done", output_limit_bytes=2048)

        told = [(event.stream, event.dropped_bytes) for event in result.events if event.dropped_bytes]
        assert told == [("stdout", result.stdout_total_bytes - 2048)]

    def test_output_within_the_limit_is_whole(self, session: SandboxSession) -> None:
        result = run(session, "printf 12345", output_limit_bytes=5)

        assert (result.stdout, result.truncated) == ("12345", False)

    def test_line_goes_to_the_shell_untrimmed(self, session: SandboxSession) -> None:
        result = run(session, "printf '%s|' a\\ ")

        assert result.stdout == "a |"

    def test_line_may_have_many_lines_and_a_leading_blank(self, session: SandboxSession) -> None:
        result = run(session, "  echo one\n\n# a comment\necho two\n")

        assert result.stdout == "one\ntwo\n"

    def test_argument_list_is_neither_split_nor_expanded(self, session: SandboxSession) -> None:
        arguments = ["a b", "", "*", "$HOME", "it's", 'say "hi"', "back\\slash", "new\nline", "-n", "ü", "a;b"]

        result = run(session, ["printf", "<%s>", *arguments])

        assert result.stdout == "".join(f"<{argument}>" for argument in arguments)

    def test_environment_values_arrive_unchanged(self, session: SandboxSession) -> None:
        value = "  two  blanks, 'single' \"double\" $HOME `id` \\ \n ünï "

        result = run(session, 'printf %s "$MY_VAR"', environment={"MY_VAR": value})

        assert result.stdout == value

    def test_environment_is_added_and_lasts_for_one_command(self, session: SandboxSession) -> None:
        first = run(session, 'echo "${PATH:+path} $MY_VAR"', environment={"MY_VAR": "x"})
        second = run(session, 'echo "${MY_VAR-unset}"')

        assert (first.stdout, second.stdout) == ("path x\n", "unset\n")

    def test_empty_environment_value_is_set(self, session: SandboxSession) -> None:
        result = run(session, 'echo "${MY_VAR-unset}"', environment={"MY_VAR": ""})

        assert result.stdout == "\n"

    @pytest.mark.parametrize("name", ["it's a dir", 'with "quotes" $HOME', "-dash", "ünï *"])
    def test_working_directory_may_have_any_name(self, session: SandboxSession, folder: str, name: str) -> None:
        path = f"{folder}/{name}"
        run(session, ["mkdir", "--", path])

        result = run(session, "pwd", working_directory=path)

        assert result.stdout == f"{path}\n"

    def test_missing_working_directory_is_an_error(self, session: SandboxSession) -> None:
        with pytest.raises(SandboxNotFoundError, match="no-such-directory"):
            run(session, "pwd", working_directory="/no-such-directory/below")

    def test_change_of_directory_does_not_outlive_the_command(self, session: SandboxSession, folder: str) -> None:
        before = run(session, "pwd").stdout
        run(session, ["sh", "-c", 'cd "$1"', "sh", folder])
        run(session, f"cd {folder}")

        assert run(session, "pwd").stdout == before

    def test_files_of_one_command_are_there_for_the_next(self, session: SandboxSession, folder: str) -> None:
        run(session, "echo kept > note", working_directory=folder)

        assert run(session, "cat note", working_directory=folder).stdout == "kept\n"

    def test_grandchild_that_holds_the_output_does_not_hold_up_the_result(self, session: SandboxSession) -> None:
        with at_most(2):
            result = run(session, "sleep 5 & echo started")

        assert (result.stdout, result.exit_code, result.timed_out) == ("started\n", 0, False)

    def test_lifecycle_events_are_started_then_finished(self, session: SandboxSession) -> None:
        result = run(session, "echo hi")

        assert [event.type for event in result.events] == [
            SandboxEventType.COMMAND_STARTED,
            SandboxEventType.COMMAND_FINISHED,
        ]
        assert {(event.session_id, event.command_id) for event in result.events} == {
            (session.session_id, result.command_id)
        }

    def test_something_else_than_a_command_is_refused(self, session: SandboxSession) -> None:
        with pytest.raises(SandboxConfigError, match="SandboxCommand"):
            session.execute(None)  # type: ignore[arg-type] # what a caller without a type checker passes
