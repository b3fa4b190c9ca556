from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, text
from sqlalchemy.pool import NullPool

from ai4j_agent import AgentConfigError, AgentSessionMetadata, AgentSessionSnapshot, SessionStoreError, SqlSessionStore
from support.secrets import CANARY, assert_no_secret, everything_said


def snapshot(session_id: str, attribute: object = None) -> AgentSessionSnapshot:
    return AgentSessionSnapshot(metadata=AgentSessionMetadata(session_id=session_id, attributes={"value": attribute}))


def test_a_sqlite_file_is_the_owners_alone(tmp_path: Path) -> None:
    store = SqlSessionStore.sqlite(tmp_path / "s.db")

    store.save(snapshot("s"))
    store.close()

    assert stat.S_IMODE((tmp_path / "s.db").stat().st_mode) == 0o600


def test_an_engine_of_the_hosts_is_used_and_not_closed(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/s.db", poolclass=NullPool)

    store = SqlSessionStore(engine)
    store.save(snapshot("s"))
    store.close()

    with engine.connect() as connection:
        rows = connection.execute(text("select session_id, updated_at from ai4j_agent_session")).all()
    assert [row.session_id for row in rows] == ["s"]
    assert rows[0].updated_at > 0


def test_a_save_that_fails_loses_nothing(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/s.db", poolclass=NullPool)
    store = SqlSessionStore(engine)
    store.save(snapshot("s", 1))
    with engine.begin() as connection:
        connection.execute(
            text("create trigger full before update on ai4j_agent_session begin select raise(abort, 'disk full'); end")
        )

    with pytest.raises(SessionStoreError, match="could not save"):
        store.save(snapshot("s", 2))

    loaded = store.load("s")
    assert loaded is not None
    assert loaded.metadata.attributes == {"value": 1}


def test_a_row_of_the_java_original_loads(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/s.db", poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(
            text(
                "create table ai4j_agent_session "
                "(session_id varchar(255) primary key, snapshot_json clob, updated_at bigint)"
            )
        )
        connection.execute(
            text('insert into ai4j_agent_session values (\'j\', \'{"metadata": {"sessionId": "j"}}\', 5)')
        )

    loaded = SqlSessionStore(engine).load("j")

    assert loaded is not None
    assert loaded.session_id == "j"


def test_without_create_table_a_missing_table_is_an_error(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/s.db", poolclass=NullPool)

    with pytest.raises(SessionStoreError, match="could not load"):
        SqlSessionStore(engine, create_table=False).load("s")


def test_a_table_name_that_is_none_is_refused() -> None:
    with pytest.raises(AgentConfigError, match="table"):
        SqlSessionStore("sqlite://", table="a; drop table b")


def test_an_id_that_the_database_cannot_hold_is_told_as_such(tmp_path: Path) -> None:
    store = SqlSessionStore.sqlite(tmp_path / "s.db")
    refused: list[Callable[[], object]] = [
        lambda: store.save(snapshot("\ud800")),
        lambda: store.load("\ud800"),
        lambda: store.delete("\ud800"),
    ]

    for operation in refused:
        with pytest.raises(SessionStoreError, match="cannot hold such an id"):
            operation()


def test_a_place_where_no_file_can_be_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(SessionStoreError, match=r"could not open session database s\.db: No such file"):
        SqlSessionStore.sqlite(tmp_path / "nowhere" / "s.db")


def test_a_session_id_longer_than_the_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AgentConfigError, match="session_id"):
        SqlSessionStore.sqlite(tmp_path / "s.db").save(snapshot("x" * 256))


@pytest.mark.parametrize("name", ["a?b.db", "a%3Fb.db", "a#b.db", "a b.db"])
def test_a_sqlite_file_is_the_one_named_whatever_its_name(tmp_path: Path, name: str) -> None:
    store = SqlSessionStore.sqlite(tmp_path / name)
    store.save(snapshot("s"))
    store.close()

    assert [(file.name, stat.S_IMODE(file.stat().st_mode)) for file in tmp_path.iterdir()] == [(name, 0o600)]
    assert SqlSessionStore.sqlite(tmp_path / name).list_session_ids() == ["s"]


@pytest.mark.parametrize("make", [SqlSessionStore.sqlite, lambda name: SqlSessionStore(f"sqlite:///{name}")])
def test_a_database_in_memory_is_refused_because_it_would_lose_every_save(
    make: Callable[[str], SqlSessionStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(AgentConfigError, match="use MemorySessionStore"):
        make(":memory:")

    assert list(tmp_path.iterdir()) == []


def opened_and_shown(url: str) -> SqlSessionStore:
    store = SqlSessionStore(url)
    assert_no_secret(repr(store))
    return store


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://user:{CANARY}@127.0.0.1:1/db",
        f"nonsense+driver://user:{CANARY}@host/db",
        f"postgresql+psycopg://user:p@ss:{CANARY}@host/db",
        f"postgresql+psycopg://user:p@{CANARY}@host/db",
        f"postgresql+psycopg://user:p@ss/{CANARY}@host/db",
        f"sqlite:///s.db?timeout={CANARY}",
        f"postgresql+psycopg://127.0.0.1:1/db?sslmode={CANARY}",
        f"user:{CANARY}@host",
    ],
)
def test_no_error_and_no_repr_holds_the_password_of_the_url(url: str) -> None:
    with pytest.raises((SessionStoreError, AgentConfigError)) as caught:
        opened_and_shown(url).load("s")

    assert_no_secret(everything_said(caught.value))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_a_repr_shows_only_dialect_host_and_database() -> None:
    url = URL.create(
        "postgresql+psycopg", "user", CANARY, "db.example", 5432, "sessions", query={"sslpassword": CANARY}
    )

    assert repr(SqlSessionStore(url)) == "SqlSessionStore('postgresql+psycopg://db.example:5432/sessions')"
