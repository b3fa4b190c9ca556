"""Faults on purpose: what a test asks for is done to the next requests that fit.

A `Fault` says which requests (method, path pattern, how many) and carries one effect. Effects that spoil a body
are sans-io filters: bytes in, `Step`s out; `reply.deliver` performs the steps. A `Fail` is for the face (`failing`).
A fault with a value of the wrong type is refused where it is made, not where it would strike.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from fnmatch import fnmatchcase
from types import UnionType
from typing import Any, Literal, Protocol, Union, cast, get_args, get_origin, get_type_hints

from ai4j_sandbox.frozen import empty_mapping, freeze

from .envelope import EnvelopeReader

Ending = Literal["fin", "rst"]
Repetition = Literal["duplicate", "drop", "late"]


class FaultError(ValueError):
    """A fault makes no sense; the message says why."""


# --- what is done to a body, step by step ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send these bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Send nothing for so many seconds; ``None`` until the client goes away."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class End:
    """Close the connection in the middle of the body."""

    how: Ending


Step = Send | Wait | End


class BodyFilter(Protocol):
    """Turns the bytes of one response body into steps."""

    def feed(self, data: bytes) -> Iterator[Step]:
        """Take the next bytes."""

    def finish(self) -> Iterator[Step]:
        """The body is complete."""


# --- effects --------------------------------------------------------------------------------------------------


class _Checked:
    """A dataclass whose fields hold what their annotations say."""

    __slots__ = ()

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for item in fields(cast("Any", self)):
            value = getattr(self, item.name)
            if not _fits(value, hints[item.name]):
                name = f"{type(self).__name__.lower()}.{item.name}"
                raise FaultError(f"{name} must be {_words(hints[item.name])}, got {value!r}")


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    kind = get_origin(hint) or hint
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _words(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_words, get_args(hint)))
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    kind = get_origin(hint) or hint
    return _WORDS.get(kind) or kind.__name__


_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Mapping: "a mapping",
    type(None): "None",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(_Checked):
    """Answer this instead of handling the request: a 429 with ``Retry-After``, HTML instead of JSON, a redirect.

    Attributes:
        body: Text; sent as UTF-8.
    """

    status: int
    body: str = ""
    content_type: str = "application/json; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=empty_mapping)

    def __post_init__(self) -> None:
        _Checked.__post_init__(self)
        object.__setattr__(self, "headers", freeze(self.headers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(_Checked):
    """Reset the connection instead of answering.

    Attributes:
        handled: Whether the request takes effect before its answer is lost.
    """

    handled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang(_Checked):
    """Read the request and answer nothing.

    Attributes:
        seconds: How long; then the request is handled as usual. ``None`` until the client goes away.
    """

    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail(_Checked):
    """Handle the request, and let the change that it makes to a sandbox fail. Daytona's faces only: 501 elsewhere.

    Attributes:
        state: Where the sandbox ends up.
        reason: What is said about it.
        recoverable: Whether the service offers to mend it.
    """

    state: Literal["error", "build_failed"] = "error"
    reason: str = ""
    recoverable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut(_Checked):
    """Close the connection after so many bytes of the body.

    Attributes:
        how: ``"fin"`` ends it in order, ``"rst"`` resets it.
    """

    after: int
    how: Ending = "fin"

    def body_filter(self) -> BodyFilter:
        """Return a filter for one body."""
        return _AtByte(self.after, End(self.how))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall(_Checked):
    """Send nothing for a while after so many bytes of the body.

    Attributes:
        seconds: How long; ``None`` until the client goes away.
    """

    after: int = 0
    seconds: float | None = None

    def body_filter(self) -> BodyFilter:
        """Return a filter for one body."""
        return _AtByte(self.after, Wait(self.seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drip(_Checked):
    """Send the body in small pieces with a pause after each."""

    size: int = 1
    seconds: float = 0.001

    def body_filter(self) -> BodyFilter:
        """Return a filter for one body."""
        return _Dripping(self.size, self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames(_Checked):
    """Disturb one frame of a Connect stream.

    Attributes:
        index: Which frame, from 0.
        what: ``"duplicate"`` sends it twice, ``"drop"`` never, ``"late"`` once more after everything else.
    """

    index: int
    what: Repetition

    def body_filter(self) -> BodyFilter:
        """Return a filter for one body."""
        return _OneFrame(self.index, self.what)


BodyEffect = Cut | Stall | Drip | Frames
Effect = Answer | Reset | Hang | Fail | BodyEffect

_EFFECTS: dict[str, type[Effect]] = {
    kind.__name__.lower(): kind for kind in (Answer, Reset, Hang, Fail, Cut, Stall, Drip, Frames)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(_Checked):
    """One effect and the requests it hits.

    Attributes:
        method: ``"POST"``, or ``"*"``.
        path: Pattern with ``*`` for the path without the query.
        skip: How many fitting requests to leave alone first.
        times: How many to hit; ``None`` for all.
    """

    effect: Effect
    method: str = "*"
    path: str = "*"
    skip: int = 0
    times: int | None = 1

    def fits(self, method: str, path: str) -> bool:
        """Whether a request is one of those meant."""
        return self.method in ("*", method) and fnmatchcase(path, self.path)

    def as_json(self) -> dict[str, Any]:
        """Return the description that `parse_fault` takes."""
        effect = {"effect": type(self.effect).__name__.lower(), **_plain(self.effect)}
        return {**effect, "method": self.method, "path": self.path, "skip": self.skip, "times": self.times}


def _plain(effect: Effect) -> dict[str, Any]:
    return {item.name: _plain_value(getattr(effect, item.name)) for item in fields(effect)}


def _plain_value(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def parse_fault(document: Any) -> Fault:
    """Return the fault that a JSON object describes: ``{"effect": "cut", "after": 10, "path": "/files"}``.

    Raises:
        FaultError: It describes none.
    """
    if not isinstance(document, Mapping):
        raise FaultError("a fault is a JSON object")
    kind = _EFFECTS.get(str(document.get("effect")))
    if kind is None:
        raise FaultError(f"effect must be one of {', '.join(_EFFECTS)}, got {document.get('effect')!r}")
    scope = {key: document[key] for key in ("method", "path", "skip", "times") if key in document}
    options = {key: value for key, value in document.items() if key != "effect" and key not in scope}
    _require_known(kind, options)
    return Fault(effect=kind(**options), **scope)


def _require_known(kind: type[Effect], options: Mapping[str, Any]) -> None:
    known = {item.name: item for item in fields(kind)}
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise FaultError(f"{kind.__name__.lower()} has no {', '.join(unknown)}; it has {', '.join(known)}")
    missing = [
        name
        for name, item in known.items()
        if name not in options and item.default is MISSING and item.default_factory is MISSING
    ]
    if missing:
        raise FaultError(f"{kind.__name__.lower()} needs {', '.join(missing)}")


class FaultBoard:
    """The faults in force. Tests set them from their own thread or process; each request looks once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._armed: dict[int, _Armed] = {}

    def add(self, fault: Fault) -> int:
        """Put a fault in force and return its number."""
        with self._lock:
            number = next(self._numbers)
            self._armed[number] = _Armed(fault, fault.skip, fault.times)
        return number

    def remove(self, number: int) -> bool:
        """Lift one fault; ``False`` when it was not in force any more."""
        with self._lock:
            return self._armed.pop(number, None) is not None

    def clear(self) -> None:
        """Lift all faults."""
        with self._lock:
            self._armed.clear()

    def in_force(self) -> dict[int, Fault]:
        """Return the faults that may still hit something, by number."""
        with self._lock:
            return {number: armed.fault for number, armed in self._armed.items()}

    def strike(self, method: str, path: str) -> Effect | None:
        """Return what happens to this request, and count it; the oldest fault that fits wins."""
        with self._lock:
            for number, armed in list(self._armed.items()):
                if armed.fault.fits(method, path) and armed.is_due():
                    if armed.left == 0:
                        del self._armed[number]
                    return armed.fault.effect
        return None


@dataclass(slots=True)
class _Armed:
    fault: Fault
    to_skip: int
    left: int | None

    def is_due(self) -> bool:
        """Count one fitting request; whether it is to be hit."""
        if self.to_skip > 0:
            self.to_skip -= 1
            return False
        if self.left is not None:
            self.left -= 1
        return True


# --- the filters ------------------------------------------------------------------------------------------------


class _AtByte:
    """Does one thing at a byte position."""

    def __init__(self, after: int, step: Step) -> None:
        self._left: int | None = after
        self._step = step

    def feed(self, data: bytes) -> Iterator[Step]:
        if self._left is None:
            yield Send(data)
            return
        if len(data) < self._left:
            self._left -= len(data)
            yield Send(data)
            return
        before, after = data[: self._left], data[self._left :]
        self._left = None
        yield from (Send(before), self._step, Send(after))

    def finish(self) -> Iterator[Step]:
        if self._left is not None:  # the body was shorter: it happens at its end
            yield self._step


class _Dripping:
    def __init__(self, size: int, seconds: float) -> None:
        self._size = max(1, size)
        self._seconds = seconds

    def feed(self, data: bytes) -> Iterator[Step]:
        for start in range(0, len(data), self._size):
            yield Send(data[start : start + self._size])
            yield Wait(self._seconds)

    def finish(self) -> Iterator[Step]:
        return iter(())


class _OneFrame:
    def __init__(self, index: int, what: Repetition) -> None:
        self._index = index
        self._what = what
        self._reader = EnvelopeReader()
        self._seen = 0
        self._late = b""

    def feed(self, data: bytes) -> Iterator[Step]:
        for envelope in self._reader.feed(data):
            yield from self._frame(envelope.encoded())

    def _frame(self, frame: bytes) -> Iterator[Step]:
        chosen = self._seen == self._index
        self._seen += 1
        if not chosen:
            yield Send(frame)
        elif self._what == "duplicate":
            yield from (Send(frame), Send(frame))
        elif self._what == "late":
            self._late = frame
            yield Send(frame)

    def finish(self) -> Iterator[Step]:
        if self._late:
            yield Send(self._late)
