from __future__ import annotations

import tracemalloc

import pytest

from ai4j_sandbox.model import CapturedOutput
from ai4j_sandbox.output import OutputCapture


def captured(limit: int, *chunks: bytes) -> CapturedOutput:
    capture = OutputCapture(limit)
    for chunk in chunks:
        capture.feed(chunk)
    return capture.captured()


@pytest.mark.parametrize("chunks", [(), (b"",), (b"abc",), (b"a", b"b", b"c"), (b"x" * 4096,)])
def test_output_within_the_limit_is_kept_whole(chunks: tuple[bytes, ...]) -> None:
    whole = b"".join(chunks)

    assert captured(4096, *chunks) == CapturedOutput.whole(whole)


def test_output_over_the_limit_keeps_half_of_it_from_each_end() -> None:
    text = b"".join(b"%06d\n" % number for number in range(10_000))

    kept = captured(4096, *(text[start : start + 700] for start in range(0, len(text), 700)))

    assert kept == CapturedOutput(head=text[:2048], tail=text[-2048:], total_bytes=70_000)
    assert (kept.truncated, kept.dropped_bytes) == (True, 70_000 - 4096)


@pytest.mark.parametrize("limit", [0, 1, 5, 1023, 1024, 1025, 4096, 10_000])
@pytest.mark.parametrize("size", [1, 3, 999, 1_000, 70_000])
def test_kept_and_dropped_bytes_always_add_up(limit: int, size: int) -> None:
    text = bytes(number % 251 for number in range(70_000))

    kept = captured(limit, *(text[start : start + size] for start in range(0, len(text), size)))

    assert len(kept.data) == min(limit, 70_000)
    assert kept.total_bytes == 70_000
    assert text.startswith(kept.head)
    assert text.endswith(kept.tail)


def test_small_limit_keeps_only_the_beginning() -> None:
    assert captured(5, b"abcdefgh") == CapturedOutput(head=b"abcde", tail=b"", total_bytes=8)


def test_limit_of_nothing_still_counts() -> None:
    assert captured(0, b"abc", b"de") == CapturedOutput(head=b"", tail=b"", total_bytes=5)


def test_capture_can_be_read_while_it_goes_on() -> None:
    capture = OutputCapture(100)
    capture.feed(b"a")
    first = capture.captured()
    capture.feed(b"b")

    assert (first.data, capture.captured().data) == (b"a", b"ab")


def test_capture_that_was_read_on_the_way_still_keeps_the_limit() -> None:
    capture = OutputCapture(4096)
    capture.feed(b"a" * 3000)
    capture.captured()
    capture.feed(b"b" * 5000)

    kept = capture.captured()
    assert kept == CapturedOutput(head=b"a" * 3000, tail=b"b" * 1096, total_bytes=8000)


def test_output_that_is_kept_whole_is_held_once() -> None:
    capture = OutputCapture(100_000_000)
    tracemalloc.start()

    for _ in range(100):
        capture.feed(bytes(100_000))
    kept = capture.captured()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept.total_bytes == len(kept.head) == 10_000_000
    assert peak < 1.3 * 10_000_000


@pytest.mark.parametrize("size", [2, 65_536, 1_000_000])
def test_memory_stays_near_the_limit_however_much_flows_through(size: int) -> None:
    capture = OutputCapture(100_000)
    tracemalloc.start()

    for number in range(max(10, 200_000 // size)):
        capture.feed(bytes([number % 256]) * size)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 2 * 100_000 + 3 * size


def test_bytes_that_were_dropped_on_the_way_count_and_leave_a_gap() -> None:
    capture = OutputCapture(4096)
    capture.feed(b"first ")
    capture.feed(b"last", skipped_bytes=1000)

    assert capture.captured() == CapturedOutput(head=b"first ", tail=b"last", total_bytes=1010)
    assert capture.captured().text() == "first \n[... truncated 1000 of 1010 bytes ...]\nlast"


def test_tail_never_reaches_back_over_a_gap() -> None:
    capture = OutputCapture(4096)
    capture.feed(b"x" * 3000)
    capture.feed(b"a", skipped_bytes=5)
    capture.feed(b"b", skipped_bytes=7)

    assert capture.captured() == CapturedOutput(head=b"x" * 2048, tail=b"b", total_bytes=3014)


# --- as text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"caf\xc3\xa9", "café"),
        (b"a\0b\n", "a\0b\n"),
        (b"a\xffb", "a\ufffdb"),
        (b"ok\xf0\x9f\x98", "ok\ufffd"),
        (b"W\0s\0l\0", "W\0s\0l\0"),
        (b"10%\r50%\r100%\ndone\n", "10%\r50%\r100%\ndone\n"),
        (b"\xef\xbb\xbfbom", "\ufeffbom"),
    ],
)
def test_bytes_become_text_without_guessing(data: bytes, text: str) -> None:
    """Cases A06, A07, A08 and A10."""
    assert CapturedOutput.whole(data).text() == text


def test_cut_falls_on_a_character_border() -> None:
    """Case G04."""
    assert captured(5, b"aaa\xe2\x82\xacb").text() == "aaa"
    assert captured(5, b"aaa\xe2\x82\xacb").truncated
    assert captured(6, b"aaa\xe2\x82\xacb").text() == "aaa€"


@pytest.mark.parametrize("shift", range(4))
def test_no_cut_invents_a_replacement_character(shift: int) -> None:
    text = b"x" * shift + "é€😀".encode() * 2000

    shown = captured(1024 + shift, text).text()

    assert "\ufffd" not in shown
    assert f"\n[... truncated {len(text) - 1024 - shift} of {len(text)} bytes ...]\n" in shown


def test_garbage_at_a_cut_is_still_shown_as_garbage() -> None:
    assert captured(4, b"ab\x80\x80\x80\x80").text() == "ab\ufffd\ufffd"


def test_text_and_surrogates_can_be_given_as_output() -> None:
    assert CapturedOutput.whole("ü").data == b"\xc3\xbc"
    assert CapturedOutput.whole("\ud800").total_bytes == 3
