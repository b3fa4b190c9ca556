"""Server-sent events: bytes in any slices, data texts out. Knows no socket."""

from __future__ import annotations

from .errors import ModelProtocolError

LONGEST_LINE = 16 * 1024 * 1024


class SseDecoder:
    """Collects the ``data`` of each event; other fields and comments are skipped."""

    def __init__(self, *, longest_line: int = LONGEST_LINE) -> None:
        self._longest_line = longest_line
        self._buffer = b""
        self._data: list[str] = []
        self._after_return = False

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of the events that `chunk` completes.

        Raises:
            ModelProtocolError: A line is too long.
        """
        if self._after_return and chunk:  # the other half of a line end that was split
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        *lines, self._buffer = (self._buffer + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if len(self._buffer) > self._longest_line:
            raise ModelProtocolError(f"a line of the event stream is longer than {self._longest_line} bytes")
        return [data for line in lines if (data := self._line(line)) is not None]

    def finish(self) -> list[str]:
        """Return the data of an event that the end of the stream completes."""
        rest, self._buffer = self._buffer, b""
        self._line(rest)
        data = self._line(b"")
        return [] if data is None else [data]

    def _line(self, line: bytes) -> str | None:
        if not line:
            data, self._data = self._data, []
            return "\n".join(data) if data else None
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        return None
