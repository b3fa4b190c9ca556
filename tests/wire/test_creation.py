"""Undoing a creation that failed. What the providers do with it is tested with them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ai4j_sandbox.capability import ProviderInfo
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxCleanupError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
)
from ai4j_sandbox.model import SandboxStatus, SandboxSummary
from ai4j_sandbox_wire.creation import CREATE_TAG, remove_created, removing, tagged_metadata, undoing

INFO = ProviderInfo(provider_id="demo", display_name="Demo", distribution="demo", version="1")


class FakeService:
    """Sandboxes by id, with their metadata; `refusal` is raised instead of destroying."""

    def __init__(self, **sandboxes: dict[str, str]) -> None:
        self.sandboxes = dict(sandboxes)
        self.refusal: SandboxException | None = None
        self.waits: list[float] = []

    def destroy(self, sandbox_id: str, deadline: Deadline | None = None) -> None:
        if self.refusal is not None:
            raise self.refusal
        if self.sandboxes.pop(sandbox_id, None) is None:
            raise SandboxNotFoundError("no such sandbox")

    def find(self, metadata: Mapping[str, str], deadline: Deadline | None = None) -> list[SandboxSummary]:
        return [
            SandboxSummary(session_id=sandbox_id, provider_id="demo", status=SandboxStatus.RUNNING)
            for sandbox_id, own in self.sandboxes.items()
            if metadata.items() <= own.items()
        ]

    def tag(self, tag: str) -> None:
        """Let the sandboxes that carry the tag ``"t"`` carry this one instead."""
        for own in self.sandboxes.values():
            if own.get(CREATE_TAG) == "t":
                own[CREATE_TAG] = tag

    def remove_created(self, tag: str) -> bool:
        return remove_created(self, tag, self.waits.append)


def create(service: FakeService, error: BaseException, sandbox_id: str | None) -> None:
    """Fail in the middle of a creation that has made what carries the tag ``"t"``."""
    with undoing(service, INFO) as creation:
        service.tag(creation.tag)
        creation.sandbox_id = sandbox_id
        raise error


def undo(error: BaseException, service: FakeService, sandbox_id: str | None = None) -> BaseException:
    with pytest.raises(BaseException) as caught:
        create(service, error, sandbox_id)
    return caught.value


def test_metadata_is_filtered_and_tagged_and_labels_win() -> None:
    assert tagged_metadata({"a": "1", "apiKey": "x", "b": "own"}, {"b": "label"}, "t") == {
        "a": "1",
        "b": "label",
        CREATE_TAG: "t",
    }


def test_what_an_answer_named_is_destroyed() -> None:
    service, error = FakeService(made={}, other={}), ValueError("x")

    assert undo(error, service, "made") is error
    assert list(service.sandboxes) == ["other"]


def test_what_is_gone_already_needs_no_destroying() -> None:
    error = ValueError("x")

    assert undo(error, FakeService(), "made") is error


def test_what_cannot_be_destroyed_is_told() -> None:
    service = FakeService(made={})
    service.refusal = SandboxAuthError("no")

    failure = undo(SandboxConnectionError("cut"), service, "made")

    assert isinstance(failure, SandboxCleanupError)
    assert (failure.session_id, failure.may_still_exist, failure.provider_id) == ("made", True, "demo")
    assert undo(interrupt := KeyboardInterrupt(), service, "made") is interrupt


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SandboxConnectionError("cut", outcome=Outcome.UNKNOWN)])
def test_what_no_answer_named_is_found_by_its_tag(error: BaseException) -> None:
    service = FakeService(made={CREATE_TAG: "t"}, other={CREATE_TAG: "u"})

    assert undo(error, service) is error
    assert list(service.sandboxes) == ["other"]
    assert not getattr(error, "may_still_exist", False)


def test_refused_creation_is_not_looked_for() -> None:
    service = FakeService(made={CREATE_TAG: "t"})

    undo(SandboxAuthError("no", outcome=Outcome.NOT_STARTED), service)

    assert list(service.sandboxes) == ["made"]


@pytest.mark.parametrize(
    ("http_status", "left"),
    [(None, True), (200, True), (408, True), (502, True), (504, True), (500, False), (503, False)],
)
def test_service_that_never_answered_may_still_be_at_it(http_status: int | None, left: bool) -> None:
    service, error = FakeService(), SandboxConnectionError("cut", outcome=Outcome.UNKNOWN, http_status=http_status)

    undo(error, service)

    assert error.may_still_exist is left
    assert service.waits == [0.3, 1.0]


def test_removing_what_is_gone_is_fine() -> None:
    with removing("s", INFO):
        raise SandboxNotFoundError("no such sandbox")


def test_removing_in_doubt_says_that_the_sandbox_may_still_exist() -> None:
    with pytest.raises(SandboxCleanupError, match="sandbox s: odd") as caught, removing("s", INFO):
        raise SandboxProtocolError("odd", http_status=200, request_id="r-1")

    error = caught.value
    assert (error.may_still_exist, error.operation, error.provider_id) == (True, "destroy", "demo")
    assert (error.session_id, error.http_status, error.request_id) == ("s", 200, "r-1")


def test_removing_that_was_refused_keeps_the_refusal() -> None:
    refusal = SandboxAuthError("no", outcome=Outcome.NOT_STARTED)
    with pytest.raises(SandboxAuthError) as caught, removing("s", INFO):
        raise refusal

    assert caught.value is refusal
