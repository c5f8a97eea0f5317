"""How the tables came to be: one function a step, in order, none of which ever changes.

A step says what it needs of the tables itself, and never looks at `api.store.schema`, which is
ahead of it. A test holds the tables that all steps give to those of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Column, Connection, ForeignKey, Integer, MetaData, String, Table, Text, text

Step = Callable[[Connection], None]


class NewerStoreError(Exception):
    """The tables are of a version that this program does not know."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"version {found} of its tables, and this Sheaf knows {known}")


def workloads_and_plans(connection: Connection) -> None:
    metadata = MetaData()
    Table(
        "workloads",
        metadata,
        Column("number", Integer, primary_key=True, autoincrement=True),
        Column("id", String, nullable=False, unique=True),
        Column("name", Text, nullable=False),
        Column("created", Text, nullable=False),
        Column("latest", Integer, nullable=False),
    )
    Table(
        "workload_versions",
        metadata,
        Column("workload", String, ForeignKey("workloads.id"), primary_key=True),
        Column("version", Integer, primary_key=True, autoincrement=False),
        Column("created", Text, nullable=False),
        Column("queries", Integer, nullable=False),
        Column("document", Text, nullable=False),
    )
    Table(
        "plans",
        metadata,
        Column("number", Integer, primary_key=True, autoincrement=True),
        Column("id", String, nullable=False, unique=True),
        Column("workload", String, ForeignKey("workloads.id"), nullable=False, index=True),
        Column("version", Integer, nullable=False),
        Column("created", Text, nullable=False),
        Column("document", Text, nullable=False),
    )
    metadata.create_all(connection, checkfirst=False)


def jobs(connection: Connection) -> None:
    metadata = MetaData()
    Table("plans", metadata, Column("id", String, primary_key=True))
    table = Table(
        "jobs",
        metadata,
        Column("number", Integer, primary_key=True, autoincrement=True),
        Column("id", String, nullable=False, unique=True),
        Column("plan", String, ForeignKey("plans.id"), nullable=False, index=True),
        Column("request", Text, nullable=False),
        Column("status", String, nullable=False, index=True),
        Column("stage", String, nullable=False),
        Column("reason", Text),
        Column("created", Text, nullable=False),
        Column("started", Text),
        Column("finished", Text),
        Column("done", Text),
    )
    events = Table(
        "job_events",
        metadata,
        Column("job", String, primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("time", Text, nullable=False),
        Column("data", Text, nullable=False),
    )
    metadata.create_all(connection, [table, events], checkfirst=False)


def idempotency_keys(connection: Connection) -> None:
    metadata = MetaData()
    Table(
        "idempotency_keys",
        metadata,
        Column("key", String, primary_key=True),
        Column("request", String, nullable=False),
        Column("run", String, nullable=False),
        Column("created", Text, nullable=False, index=True),
        Column("made", String),
        Column("status", Integer),
        Column("headers", Text),
        Column("body", Text),
    )
    metadata.create_all(connection, checkfirst=False)


def restarts_of_streams(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE jobs ADD COLUMN restarts INTEGER"))


def texts_of_workloads(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE workload_versions ADD COLUMN text TEXT"))


def owners_of_jobs(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE jobs ADD COLUMN owner VARCHAR"))


MIGRATIONS: tuple[Step, ...] = (
    workloads_and_plans,
    jobs,
    idempotency_keys,
    restarts_of_streams,
    texts_of_workloads,
    owners_of_jobs,
)


def migrate(connection: Connection, steps: Sequence[Step] = MIGRATIONS) -> int:
    """Do the steps that have not been done; gives the version before.

    The caller's transaction holds all of them: either every step is done or none.
    """
    if connection.dialect.name == "postgresql":  # SQLite's write transaction is a lock already
        connection.execute(text("SELECT pg_advisory_xact_lock(7450411)"))
    connection.execute(
        text("CREATE TABLE IF NOT EXISTS sheaf_schema (version INTEGER NOT NULL PRIMARY KEY)")
    )
    found = connection.execute(text("SELECT max(version) FROM sheaf_schema")).scalar() or 0
    if found > len(steps):
        raise NewerStoreError(found, len(steps))
    for number, step in enumerate(steps[found:], found + 1):
        step(connection)
        connection.execute(text("INSERT INTO sheaf_schema VALUES (:number)"), {"number": number})
    return int(found)
