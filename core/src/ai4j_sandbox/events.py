"""The events of one command: numbered, masked, told to the observer and to whoever iterates the process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypedDict

from .model import OutputStream, SandboxEvent, SandboxEventType
from .redaction import Scrubber, StreamScrubber, escape_controls

Observer = Callable[[SandboxEvent], None]


def event_message(text: str, scrubber: Scrubber) -> str:
    """Return the message of an event: one line, without secrets, whatever names and foreign words are in it."""
    return escape_controls(scrubber.text(text))


class _Identity(TypedDict):
    session_id: str | None
    command_id: str
    sequence: int


class CommandEvents:
    """Makes the events of one command.

    Lifecycle events are kept for the result. Output events are made only when somebody wants them: an
    observer, or an iterator that called `follow`.
    """

    def __init__(
        self, *, session_id: str | None, command_id: str, scrubber: Scrubber, observer: Observer | None
    ) -> None:
        self._session_id = session_id
        self._command_id = command_id
        self._scrubber = scrubber
        self._observer = observer
        self._streams: dict[OutputStream, StreamScrubber] = {}
        self._offsets = dict.fromkeys(OutputStream, 0)
        self._queue: deque[SandboxEvent] = deque()
        self._following = False
        self._sequence = 0
        self.lifecycle: list[SandboxEvent] = []

    def follow(self) -> None:
        """From now on keep output events for `take`."""
        self._following = True

    def take(self) -> Iterator[SandboxEvent]:
        """Yield the events that happened since the last call."""
        while self._queue:
            yield self._queue.popleft()

    def tell(
        self,
        kind: SandboxEventType,
        message: str | None = None,
        *,
        stream: OutputStream | None = None,
        dropped_bytes: int | None = None,
        exit_code: int | None = None,
        timed_out: bool | None = None,
    ) -> None:
        """Make a lifecycle event."""
        event = SandboxEvent(
            type=kind,
            message=None if message is None else event_message(message, self._scrubber),
            stream=stream,
            dropped_bytes=dropped_bytes,
            exit_code=exit_code,
            timed_out=timed_out,
            **self._identity(),
        )
        self.lifecycle.append(event)
        self._queue.append(event)
        self._show(event)

    def output(self, stream: OutputStream, data: bytes, *, skipped_bytes: int = 0) -> None:
        """Make an output event of a chunk, if anybody wants one; so many bytes before it never arrived."""
        if not self._following and self._observer is None:
            return
        scrubber = self._streams.get(stream)
        if scrubber is None:
            scrubber = self._streams[stream] = self._scrubber.stream()
        if skipped_bytes:
            self._tell_output(stream, scrubber.finish())
            self._offsets[stream] += skipped_bytes
        self._tell_output(stream, scrubber.feed(data))

    def end_streams(self) -> None:
        """Hand out what the scrubbers held back."""
        for stream, scrubber in self._streams.items():
            self._tell_output(stream, scrubber.finish())

    def _tell_output(self, stream: OutputStream, data: bytes) -> None:
        if not data:
            return
        event = SandboxEvent(
            type=SandboxEventType.COMMAND_OUTPUT,
            stream=stream,
            data=data,
            offset=self._offsets[stream],
            **self._identity(),
        )
        self._offsets[stream] += len(data)
        if self._following:
            self._queue.append(event)
        self._show(event)

    def _identity(self) -> _Identity:
        self._sequence += 1
        return {"session_id": self._session_id, "command_id": self._command_id, "sequence": self._sequence}

    def _show(self, event: SandboxEvent) -> None:
        if self._observer is not None:
            self._observer(event)
