"""Damaged state is refused, or does no harm: states of buckets, checkpoints, files of jobs."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from api.jobs.account import BatchAccount, JobAccount, read_account, write_account
from engines.input.event_table import column_kinds
from engines.limits import StateError
from engines.live.bucket import Bucket, Turn
from engines.spark.stream.checkpoint import (
    manifest_of,
    read_manifest,
    taken_over,
    write_manifest,
)
from optimizer.bind.binder import bind
from tests.engines.spark.stream_case import QUERIES, document, sample
from tests.fuzzing.duration import QUICK_SECONDS, SOAK_SECONDS, fuzz, soak
from tests.running import How, generation_of
from workloads.loading import load_workload

TICK = 1_000_000
Damage = Callable[[random.Random, bytes], bytes]


def flipped(chance: random.Random, whole: bytes) -> bytes:
    found = bytearray(whole)
    for _ in range(chance.choice((1, 1, 1, 2, 9))):
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


def cut(chance: random.Random, whole: bytes) -> bytes:
    return whole[: chance.choice((0, 1, 7, 8, 9, chance.randrange(len(whole))))]


def zeroed(chance: random.Random, whole: bytes) -> bytes:
    """As after a crash of the machine: the length is right, and the end was never written."""
    start = chance.choice((0, chance.randrange(len(whole))))
    return whole[:start] + bytes(len(whole) - start)


def longer(chance: random.Random, whole: bytes) -> bytes:
    return whole + chance.randbytes(chance.randrange(1, 50))


def spliced(chance: random.Random, whole: bytes) -> bytes:
    start, stop = sorted(chance.randrange(len(whole) + 1) for _ in range(2))
    at = chance.randrange(len(whole))
    return whole[:at] + whole[start:stop] + whole[at:]


def noise(chance: random.Random, whole: bytes) -> bytes:
    return chance.randbytes(chance.randrange(200))


DAMAGES: tuple[Damage, ...] = (flipped, cut, zeroed, longer, spliced, noise)


def rows(turn: Turn) -> Counter[str]:
    tables = (turn.results.aggregates, turn.results.matches)
    return Counter(json.dumps(row) for table in tables for row in table.to_pylist())


class States:
    """A bucket of several kinds of queries with a state, and what comes next with it."""

    def __init__(self) -> None:
        table = sample(200)
        workload = bind(load_workload(document()), column_kinds(table.schema))
        self.bucket = Bucket({"0": generation_of(workload)}, table.schema, TICK)
        first = self.bucket.turn(None, [table.slice(0, 120)], 20)
        assert first.state is not None
        self.state, self.rest = first.state, table.slice(120)
        self.expected = self.next(self.state)
        assert self.expected

    def next(self, state: bytes) -> Counter[str]:
        turn = self.bucket.turn(state, [self.rest], 60)
        assert turn.state is not None
        return rows(turn) + rows(self.bucket.finish(turn.state))


@pytest.fixture(scope="module")
def states() -> States:
    return States()


def one_state(states: States) -> Callable[[random.Random], str]:
    def case(chance: random.Random) -> str:
        damaged = chance.choice(DAMAGES)(chance, states.state)
        try:
            found = states.next(damaged)
        except StateError:
            return "refused"
        assert found == states.expected
        return "harmless"

    return case


def test_a_damaged_state_is_refused(states: States) -> None:
    assert fuzz(one_state(states), cases=300, at_least=QUICK_SECONDS / 2)["refused"] > 200


@soak
def test_damaged_states_for_long(states: States) -> None:
    fuzz(one_state(states), seconds=SOAK_SECONDS / 2)


def one_file(chance: random.Random) -> str:
    """A file of a checkpoint, or an account of a job: what is read is what was written."""
    with tempfile.TemporaryDirectory() as folder:
        return chance.choice((_one_manifest, _one_account, _one_commit))(chance, Path(folder))


def _one_manifest(chance: random.Random, folder: Path) -> str:
    table = sample(20)
    workload = bind(load_workload(document(QUERIES[:2])), column_kinds(table.schema))
    written = manifest_of(How().program(workload), table.schema, TICK, 3, 2)
    write_manifest(str(folder), written)
    _damage(chance, folder / "sheaf.json")
    try:
        found = read_manifest(str(folder))
    except StateError:
        return "refused"
    assert found == written
    return "harmless"


def _one_commit(chance: random.Random, folder: Path) -> str:
    """What Spark writes down when a batch is done has no digest: it may be read as another time."""
    table = sample(20)
    workload = bind(load_workload(document(QUERIES[:2])), column_kinds(table.schema))
    program = How().program(workload)
    manifest = manifest_of(program, table.schema, TICK, 3, 2)
    file = folder / "spark" / "commits" / "7"
    file.parent.mkdir(parents=True)
    file.write_text('v1\n{"nextBatchWatermarkMs":1700000000000}')
    _damage(chance, file)
    try:
        taken_over(manifest, manifest, program, str(folder))
    except StateError:
        return "refused"
    return "harmless"


def _one_account(chance: random.Random, folder: Path) -> str:
    batch = BatchAccount(3, 0.5, events=7, rows={"q": 2}, fallbacks=("by hand",))
    written = JobAccount().add(batch)
    write_account(folder / "account.json", written)
    _damage(chance, folder / "account.json")
    try:
        found = read_account(folder / "account.json")
    except StateError:
        return "refused"
    assert found == written
    return "harmless"


def _damage(chance: random.Random, file: Path) -> None:
    file.write_bytes(chance.choice(DAMAGES)(chance, file.read_bytes()))


def test_a_damaged_file_is_refused() -> None:
    assert fuzz(one_file, cases=300, at_least=QUICK_SECONDS / 2)["refused"] > 180


@soak
def test_damaged_files_for_long() -> None:
    fuzz(one_file, seconds=SOAK_SECONDS / 2)
