"""The one door for failures: each becomes a message on stderr, in JSON too if asked for, and a documented exit code."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import click

from ai4j_agent.errors import AgentConfigError, AgentError, BlueprintError
from ai4j_sandbox import (
    ProviderNotFoundError,
    SandboxAdmissionError,
    SandboxConfigError,
    SandboxException,
    SandboxOutcomeUnknownError,
    Scrubber,
    UnsupportedCapabilityError,
)

from .application import Application
from .interruption import Interrupted
from .streams import discard_output


class ExitCode(IntEnum):
    """Exit codes of ``ai4j`` itself; the exit code of a command passes through ``sandbox run`` unchanged."""

    DONE = 0
    NEGATIVE = 1
    USAGE = 2
    TIMED_OUT = 124
    FAILED = 125
    INTERRUPTED = 130
    BROKEN_PIPE = 141


_WRONG_REQUEST = (
    SandboxConfigError,
    SandboxAdmissionError,
    ProviderNotFoundError,
    UnsupportedCapabilityError,
    AgentConfigError,
    BlueprintError,
)


_INTERRUPTS = (KeyboardInterrupt, click.Abort)  # click's own is what Ctrl-C and Ctrl-D at a question become


def exit_code_of(error: BaseException) -> int:
    """Return the documented exit code for a failure."""
    if isinstance(error, Interrupted):
        return 128 + error.number
    if isinstance(error, _INTERRUPTS):
        return ExitCode.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return ExitCode.BROKEN_PIPE
    if isinstance(error, (*_WRONG_REQUEST, click.UsageError)):
        return ExitCode.USAGE
    return ExitCode.FAILED


def exit_code_of_all(errors: Iterable[BaseException]) -> int:
    """Return the exit code for failures that were told and passed over: a sandbox that failed counts most."""
    return max(map(exit_code_of, errors), default=ExitCode.DONE)


def report_failure(application: Application, error: BaseException) -> int:
    """Tell what went wrong and return the exit code for it. A broken pipe goes without a word."""
    code = exit_code_of(error)
    if code == ExitCode.BROKEN_PIPE:
        return code
    if application.debug:
        trace = "".join(traceback.format_exception(error))
        click.echo(Scrubber(application.secrets).text(trace), err=True, nl=False)
    tell_failure(application, error)
    if application.as_json or (application.json_is_asked and isinstance(error, click.UsageError)):
        _write_failure({"error": describe_failure(application, error), "exitCode": code})
    return code


def _write_failure(document: Mapping[str, Any]) -> None:
    try:
        write_json(document)
    except BrokenPipeError:
        raise
    except OSError:  # a full disk, say: stderr has told the failure, and the exit code tells it again
        discard_output(sys.stdout)


def tell_failure(application: Application, error: BaseException) -> None:
    """Say on stderr what went wrong and what to do about it."""
    application.say(_message(error))
    if isinstance(error, SandboxException) and error.may_still_exist and error.session_id:
        application.say(f"sandbox {error.session_id} may still exist")
    if isinstance(error, SandboxException | AgentError) and error.hint:
        application.say(f"hint: {error.hint}")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        application.say(f"hint: see `{error.ctx.command_path} --help`")


def describe_failure(application: Application, error: BaseException) -> dict[str, Any]:
    """Return a failure as JSON-ready data, secrets masked."""
    scrubber = Scrubber(application.secrets)
    document: dict[str, Any] = {"type": type(error).__name__, "message": scrubber.text(_message(error))}
    if isinstance(error, AgentError):
        known = {"hint": error.hint, "code": error.code if isinstance(error, BlueprintError) else None}
        return document | {key: value for key, value in known.items() if value is not None}
    if not isinstance(error, SandboxException):
        return document
    error.scrubbed(scrubber)
    details = {
        "hint": error.hint,
        "providerId": error.provider_id,
        "operation": error.operation,
        "sessionId": error.session_id,
        "commandId": error.command_id,
        "httpStatus": error.http_status,
        "requestId": error.request_id,
        "retryAfter": error.retry_after,
        "retryable": error.retryable,
        "outcome": error.outcome,
        "sessionState": error.session_state,
        "mayStillExist": error.may_still_exist,
        "fields": error.fields or None if isinstance(error, SandboxConfigError) else None,
        "result": _partial_result(error),
    }
    return document | {key: value for key, value in details.items() if value is not None}


def write_json(document: Mapping[str, Any]) -> None:
    """Write the one JSON document of an invocation: pure ASCII, so that no locale can break it."""
    click.echo(json.dumps(document, indent=2))


def _message(error: BaseException) -> str:
    if isinstance(error, BlueprintError):
        return f"{error.code}: {error.message}"
    if isinstance(error, SandboxException | AgentError):
        return error.message
    if isinstance(error, _INTERRUPTS):
        return "interrupted"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return f"unexpected {type(error).__name__}: {error} (`ai4j --debug ...` shows where)"


def _partial_result(error: SandboxException) -> dict[str, Any] | None:
    if not isinstance(error, SandboxOutcomeUnknownError) or error.result is None:
        return None
    from ai4j_sandbox.schema import dump

    return dump(error.result)
