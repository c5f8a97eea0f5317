"""What a checkpoint says of the stream it is of, and how other queries go on with it.

Spark's own checkpoint is beside it, in the folder `spark`.
"""

from __future__ import annotations

import base64
import fcntl
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

import pyarrow as pa

from engines.documents import read_document, write_document
from engines.limits import StateError
from engines.live.query_digest import query_digest
from engines.live.run import Generation, continues
from engines.program import CountingUnit, Program
from engines.spark.batch.job import Key, plan_routes
from engines.spark.stream.source import complete_until, lateness_of
from optimizer.ir.produced import routing_keys
from optimizer.ir.query import Query
from workloads.printing import print_expression
from workloads.workload import Stream

VERSION = 4
_FILE = "sheaf.json"
_FIRST = "0"  # the generation of the queries that a stream starts with


@dataclass(frozen=True)
class QueryPlace:
    """A query, as a digest of all that it says, and where its state is."""

    digest: str
    route: str
    generation: str = _FIRST


@dataclass(frozen=True)
class Manifest:
    """What must not change while there is state, and the queries that it is of.

    `schema` has all columns that have ever been known, `partitions` is Spark's for the state, and
    `lateness` is in milliseconds. `generations` has the time behind which each of them began.
    """

    stream: Mapping[str, object]
    tick: int
    schema: pa.Schema
    buckets: int
    partitions: int
    lateness: int
    queries: Mapping[str, QueryPlace] = field(default_factory=dict)
    generations: Mapping[str, int | None] = field(default_factory=lambda: {_FIRST: None})
    finished: bool = False

    def routes(self, program: Program) -> dict[str, dict[str, Generation]]:
        """The program of each generation by the route that its events take."""
        names: dict[str, dict[str, list[str]]] = {}
        for query in program.workload.queries:
            place = self.queries[query.name]
            names.setdefault(place.route, {}).setdefault(place.generation, []).append(query.name)
        return {
            route: {
                generation: Generation(program.of_queries(some), self.generations[generation])
                for generation, some in generations.items()
            }
            for route, generations in names.items()
        }


@dataclass(frozen=True)
class Takeover:
    """What is true of a stream from now on.

    Of its queries, `kept` go on with the state there is and `afresh` begin; `removed` are no more.
    """

    manifest: Manifest
    kept: tuple[str, ...] = ()
    afresh: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def route_name(key: Key) -> str:
    """What a route is called in a state."""
    return json.dumps(list(key))


def route_key(route: str) -> Key:
    """The key of a route that is called so."""
    return tuple(json.loads(route))


def manifest_of(
    program: Program, schema: pa.Schema, tick: int, buckets: int, partitions: int
) -> Manifest:
    """What will be true of a stream that starts now."""
    workload = program.workload
    stream = workload.stream
    forms = _forms(program)
    made = {each.name for each in workload.produced}
    types = {
        name: None if condition is None else print_expression(condition)
        for name, condition in sorted(stream.types.items())
        if name not in made
    }
    said = {
        "time": stream.time,
        "unit": stream.unit,
        "type": stream.type,
        "sequence": stream.sequence,
        "types": types,
        "format": stream.format,
        "sources": _sources(stream),
    }
    places = {
        query.name: QueryPlace(query_digest(query, forms, workload.queries), route_name(key))
        for key, queries in plan_routes(workload.queries).items()
        for query in queries
    }
    queries = {query.name: places[query.name] for query in workload.queries}
    return Manifest(said, tick, schema, buckets, partitions, lateness_of(stream), queries)


def _sources(stream: Stream) -> list[object] | None:
    """How each of several sources is read, in the order in which Spark counts them."""
    found: list[object] = []
    for name, source in stream.sources.items():
        own, renamed = source.stream, [list(names) for names in sorted(source.rename.items())]
        found.append([name, own.time, own.unit, own.type, own.sequence, own.format, renamed])
    return found or None


def spark_folder(checkpoint: str) -> str:
    """Spark's part of a checkpoint."""
    return str((Path(checkpoint) / "spark").absolute())


def stream_id(checkpoint: str) -> str:
    """What Spark has called the stream of a checkpoint since it was first started."""
    said = json.loads((Path(spark_folder(checkpoint)) / "metadata").read_text())
    return str(said["id"])


def read_manifest(checkpoint: str) -> Manifest | None:
    """None where there is no checkpoint yet."""
    file = Path(checkpoint) / _FILE
    if not file.is_file():
        if (Path(checkpoint) / "spark").exists():
            raise StateError(f"the checkpoint '{checkpoint}' has lost its file {_FILE}")
        return None
    said = read_document(file)
    try:
        assert said is not None
        if said.pop("version") != VERSION:
            raise StateError(
                f"the checkpoint '{checkpoint}' was not written by this version of Sheaf; go on "
                "with the version that wrote it, or start with a new checkpoint"
            )
        said["schema"] = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["schema"])))
        said["queries"] = {name: QueryPlace(**place) for name, place in said["queries"].items()}
        return Manifest(**said)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise StateError(f"the checkpoint '{checkpoint}' cannot be read: {error}") from error


def write_manifest(checkpoint: str, manifest: Manifest) -> None:
    """Complete or not at all."""
    folder = Path(checkpoint)
    folder.mkdir(parents=True, exist_ok=True)
    said = {
        **asdict(replace(manifest, schema=None)),
        "version": VERSION,
        "schema": base64.b64encode(manifest.schema.serialize()).decode(),
    }
    write_document(folder / _FILE, said)


def taken_over(old: Manifest, new: Manifest, program: Program, checkpoint: str) -> Takeover:
    """The new queries with what the checkpoint has.

    A query that says what another said, and whose state has the same form, goes on with it,
    whatever its name and its counter. The others begin behind the latest event that has come.
    Raises `StateError` where the state cannot be of the stream as it is now.
    """
    _check(old, new, checkpoint)
    workload = program.workload
    last = _last_watermark(checkpoint)
    held = {place.digest: place for place in old.queries.values()}
    stays = {
        name: held[place.digest] for name, place in new.queries.items() if place.digest in held
    }
    added = tuple(query for query in workload.queries if query.name not in stays)
    if added and last is not None and workload.stream.sources:
        # The latest event of all sources is not where the watermark tells.
        raise StateError(
            f"{', '.join(query.name for query in added)}: no query can begin in a running stream "
            f"of several sources; start one with a new checkpoint beside '{checkpoint}'"
        )
    known = set(old.schema.names)
    manifest = replace(
        new,
        schema=pa.schema([*old.schema, *(c for c in new.schema if c.name not in known)]),
        buckets=old.buckets,
        partitions=old.partitions,
    )
    if last is not None:  # else there is no state yet
        generation = str(max(map(int, old.generations)) + 1)
        placed = _placed(added, stays, generation, _forms(program), workload.queries)
        places = {**stays, **placed}
        since = complete_until(last + old.lateness + 1, old.tick)
        starts = {**old.generations, generation: since}
        used = {place.generation for place in places.values()}
        manifest = replace(
            manifest,
            queries={query.name: places[query.name] for query in workload.queries},
            generations={name: start for name, start in starts.items() if name in used},
        )
    digests = {place.digest for place in new.queries.values()}
    return Takeover(
        manifest,
        kept=tuple(stays),
        afresh=tuple(query.name for query in added),
        removed=tuple(name for name, place in old.queries.items() if place.digest not in digests),
    )


def _placed(
    added: tuple[Query, ...],
    stays: Mapping[str, QueryPlace],
    generation: str,
    forms: Mapping[str, str],
    queries: tuple[Query, ...],
) -> dict[str, QueryPlace]:
    """Where queries go that are new: along a route that there is, where its key serves them."""
    there = {place.route: set(route_key(place.route)) for place in stays.values()}
    routes = sorted(there, key=lambda route: (len(there[route]), route))
    keys = routing_keys(queries)
    found, rest = {}, []
    for query in added:
        wanted = keys[query.name]
        # One bucket takes all events of the route without a key: that serves only who needs it.
        serving = [r for r in routes if there[r] == wanted or (there[r] and there[r] < wanted)]
        if serving:
            digest = query_digest(query, forms, queries)
            found[query.name] = QueryPlace(digest, serving[0], generation)
        else:
            rest.append(query)
    for key, some in plan_routes(tuple(rest)).items():
        for query in some:
            digest = query_digest(query, forms, queries)
            found[query.name] = QueryPlace(digest, route_name(key), generation)
    return found


def _check(old: Manifest, new: Manifest, checkpoint: str) -> None:
    where = f"the checkpoint '{checkpoint}'"
    advice = "start with a new checkpoint"
    if old.finished:
        raise StateError(f"{where} is of a stream that has been finished; {advice}")
    for name, value in new.stream.items():
        if old.stream.get(name) != value:
            raise StateError(
                f"{where} is of a stream with {name} {old.stream.get(name)!r}, and it is now "
                f"{value!r}; {advice}"
            )
    if old.tick != new.tick:
        raise StateError(
            f"{where} counts time in units of {old.tick} ns, and the events now in units of "
            f"{new.tick} ns; {advice}"
        )


def last_batch(checkpoint: str) -> int:
    """The number of the last batch that was completed; -1 before the first."""
    names = [file.name for file in (Path(spark_folder(checkpoint)) / "commits").glob("*")]
    return max((int(name) for name in names if name.isdigit()), default=-1)


def readable_batch(checkpoint: str) -> int:
    """The number of the last batch whose rows will never change; -1 before the first."""
    manifest = read_manifest(checkpoint)
    return last_batch(checkpoint) + (1 if manifest is not None and manifest.finished else 0)


def _last_watermark(checkpoint: str) -> int | None:
    """Spark's watermark for the next batch; None where no events have been taken yet."""
    batch = last_batch(checkpoint)
    if batch < 0:
        return None
    file = Path(spark_folder(checkpoint)) / "commits" / str(batch)
    try:
        watermark = int(json.loads(file.read_text().splitlines()[-1])["nextBatchWatermarkMs"])
    except (ValueError, KeyError, TypeError, IndexError, OSError) as error:
        raise StateError(
            f"the checkpoint '{checkpoint}' is damaged: '{file}' cannot be read; put back a copy, "
            "or start with a new checkpoint"
        ) from error
    return watermark if watermark > 0 else None


def hold(checkpoint: str) -> IO[str]:
    """Keep other jobs from a checkpoint until what this gives is closed, or the process ends."""
    Path(checkpoint).mkdir(parents=True, exist_ok=True)
    file = (Path(checkpoint) / "lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise StateError(
            f"another job runs with the checkpoint '{checkpoint}'; stop it first, or change its "
            "queries with: sheaf stream update"
        ) from None
    return file


def _forms(program: Program) -> dict[str, str]:
    """Of each query, what its state is made of: the symbols of its events, or events themselves."""
    found: dict[str, str] = {}
    for unit in program.units:
        form = "symbols" if isinstance(unit, CountingUnit) and continues(unit) else "events"
        found |= dict.fromkeys((query.name for query in unit.queries), form)
    return found
