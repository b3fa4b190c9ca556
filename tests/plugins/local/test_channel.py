"""The ends of a command's pipes, without a command."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import OutputStream
from ai4j_sandbox_local.channel import Input, Output


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:  # an `Input` closes its own
            continue


def test_output_after_the_end_is_only_what_was_there_by_then(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    output = Output(OutputStream.STDOUT, reading, terminal=False)
    os.write(writing, b"before")

    output.command_ended()
    os.write(writing, b"after")

    assert (output.read(), output.read(), output.ended) == (b"before", b"", True)


def test_output_without_data_is_not_ended(pipe: tuple[int, int]) -> None:
    output = Output(OutputStream.STDOUT, pipe[0], terminal=False)

    assert (output.read(), output.ended) == (b"", False)


def test_input_hands_over_what_fits_and_keeps_the_rest(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    stdin = Input(writing, b"x" * 200_000, keep_open=False)

    received = b""
    while not stdin.closed:
        stdin.flush()
        received += os.read(reading, 65536)
    received += os.read(reading, 200_000)

    assert received == b"x" * 200_000
    assert os.read(reading, 1) == b""


def test_input_kept_open_takes_more_and_then_ends(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    stdin = Input(writing, b"a", keep_open=True)
    stdin.flush()

    stdin.append(b"b")
    stdin.finish()

    assert os.read(reading, 10) == b"ab"
    assert os.read(reading, 10) == b""
    with pytest.raises(SandboxException, match="stdin is closed"):
        stdin.append(b"c")


def test_input_whose_reader_is_gone_is_dropped(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.close(reading)
    stdin = Input(writing, b"x" * 100, keep_open=True)

    stdin.flush()

    assert stdin.closed


@pytest.mark.parametrize(("data", "sent"), [(b"", b"\x04"), (b"line\n", b"line\n\x04"), (b"part", b"part\x04\x04")])
def test_end_of_a_terminal_s_input_is_a_character(pipe: tuple[int, int], data: bytes, sent: bytes) -> None:
    reading, writing = pipe

    Input(writing, data, keep_open=False, terminal=True).flush()

    assert os.read(reading, 100) == sent
