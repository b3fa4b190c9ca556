from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from ai4j_agent import (
    AgentEvent,
    AgentEventLog,
    AgentEventType,
    AgentSessionEvent,
    AgentSessionSnapshot,
    ChainFault,
    LogHead,
)
from ai4j_agent.event_log import GENESIS_HASH
from ai4j_sandbox.redaction import Scrubber
from support.secrets import CANARY, assert_no_secret


def event(message: str, **fields: object) -> AgentEvent:
    return AgentEvent(type=AgentEventType.STEP_START, message=message, **fields)  # type: ignore[arg-type]  # a test's shorthand


def filled(*messages: str, **options: object) -> AgentEventLog:
    log = AgentEventLog(clock=iter(range(1000, 2000)).__next__, **options)  # type: ignore[arg-type]  # a test's shorthand
    for message in messages:
        log.append(event(message))
    return log


def restored(log: AgentEventLog, entries: list[AgentSessionEvent] | None = None, **options: object) -> AgentEventLog:
    """Send a log through the JSON of a snapshot, as a store does."""
    kept = log.entries if entries is None else tuple(entries)
    text = AgentSessionSnapshot(events=kept, event_log_head=log.head).to_json()
    snapshot = AgentSessionSnapshot.from_json(text)
    other = AgentEventLog(**options)  # type: ignore[arg-type]  # a test's shorthand
    other.restore(snapshot.events, snapshot.event_log_head)
    return other


def test_a_fresh_chain_is_valid_and_every_link_differs() -> None:
    log = filled("one", "two", "three")

    hashes = [entry.hash for entry in log.entries]
    assert (log.verify().valid, log.verify().first_broken_index) == (True, -1)
    assert len({*hashes, GENESIS_HASH}) == 4
    assert {len(link or "") for link in hashes} == {64}


def test_a_chain_survives_a_store_with_identical_links() -> None:
    log = filled("one", "two", "three")

    again = restored(log)

    assert again.entries == log.entries
    assert again.verify().valid


def test_a_payload_hashes_the_same_before_and_after_json() -> None:
    log = AgentEventLog()
    log.append(event("one", payload={"z": 1.0, "a": ["é", None, True], "nested": {"b": 2, "a": 1}}))

    assert restored(log).verify().valid


def _edit(entries: list[AgentSessionEvent]) -> list[AgentSessionEvent]:
    return [entries[0], replace(entries[1], event=replace(entries[1].event, message="forged")), *entries[2:]]


def _retime(entries: list[AgentSessionEvent]) -> list[AgentSessionEvent]:
    return [entries[0], replace(entries[1], recorded_at_epoch_ms=5), *entries[2:]]


def _reorder(entries: list[AgentSessionEvent]) -> list[AgentSessionEvent]:
    return [entries[0], entries[2], entries[1], entries[3]]


def _drop(entries: list[AgentSessionEvent]) -> list[AgentSessionEvent]:
    return [entries[0], *entries[2:]]


def _drop_first(entries: list[AgentSessionEvent]) -> list[AgentSessionEvent]:
    return entries[1:]


def _drop_and_renumber(entries: list[AgentSessionEvent]) -> list[AgentSessionEvent]:
    return [entries[0], *(replace(entry, sequence=entry.sequence - 1) for entry in entries[2:])]


def _truncate(entries: list[AgentSessionEvent]) -> list[AgentSessionEvent]:
    return entries[:-1]


def _empty(entries: list[AgentSessionEvent]) -> list[AgentSessionEvent]:
    return []


def _unseal(entries: list[AgentSessionEvent]) -> list[AgentSessionEvent]:
    return [entries[0], replace(entries[1], hash=None, previous_hash=None), *entries[2:]]


@pytest.mark.parametrize(
    ("tamper", "fault", "index", "named"),
    [
        (_edit, ChainFault.EDITED, 1, "event 2"),
        (_retime, ChainFault.EDITED, 1, "event 2"),
        (_reorder, ChainFault.REORDERED, 1, "event 3"),
        (_drop, ChainFault.DROPPED, 1, "event 2 is missing"),
        (_drop_first, ChainFault.DROPPED, 0, "event 1 is missing"),
        (_drop_and_renumber, ChainFault.EDITED, 1, "event 2"),
        (_truncate, ChainFault.TRUNCATED, 3, "events 4 to 4"),
        (_empty, ChainFault.TRUNCATED, 0, "events 1 to 4"),
        (_unseal, ChainFault.EDITED, 1, "event 2"),
    ],
)
def test_a_stored_log_that_was_changed_is_found_out_and_the_event_named(
    tamper: Callable[[list[AgentSessionEvent]], list[AgentSessionEvent]], fault: ChainFault, index: int, named: str
) -> None:
    log = filled("one", "two", "three", "four")

    verification = restored(log, tamper(list(log.entries))).verify()

    assert (verification.valid, verification.fault, verification.first_broken_index) == (False, fault, index)
    assert named in verification.detail


def test_a_seal_that_is_no_hash_at_all_is_found_out() -> None:
    log = filled("one")

    assert restored(log, [replace(log.entries[0], hash="\u00e9")]).verify().fault is ChainFault.EDITED


def test_an_event_beyond_the_head_is_found_out() -> None:
    log = filled("one", "two")
    head = log.head
    log.append(event("three"))
    other = AgentEventLog()
    other.restore(log.entries, head)

    assert other.verify().fault is ChainFault.ADDED


@pytest.mark.parametrize("kept", [0, 2])
def test_a_log_cut_by_somebody_without_the_key_is_found_out_whatever_head_it_is_given(kept: int) -> None:
    log = filled("one", "two", "three", seal_key=b"of the host")
    entries = log.entries[:kept]
    link = (entries[-1].hash if entries else GENESIS_HASH) or ""
    forger = AgentEventLog()
    forger.restore(entries, None)
    heads = [
        LogHead(sequence=kept, hash=link),
        forger._head_at(kept, link),
    ]  # what is at hand, and what can be computed

    believed = []
    for head in heads:
        other = AgentEventLog(seal_key=b"of the host")
        other.restore(entries, head)
        believed.append(other.verify().valid)

    assert believed == [False, False]


def test_an_empty_log_with_a_key_is_intact_after_a_restore() -> None:
    assert restored(AgentEventLog(seal_key=b"k"), seal_key=b"k").verify().valid
    assert restored(AgentEventLog()).verify().valid


def test_a_removed_head_is_found_out() -> None:
    log = filled("one", "two")
    other = AgentEventLog()
    other.restore(log.entries, None)

    assert other.verify().fault is ChainFault.TRUNCATED


def test_a_log_resealed_by_a_forger_is_found_out_with_a_key() -> None:
    forged = filled("one", "forged")

    assert restored(forged, seal_key=b"of the host").verify().fault is ChainFault.EDITED


def test_a_log_resealed_by_a_forger_is_found_out_with_an_anchor_kept_elsewhere() -> None:
    anchor = filled("one", "two").head
    forged = filled("one", "forged", "three")

    assert (forged.verify().valid, forged.verify(anchor).fault) == (True, ChainFault.EDITED)


def test_a_log_cut_and_resealed_is_found_out_with_an_anchor_kept_elsewhere() -> None:
    anchor = filled("one", "two").head

    assert filled("one").verify(anchor).fault is ChainFault.TRUNCATED


def test_an_anchor_still_fits_a_log_that_went_on() -> None:
    log = filled("one", "two")
    anchor = log.head
    log.append(event("three"))

    assert log.verify(anchor).valid


def test_events_of_a_log_without_seals_are_unsealed_and_covered_from_the_next_append_on() -> None:
    log = AgentEventLog()
    unsealed = [AgentSessionEvent(sequence=n, recorded_at_epoch_ms=n, event=event(str(n))) for n in (1, 2)]
    log.restore(unsealed, None)

    assert log.verify().fault is ChainFault.UNSEALED

    log.append(event("three"))
    edited = list(log.entries)
    edited[0] = replace(edited[0], event=replace(edited[0].event, message="forged"))
    other = AgentEventLog()
    other.restore(edited, log.head)

    assert (log.verify().fault, other.verify().fault) == (ChainFault.UNSEALED, ChainFault.EDITED)


def test_numbers_go_on_after_a_restore() -> None:
    log = restored(filled("one", "two"))

    log.append(event("three"))

    assert [entry.sequence for entry in log.entries] == [1, 2, 3]
    assert log.verify().valid


def test_a_log_works_as_a_listener() -> None:
    log = AgentEventLog()

    log(event("one"))

    assert [entry.event.message for entry in log.entries] == ["one"]


def test_a_cleared_log_is_empty_valid_and_starts_again_at_one() -> None:
    log = filled("one", "two")

    log.clear()

    assert (log.entries, log.verify().valid, log.append(event("new")).sequence) == ((), True, 1)


def test_a_known_secret_and_what_looks_like_one_never_enter_the_log() -> None:
    log = AgentEventLog(scrubber=Scrubber((CANARY,)))
    token = "sk-proj-abcdefghijklmnop1234"

    log.append(event(f"got {CANARY}", payload={"deep": [{"text": f"x{CANARY}"}], "apiKey": "plain", CANARY: token}))

    assert_no_secret(log.entries[0].event, log.entries[0].event.payload)
    assert_no_secret(str(log.entries[0].event.payload), secret=token)
    assert "plain" not in str(log.entries[0].event.payload)


def test_an_event_cannot_drive_a_terminal() -> None:
    log = AgentEventLog()

    log.append(event("\x1b]0;owned\x07\x1b[31mred\x1b[0m", payload=["\x1b[2J"]))

    recorded = log.entries[0].event
    assert (recorded.message, recorded.payload) == ("\\x1b]0;owned\\x07\\x1b[31mred\\x1b[0m", ("\\x1b[2J",))


def test_an_event_of_a_later_version_is_kept_and_still_verifies() -> None:
    log = AgentEventLog()
    log.append(AgentEvent(type="SOMETHING_NEW", message="m"))

    assert restored(log).verify().valid
    assert restored(log).entries[0].event.type == "SOMETHING_NEW"


def test_a_payload_the_caller_changes_later_raises_no_false_alarm() -> None:
    payload = {"list": [1]}
    log = AgentEventLog()
    log.append(event("one", payload=payload))

    payload["list"].append(2)

    assert log.verify().valid


def test_no_secret_is_lost_when_threads_tell_theirs_at_the_same_time() -> None:
    log = AgentEventLog()
    secrets = [f"{number}{CANARY}" * 20 for number in range(8)]
    ready = threading.Barrier(len(secrets))

    def tell(secret: str) -> None:
        ready.wait()
        log.protect(secret)

    threads = [threading.Thread(target=tell, args=(secret,)) for secret in secrets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {log.scrubber.text(secret) for secret in secrets} == {"[redacted]"}
