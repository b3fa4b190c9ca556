from __future__ import annotations

import copy
import inspect
import json
import pickle
import re

import pytest

from ai4j_sandbox import errors
from ai4j_sandbox.errors import (
    Outcome,
    SandboxCapacityError,
    SandboxCleanupError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxFileError,
    SandboxOutcomeUnknownError,
    SandboxRateLimitError,
    SandboxSessionClosedError,
    SandboxSessionLostError,
    SandboxTimeoutError,
    SessionState,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.model import SandboxResult
from ai4j_sandbox.redaction import Scrubber
from support.secrets import CANARY, assert_no_secret, everything_said

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, SandboxException) and kind.__module__ == errors.__name__
]


def test_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    drawn = re.findall(r"^([ │]*)(?:[├└]── )?(\w+(?:Error|Exception))\b", errors.__doc__ or "", re.MULTILINE)
    above, parents = ["", "", ""], {}
    for indent, name in drawn:
        level = 0 if name == "SandboxException" else len(indent) // 4
        above[level], parents[name] = name, above[level - 1]
    del parents["SandboxException"]

    assert parents == {kind.__name__: kind.__mro__[1].__name__ for kind in KINDS if kind is not SandboxException}


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_says_what_it_is_and_keeps_its_attributes(kind: type[SandboxException]) -> None:
    error = kind(
        "it broke",
        hint="turn the knob",
        provider_id="p",
        operation="create",
        session_id="s",
        command_id="c",
        http_status=503,
        request_id="r",
        retryable=True,
        retry_after=1.5,
        outcome=Outcome.COMPLETED,
        session_state=SessionState.INTACT,
        may_still_exist=True,
    )

    assert str(error) == "it broke (turn the knob)"
    assert repr(error) == f"{kind.__name__}('it broke')"
    assert {
        "provider_id": "p",
        "operation": "create",
        "session_id": "s",
        "command_id": "c",
        "http_status": 503,
        "request_id": "r",
        "retryable": True,
        "retry_after": 1.5,
        "outcome": "completed",
        "session_state": "intact",
        "may_still_exist": True,
    }.items() <= vars(error).items()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transport", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy])
def test_every_error_survives_a_pickle_and_a_copy(kind: type[SandboxException], transport: object) -> None:
    error = kind("it broke", hint="so what", http_status=500, outcome=Outcome.NOT_STARTED)

    again = transport(error)  # type: ignore[operator] # a function

    assert (type(again), str(again), vars(again)) == (kind, str(error), vars(error))
    assert again.args == ("it broke",)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "secret", [f"http://u:{CANARY}@h/x", f"token={CANARY}", f"Bearer {CANARY}", f"?api_key={CANARY}&x=1"]
)
def test_no_error_shows_a_credential_that_its_message_quoted(kind: type[SandboxException], secret: str) -> None:
    error = kind(f"POST {secret} -> 500", hint=f"see {secret}")

    assert_no_secret(everything_said(error), str(pickle.dumps(error)))


def test_error_of_fields_masks_them() -> None:
    error = SandboxConfigError("two wrong", fields={"apiUrl": [f"must not be http://u:{CANARY}@h"]})

    assert list(error.fields) == ["apiUrl"]
    assert_no_secret(everything_said(error))


def test_scrubber_masks_every_text_of_an_error() -> None:
    error = SandboxFileError(f"a {CANARY}", path=f"/{CANARY}", hint=f"h {CANARY}", request_id=CANARY)

    assert error.scrubbed(Scrubber([CANARY])) is error

    assert_no_secret(everything_said(error))
    assert error.path == "/[redacted]"


def test_scrubbing_forgets_what_the_error_stands_for() -> None:
    def read(document: str) -> None:
        try:
            json.loads(document)
        except ValueError:
            raise SandboxException("no JSON") from None

    with pytest.raises(SandboxException) as caught:
        read(f"<{CANARY}>")

    assert CANARY in str(vars(caught.value.__context__))
    assert caught.value.scrubbed(Scrubber()).__context__ is None


def test_scrubber_masks_the_fields_of_a_config_error() -> None:
    error = SandboxConfigError("wrong", fields={"name": [f"got {CANARY}"]}).scrubbed(Scrubber([CANARY]))

    assert_no_secret(everything_said(error))


def test_scrubbing_leaves_what_is_no_text() -> None:
    error = SandboxException("x", http_status=500, outcome=Outcome.COMPLETED).scrubbed(Scrubber([CANARY]))

    assert (error.http_status, error.outcome, error.session_state) == (500, Outcome.COMPLETED, SessionState.UNKNOWN)
    assert isinstance(error.outcome, Outcome)


def test_where_it_happened_is_filled_in_but_never_replaced() -> None:
    error = SandboxException("x", session_id="first")

    assert error.located(session_id="second", command_id="c", provider_id=None) is error

    assert (error.session_id, error.command_id, error.provider_id) == ("first", "c", None)


def test_what_may_work_later_says_so() -> None:
    retryable = {kind for kind in KINDS if kind("x").retryable}

    assert retryable == {
        SandboxConflictError,
        SandboxRateLimitError,
        SandboxCapacityError,
        SandboxTimeoutError,
        SandboxConnectionError,
        SandboxCleanupError,
    }


def test_errors_know_what_they_imply() -> None:
    assert SandboxConfigError("x").outcome is Outcome.NOT_STARTED
    assert SandboxSessionClosedError().outcome is Outcome.NOT_STARTED
    assert UnsupportedCapabilityError("x").outcome is Outcome.NOT_STARTED
    assert SandboxSessionLostError("x").session_state is SessionState.LOST
    assert SandboxCleanupError("x").may_still_exist
    assert "closed" in str(SandboxSessionClosedError())


def test_errors_are_also_what_python_programmers_expect() -> None:
    assert issubclass(SandboxConfigError, ValueError)
    assert issubclass(UnsupportedCapabilityError, AttributeError)


def test_unknown_outcome_carries_what_had_arrived() -> None:
    result = SandboxResult(stdout="partial")

    error = pickle.loads(pickle.dumps(SandboxOutcomeUnknownError("cut", result=result)))

    assert error.result == result


def test_names_in_an_error_cannot_steer_the_terminal_that_shows_it() -> None:
    error = SandboxException("rm: cannot remove \x1b[2J\a\udcff:\n\tbusy", hint="see \x9b")

    assert str(error) == "rm: cannot remove \\x1b[2J\\x07\\udcff:\n\tbusy (see \\x9b)"
