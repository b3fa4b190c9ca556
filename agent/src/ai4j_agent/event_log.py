"""A session's events, each chained to the one before, so that a log changed afterwards shows it.

Each link is the SHA-256 of canonical JSON over the previous link, the number, the time and the event. The head, a
digest of the last number and link, is stored beside the events, so that a cut end shows too. With a `seal_key` links
and head are HMACs, which somebody who can write the store but lacks the key can neither forge nor make for a shorter
log; a whole older snapshot put back shows only against a `head` that was kept elsewhere and is passed to `verify`.

Rules:

* `append` is the door: known secrets and everything that looks like one are masked before the event is sealed.
* `restore` takes sealed events exactly as stored. Events without a seal (the Java original's) are masked, count as
  unsealed, and are covered by the chain from the next append on.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ai4j_sandbox.binding import WallClock, epoch_millis
from ai4j_sandbox.redaction import Scrubber

from .event import AgentEvent, AgentSessionEvent, LogHead
from .event_schema import event_document

GENESIS_HASH = "0" * 64
"""What the first event is chained to."""


class ChainFault(StrEnum):
    """What was done to a log."""

    EDITED = "edited"
    REORDERED = "reordered"
    DROPPED = "dropped"
    TRUNCATED = "truncated"
    ADDED = "added"
    UNSEALED = "unsealed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerification:
    """Whether a log is the one that was written.

    Attributes:
        valid: Nothing is wrong.
        first_broken_index: Position of the first wrong event, from 0; -1 when nothing is wrong.
        fault: What is wrong with it.
        detail: The same for people.
    """

    valid: bool = True
    first_broken_index: int = -1
    fault: ChainFault | None = None
    detail: str = "intact"


INTACT = ChainVerification()


class AgentEventLog:
    """The events of one session. Safe to use from several threads; also callable as a listener.

    Args:
        seal_key: Makes the links HMACs.
        scrubber: Secrets known from the start; see `protect`.
        clock: Milliseconds since 1970.
    """

    def __init__(
        self, *, seal_key: bytes | None = None, scrubber: Scrubber | None = None, clock: WallClock = epoch_millis
    ) -> None:
        self._seal_key = seal_key
        self._scrubber = scrubber or Scrubber()
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: list[AgentSessionEvent] = []
        self._head: LogHead | None = self._head_at(0, GENESIS_HASH)

    def __call__(self, event: AgentEvent) -> None:
        self.append(event)

    def __repr__(self) -> str:
        return f"AgentEventLog({len(self._entries)} events)"

    @property
    def entries(self) -> tuple[AgentSessionEvent, ...]:
        """The events in order."""
        with self._lock:
            return tuple(self._entries)

    @property
    def head(self) -> LogHead | None:
        """The seal of the log's end; ``None`` after restoring a log that had none."""
        return self._head

    @property
    def scrubber(self) -> Scrubber:
        """What is known to be secret."""
        return self._scrubber

    @property
    def sealed_with_key(self) -> bool:
        """Whether the links are HMACs."""
        return self._seal_key is not None

    def protect(self, *secrets: str) -> None:
        """Mask these values in every event from now on."""
        with self._lock:
            self._scrubber = self._scrubber.with_secrets(secrets)

    def append(self, event: AgentEvent) -> AgentSessionEvent:
        """Mask, number, time and seal an event; return it as it was recorded."""
        with self._lock:
            entry = AgentSessionEvent(
                sequence=self._next_sequence(),
                recorded_at_epoch_ms=self._clock(),
                event=event.redacted(self._scrubber),
                previous_hash=self._last_link(self._entries),
            )
            entry = replace(entry, hash=self._seal(entry, entry.previous_hash or GENESIS_HASH))
            self._entries.append(entry)
            self._head = self._head_at(entry.sequence, entry.hash or GENESIS_HASH)
            return entry

    def restore(self, entries: Sequence[AgentSessionEvent], head: LogHead | None) -> None:
        """Replace everything by a stored log, as it is; `verify` tells whether it is intact."""
        with self._lock:
            self._entries = [self._adopted(entry) for entry in entries]
            self._head = head

    def clear(self) -> None:
        """Forget everything and start anew."""
        with self._lock:
            self._entries = []
            self._head = self._head_at(0, GENESIS_HASH)

    def verify(self, anchor: LogHead | None = None) -> ChainVerification:
        """Check every link, and the end.

        Args:
            anchor: A head kept elsewhere: the event with its number must still be there and have its link.
        """
        with self._lock:
            entries, head = tuple(self._entries), self._head
        return self.check(entries, head, anchor)

    def check(
        self, entries: Sequence[AgentSessionEvent], head: LogHead | None, anchor: LogHead | None = None
    ) -> ChainVerification:
        """Check a stored log, as `verify` would after a restore; this log is not touched."""
        verification = self._verify_links(entries)
        if verification.valid:
            verification = self._verify_head(entries, head)
        if verification.valid and anchor is not None:
            verification = self._verify_anchor(entries, anchor)
        if verification.valid and any(entry.hash is None for entry in entries):
            return _broken(0, ChainFault.UNSEALED, entries[0], "was written without a seal")
        return verification

    def _verify_links(self, entries: Sequence[AgentSessionEvent]) -> ChainVerification:
        previous, sealed, expected = GENESIS_HASH, False, 1
        for index, entry in enumerate(entries):
            link = self._seal(entry, previous)
            if entry.hash is None:
                if sealed:
                    return _broken(index, ChainFault.EDITED, entry, "lost its seal")
            elif entry.sequence != expected:
                return _misplaced(index, entries, expected)
            elif entry.previous_hash != previous or entry.hash != link:
                return _broken(index, ChainFault.EDITED, entry, "is not as recorded: content, time or number changed")
            else:
                sealed = True
            previous, expected = link, entry.sequence + 1
        return INTACT

    def _verify_head(self, entries: Sequence[AgentSessionEvent], head: LogHead | None) -> ChainVerification:
        last = entries[-1] if entries else None
        if head is None:
            if last is None:
                return _missing(0, ChainFault.UNSEALED, "the log has no head")
            if last.hash is None:
                return INTACT  # nothing of it is sealed; `verify` says so
            return _missing(len(entries), ChainFault.TRUNCATED, "the head of the log is missing")
        sequence = last.sequence if last else 0
        if sequence < head.sequence:
            detail = f"events {sequence + 1} to {head.sequence} were cut off"
            return _missing(len(entries), ChainFault.TRUNCATED, detail)
        if last and sequence > head.sequence:
            return _broken(_index_after(entries, head), ChainFault.ADDED, last, "lies beyond the head of the log")
        if head == self._head_at(sequence, self._last_link(entries)):
            return INTACT
        if last is None:
            return _missing(0, ChainFault.TRUNCATED, "the head of the empty log is not its own")
        return _broken(len(entries) - 1, ChainFault.EDITED, last, "does not match the head of the log")

    def _verify_anchor(self, entries: Sequence[AgentSessionEvent], anchor: LogHead) -> ChainVerification:
        if anchor.sequence == 0:
            return INTACT
        for index, entry in enumerate(entries):
            if entry.sequence == anchor.sequence:
                if anchor == self._head_at(entry.sequence, entry.hash or GENESIS_HASH):
                    return INTACT
                return _broken(index, ChainFault.EDITED, entry, "does not match the anchor kept elsewhere")
        return _missing(len(entries), ChainFault.TRUNCATED, f"event {anchor.sequence}, kept as anchor, is missing")

    def _seal(self, entry: AgentSessionEvent, previous: str) -> str:
        document = {
            "previousHash": previous,
            "sequence": entry.sequence,
            "recordedAtEpochMs": entry.recorded_at_epoch_ms,
            "event": event_document(entry.event),
        }
        return self._digest(document)

    def _head_at(self, sequence: int, link: str) -> LogHead:
        """Not the link itself: each event has its own beside it, for whoever wants to cut off what follows."""
        return LogHead(sequence=sequence, hash=self._digest({"head": sequence, "link": link}))

    def _digest(self, document: Mapping[str, Any]) -> str:
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
        if self._seal_key is not None:
            return hmac.new(self._seal_key, canonical, hashlib.sha256).hexdigest()
        return hashlib.sha256(canonical).hexdigest()

    def _last_link(self, entries: Sequence[AgentSessionEvent]) -> str:
        """What the next event is chained to; computed where events have no seal of their own."""
        if entries and (last := entries[-1].hash) is not None:
            return last
        link = GENESIS_HASH
        for entry in entries:
            link = entry.hash or self._seal(entry, link)
        return link

    def _next_sequence(self) -> int:
        last = self._entries[-1].sequence if self._entries else 0
        return max(last, self._head.sequence if self._head else 0) + 1

    def _adopted(self, entry: AgentSessionEvent) -> AgentSessionEvent:
        return entry if entry.hash is not None else replace(entry, event=entry.event.redacted(self._scrubber))


def _broken(index: int, fault: ChainFault, entry: AgentSessionEvent, what: str) -> ChainVerification:
    detail = f"event {entry.sequence} ({entry.event.type}, {entry.event.event_id}) {what}"
    return ChainVerification(valid=False, first_broken_index=index, fault=fault, detail=detail)


def _missing(index: int, fault: ChainFault, detail: str) -> ChainVerification:
    return ChainVerification(valid=False, first_broken_index=index, fault=fault, detail=detail)


def _misplaced(index: int, entries: Sequence[AgentSessionEvent], expected: int) -> ChainVerification:
    entry = entries[index]
    if entry.sequence < expected or any(other.sequence == expected for other in entries[index:]):
        return _broken(index, ChainFault.REORDERED, entry, f"is where event {expected} belongs")
    return _broken(index, ChainFault.DROPPED, entry, f"follows a gap: event {expected} is missing")


def _index_after(entries: Sequence[AgentSessionEvent], head: LogHead) -> int:
    return next(index for index, entry in enumerate(entries) if entry.sequence > head.sequence)
