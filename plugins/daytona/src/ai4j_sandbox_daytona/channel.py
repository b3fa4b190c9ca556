"""Running commands as the core's `ProcessChannel`.

* `RunChannel`: one call that lasts as long as the command and answers with its result. The cheap way, when nobody
  wants to see or feed the command meanwhile.
* `FollowChannel`: the command is started and outlives the call; news are asked for. Asking may be repeated, so a broken
  connection costs nothing.

Both kill by a second, small command.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxConfigError,
    SandboxConflictError,
    SandboxException,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
    SandboxPausedError,
    SandboxProtocolError,
    SandboxSessionLostError,
    SandboxUnreachableError,
    SessionState,
)
from ai4j_sandbox.model import OutputStream, SandboxCommand
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit

from .toolbox import ASK_SECONDS, Executed, Execution, Toolbox
from .wrapping import INLINE_BYTES, INLINE_INPUT_BYTES, Answer, Input, Running, Word, kept_ranges, parse_answer

KILL_SECONDS = 5.0
"""How long one attempt to signal a tree may keep its caller."""

_FIRST_LOOK_SECONDS = 0.1  # how long the call that starts a command waits for its first words, or its end
_LONGEST_LOOK_SECONDS = 2.0
_TIDY_SECONDS = 2.0
_FEED_SECONDS = 60.0
_ANSWER_BYTES = 4 * INLINE_BYTES  # base64, as JSON, with air

_TOO_LATE = 408  # the service kept the limit itself, and lost the output
_CANNOT_EXECUTE = frozenset((126, 127))  # bash's and zsh's; the service takes whichever shell the sandbox has
_TOO_LONG = "argument list too long"
_NO_ANSWER = (None, 502, 503, 504)  # the sandbox itself said nothing
_TELL_ALL = (SandboxSessionLostError, SandboxProtocolError, SandboxOutcomeUnknownError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What it takes to run one command."""

    toolbox: Toolbox
    command: SandboxCommand
    told_to_end: threading.Event = field(default_factory=threading.Event)

    @property
    def running(self) -> Running:
        """Its names inside the sandbox."""
        return Running(self.command.command_id)

    def send_input(self) -> Input:
        """Bring the command's input into the sandbox, as far as its text cannot carry it; return where it then is.

        Raises:
            SandboxException: It could not be sent; the command was not started.
        """
        stdin = self.command.stdin_bytes
        if not stdin:
            return Input.OPEN if self.command.keep_stdin_open else Input.NONE
        if len(stdin) <= INLINE_INPUT_BYTES and not self.command.keep_stdin_open:
            return Input.INLINE
        try:
            self.toolbox.write_file(self.running.path("in"), _slices(stdin))
        except SandboxException as error:
            error.outcome = Outcome.NOT_STARTED
            raise
        return Input.OPEN if self.command.keep_stdin_open else Input.FILE

    def kill(self, signal: str) -> Answer:
        """Signal the command and all its descendants.

        Raises:
            SandboxException: The sandbox could not be reached, or not in time.
        """
        if signal.removeprefix("SIG") in ("TERM", "KILL"):
            self.told_to_end.set()
        text = self.toolbox.ask(self.running.kill_text(signal), seconds=KILL_SECONDS)
        return self.understood(text)

    def end_survivors(self) -> None:
        """Once the command has ended: kill what ignored the signal that ended it, if one did."""
        if self.told_to_end.is_set():
            with contextlib.suppress(SandboxException):
                self.toolbox.ask(self.running.kill_left_text(), seconds=KILL_SECONDS)

    def tidy(self, text: str) -> None:
        """Run a text that only tidies up; that it cannot be run does no harm."""
        with contextlib.suppress(SandboxException):
            self.toolbox.ask(text, seconds=_TIDY_SECONDS, repeat=False)

    def understood(self, text: str) -> Answer:
        """Return what a script answered.

        Raises:
            SandboxProtocolError: It did not.
        """
        answer = parse_answer(self.running, text)
        if answer is None:
            raise SandboxProtocolError(
                f"the sandbox could not run a small script: {text[:200]!r}", hint="it needs a POSIX /bin/sh"
            )
        return answer

    def refusal(self, answer: Answer) -> SandboxException | None:
        """Return why a command was not started, if it was not."""
        if answer.word is Word.NO_DIRECTORY:
            return SandboxNotFoundError(
                f"the working directory {self.command.working_directory!r} does not exist",
                hint="check working_directory",
                outcome=Outcome.NOT_STARTED,
            )
        if answer.word is Word.REFUSED:
            return SandboxException("nothing can be written to the sandbox's /tmp", outcome=Outcome.NOT_STARTED)
        return None

    def lost(self, cause: SandboxException, *, runs: bool = False) -> SandboxException:
        """Return what a failed call means for the command.

        Args:
            runs: The command had been started by an earlier call.
        """
        if isinstance(cause, _TELL_ALL) or (cause.outcome is Outcome.NOT_STARTED and not runs):
            return cause
        if isinstance(cause, SandboxConflictError):
            kind: type[SandboxOutcomeUnknownError] = SandboxPausedError
        elif cause.session_state is SessionState.INTACT and cause.http_status in _NO_ANSWER:
            kind = SandboxUnreachableError
        else:
            kind = SandboxOutcomeUnknownError
        return kind(
            f"the command's end never arrived: {cause.message}",
            hint=cause.hint or "it may still run in the sandbox",
            http_status=cause.http_status,
            request_id=cause.request_id,
            session_state=cause.session_state,
        )


STOPPED_EARLY = ProcessExit(exit_code=None, status_text="it was stopped before it began")


class RunChannel(ProcessChannel):
    """A command that one call runs to its end. Made by `start`.

    Args:
        ours: It is a script of ours, so that what the service says by itself is no answer to it.
    """

    def __init__(self, launch: Launch, execution: Execution, *, ours: bool) -> None:
        self._launch = launch
        self._execution = execution
        self._ours = ours
        self._pieces: Iterator[OutputChunk | ProcessExit] | None = None  # known once the answer has come
        self._may_be_left = False

    @classmethod
    def start(cls, launch: Launch, *, ours: bool = False) -> RunChannel:
        """Send the command, once.

        Raises:
            SandboxException: It could not be sent; `outcome` says whether it may run.
        """
        command = launch.command
        seconds = None if command.timeout_millis is None else command.timeout_millis / 1000
        try:
            text = launch.running.run_text(command, launch.send_input())
            execution = launch.toolbox.begin(
                text, environment=command.environment, seconds=seconds, body_bytes=_ANSWER_BYTES
            )
        except SandboxException as error:
            raise launch.lost(error) from None
        return cls(launch, execution, ours=ours)

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        """Return the next piece of output or the exit (`ProcessChannel.receive`)."""
        if self._pieces is None:
            outcome = self._outcome(timeout)
            if outcome is None:
                return None
            self._pieces = self._understood(outcome)
        return next(self._pieces)

    def kill(self, signal: str) -> bool:
        """Signal the command and all its descendants (`ProcessChannel.kill`)."""
        if self._pieces is not None:
            return False
        answer = self._launch.kill(signal)
        if answer.word is Word.STOPPED:
            # It had not begun, or had ended a moment ago; then what keeps it from beginning must be removed.
            self._may_be_left = True
        return answer.word is not Word.ENDED

    def close(self) -> None:
        """Let go of the call; it is left to end by itself (`ProcessChannel.close`)."""
        if self._pieces is None:
            self._execution.close()
        elif self._may_be_left:
            self._may_be_left = False
            self._launch.tidy(self._launch.running.clean_text())

    def _outcome(self, timeout: float | None) -> Executed | SandboxException | None:
        try:
            return self._execution.receive(timeout)
        except SandboxException as error:
            return error

    def _understood(self, outcome: Executed | SandboxException) -> Iterator[OutputChunk | ProcessExit]:
        launch = self._launch
        if isinstance(outcome, SandboxException):
            if outcome.http_status != _TOO_LATE or launch.command.timeout_millis is None:
                raise launch.lost(outcome)
            with contextlib.suppress(SandboxException):
                launch.kill("KILL")  # the service ends a process group, and whoever left it lives on
            launch.tidy(launch.running.clean_text())
            yield ProcessExit(exit_code=None, timed_out=True, status_text=outcome.message)
            return
        answer = launch.understood(outcome.output) if self._ours else parse_answer(launch.running, outcome.output)
        if answer is None:
            yield from _plain(outcome)
            return
        if refusal := launch.refusal(answer):
            raise refusal
        if answer.word is Word.STOPPED:
            self._may_be_left = False
            yield STOPPED_EARLY
            return
        if answer.word is Word.GONE:
            launch.end_survivors()
            raise _removed()
        yield from self._output(answer)
        launch.end_survivors()
        if answer.full:
            raise _full_disk()
        yield ProcessExit(exit_code=answer.exit_code, timed_out=answer.late)

    def _output(self, answer: Answer) -> Iterator[OutputChunk]:
        if answer.word is Word.DONE:
            yield from self._sent(OutputStream.STDOUT, answer.stdout_bytes, answer.stdout)
            yield from self._sent(OutputStream.STDERR, answer.stderr_bytes, answer.stderr)
            return
        if answer.word is not Word.FILED:
            raise SandboxProtocolError(f"a command was answered with {answer.word.value!r}")
        try:
            yield from self._fetched(OutputStream.STDOUT, "out", answer.stdout_bytes)
            yield from self._fetched(OutputStream.STDERR, "err", answer.stderr_bytes)
        finally:
            self._launch.tidy(self._launch.running.clean_text())

    def _sent(self, stream: OutputStream, total: int, kept: tuple[bytes, bytes]) -> Iterator[OutputChunk]:
        """Yield head and tail of a stream as they came along."""
        (_, head_bytes), (_, tail_bytes) = kept_ranges(total, self._launch.command.output_limit_bytes)
        head, tail = kept
        if (len(head), len(tail)) != (head_bytes, tail_bytes):
            raise _incomplete(len(head) + len(tail), head_bytes + tail_bytes)
        if head:
            yield OutputChunk(stream, head)
        if tail:
            yield OutputChunk(stream, tail, total - head_bytes - tail_bytes)

    def _fetched(self, stream: OutputStream, suffix: str, total: int) -> Iterator[OutputChunk]:
        arrived = 0
        for first, count in kept_ranges(total, self._launch.command.output_limit_bytes):
            for chunk in fetch(self._launch, suffix, first, count):
                yield OutputChunk(stream, chunk, max(0, first - arrived))
                arrived = max(arrived, first) + len(chunk)


def fetch(launch: Launch, suffix: str, first: int, count: int) -> Iterator[bytes]:
    """Yield a part of what a command has written from the file it was kept in.

    Raises:
        SandboxProtocolError: Less arrived than is there, or more.
    """
    if not count:
        return
    arrived = 0
    with contextlib.closing(launch.toolbox.read_file(launch.running.path(suffix), first, count)) as chunks:
        for chunk in chunks:
            arrived += len(chunk)
            if arrived > count:
                break
            if chunk:
                yield chunk
    if arrived != count:
        raise _incomplete(arrived, count)


class FollowChannel(ProcessChannel):
    """A started command that is asked for news. Made by `start` and `find_again`."""

    def __init__(self, launch: Launch, offsets: tuple[int, int] = (0, 0)) -> None:
        self._launch = launch
        self._offsets = dict(zip(OutputStream, offsets, strict=True))
        self._ready: deque[OutputChunk | ProcessExit | SandboxException] = deque()
        self._backlog: Iterator[OutputChunk] = iter(())
        self._over = False
        self._leftovers: str | None = launch.running.loosen_text()  # what `close` has to run
        self._stdin_closed = False
        self._feeding = threading.Lock()

    @classmethod
    def start(cls, launch: Launch, deadline: Deadline) -> ProcessChannel:
        """Start the command, once.

        Raises:
            SandboxNotFoundError: The working directory does not exist.
            SandboxException: It could not be started; `outcome` says whether it may run.
        """
        channel = cls(launch)
        text = launch.running.start_text(launch.command, launch.send_input(), _FIRST_LOOK_SECONDS)
        try:
            execution = launch.toolbox.begin(
                text,
                environment=launch.command.environment,
                seconds=deadline.bound(ASK_SECONDS),
                body_bytes=_ANSWER_BYTES,
            )
            executed = execution.receive(None)
        except SandboxException as error:
            raise launch.lost(error) from None
        except BaseException:
            # An interrupt: nobody will ever follow what has started.
            with contextlib.suppress(SandboxException):
                launch.kill("KILL")
            raise
        assert executed is not None  # noqa: S101 - without a limit `receive` waits for the answer
        answer = launch.understood(executed.output)
        if refusal := launch.refusal(answer):
            raise refusal
        if answer.word is Word.DONE:
            channel._leftovers = None  # the script has tidied up itself
        channel._take(answer)
        return channel

    @classmethod
    def find_again(cls, launch: Launch) -> ProcessChannel:
        """Return a channel for a command that runs, from here on.

        Raises:
            SandboxNotFoundError: No such command runs.
        """
        answer = launch.understood(launch.toolbox.ask(launch.running.attach_text()))
        if answer.word is Word.GONE:
            raise SandboxNotFoundError(f"no command {launch.command.command_id!r} runs in the sandbox")
        return cls(launch, (answer.stdout_bytes, answer.stderr_bytes))

    # --- ProcessChannel -----------------------------------------------------------------------------------------

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        """Return the next piece of output or the exit (`ProcessChannel.receive`)."""
        piece = self._next()
        if piece is None:
            self._look(_LONGEST_LOOK_SECONDS if timeout is None else min(timeout, _LONGEST_LOOK_SECONDS))
            piece = self._next()
        return piece

    def kill(self, signal: str) -> bool:
        """Signal the command and all its descendants (`ProcessChannel.kill`)."""
        return not self._over and self._launch.kill(signal).word is not Word.ENDED

    def close(self) -> None:
        """Stop asking (`ProcessChannel.close`)."""
        leftovers, self._leftovers = self._leftovers, None
        if leftovers is not None:
            self._launch.tidy(leftovers)

    def write_stdin(self, data: bytes) -> None:
        """Hand bytes to the command (`ProcessChannel.write_stdin`)."""
        if not self._launch.command.keep_stdin_open or self._stdin_closed:
            super().write_stdin(data)
        with self._feeding:
            for start in range(0, len(data), INLINE_BYTES):
                self._feed(data[start : start + INLINE_BYTES])

    def close_stdin(self) -> None:
        """End the command's input (`ProcessChannel.close_stdin`)."""
        with self._feeding:
            if self._stdin_closed or self._over or not self._launch.command.keep_stdin_open:
                return
            self._stdin_closed = True
            self._launch.toolbox.ask(self._launch.running.end_input_text(), seconds=_FEED_SECONDS)

    # --- news ---------------------------------------------------------------------------------------------------

    def _next(self) -> OutputChunk | ProcessExit | None:
        if not self._ready:
            self._ready.extend(piece for piece in [next(self._backlog, None)] if piece is not None)
        piece = self._ready.popleft() if self._ready else None
        if isinstance(piece, SandboxException):
            raise piece
        return piece

    def _look(self, seconds: float) -> None:
        out, err = (self._offsets[stream] for stream in (OutputStream.STDOUT, OutputStream.STDERR))
        text = self._launch.running.follow_text(out, err, seconds)
        try:
            answer = self._launch.understood(self._launch.toolbox.ask(text, wait_seconds=seconds))
        except SandboxException as error:
            raise self._launch.lost(error, runs=True) from None
        self._take(answer)

    def _take(self, answer: Answer) -> None:
        if answer.word is Word.GONE:
            self._leftovers = self._launch.running.clean_text()
            raise SandboxOutcomeUnknownError(
                "what looked after the command in the sandbox is gone: its record was removed, or its process killed",
                hint="it may still run in the sandbox; leave /tmp/.ai4j-* alone",
            )
        if answer.word is Word.STOPPED:
            self._end(STOPPED_EARLY)
            return
        if answer.word is Word.FILED:
            self._backlog = self._fetched(answer)
            return
        news = (answer.stdout[0], answer.stdout_bytes), (answer.stderr[0], answer.stderr_bytes)
        for stream, (data, total) in zip(OutputStream, news, strict=True):
            if self._offsets[stream] + len(data) != total:
                raise self._launch.lost(_incomplete(self._offsets[stream] + len(data), total))
            self._ready += self._chunk(stream, data)
        if answer.word is Word.DONE:
            self._end(_full_disk() if answer.full else ProcessExit(exit_code=answer.exit_code, timed_out=answer.late))

    def _end(self, end: ProcessExit | SandboxException) -> None:
        self._over = True
        self._ready.append(end)
        self._launch.end_survivors()
        if self._leftovers is not None:
            self._leftovers = self._launch.running.clean_text()

    def _chunk(self, stream: OutputStream, data: bytes) -> list[OutputChunk]:
        self._offsets[stream] += len(data)
        return [OutputChunk(stream, data)] if data else []

    def _fetched(self, answer: Answer) -> Iterator[OutputChunk]:
        for stream, suffix, total in (
            (OutputStream.STDOUT, "out", answer.stdout_bytes),
            (OutputStream.STDERR, "err", answer.stderr_bytes),
        ):
            first = self._offsets[stream]
            for data in fetch(self._launch, suffix, first, total - first):
                yield from self._chunk(stream, data)

    def _feed(self, data: bytes) -> None:
        running, toolbox = self._launch.running, self._launch.toolbox
        if len(data) <= INLINE_INPUT_BYTES:
            text = running.feed_text(data)
        else:
            part = running.path(f"part-{uuid.uuid4().hex}")
            toolbox.write_file(part, [data])
            text = running.feed_file_text(part)
        answer = self._launch.understood(toolbox.ask(text, seconds=_FEED_SECONDS, repeat=False))
        if answer.word is Word.ENDED:
            raise SandboxException("the command has ended, or no longer reads its input")


def _full_disk() -> SandboxException:
    return SandboxException(
        "the command ended, but not all of its output could be kept: the sandbox's /tmp is full",
        hint="remove files there, or let the command write less",
        outcome=Outcome.COMPLETED,
        session_state=SessionState.INTACT,
    )


def _removed() -> SandboxException:
    return SandboxException(
        "the command ended, but its output is gone: something has removed it from the sandbox's /tmp",
        hint="leave /tmp/.ai4j-* alone",
        outcome=Outcome.COMPLETED,
        session_state=SessionState.INTACT,
    )


def _incomplete(arrived: int, total: int) -> SandboxProtocolError:
    return SandboxProtocolError(f"{arrived} of {total} bytes of the command's output arrived")


def _plain(executed: Executed) -> Iterator[OutputChunk | ProcessExit]:
    """Yield an answer that our script did not give: the service's own exit code, and both streams in one.

    Raises:
        SandboxConfigError: The system cannot hand the command over; it was not started.
    """
    if executed.exit_code in _CANNOT_EXECUTE and _TOO_LONG in executed.output.lower():
        raise SandboxConfigError(
            "the command's line, an argument or a variable is longer than the sandbox's system takes (128 KiB each)",
            hint="send long text as stdin or as a file",
        )
    if executed.exit_code is None or executed.exit_code < 0:
        words = executed.output.strip() or "the service told no exit code"
        yield ProcessExit(exit_code=None, status_text=words[:500])
        return
    if executed.output:
        yield OutputChunk(OutputStream.STDOUT, executed.output.encode("utf-8", "surrogatepass"))
    yield ProcessExit(exit_code=executed.exit_code)


def _slices(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), INLINE_BYTES):
        yield data[start : start + INLINE_BYTES]
