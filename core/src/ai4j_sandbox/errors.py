"""Everything that can go wrong, as one tree. A failed command is a result; a failed sandbox is one of these.

    SandboxException
    ├── SandboxConfigError              a wrong value, key or combination; names the knob
    ├── SandboxAdmissionError           the provider would have to ignore a field of the spec
    ├── SandboxAuthError                the service does not know the credential (401)
    ├── SandboxPermissionError          it knows it and refuses (403)
    ├── SandboxQuotaError               the account's plan is used up (402)
    ├── SandboxNotFoundError            no such sandbox, template, process (404)
    ├── SandboxConflictError            the sandbox is in a state that forbids the call (409)
    ├── SandboxRateLimitError           too many calls (429)
    ├── SandboxCapacityError            the service has no room now (503)
    ├── SandboxTimeoutError             creating, queueing or transport took too long; a *command* that does is a result
    ├── SandboxConnectionError          no connection, or it broke before anything was sent
    ├── SandboxProtocolError            the answer is not what the protocol promises
    ├── SandboxSessionLostError         the sandbox is gone: expired, evicted, restarted
    ├── SandboxSessionClosedError       this session was closed
    ├── SandboxOutcomeUnknownError      a command was sent and its end never arrived; carries the partial result
    │   ├── SandboxPausedError          because the sandbox was paused meanwhile; the command may go on afterwards
    │   └── SandboxUnreachableError     because the sandbox, which runs, cannot be reached any more
    ├── SandboxOutputLimitError         output over a limit that cannot be cut (a frame, a file)
    ├── SandboxFileError                a file operation inside the sandbox failed
    ├── SandboxCleanupError             something remote may still exist and cost money
    ├── UnsupportedCapabilityError      this provider or session cannot do that
    └── SandboxProviderError
        ├── ProviderNotFoundError       no installed distribution offers this id
        ├── ProviderConflictError       two distributions claim one id
        ├── ProviderIncompatibleError   built for another version of the SPI
        └── ProviderLoadError           the plugin failed to import

No credential is ever part of a message: every text passes `redaction.mask_message` here, and whoever knows
secret values scrubs them before. A foreign error whose text may quote a secret is not kept as the cause
(``raise … from None``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from .redaction import Scrubber, escape_controls, mask_message

if TYPE_CHECKING:
    from .model import SandboxResult


class Outcome(StrEnum):
    """What is known about the operation that failed."""

    NOT_STARTED = "not_started"
    COMPLETED = "completed"
    UNKNOWN = "unknown"


class SessionState(StrEnum):
    """What is known about the sandbox after the failure."""

    INTACT = "intact"
    LOST = "lost"
    UNKNOWN = "unknown"


class SandboxException(Exception):
    """Base of every error of the sandbox layer.

    Attributes:
        message: What happened, for people. Never holds a credential.
        hint: The knob to turn or the thing to do, or ``None``.
        provider_id, operation, session_id, command_id: Where it happened, as far as known.
        http_status, request_id: The service's answer, as far as there was one.
        retryable: Whether the same call may succeed later.
        retry_after: Seconds the service asked to wait, or ``None``.
        outcome: Whether the operation ran (`Outcome`).
        session_state: Whether the sandbox still lives (`SessionState`).
        may_still_exist: Whether something remote may be left that `cleanup` should look for.
    """

    retryable_by_default = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        provider_id: str | None = None,
        operation: str | None = None,
        session_id: str | None = None,
        command_id: str | None = None,
        http_status: int | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        outcome: Outcome = Outcome.UNKNOWN,
        session_state: SessionState = SessionState.UNKNOWN,
        may_still_exist: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = _shown(message)
        self.hint = None if hint is None else _shown(hint)
        self.provider_id = provider_id
        self.operation = operation
        self.session_id = session_id
        self.command_id = command_id
        self.http_status = http_status
        self.request_id = request_id
        self.retryable = self.retryable_by_default if retryable is None else retryable
        self.retry_after = retry_after
        self.outcome = outcome
        self.session_state = session_state
        self.may_still_exist = may_still_exist
        self.args = (self.message,)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.__dict__))

    def located(self, **where: Any) -> Self:
        """Fill in attributes that are still unknown (``None``), and return the error itself.

        The layer that knows the session or command adds it on the way up: ``raise error.located(session_id=…)``.
        """
        for name, value in where.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def scrubbed(self, scrubber: Scrubber) -> Self:
        """Mask the scrubber's secrets in every text of this error, and return the error itself.

        What it was raised in place of (``from None``) is forgotten: a `json.JSONDecodeError` keeps the whole document.
        """
        for name, value in vars(self).items():
            if isinstance(value, str) and not isinstance(value, StrEnum):
                setattr(self, name, scrubber.text(value))
        self.args = (self.message,)
        if self.__suppress_context__:
            self.__context__ = None
        return self


def _shown(text: str) -> str:
    """What an error says is printed and logged: no secret in it, and no control character from a file's name."""
    return mask_message(escape_controls(text, keep="\n\t"))


def _rebuild(kind: type[SandboxException], attributes: dict[str, Any]) -> SandboxException:
    error = kind.__new__(kind)
    error.__dict__.update(attributes)
    error.args = (error.message,)
    return error


class SandboxConfigError(SandboxException, ValueError):
    """A value, key or combination that cannot be meant; the message names the knob.

    Attributes:
        fields: Path to messages, when several fields are wrong (``{"timeoutMillis": ["must be …"]}``).
    """

    def __init__(self, message: str, *, fields: dict[str, list[str]] | None = None, **context: Any) -> None:
        context.setdefault("outcome", Outcome.NOT_STARTED)
        super().__init__(message, **context)
        self.fields = {path: [_shown(text) for text in texts] for path, texts in (fields or {}).items()}

    def scrubbed(self, scrubber: Scrubber) -> Self:
        self.fields = {path: [scrubber.text(text) for text in texts] for path, texts in self.fields.items()}
        return super().scrubbed(scrubber)


class SandboxAdmissionError(SandboxException):
    """The provider refuses the spec, because it would have to ignore a part of it (`Admission`)."""


class SandboxAuthError(SandboxException):
    """The service does not accept the credential."""


class SandboxPermissionError(SandboxException):
    """The service knows the credential and refuses the call."""


class SandboxQuotaError(SandboxException):
    """The account's plan or limit is used up."""


class SandboxNotFoundError(SandboxException):
    """The sandbox, template or process named does not exist."""


class SandboxConflictError(SandboxException):
    """The sandbox is in a state that forbids the call."""

    retryable_by_default = True


class SandboxRateLimitError(SandboxException):
    """The service asks to slow down; `retry_after` says for how long, when it is known."""

    retryable_by_default = True


class SandboxCapacityError(SandboxException):
    """The service has no room for the call now."""

    retryable_by_default = True


class SandboxTimeoutError(SandboxException):
    """Creating, queueing or a transport took too long. A command that takes too long is a *result*."""

    retryable_by_default = True


class SandboxConnectionError(SandboxException):
    """No connection to the service could be made, or it broke."""

    retryable_by_default = True


class SandboxProtocolError(SandboxException):
    """The service answered something its protocol does not allow."""


class SandboxSessionLostError(SandboxException):
    """The sandbox no longer runs: it expired, was evicted, deleted or restarted."""

    def __init__(self, message: str, **context: Any) -> None:
        context.setdefault("session_state", SessionState.LOST)
        super().__init__(message, **context)


class SandboxSessionClosedError(SandboxException):
    """The session was closed; open a new one."""

    def __init__(self, message: str = "sandbox session is closed", **context: Any) -> None:
        context.setdefault("outcome", Outcome.NOT_STARTED)
        super().__init__(message, **context)


class SandboxOutcomeUnknownError(SandboxException):
    """A command was sent and its end never arrived, so its exit code is unknown.

    Attributes:
        result: What had arrived until then; its `exit_code` is ``None``.
    """

    def __init__(self, message: str, *, result: SandboxResult | None = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.result = result


class SandboxPausedError(SandboxOutcomeUnknownError):
    """The sandbox was paused while the command ran: resume it and attach to the command, if the session can.

    A call that a paused sandbox refused was not started, and is a `SandboxConflictError`.
    """


class SandboxUnreachableError(SandboxOutcomeUnknownError):
    """The service says that the sandbox runs, but it does not answer any more; the command may still run in it."""


class SandboxOutputLimitError(SandboxException):
    """Something exceeded a limit and could not be cut short."""


class SandboxFileError(SandboxException):
    """A file operation inside the sandbox failed.

    Attributes:
        path: The path as given.
    """

    def __init__(self, message: str, *, path: str | None = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.path = path


class SandboxCleanupError(SandboxException):
    """Something remote could not be removed and may still exist."""

    def __init__(self, message: str, **context: Any) -> None:
        context.setdefault("may_still_exist", True)
        context.setdefault("retryable", True)
        super().__init__(message, **context)


class UnsupportedCapabilityError(SandboxException, AttributeError):
    """This provider or session cannot do that; the message says what it can.

    Also an `AttributeError`, so that ``hasattr`` and ``isinstance(session, SupportsPause)`` answer truthfully.
    """

    def __init__(self, message: str, **context: Any) -> None:
        context.setdefault("outcome", Outcome.NOT_STARTED)
        super().__init__(message, **context)


class SandboxProviderError(SandboxException):
    """A provider could not be found or used."""


class ProviderNotFoundError(SandboxProviderError):
    """No installed distribution offers the provider id."""


class ProviderConflictError(SandboxProviderError):
    """Two distributions claim one provider id."""


class ProviderIncompatibleError(SandboxProviderError):
    """The plugin was built for another version of the SPI."""


class ProviderLoadError(SandboxProviderError):
    """The plugin could not be imported or does not keep the hook's contract."""
