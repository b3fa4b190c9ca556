"""The sandbox a chat works in, and the rules for changing it.

* Opening comes first, and a look at what was opened: what cannot be opened, runs no command, lacks the workspace or
  cannot be bound leaves the sandbox before in force. Nothing ever falls back to this machine; only `disable` goes
  there.
* A handle that is replaced is closed after the new one is bound; what it was told (`--delete-on-close`, or a sandbox it
  made) then counts. One more handle to the same sandbox replaces none: both are closed together, so that neither takes
  the sandbox from under the other.
* A handle that cannot be closed is kept, told, and tried again with the next `disable` and at the end.
* Closing lets a sandbox that was only attached live.
* No change is left halfway by a signal: it takes its effect afterwards. For the main thread, as signals are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ai4j_agent import AgentError, AgentSession
from ai4j_cli.application import Application
from ai4j_cli.attachment import connect
from ai4j_cli.interruption import signals_deferred
from ai4j_cli.spec_options import settings_of
from ai4j_sandbox import SandboxAdmissionError, SandboxException, SandboxSession, SandboxSpec, SandboxStatus
from ai4j_sandbox.spi import SandboxProvider

from .directive import SandboxAction, SandboxDirective
from .journal import Journal
from .probe import require_usable

_TYPED_AS: Mapping[str, str] = {
    "config.deleteOnClose": "--delete-on-close or --keep-on-close",
    "config.createIfMissing": "--create-if-missing or --no-create-if-missing",
    "config.sandboxId": "--sandbox-id",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSandbox:
    """An open sandbox.

    Attributes:
        attached: Whether it existed before.
        delete_on_close, create_if_missing: As asked for; ``None`` leaves it to the provider.
    """

    sandbox: SandboxSession
    attached: bool
    delete_on_close: bool | None = None
    create_if_missing: bool | None = None

    def is_same_sandbox(self, other: LiveSandbox) -> bool:
        """Whether both are handles to one remote sandbox."""
        return _key(self.sandbox) == _key(other.sandbox)


class SandboxLink:
    """Binds one sandbox after the other to an agent session.

    Args:
        application: Where providers come from.
        session: The agent session.
        journal: Hears the events of every sandbox.
    """

    def __init__(self, application: Application, session: AgentSession, journal: Journal) -> None:
        self._application = application
        self._session = session
        self._journal = journal
        self._spare: list[SandboxSession] = []  # further handles to the sandbox in use
        self._unclosed: list[SandboxSession] = []
        self.live: LiveSandbox | None = None

    def open(self, directive: SandboxDirective) -> list[str]:
        """Open the sandbox that ``enable`` or ``attach`` asks for, and work in it from now on.

        Returns:
            What went wrong afterwards, in words: with closing the one before.

        Raises:
            SandboxException, AgentError: It could not be opened or bound, or cannot be used. Everything is as before.
        """
        return self.adopt(_opened(self._application, directive))

    def adopt(self, live: LiveSandbox) -> list[str]:
        """Work in an open sandbox from now on; it is closed if that cannot be. Returns and raises as `open`."""
        live.sandbox.subscribe(self._journal.sandbox_event)
        self._require_usable(live)
        with signals_deferred():
            previous = self.live
            try:
                self._session.bind_sandbox(live.sandbox)
            except BaseException:
                self._undo(live, previous)
                raise
            self.live = live
            return [] if previous is None else self._replaced(previous)

    def disable(self) -> list[str]:
        """Work on this machine from now on, then close what is open.

        Returns:
            What could not be closed, in words; a second call tries again.

        Raises:
            SandboxException, AgentError: The session could not be switched. Everything is as before.
        """
        with signals_deferred():
            self._session.clear_sandbox()
            return self._close_live()

    def close(self) -> list[str]:
        """Close what is open. The session remembers its sandbox as closed, so that resuming it runs nothing unasked.

        Returns:
            What could not be closed, in words.
        """
        with signals_deferred():
            problems = self._close_live()
            self._session.update_sandbox_status(SandboxStatus.FAILED if problems else SandboxStatus.CLOSED)
            return problems

    @property
    def has_unclosed(self) -> bool:
        """Whether a handle still waits to be closed."""
        return bool(self._unclosed)

    def _require_usable(self, live: LiveSandbox) -> None:
        try:
            with _foreign_errors(live.sandbox.provider_id):
                require_usable(live.sandbox)
        except BaseException:
            with signals_deferred():
                self._discard(live)
            raise

    def _undo(self, live: LiveSandbox, previous: LiveSandbox | None) -> None:
        """Be as before a sandbox could not be bound; the session may have let go of the one before already."""
        if previous is not None and not self._is_bound(previous):
            self._session.bind_sandbox(previous.sandbox)
        self._discard(live)

    def _is_bound(self, live: LiveSandbox) -> bool:
        binding = self._session.sandbox_binding
        return binding is not None and _key(live.sandbox) == (
            (binding.provider_id or "").casefold(),
            (binding.sandbox_session_id or "").casefold(),
        )

    def _discard(self, live: LiveSandbox) -> None:
        """Let go of a sandbox that will not be worked in; not of one that is in use by another handle."""
        if self.live is not None and live.is_same_sandbox(self.live):
            self._spare.append(live.sandbox)
        else:
            self._let_go(live.sandbox)

    def _replaced(self, previous: LiveSandbox) -> list[str]:
        if self.live is not None and self.live.is_same_sandbox(previous):
            self._spare.append(previous.sandbox)
            return []
        return self._close_all(previous.sandbox)

    def _close_live(self) -> list[str]:
        live, self.live = self.live, None
        return self._close_all(*(() if live is None else (live.sandbox,)))

    def _close_all(self, *sandboxes: SandboxSession) -> list[str]:
        """Close handles, the spare ones with them, and what could not be closed before; return what went wrong."""
        waiting = [*sandboxes, *self._spare, *self._unclosed]
        self._spare, self._unclosed = [], []
        return [problem for sandbox in waiting if (problem := self._let_go(sandbox)) is not None]

    def _let_go(self, sandbox: SandboxSession) -> str | None:
        """Close a handle; return what went wrong."""
        try:
            sandbox.close()
        # A provider is foreign code; whatever it raises, the chat goes on and the handle is not forgotten.
        except Exception as error:  # noqa: BLE001
            self._unclosed.append(sandbox)
            reason = error.message if isinstance(error, SandboxException) else type(error).__name__
            return f"sandbox {sandbox.provider_id}/{sandbox.session_id} may still exist: {reason}"
        return None


@contextmanager
def _foreign_errors(provider_id: str | None) -> Iterator[None]:
    """Let whatever a provider raises inside be a `SandboxException`."""
    try:
        yield
    except (SandboxException, AgentError):
        raise
    # A provider is foreign code; its text may quote a credential, so only its kind is told.
    except Exception as error:  # noqa: BLE001
        raise SandboxException(
            f"provider {provider_id!r} failed with {type(error).__name__}",
            hint="`ai4j providers doctor` checks it; `ai4j --debug sandbox exec ...` shows where",
            provider_id=provider_id,
        ) from None


def _opened(application: Application, directive: SandboxDirective) -> LiveSandbox:
    """Open what a directive asks for."""
    spec = spec_of(directive)
    attached = directive.action is SandboxAction.ATTACH
    with _foreign_errors(spec.provider_id):
        _require_taken(application.registry.provider(spec.provider_id or ""), spec)
        if attached and not directive.create_if_missing:
            sandbox = connect(application, spec, directive.sandbox_id or "")
        else:
            sandbox = application.registry.create_session(spec)
    return LiveSandbox(
        sandbox=sandbox,
        attached=not sandbox.owned,
        delete_on_close=directive.delete_on_close,
        create_if_missing=directive.create_if_missing,
    )


def spec_of(directive: SandboxDirective) -> SandboxSpec:
    """Return the spec a directive means. What it does not say is left to the provider.

    Raises:
        SandboxConfigError: A ``--config`` is no YAML, or a credential.
    """
    creates = directive.action is SandboxAction.ENABLE or directive.create_if_missing
    config: dict[str, Any] = {
        **settings_of(tuple(directive.settings.items())),
        **_given("deleteOnClose", directive.delete_on_close),
        **_given("createIfMissing", directive.create_if_missing if creates else None),
        **_given("sandboxId", directive.sandbox_id if directive.action is SandboxAction.ENABLE else None),
        **_given("sandboxName", directive.sandbox_id if directive.action is SandboxAction.ATTACH and creates else None),
    }
    return SandboxSpec(
        provider_id=directive.provider_id, image=directive.image, workspace_id=directive.workspace, config=config
    )


def _require_taken(provider: SandboxProvider, spec: SandboxSpec) -> None:
    """Refuse options that mean nothing to the provider by the names they were typed with."""
    refused = {item.field for item in provider.check(spec).refusals}
    options = [option for field, option in _TYPED_AS.items() if field in refused]
    if options:
        raise SandboxAdmissionError(
            f"provider {provider.provider_id!r} takes no {' and no '.join(options)}", hint="leave it out"
        )


def _given(name: str, value: Any) -> Mapping[str, Any]:
    return {} if value is None else {name: value}


def _key(sandbox: SandboxSession) -> tuple[str, str]:
    return sandbox.provider_id.casefold(), sandbox.session_id.casefold()
