"""Promises about what a command reads."""

from __future__ import annotations

import pytest

from ai4j_sandbox.capability import Capability
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.spi import SandboxSession

from .setup import ContractSetup, at_most, require, run

TEN_MEGABYTES = bytes(range(256)) * (10 * 1024 * 1024 // 256)


class StdinContract(ContractSetup):
    """Input known beforehand, and input that comes while the command runs."""

    @pytest.mark.parametrize("stdin", [None, "", b""])
    def test_without_input_a_command_reads_end_of_file_at_once(
        self, session: SandboxSession, stdin: str | bytes | None
    ) -> None:
        with at_most(5):
            result = run(session, "cat", stdin=stdin)

        assert (result.stdout, result.exit_code) == ("", 0)

    @pytest.mark.parametrize(
        "text",
        ["line1\nline2\n", "x\0y", "no newline", "'single' \"double\" $HOME `id` \\ %s", "ünï 😀\r\n", "\n\n", "EOF\n"],
    )
    def test_text_arrives_unchanged(self, session: SandboxSession, text: str) -> None:
        require(session, Capability.STDIN)

        result = run(session, "cat", stdin=text)

        assert result.stdout_bytes == text.encode()

    @pytest.mark.parametrize("size", [1, 65_536, 131_072, 131_073])
    def test_input_larger_than_an_argument_may_be_arrives_whole(self, session: SandboxSession, size: int) -> None:
        require(session, Capability.STDIN)
        content = TEN_MEGABYTES[:size]

        result = run(session, "cat", stdin=content)

        assert result.stdout_bytes == content

    def test_ten_megabytes_flow_in_while_they_flow_out(self, session: SandboxSession) -> None:
        require(session, Capability.STDIN)

        result = run(session, "cat", stdin=TEN_MEGABYTES, output_limit_bytes=len(TEN_MEGABYTES))

        assert result.stdout_total_bytes == len(TEN_MEGABYTES)
        assert result.stdout_bytes == TEN_MEGABYTES

    def test_command_that_never_reads_its_input_ends_normally(self, session: SandboxSession) -> None:
        require(session, Capability.STDIN)

        with at_most(10):
            result = run(session, "true", stdin=TEN_MEGABYTES)

        assert result.exit_code == 0

    @pytest.mark.parametrize(
        ("command", "output"),
        [
            ("cat # copy it", "x"),
            ("cat <<'EOF'\nhi\nEOF", "hi\n"),
            ("cat <<EOF\nhi\nEOF\ncat", "hi\nx"),
            ("(cat)", "x"),
            ("if true; then cat; fi", "x"),
            ('read line; echo "$line"; exit 4', "x\n"),
        ],
    )
    def test_input_does_not_disturb_the_command_line(self, session: SandboxSession, command: str, output: str) -> None:
        require(session, Capability.STDIN)

        assert run(session, command, stdin="x").stdout == output

    def test_input_reaches_an_argument_list_too(self, session: SandboxSession) -> None:
        require(session, Capability.STDIN)

        assert run(session, ["tr", "a-z", "A-Z"], stdin="shout").stdout == "SHOUT"

    def test_input_can_be_written_while_the_command_runs(self, session: SandboxSession) -> None:
        require(session, Capability.STDIN)
        command = SandboxCommand(command='while read line; do echo "got $line"; done', keep_stdin_open=True)

        with session.start(command) as process:
            process.write_stdin("one\n")
            answer = next(process.output()).data
            process.write_stdin(b"two\n")
            process.close_stdin()
            result = process.wait()

        assert answer == b"got one\n"
        assert (result.stdout, result.exit_code) == ("got one\ngot two\n", 0)

    def test_input_known_beforehand_comes_before_what_is_written(self, session: SandboxSession) -> None:
        require(session, Capability.STDIN)

        with session.start(SandboxCommand(command="cat", stdin="first ", keep_stdin_open=True)) as process:
            process.write_stdin("second")
            process.close_stdin()
            result = process.wait()

        assert result.stdout == "first second"

    def test_closing_the_input_twice_is_fine(self, session: SandboxSession) -> None:
        require(session, Capability.STDIN)

        with session.start(SandboxCommand(command="cat", keep_stdin_open=True)) as process:
            process.close_stdin()
            process.close_stdin()
            result = process.wait()

        assert result.succeeded

    def test_writing_to_a_command_that_has_ended_is_an_error(self, session: SandboxSession) -> None:
        require(session, Capability.STDIN)
        process = session.start(SandboxCommand(command="true", keep_stdin_open=True))
        process.wait()

        with pytest.raises(SandboxException):
            process.write_stdin("too late")

    def test_writing_without_open_input_is_an_error(self, session: SandboxSession) -> None:
        with session.start(SandboxCommand(command="sleep 5")) as process, pytest.raises(SandboxException):
            process.write_stdin("nobody reads")
