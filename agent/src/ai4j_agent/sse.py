"""Server-sent events: bytes in any slices, data texts out. Knows no socket."""

from __future__ import annotations

import codecs

from .errors import ModelProtocolError

LONGEST_LINE = 16 * 1024 * 1024


class SseDecoder:
    """Collects the ``data`` of each event; other fields and comments are skipped."""

    def __init__(self, *, longest_line: int = LONGEST_LINE) -> None:
        self._longest_line = longest_line
        # Pieces of a line whose end has not come; joined once, or a long line takes for ever.
        self._begun: list[bytes] = []
        self._begun_bytes = 0
        self._data: list[str] = []
        self._after_return = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of the events that `chunk` completes.

        Raises:
            ModelProtocolError: A line is too long.
        """
        if self._after_return and chunk:  # the other half of a line end that was split
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        first, *others = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._begin(first)
        lines = []
        for begun in others:
            lines.append(self._ended())
            self._begin(begun)
        return [data for line in lines if (data := self._line(line)) is not None]

    def finish(self) -> list[str]:
        """Return the data of an event that the end of the stream completes."""
        self._line(self._ended())
        data = self._line(b"")
        return [] if data is None else [data]

    def _begin(self, piece: bytes) -> None:
        self._begun.append(piece)
        self._begun_bytes += len(piece)
        if self._begun_bytes > self._longest_line:
            raise ModelProtocolError(f"a line of the event stream is longer than {self._longest_line} bytes")

    def _ended(self) -> bytes:
        line = b"".join(self._begun)
        self._begun, self._begun_bytes = [], 0
        return line

    def _line(self, line: bytes) -> str | None:
        if self._at_start:
            line, self._at_start = line.removeprefix(codecs.BOM_UTF8), False
        if not line:
            data, self._data = self._data, []
            return "\n".join(data) if data else None
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        return None
