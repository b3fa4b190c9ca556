"""Snapshots in a SQL database, through SQLAlchemy: SQLite without a server, PostgreSQL and others with one.

The table is the Java original's, so that both can share a database. A save is one transaction: the row is the old or
the new snapshot, never gone.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from .errors import AgentConfigError, SessionStoreError
from .snapshot import AgentSessionSnapshot

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Table

DEFAULT_TABLE = "ai4j_agent_session"
LONGEST_SESSION_ID = 255

_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

T = TypeVar("T")


class SqlSessionStore:
    """Keeps snapshots in one table.

    Args:
        database: A SQLAlchemy URL, as text (``"postgresql+psycopg://host/db"``) or made with ``URL.create``, which
            takes a password as it is; or an engine of the host's.
        table: Name of the table.
        create_table: Create the table when it is missing.

    Raises:
        AgentConfigError: The URL is none, its driver is missing, or it keeps nothing.
    """

    def __init__(self, database: str | URL | Engine, *, table: str = DEFAULT_TABLE, create_table: bool = True) -> None:
        if not _TABLE_NAME.fullmatch(table):
            raise AgentConfigError(f"table must match {_TABLE_NAME.pattern}, got {table!r}")
        from sqlalchemy import URL

        self._owned = isinstance(database, str | URL)
        self._engine = _engine(database) if isinstance(database, str | URL) else database
        self._table = _table(table)
        self._missing = create_table
        self._lock = threading.Lock()

    @classmethod
    def sqlite(cls, path: str | os.PathLike[str], *, table: str = DEFAULT_TABLE) -> Self:
        """Return a store in a SQLite file that only its owner may read.

        Raises:
            AgentConfigError: It is the name of SQLite's database in memory.
            SessionStoreError: The file cannot be created or opened.
        """
        from sqlalchemy import URL

        url = URL.create("sqlite", database=os.fspath(path))  # never as text: "?" and "%" are names as good as any
        _require_kept(url)
        location = Path(path)
        try:
            os.close(os.open(location, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite would create it readable for all
        except OSError as error:
            raise SessionStoreError(f"could not open session database {location.name}: {error.strerror}") from error
        return cls(url, table=table)

    def __repr__(self) -> str:
        from sqlalchemy import URL

        url = self._engine.url  # anything else in it may be a credential
        shown = URL.create(url.drivername, host=url.host, port=url.port, database=url.database)
        return f"SqlSessionStore({shown.render_as_string()!r})"

    def save(self, snapshot: AgentSessionSnapshot) -> None:
        """Insert or replace the session's row in one transaction.

        Raises:
            AgentConfigError: The session id is longer than the column.
            SessionStoreError: The database refused.
        """
        if len(snapshot.session_id) > LONGEST_SESSION_ID:
            raise AgentConfigError(f"session_id is longer than {LONGEST_SESSION_ID} characters, which the table holds")
        row = {
            "session_id": snapshot.session_id,
            "snapshot_json": snapshot.to_json(),
            "updated_at": snapshot.metadata.updated_at_epoch_ms,
        }
        self._run("save", lambda connection: self._upsert(connection, row))

    def load(self, session_id: str) -> AgentSessionSnapshot | None:
        """Return the session's snapshot, or ``None``.

        Raises:
            SessionStoreError: The database refused, or the row holds no snapshot.
        """
        from sqlalchemy import select

        columns = self._table.c
        query = select(columns.snapshot_json).where(columns.session_id == session_id)
        text = self._run("load", lambda connection: connection.execute(query).scalar())
        return AgentSessionSnapshot.from_json(text) if text else None

    def list_session_ids(self) -> list[str]:
        """Return the ids, sorted."""
        from sqlalchemy import select

        query = select(self._table.c.session_id)
        return sorted(self._run("list", lambda connection: list(connection.execute(query).scalars())))

    def delete(self, session_id: str) -> bool:
        """Remove the session's row; whether there was one."""
        statement = self._table.delete().where(self._table.c.session_id == session_id)
        return self._run("delete", lambda connection: connection.execute(statement).rowcount > 0)

    def close(self) -> None:
        """Close the connections this store opened; an engine of the host's is left alone."""
        if self._owned:
            self._engine.dispose()

    def _upsert(self, connection: Connection, row: dict[str, object]) -> None:
        """Update, or insert when there is nothing to update. A lost race for the insert is an update after all."""
        from sqlalchemy.exc import IntegrityError

        change = self._table.update().where(self._table.c.session_id == row["session_id"]).values(row)
        if connection.execute(change).rowcount:
            return
        try:
            with connection.begin_nested():
                connection.execute(self._table.insert().values(row))
        except IntegrityError:
            connection.execute(change)

    def _run(self, operation: str, work: Callable[[Connection], T]) -> T:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            self._ensure_table()
            with self._engine.begin() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            problem = f"the database raised {type(getattr(error, 'orig', None) or error).__name__}"
        except ValueError:  # the driver's, for text that the database cannot hold: lone surrogates, NUL
            problem = "the database cannot hold such an id"
        # Raised out here, so that the driver's error is not kept: it may quote the row or the connection string.
        raise SessionStoreError(f"could not {operation} session: {problem}")

    def _ensure_table(self) -> None:
        with self._lock:
            if self._missing:
                self._create_table()
                self._missing = False

    def _create_table(self) -> None:
        from sqlalchemy import inspect
        from sqlalchemy.exc import SQLAlchemyError

        try:
            self._table.create(self._engine, checkfirst=True)
        except SQLAlchemyError:
            if not inspect(self._engine).has_table(self._table.name):  # else another process was faster
                raise


def _engine(database: str | URL) -> Engine:
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        url = make_url(database)
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=True)  # a restarted server is no failed save
    except (ArgumentError, NoSuchModuleError, ImportError, TypeError, ValueError) as error:
        problem = type(error).__name__
    else:
        _require_kept(url)
        if url.host is None or "@" not in f"{url.host}/{url.database}":
            return engine
        problem = 'an "@" in its host or database'  # a password with "@" or "/" in it: half of it is the host now
    # Raised out here, so that the error is not kept: the URL may hold a password, and so may its text.
    raise AgentConfigError(
        f"database is no usable SQLAlchemy URL: {problem}",
        hint="write for instance sqlite:///sessions.db, percent-encode a password or pass URL.create(...), and "
        "install the database's driver",
    )


def _require_kept(url: URL) -> None:
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise AgentConfigError(
            "database must be a file: SQLite in memory gives each thread a database of its own, and keeps none",
            hint="use MemorySessionStore, or name a file",
        )


def _table(name: str) -> Table:
    from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text

    return Table(
        name,
        MetaData(),
        Column("session_id", String(LONGEST_SESSION_ID), primary_key=True),
        Column("snapshot_json", Text, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
    )
