"""What can go wrong in the agent layer, as one tree. Errors of the sandbox itself stay `SandboxException`.

    AgentError
    ├── AgentConfigError           a wrong argument or combination; names it
    ├── AgentPermissionError       the policy denied a tool call
    ├── AgentControlFlowError      leaves the run and reaches the host: only the host can go on
    │   ├── AgentApprovalRequiredError   somebody has to approve a tool call
    │   └── SandboxDetachedError         the session's sandbox is not live
    ├── SessionBusyError           another run of the session has not ended
    ├── EventLogTamperedError      the event log is not the one that was written
    ├── SessionStoreError          a snapshot could not be stored or read
    ├── ToolError                  a tool's own refusal, in words for the model
    ├── ModelClientError           the model could not be asked
    │   ├── ModelAuthError · ModelRequestError · ModelRateLimitError
    │   └── ModelTimeoutError · ModelConnectionError (ModelUnreachableError) · ModelProtocolError
    └── BlueprintError             carries a code of the contract
        ├── BlueprintLoadError         the document is no blueprint
        └── BlueprintRefusedError      the host does not allow what it declares

Every text is masked on the way in, and control characters in it are escaped; a foreign error whose text may quote a
secret is not kept as the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ai4j_sandbox.redaction import Scrubber, escape_controls, mask_message

if TYPE_CHECKING:
    from .blueprint.report import BlueprintReport
    from .event_log import ChainVerification
    from .permission import AgentPermissionDecision, AgentPermissionRequest


class AgentError(Exception):
    """Base of every error of the agent layer.

    Attributes:
        message: What happened, for people. Never holds a credential.
        hint: What to do about it, or ``None``.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = _shown(message)
        self.hint = None if hint is None else _shown(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def scrubbed(self, scrubber: Scrubber) -> Self:
        """Mask the scrubber's secrets in every text of this error too, and return the error itself.

        What it was raised in place of (``from None``) is forgotten: an error of requests knows the request's headers.
        """
        for name, value in vars(self).items():
            if isinstance(value, str):
                setattr(self, name, scrubber.text(value))
        self.args = (self.message,)
        if self.__suppress_context__:
            self.__context__ = None
        return self


def _shown(text: str) -> str:
    return mask_message(escape_controls(text, keep="\n\t"))


class AgentConfigError(AgentError, ValueError):
    """A value or combination that cannot be meant; the message names it."""


class AgentControlFlowError(AgentError):
    """Leaves the run and reaches the host, because neither model nor tool can resolve it."""


class _Refusal(AgentError):
    """A policy's answer to one tool call that is not "go ahead"."""

    opening: str

    def __init__(self, request: AgentPermissionRequest, decision: AgentPermissionDecision) -> None:
        reason = f" ({decision.reason})" if decision.reason else ""
        super().__init__(f"{self.opening}: {request.tool_name}{reason}")
        self.request = request
        self.decision = decision


class AgentPermissionError(_Refusal):
    """The policy denied a tool call; the model is told and goes on."""

    opening = "Tool permission denied"


class AgentApprovalRequiredError(_Refusal, AgentControlFlowError):
    """Somebody has to approve a tool call; `Agent.resume` goes on with it.

    Attributes:
        request, decision: What was asked and what the policy said.
    """

    opening = "Tool requires approval"


class SandboxDetachedError(AgentControlFlowError):
    """The session has a sandbox that is not live, so nothing is executed, least of all on the host."""


class SessionBusyError(AgentError):
    """Another run of the session has not ended: two would run each other's tool calls."""


class EventLogTamperedError(AgentError):
    """The event log is not the one that was written.

    Attributes:
        verification: What is wrong, and with which event.
    """

    def __init__(self, message: str, *, verification: ChainVerification, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.verification = verification


class SessionStoreError(AgentError):
    """A snapshot could not be stored or read."""


class ToolError(AgentError):
    """A tool refuses or fails, in words meant for the model."""


class ModelClientError(AgentError):
    """The model could not be asked, or its answer could not be used.

    Attributes:
        http_status: The service's answer, where there was one.
        request_id: The service's id of the request.
        retryable: Whether asking again may work.
        retry_after: Seconds the service asked to wait.
    """

    retryable = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        http_status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.http_status = http_status
        self.request_id = request_id
        self.retry_after = retry_after


class ModelAuthError(ModelClientError):
    """The service does not accept the key, or the key may not use the model."""


class ModelRequestError(ModelClientError):
    """The service refuses the request as it is."""


class ModelRateLimitError(ModelClientError):
    """The service asks to slow down or has no room now; nothing was generated."""

    retryable = True


class ModelTimeoutError(ModelClientError):
    """The answer did not arrive in time."""


class ModelConnectionError(ModelClientError):
    """The connection broke; whether the model was asked is not known."""


class ModelUnreachableError(ModelConnectionError):
    """No connection was made, so that the service knows nothing of the request."""

    retryable = True


class ModelProtocolError(ModelClientError):
    """The answer is not what the protocol promises."""


class BlueprintError(AgentError):
    """A blueprint cannot be used.

    Attributes:
        code: One of the contract's codes (``blueprint.sandbox.unsupported``).
        line: Where in the document, from 1, as far as it is one place.
        report: The issues, when the document did not pass validation.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        report: BlueprintReport | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.line = line
        self.report = report


class BlueprintLoadError(BlueprintError):
    """The document is no blueprint: not YAML, or a value has the wrong type; `line` says where."""


class BlueprintRefusedError(BlueprintError):
    """The host does not allow, or cannot do, what the blueprint declares; `report` lists the issues if any."""
