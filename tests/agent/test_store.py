"""What every store must do, each store in turn."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from ai4j_agent import (
    AgentSession,
    AgentSessionMetadata,
    AgentSessionSnapshot,
    AgentSessionStore,
    FileSessionStore,
    MemorySessionStore,
    SandboxAttachment,
    SqlSessionStore,
)
from ai4j_sandbox import SandboxStatus
from ai4j_sandbox.testing import FakeProvider
from support.postgresql import postgresql_server, program

Reopen = Callable[[], AgentSessionStore]

POSTGRESQL = os.environ.get("AI4J_TEST_POSTGRES_URL")  # read here: the tests' environment is cleaned later
WITHOUT_SERVER = "install a PostgreSQL server, or set AI4J_TEST_POSTGRES_URL to the URL of one"

ODD_IDS = ("a/b", "a_b", "a:b", "..", ".", "-", "é", "A", "a", "x" * 250, "con", "a\nb", "%2F", "*")


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """Return the URL of a PostgreSQL server: the one that was given, else one of our own."""
    if POSTGRESQL:
        yield POSTGRESQL
    elif program("initdb") and program("postgres"):
        with postgresql_server() as url:
            yield url
    else:
        pytest.skip(WITHOUT_SERVER)


@pytest.fixture(params=["memory", "file", "sqlite", "postgresql"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    """Return what opens the same store again, as another process would."""
    url = request.getfixturevalue("postgresql") if request.param == "postgresql" else ""
    opened: list[SqlSessionStore] = []
    memory = MemorySessionStore()
    table = f"ai4j_test_{uuid.uuid4().hex}"

    def open_store() -> AgentSessionStore:
        if request.param == "memory":
            return memory
        if request.param == "file":
            return FileSessionStore(tmp_path / "sessions")
        if request.param == "sqlite":
            opened.append(SqlSessionStore.sqlite(tmp_path / "sessions.db"))
        else:
            opened.append(SqlSessionStore(url, table=table))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()
    if request.param == "postgresql":
        with create_engine(url, poolclass=NullPool).begin() as connection:
            connection.execute(text(f"drop table if exists {table}"))


def snapshot(session_id: str, attribute: object = None) -> AgentSessionSnapshot:
    return AgentSessionSnapshot(metadata=AgentSessionMetadata(session_id=session_id, attributes={"value": attribute}))


def test_a_bound_session_survives_a_new_store_instance(reopen: Reopen) -> None:
    session = AgentSession(session_id="s", store=reopen()).bind_sandbox(FakeProvider().create_session())
    session.update_sandbox_status(SandboxStatus.CLOSED).save()

    loaded = reopen().load("s")

    assert loaded == session.snapshot()
    again = AgentSession().restore(loaded)
    assert again.event_log.verify().valid
    assert again.sandbox_attachment is SandboxAttachment.DETACHED


def test_an_unknown_session_is_none(reopen: Reopen) -> None:
    assert reopen().load("nobody") is None


def test_saving_again_replaces(reopen: Reopen) -> None:
    store = reopen()

    store.save(snapshot("s", 1))
    store.save(snapshot("s", 2))

    assert store.list_session_ids() == ["s"]
    assert reopen().load("s") == store.load("s")
    assert (store.load("s") or snapshot("")).metadata.attributes == {"value": 2}


def test_a_deleted_session_is_gone_and_deleting_it_again_says_so(reopen: Reopen) -> None:
    store = reopen()
    store.save(snapshot("s"))

    assert (store.delete("s"), store.delete("s"), store.load("s"), store.list_session_ids()) == (True, False, None, [])


def test_no_two_ids_share_a_place(reopen: Reopen) -> None:
    store = reopen()
    ids = {AgentSessionMetadata(session_id=odd).session_id for odd in ODD_IDS}

    for session_id in ids:
        store.save(snapshot(session_id, session_id))

    assert store.list_session_ids() == sorted(ids)
    for session_id in ids:
        loaded = store.load(session_id)
        assert loaded is not None
        assert loaded.metadata.attributes == {"value": session_id}


def test_threads_that_save_the_same_new_session_all_succeed(reopen: Reopen) -> None:
    store = reopen()
    failures: list[BaseException] = []

    def save(number: int) -> None:
        try:
            store.save(snapshot("s", number))
        except Exception as error:  # noqa: BLE001  every failure counts, whatever it is
            failures.append(error)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert store.list_session_ids() == ["s"]


def test_any_text_survives(reopen: Reopen) -> None:
    store = reopen()

    store.save(snapshot("s", "NUL \x00, lone \ud83d, \U0001f600 and \u2028"))

    assert reopen().load("s") == store.load("s")
    assert (store.load("s") or snapshot("")).metadata.attributes == {
        "value": "NUL \x00, lone \ud83d, \U0001f600 and \u2028"
    }


def test_a_server_that_ended_the_connection_fails_no_save(postgresql: str) -> None:
    table = f"ai4j_test_{uuid.uuid4().hex}"
    named = make_url(postgresql).update_query_dict({"application_name": table})
    store = SqlSessionStore(named.render_as_string(hide_password=False), table=table)
    store.save(snapshot("s", 1))
    with create_engine(postgresql, poolclass=NullPool).begin() as connection:
        ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = :name"
        assert connection.execute(text(ended), {"name": table}).scalars().all() == [True]

    store.save(snapshot("s", 2))

    assert (store.load("s") or snapshot("")).metadata.attributes == {"value": 2}
    store.close()
    with create_engine(postgresql, poolclass=NullPool).begin() as connection:
        connection.execute(text(f"drop table {table}"))
