"""What a checkpoint says of the stream it is of, and whether other queries can go on with it.

Spark's own checkpoint is beside it, in the folder `spark`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from engines.errors import StateError
from engines.live.run import group_of
from engines.spark.batch import Key, plan_routes
from optimizer.ir.query import BoundWorkload, Query
from workloads.printer import print_expression

VERSION = 1
_FILE = "sheaf.json"


@dataclass(frozen=True)
class Place:
    """A query, as a digest of all that it says, and where its state is."""

    digest: str
    route: str
    group: str


@dataclass(frozen=True)
class Manifest:
    """What must not change while there is state, and the queries that it is of.

    `schema` has all columns that have ever been known, `partitions` is Spark's for the state.
    """

    stream: Mapping[str, object]
    tick: int
    schema: pa.Schema
    buckets: int
    partitions: int
    queries: Mapping[str, Place] = field(default_factory=dict)
    finished: bool = False


def route_name(key: Key) -> str:
    """What a route is called in a state."""
    return json.dumps(list(key))


def manifest_of(
    workload: BoundWorkload, schema: pa.Schema, tick: int, buckets: int, partitions: int
) -> Manifest:
    """What will be true of a stream that starts now."""
    stream = workload.stream
    types = {
        name: None if condition is None else print_expression(condition)
        for name, condition in sorted(stream.types.items())
    }
    said = {
        "time": stream.time,
        "unit": stream.unit,
        "type": stream.type,
        "sequence": stream.sequence,
        "types": types,
    }
    places = {
        query.name: Place(_digest(query), route_name(key), group_of(query))
        for key, queries in plan_routes(workload.queries).items()
        for query in queries
    }
    queries = {query.name: places[query.name] for query in workload.queries}
    return Manifest(said, tick, schema, buckets, partitions, queries)


def spark_folder(checkpoint: str) -> str:
    """Spark's part of a checkpoint."""
    return str((Path(checkpoint) / "spark").absolute())


def read_manifest(checkpoint: str) -> Manifest | None:
    """None where there is no checkpoint yet."""
    file = Path(checkpoint) / _FILE
    if not file.is_file():
        if (Path(checkpoint) / "spark").exists():
            raise StateError(f"the checkpoint '{checkpoint}' has lost its file {_FILE}")
        return None
    try:
        said = json.loads(file.read_bytes())
        if said.pop("version") != VERSION:
            raise StateError(
                f"the checkpoint '{checkpoint}' was not written by this version of Sheaf; go on "
                "with the version that wrote it, or start with a new checkpoint"
            )
        said["schema"] = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["schema"])))
        said["queries"] = {name: Place(**place) for name, place in said["queries"].items()}
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
    draft = folder / f".{_FILE}"
    draft.write_text(json.dumps(said, indent=1))
    draft.replace(folder / _FILE)


def taken_over(old: Manifest, new: Manifest, checkpoint: str) -> tuple[Manifest, tuple[str, ...]]:
    """The new queries with what the checkpoint has, and the names of those that start afresh.

    Raises `StateError` where a query that stays would lose its state, or read it wrongly.
    """
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
    for name, place in new.queries.items():
        before = old.queries.get(name)
        if before is None or before.digest != place.digest or before == place:
            continue
        raise StateError(
            f"{where} holds query {name} by the key {_key(before.route)}, and with the queries as "
            f"they are now its events would be spread by {_key(place.route)}; leave out the "
            f"queries that make the difference, or {advice}"
        )
    afresh = tuple(
        name
        for name, place in new.queries.items()
        if name not in old.queries or old.queries[name].digest != place.digest
    )
    known = set(old.schema.names)
    schema = pa.schema([*old.schema, *(c for c in new.schema if c.name not in known)])
    merged = replace(new, schema=schema, buckets=old.buckets, partitions=old.partitions)
    return merged, afresh


def _key(route: str) -> str:
    return ", ".join(json.loads(route)) or "nothing"


def _digest(query: Query) -> str:
    return hashlib.blake2b(repr(query).encode(), digest_size=8).hexdigest()
