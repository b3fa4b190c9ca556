"""Observers: whoever wants to see every event of every session, installed with pip alone or registered by the host.

Plugins of the group ``ai4j.sandbox_observers`` are looked up when the first session is made, and never again. What an
observer does wrong is logged once and reaches nobody. Sessions are made on every code path, so that this module
imports nothing costly before it knows that somebody observes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .model import SandboxEvent, SandboxStatus
from .redaction import escape_controls, mask_message

if TYPE_CHECKING:
    from .binding import AgentSessionSandboxBinding
    from .discovery import PluginEntry, PluginProblem
    from .spi import SandboxSession

SessionObserver = Callable[[SandboxEvent, "AgentSessionSandboxBinding"], None]

_log = logging.getLogger(__name__)


class SessionObservers:
    """The observers of this process.

    Args:
        path: Directories whose installed distributions count, instead of `sys.path`.
    """

    def __init__(self, *, path: Sequence[str] | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._installed: tuple[_Isolated, ...] | None = None
        self._problems: tuple[PluginProblem, ...] = ()
        self._registered: list[_Isolated] = []

    def register(self, observer: SessionObserver) -> Callable[[], None]:
        """Let `observer` see the sessions made from now on; return what takes it out again."""
        isolated = _Isolated(getattr(observer, "__qualname__", repr(observer)), observer)
        with self._lock:
            self._registered.append(isolated)

        def remove() -> None:
            with self._lock:
                if isolated in self._registered:
                    self._registered.remove(isolated)

        return remove

    def problems(self) -> tuple[PluginProblem, ...]:
        """Return what is wrong with the installed observers."""
        self._all()
        return self._problems

    def callbacks(self, session: SandboxSession) -> tuple[Callable[[SandboxEvent], None], ...]:
        """Return what tells the observers about an event of this session; empty when there are none."""
        observers = self._all()
        if not observers:
            return ()
        bound = _BoundSession(session)
        return tuple(bound.telling(observer) for observer in observers)

    def _all(self) -> tuple[_Isolated, ...]:
        with self._lock:
            if self._installed is None:
                self._installed, self._problems = _load_installed(self._path)
            return (*self._installed, *self._registered)


class _Isolated:
    """One observer, whose first failure is logged and whose failures stay here."""

    def __init__(self, name: str, observe: SessionObserver) -> None:
        self._name = name
        self._observe = observe
        self._failed = False

    def __call__(self, event: SandboxEvent, binding: AgentSessionSandboxBinding) -> None:
        try:
            self._observe(event, binding)
        # Foreign code that must not be able to break a command. The traceback stays out: it may quote what it saw.
        except Exception as error:  # noqa: BLE001
            if not self._failed:
                self._failed = True
                reason = escape_controls(mask_message(f"{type(error).__name__}: {error}"))
                _log.warning("sandbox observer %s failed, which is not logged again: %s", self._name, reason)


class _BoundSession:
    """A session's binding, renewed only when its status changed: most events are output."""

    def __init__(self, session: SandboxSession) -> None:
        self._session = session
        self._binding: AgentSessionSandboxBinding | None = None
        self._status: SandboxStatus | None = None

    def telling(self, observer: _Isolated) -> Callable[[SandboxEvent], None]:
        """Return a callback that hands an event to one observer."""
        return lambda event: observer(event, self.binding())

    def binding(self) -> AgentSessionSandboxBinding:
        """Return the binding with the session's present status."""
        status = self._session.status
        if self._binding is None:
            from .binding import AgentSessionSandboxBinding

            self._binding = AgentSessionSandboxBinding.from_session(self._session)
        elif status is not self._status:
            self._binding = self._binding.with_status(status)
        self._status = status
        return self._binding


def _load_installed(path: Sequence[str] | None) -> tuple[tuple[_Isolated, ...], tuple[PluginProblem, ...]]:
    from .discovery import OBSERVERS_GROUP, discover

    found = discover(OBSERVERS_GROUP, path)
    problems = list(found.problems)
    observers = [observer for entry in found.entries if (observer := _loaded(entry, problems))]
    for problem in problems:
        _log.warning("%s", problem)
    return tuple(observers), tuple(problems)


def _loaded(entry: PluginEntry, problems: list[PluginProblem]) -> _Isolated | None:
    """Return an installed observer, or ``None`` when it is disabled or broken."""
    from .errors import SandboxProviderError
    from .plugin import disabled_plugins, is_disabled, load_plugin, problem_of

    if is_disabled(entry, disabled_plugins()):
        return None
    try:
        hooks = load_plugin(entry)
    except SandboxProviderError as error:
        problems.append(problem_of(entry, error))
        return None
    return _Isolated(str(entry), lambda event, binding: hooks.ai4j_sandbox_event(event=event, binding=binding))


_OBSERVERS = SessionObservers()


def notify_observers(session: SandboxSession) -> tuple[Callable[[SandboxEvent], None], ...]:
    """Return what tells the observers about an event of this session; empty when there are none."""
    return _OBSERVERS.callbacks(session)


def register_observer(observer: SessionObserver) -> Callable[[], None]:
    """Let `observer(event, binding)` see every session this process makes from now on.

    What it raises is logged once and reaches nobody. It is called in the thread that drives the command and must
    not block.

    Returns:
        A function that takes the observer out again, for sessions made later.
    """
    return _OBSERVERS.register(observer)


def observer_problems() -> tuple[PluginProblem, ...]:
    """Return what is wrong with the installed observers."""
    return _OBSERVERS.problems()
