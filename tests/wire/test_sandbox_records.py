from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox.errors import SandboxProtocolError
from ai4j_sandbox.model import SandboxStatus, SandboxSummary
from ai4j_sandbox_wire.sandbox_records import RemoteSandbox, parse_sandbox, parse_snapshot_id, parse_summaries
from support.secrets import CANARY, assert_no_secret


def test_sandbox_is_read_and_its_tokens_do_not_show() -> None:
    sandbox = parse_sandbox(
        {
            "sandboxID": "sid123",
            "templateID": "base",
            "clientID": "node-1",
            "envdVersion": "0.6.13",
            "envdAccessToken": CANARY,
            "trafficAccessToken": None,
            "domain": "d.app",
            "state": "paused",
            "endAt": "2026-11-30T22:00:00.123456789Z",
            "unknown": {},
        }
    )

    assert sandbox == RemoteSandbox(
        sandbox_id="sid123",
        template="base",
        client_id="node-1",
        envd_version="0.6.13",
        domain="d.app",
        envd_access_token=CANARY,
        state="paused",
        ends_at_epoch_ms=1_796_076_000_123,
    )
    assert_no_secret(repr(sandbox))


@pytest.mark.parametrize(
    "document",
    [None, {}, [], "x", {"sandboxID": ""}, {"sandboxID": None}, {"sandboxID": 7}, {"sandboxID": "a/../b"},
     {"sandboxID": "a@b"}, {"id": "x"}],
)  # fmt: skip
def test_answer_without_a_usable_id_is_an_error(document: Any) -> None:  # I05
    with pytest.raises(SandboxProtocolError):
        parse_sandbox(document)


LISTED = [
    {
        "sandboxID": "s1",
        "templateID": "tpl",
        "alias": "base",
        "state": "paused",
        "metadata": {"task": "a=b", "apiToken": CANARY},
        "startedAt": "1970-01-01T00:00:01Z",
        "endAt": "1970-01-01T00:05:01Z",
    },
    {"sandboxID": "s2", "templateID": "tpl"},
    {"sandboxID": "s3", "state": "resuming", "metadata": {"task": "other"}},
    {"sandboxID": "s4", "state": "terminated", "metadata": None},
]


def test_summaries_tell_state_labels_and_times() -> None:
    assert parse_summaries(LISTED, "demo") == [
        SandboxSummary(
            session_id="s1",
            provider_id="demo",
            status=SandboxStatus.CREATED,
            state="paused",
            image="base",
            labels={"task": "a=b"},
            created_at_epoch_ms=1000,
            expires_at_epoch_ms=301_000,
        ),
        SandboxSummary(session_id="s2", provider_id="demo", status=SandboxStatus.RUNNING, image="tpl"),
        SandboxSummary(
            session_id="s3",
            provider_id="demo",
            status=SandboxStatus.RUNNING,  # a word that is not known
            state="resuming",
            labels={"task": "other"},
        ),
        SandboxSummary(session_id="s4", provider_id="demo", status=SandboxStatus.CLOSED, state="terminated"),
    ]


def test_only_what_carries_all_metadata_is_listed_whatever_the_service_made_of_the_filter() -> None:
    assert [found.session_id for found in parse_summaries(LISTED, "demo", {"task": "a=b"})] == ["s1"]


@pytest.mark.parametrize("document", [None, {}, [1], [{"sandboxID": ""}]])
def test_list_that_is_none_is_an_error(document: Any) -> None:
    with pytest.raises(SandboxProtocolError):
        parse_summaries(document, "demo")


def test_snapshot_is_named_by_its_id() -> None:
    assert parse_snapshot_id({"snapshotID": "abc:default", "names": []}) == "abc:default"


@pytest.mark.parametrize("document", [None, {}, {"snapshotID": ""}, {"names": ["x"]}])
def test_snapshot_without_an_id_is_an_error(document: Any) -> None:
    with pytest.raises(SandboxProtocolError):
        parse_snapshot_id(document)
