"""The database behind the store: SQLite in a file, or PostgreSQL by its address."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError, SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from api.store.migrations import NewerStoreError, migrate
from workloads.errors import SheafError

# What a connection of SQLite is told: readers do not wait for the writer, and a commit is on the
# disk before it is said to be done.
PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA busy_timeout=20000",
)
IN_USE = 7450412  # the number of the lock that a service holds on a PostgreSQL database


class StoreError(SheafError):
    """The store cannot be opened."""


class Database:
    """Sessions on one database, which this process holds for itself until `close`."""

    def __init__(self, engine: Engine, claim: Connection | IO[str]) -> None:
        self.engine = engine
        self._claim = claim
        self._reading = sessionmaker(engine, expire_on_commit=False)
        writing = engine.execution_options(writes=True)
        self._writing = sessionmaker(writing, expire_on_commit=False)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """What was committed when the block began."""
        with self._reading() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """All of the block or nothing of it; on the disk when the block is left."""
        with self._writing.begin() as session:
            yield session

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def answers(self) -> bool:
        """Whether the database is there."""
        try:
            with self.engine.connect() as connection:
                connection.execute(text("SELECT 1"))
        except SQLAlchemyError:
            return False
        return True

    def close(self) -> None:
        self._claim.close()
        self.engine.dispose()


def open_database(address: str) -> Database:
    """Open the database at a URL or a file's path, bring its tables up to date, and hold it.

    Two services on one store would run every job twice, so the second is refused.
    """
    url = _url(address)
    shown = url.render_as_string(hide_password=True)
    with ExitStack() as undo:
        try:
            if url.get_backend_name() == "sqlite":
                engine = _sqlite(url)
                undo.callback(engine.dispose)
                claim = _hold_file(url)
            else:
                engine = create_engine(url, pool_pre_ping=True, pool_size=10)
                undo.callback(engine.dispose)
                claim = _hold_database(engine)
            if claim is None:
                raise StoreError(
                    f"another service is using the store {shown}; stop it, or give this one "
                    "another store (--data, --store)"
                )
            undo.callback(claim.close)
            with engine.execution_options(writes=True).begin() as connection:
                migrate(connection)
        except NewerStoreError as error:
            raise StoreError(f"the store {shown} has {error}; use the newer Sheaf") from error
        except DatabaseError as error:
            said = str(error.orig).strip().splitlines()[0]
            raise StoreError(f"the store {shown} cannot be opened: {said}") from error
        undo.pop_all()
    return Database(engine, claim)


def _url(address: str) -> URL:
    if "://" not in address:
        return URL.create("sqlite", database=str(Path(address).absolute()))
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise StoreError("the store's address cannot be read; see SHEAF_STORE") from error
    match url.get_backend_name():
        case "sqlite" if url.database not in (None, "", ":memory:"):
            return url
        case "postgresql" | "postgres":
            return url.set(drivername="postgresql+psycopg")
        case other:
            raise StoreError(f"a store is a file of SQLite or a PostgreSQL database, not '{other}'")


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url, pool_size=10, max_overflow=40)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        # Python's module begins transactions by rules of its own; ours begin below.
        connection.isolation_level = None
        for pragma in PRAGMAS:
            connection.execute(pragma).close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that will write takes the lock at once: one that first reads could find
        # that another has written in between, and would have to begin again.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _hold_file(url: URL) -> Connection | IO[str] | None:
    path = Path(url.database or "")
    if not path.parent.is_dir():
        raise StoreError(f"there is no folder '{path.parent}' to keep the store in")
    try:
        lock = path.with_name(f"{path.name}.lock").open("w")
    except OSError as error:
        raise StoreError(f"the store '{path}' cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _hold_database(engine: Engine) -> Connection | IO[str] | None:
    """A connection with a lock that ends when the connection does, in whatever way."""
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    if connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": IN_USE}).scalar():
        return connection
    connection.close()
    return None
