"""Workloads and plans as they are kept, on SQLite and on PostgreSQL."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.orm import Session

from api.http.schemas import EXAMPLE_WORKLOAD
from api.jobs.model import Request
from api.planning.service import check_document
from api.store import (
    Database,
    NeededError,
    Store,
    StoredWorkload,
    StoreError,
    UnknownIdError,
    open_database,
    workload_id,
)
from api.store import migrations as steps
from api.store.jobs import JobRecords, QueueFullError
from api.store.schema import Base, PlanRow
from optimizer.plan.plan import to_json
from sharing.planner import make_plan
from workloads.errors import SheafError


@pytest.fixture
def database(address: str) -> Iterator[Database]:
    opened = open_database(address)
    yield opened
    opened.close()


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


def plan_of(workload: StoredWorkload) -> dict[str, Any]:
    return to_json(make_plan(workload.bound, workload.document))


def named(name: str, **more: Any) -> Any:
    return check_document(EXAMPLE_WORKLOAD | {"name": name} | more)


def test_what_was_stored_is_there_after_opening_again(address: str) -> None:
    first = open_database(address)
    workload = Store(first).add_workload(*named("kept"))
    plan = Store(first).add_plan(workload, plan_of(workload))
    first.close()
    second = open_database(address)
    store = Store(second)
    assert asdict(store.workload(workload.id)) == asdict(workload)
    assert store.workload(workload.id).bound == workload.bound
    assert asdict(store.plan(plan.id)) == asdict(plan)
    assert store.plan(plan.id).plan.id == plan.id
    second.close()


def test_what_was_read_before_is_read_again_after_a_change(store: Store) -> None:
    workload = store.add_workload(*named("w"))
    plan = plan_of(workload)
    assert store.add_plan(workload, plan).version == 1
    assert (store.plan(plan["id"]).version, store.workload(workload.id).version) == (1, 1)
    changed = store.add_workload(*named("w", queries=EXAMPLE_WORKLOAD["queries"][:1]))
    assert store.workload(workload.id).version == 2
    assert store.workload(workload.id, 1).latest == 2
    assert store.add_plan(changed, plan).version == 2
    assert store.plan(plan["id"]).version == 2
    assert [plan.version for plan in store.plans().items] == [2]


def test_what_was_read_while_it_changed_is_not_kept(store: Store) -> None:
    first = store.add_workload(*named("w"))
    plan = plan_of(first)
    store.add_plan(first, plan)
    second = store.add_workload(*named("w", queries=EXAMPLE_WORKLOAD["queries"][:1]))
    read: list[PlanRow] = []

    def changed_after_it_was_read(session: Session) -> list[str]:
        read.extend(session.scalars(select(PlanRow)))
        store.add_plan(second, plan)
        return [plan["id"]]

    assert [found.version for found in store._read_plans(changed_after_it_was_read)] == [1]
    assert store.plan(plan["id"]).version == 2


def test_lists_come_in_pages(store: Store) -> None:
    for number in range(5):
        store.add_workload(*named(f"w{number}"))
    store.add_workload(*named("w1", queries=EXAMPLE_WORKLOAD["queries"][:1]))
    found, cursor = [], None
    for expected in (2, 2, 1):
        page = store.workloads(2, cursor)
        assert len(page.items) == expected
        found += [(w.name, w.version) for w in page.items]
        cursor = page.next
    assert cursor is None
    assert found == [("w0", 1), ("w1", 2), ("w2", 1), ("w3", 1), ("w4", 1)]
    newest = store.workloads(3, newest=True)
    rest = store.workloads(3, newest.next, newest=True)
    assert [(w.name, w.version) for w in (*newest.items, *rest.items)] == found[::-1]
    with pytest.raises(SheafError, match="is no cursor"):
        store.workloads(2, "x")


def test_plans_are_listed_by_workload(store: Store) -> None:
    one, two = (store.add_workload(*named(name)) for name in ("one", "two"))
    made = {w.id: store.add_plan(w, plan_of(w)).id for w in (one, two, one, two)}
    assert [plan.id for plan in store.plans().items] == [made[one.id], made[two.id]]
    assert [plan.id for plan in store.plans(two.id).items] == [made[two.id]]


def test_workloads_that_come_at_once_are_versions_in_a_row(store: Store) -> None:
    queries = EXAMPLE_WORKLOAD["queries"]
    documents = [
        named("busy", queries=[queries[0].replace("10 min", f"{n} min"), queries[1]])
        for n in range(1, 9)
    ]
    failed = []

    def post(checked: Any) -> None:
        try:
            store.add_workload(*checked)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=post, args=(checked,)) for checked in documents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    id = store.workloads().items[0].id
    versions = store.versions(id)
    assert [v.version for v in versions] == list(range(8, 0, -1))
    assert len({str(v.document) for v in versions}) == 8


def test_what_is_not_there_is_said(store: Store) -> None:
    with pytest.raises(UnknownIdError):
        store.workload("none")
    with pytest.raises(UnknownIdError):
        store.plan("none")
    id = store.add_workload(*named("one")).id
    with pytest.raises(UnknownIdError, match="no version 2; its latest is 1"):
        store.workload(id, 2)


def test_a_second_service_is_refused(database: Database, address: str) -> None:
    with pytest.raises(StoreError, match="another service is using the store"):
        open_database(address)


# Adds a workload, says so, and goes on adding versions until it is killed.
ADDING = """
import sys
from api.planning.service import check_document
from api.http.schemas import EXAMPLE_WORKLOAD
from api.store import Store, open_database
store = Store(open_database(sys.argv[1]))
for number in range(1, 100000):
    queries = [f"PATTERN SEQ(View v, Buy b) AGG COUNT(*) WITHIN {number} min"]
    document = EXAMPLE_WORKLOAD | {"name": "killed", "queries": queries}
    print(store.add_workload(*check_document(document)).version, flush=True)
"""


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(address: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ADDING, address], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(20):
        acknowledged = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    acknowledged = max([acknowledged, *map(int, process.stdout.read().split())])
    process.communicate()
    database = open_database(address)
    found = Store(database).workloads().items[0]
    assert acknowledged <= found.version <= acknowledged + 1
    assert len(Store(database).versions(found.id)) == found.version
    database.close()


# --- migrations --------------------------------------------------------------------------------


def shape(connection: Connection) -> dict[str, Any]:
    """What a database's tables look like."""
    found = inspect(connection)
    return {
        table: {
            "columns": {
                column["name"]: (str(column["type"].as_generic()), column["nullable"])
                for column in found.get_columns(table)
            },
            "key": found.get_pk_constraint(table)["constrained_columns"],
            "unique": sorted(u["column_names"] for u in found.get_unique_constraints(table)),
            "indexes": sorted(str(i["column_names"]) for i in found.get_indexes(table)),
            "refers": sorted(str(f["referred_columns"]) for f in found.get_foreign_keys(table)),
        }
        for table in found.get_table_names()
        if table != "sheaf_schema"
    }


def test_all_migrations_together_give_the_schema(
    database: Database, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if database.is_sqlite:
        other = open_database(str(tmp_path / "other.db"))
    else:
        other = open_database(request.getfixturevalue("new_postgresql")())
    with other.engine.execution_options(writes=True).begin() as connection:
        for table in reversed(inspect(connection).get_table_names()):
            cascade = "" if database.is_sqlite else " CASCADE"
            if database.is_sqlite:
                connection.execute(text("PRAGMA defer_foreign_keys = ON"))
            connection.execute(text(f"DROP TABLE IF EXISTS {table}{cascade}"))
        Base.metadata.create_all(connection)
        expected = shape(connection)
    with database.engine.connect() as connection:
        assert shape(connection) == expected
    other.close()


def test_each_migration_is_done_once(database: Database) -> None:
    with database.engine.execution_options(writes=True).begin() as connection:
        assert steps.migrate(connection) == len(steps.MIGRATIONS)


def test_a_migration_that_fails_changes_nothing(database: Database) -> None:
    def fails(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE half (x INTEGER)"))
        raise RuntimeError("half way")

    before = len(steps.MIGRATIONS)
    with (
        pytest.raises(RuntimeError),
        database.engine.execution_options(writes=True).begin() as connection,
    ):
        steps.migrate(connection, (*steps.MIGRATIONS, fails))
    with database.engine.execution_options(writes=True).begin() as connection:
        assert not inspect(connection).has_table("half")
        assert steps.migrate(connection) == before


def test_tables_of_a_newer_sheaf_are_left_alone(address: str) -> None:
    database = open_database(address)
    with database.engine.execution_options(writes=True).begin() as connection:
        connection.execute(text("INSERT INTO sheaf_schema VALUES (99)"))
    database.close()
    with pytest.raises(StoreError, match="version 99"):
        open_database(address)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("to do: " * 1000)
    with pytest.raises(StoreError, match="not a database"):
        open_database(str(path))
    assert path.read_text() == "to do: " * 1000


# --- addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://x/y", "not 'mysql'"),
        ("sqlite://", "not 'sqlite'"),
        ("no such/folder/store.db", "there is no folder"),
        ("postgresql://someone:secret@127.0.0.1:1/x?connect_timeout=2", "cannot be opened"),
    ],
)
def test_an_address_that_is_no_store(address: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as caught:
        open_database(address)
    assert "secret" not in str(caught.value)


# --- texts and owners --------------------------------------------------------------------------


def as_of(address: str, version: int) -> Database:
    """A store at an address, with the tables of an earlier version."""
    from api.store import database as module

    kept = module.migrate
    try:
        module.migrate = lambda connection: kept(connection, steps.MIGRATIONS[:version])  # type: ignore
        return open_database(address)
    finally:
        module.migrate = kept


def test_a_store_from_before_texts_and_owners_is_taken_over(address: str) -> None:
    first = as_of(address, 4)
    with first.engine.execution_options(writes=True).begin() as connection:
        row = {"id": workload_id("old"), "document": json.dumps(EXAMPLE_WORKLOAD | {"name": "old"})}
        now = {"now": "2026-03-01T09:30:00.000000+00:00"}
        connection.execute(
            text(
                "INSERT INTO workloads (id, name, created, latest) VALUES (:id, '\"old\"', :now, 1)"
            ),
            row | now,
        )
        connection.execute(
            text("INSERT INTO workload_versions VALUES (:id, 1, :now, 2, :document)"), row | now
        )
    first.close()
    second = open_database(address)
    store = Store(second)
    old = store.workload(row["id"])
    assert (old.text, old.version, len(old.bound.queries)) == (None, 1, 2)
    again = store.add_workload(*check_document(old.document), "name: old # as text")
    assert (again.version, store.workload(row["id"]).text) == (1, "name: old # as text")
    second.close()


@pytest.mark.parametrize("version", range(1, len(steps.MIGRATIONS)))
def test_what_a_store_of_any_earlier_version_has_is_all_there(
    address: str, tmp_path: Path, version: int
) -> None:
    now = open_database(str(tmp_path / "now.db"))
    store, records = Store(now), JobRecords(now)
    workload = store.add_workload(*named("w"))
    plan = store.add_plan(workload, plan_of(workload))
    jobs = [records.add(Request(plan.id, workload.id, 1, f"{i}.csv"), 9).id for i in range(3)]
    records.claim()
    records.end(jobs[0], "succeeded", None)
    expected = [records.get(id) for id in jobs]
    heard = [[event.data for event in records.events(id)] for id in jobs]
    order = ("workloads", "workload_versions", "plans", "jobs", "job_events")
    with now.engine.connect() as connection:
        rows = {t: connection.execute(text(f"SELECT * FROM {t}")).mappings().all() for t in order}
    now.close()

    old = as_of(address, version)
    with old.engine.execution_options(writes=True).begin() as connection:
        known = inspect(connection)
        for table in filter(known.has_table, order):
            columns = [each["name"] for each in known.get_columns(table)]
            values = ", ".join(f":{name}" for name in columns)
            put = text(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})")
            for row in rows[table]:
                connection.execute(put, {name: row[name] for name in columns})
    old.close()

    opened = open_database(address)
    store, records = Store(opened), JobRecords(opened)
    found = store.workload(workload.id)
    assert (found.document, found.version) == (workload.document, workload.version)
    assert store.plan(plan.id).document == plan.document
    if version >= 2:  # before, there were no jobs
        assert [records.get(id) for id in jobs] == expected
        assert [[event.data for event in records.events(id)] for id in jobs] == heard
        claimed = records.claim()
        assert claimed is not None
        assert claimed.id == jobs[1]  # the queue goes on where it was
    opened.close()


def test_owners_take_turns_in_the_queue(store: Store, database: Database) -> None:
    workload = store.add_workload(*named("w"))
    plan = store.add_plan(workload, plan_of(workload)).id
    records = JobRecords(database)

    def post(owner: str | None) -> str:
        request = Request(plan, workload.id, 1, "events.csv")
        return records.add(request, 100, None, owner, 3).id

    flood = [post("ada") for _ in range(3)]
    with pytest.raises(QueueFullError, match="3 jobs of ada are waiting already"):
        post("ada")
    late = [post("bob"), post("bob"), post(None)]
    positions = [records.get(id).position for id in (*flood, *late)]
    assert positions == [1, 4, 6, 2, 5, 3]
    listed = {job.id: job.position for job in records.page(newest=True).items}
    assert [listed[id] for id in (*flood, *late)] == positions
    claimed = []
    while (job := records.claim()) is not None:
        claimed.append(job.id)
        records.end(job.id, "succeeded", None)
    assert claimed == [flood[0], late[0], late[2], flood[1], late[1], flood[2]]


def test_what_a_job_needs_is_not_deleted_nor_made_for_what_is_gone(
    store: Store, database: Database
) -> None:
    workload = store.add_workload(*named("w"))
    document = plan_of(workload)
    plan = store.add_plan(workload, document).id
    records = JobRecords(database)
    request = Request(plan, workload.id, 1, "events.csv")
    job = records.add(request, 100)
    for delete, id in ((store.delete_plan, plan), (store.delete_workload, workload.id)):
        with pytest.raises(NeededError, match=f"{job.id} ran or will run"):
            delete(id)
    records.cancel(job.id)
    assert records.delete(job.id)
    store.delete_workload(workload.id)
    with pytest.raises(UnknownIdError):
        store.plan(plan)
    with pytest.raises(UnknownIdError, match=f"there is no plan '{plan}'"):
        records.add(request, 100)
    with pytest.raises(UnknownIdError, match="was deleted in the meantime"):
        store.add_plan(workload, document)
    # Nor for another workload of the same name and version that came since.
    other = store.add_workload(*named("w", queries=EXAMPLE_WORKLOAD["queries"][:1]))
    assert (other.id, other.version) == (workload.id, 1)
    with pytest.raises(UnknownIdError, match="was deleted in the meantime"):
        store.add_plan(workload, document)
