"""Undoing a creation that failed, and destroying by id: what is left costs money, and nobody else knows of it.

A sandbox carries a tag that only its own creation has (`CREATE_TAG` in its metadata), so that it is found though the
answer was lost.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ai4j_sandbox.capability import ProviderInfo
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import Outcome, SandboxCleanupError, SandboxException, SandboxNotFoundError
from ai4j_sandbox.model import SandboxSummary
from ai4j_sandbox.redaction import filter_labels

CREATE_TAG = "ai4jCreate"
"""Metadata that only one creation carries."""

UNDO_SECONDS = 5.0
"""How long cleaning up after a failure may take."""

_LOOKUP_PAUSES = (0.3, 1.0)
_FINAL_STATUSES = frozenset((*range(400, 502), 503)) - {408}  # others are said while the service may be creating still


def tagged_metadata(own: Mapping[str, str], labels: Mapping[str, str], tag: str) -> dict[str, str]:
    """Return the metadata of a new sandbox: the caller's own, filtered like labels, the labels, and the tag."""
    filtered = {name: value for name, value in filter_labels(own).items() if value is not None}
    return {**filtered, **labels, CREATE_TAG: tag}


class Service(Protocol):
    """The control plane that was asked to create."""

    def destroy(self, sandbox_id: str, deadline: Deadline | None = None) -> None:
        """Destroy a sandbox; `SandboxNotFoundError` when there is none."""

    def find(self, metadata: Mapping[str, str], deadline: Deadline | None = None) -> list[SandboxSummary]:
        """Return all sandboxes that carry all of `metadata`."""

    def remove_created(self, tag: str) -> bool:
        """Destroy what a creation whose answer is unknown made; whether there was something."""


def remove_created(service: Service, tag: str, sleep: Callable[[float], None]) -> bool:
    """Find and destroy what carries `tag`; whether there was something.

    A service that was still busy creating is asked more than once.
    """
    deadline = Deadline(UNDO_SECONDS)
    for pause in (*_LOOKUP_PAUSES, None):
        found = service.find({CREATE_TAG: tag}, deadline)
        for summary in found:
            with contextlib.suppress(SandboxNotFoundError):
                service.destroy(summary.session_id, deadline)
        if found or pause is None:
            return bool(found)
        sleep(deadline.bound(pause))
    return False


@contextlib.contextmanager
def removing(sandbox_id: str, info: ProviderInfo) -> Iterator[None]:
    """Around the call that destroys a sandbox by id; one that is gone already is fine.

    Raises:
        SandboxCleanupError: It is not known whether the sandbox is gone.
        SandboxException: It was not destroyed; the service's own refusal.
    """
    try:
        yield
    except SandboxNotFoundError:
        return
    except SandboxException as error:
        if error.outcome is Outcome.NOT_STARTED:
            raise
        raise SandboxCleanupError(
            f"could not destroy sandbox {sandbox_id}: {error.message}",
            hint=error.hint or "try again, or let its life end",
            provider_id=info.provider_id,
            operation="destroy",
            session_id=sandbox_id,
            http_status=error.http_status,
            request_id=error.request_id,
        ) from error


@dataclass(slots=True, kw_only=True)
class Creation:
    """A creation under way.

    Attributes:
        tag: What the new sandbox carries as its `CREATE_TAG`.
        sandbox_id: What was made, once an answer has told.
    """

    tag: str
    sandbox_id: str | None = None


@contextlib.contextmanager
def undoing(service: Service, info: ProviderInfo, *, seconds: float = UNDO_SECONDS) -> Iterator[Creation]:
    """Around a creation, from its request until the session is handed over: a failure leaves no sandbox behind.

    Args:
        seconds: How long destroying what was made may take.

    Raises:
        SandboxCleanupError: It failed, and what was made could not be removed.
    """
    creation = Creation(tag=uuid.uuid4().hex)
    try:
        yield creation
    except BaseException as error:
        # Whatever it is that stops us, KeyboardInterrupt included: a sandbox costs money.
        failure = _undone(error, service, creation, info, seconds)
        if failure is error:
            raise
        raise failure from error


def _undone(
    error: BaseException, service: Service, creation: Creation, info: ProviderInfo, seconds: float
) -> BaseException:
    """Remove what a failed creation may have made; return the error to raise for it."""
    if creation.sandbox_id is not None:
        return _destroyed(error, service, creation.sandbox_id, info, seconds)
    if not isinstance(error, SandboxException):
        with contextlib.suppress(SandboxException):
            service.remove_created(creation.tag)
    elif error.outcome is not Outcome.NOT_STARTED:
        error.may_still_exist = _may_be_left(error, service, creation.tag)
    return error


def _destroyed(
    error: BaseException, service: Service, sandbox_id: str, info: ProviderInfo, seconds: float
) -> BaseException:
    try:
        service.destroy(sandbox_id, Deadline(seconds))
    except SandboxNotFoundError:
        return error
    except SandboxException as cleanup:
        if not isinstance(error, Exception):
            return error
        return SandboxCleanupError(
            f"creating the session failed ({error}); its sandbox {sandbox_id} could not be removed: {cleanup.message}",
            hint="remove it with `ai4j sandbox rm`, or let its life end",
            provider_id=info.provider_id,
            operation="create",
            session_id=sandbox_id,
        )
    return error


def _may_be_left(error: SandboxException, service: Service, tag: str) -> bool:
    """Remove the sandbox of an unanswered creation; whether one may be there all the same."""
    try:
        removed = service.remove_created(tag)
    except SandboxException:
        return True
    return not removed and error.http_status not in _FINAL_STATUSES
