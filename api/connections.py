"""Named connections: events elsewhere, by names that whoever runs Sheaf has given them.

A file of YAML says for each name what it is and how it is reached. Runs and jobs say
`connection:NAME`, or `connection:NAME/REST` where it is left open which topic, table or folder is
meant. `${NAME}` in the file is that variable of the environment, when the connection is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Annotated, ClassVar, TypeAlias
from typing import Literal as OneOf

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from engines.execution import EventSource
from engines.input.event_paths import CONNECTION, each_path
from engines.spark.batch.source import JDBC, TABLE
from engines.spark.stream.kafka import KAFKA
from workloads.errors import SheafError, did_you_mean

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*$")]
Conf: TypeAlias = dict[Annotated[str, StringConstraints(pattern=r"^spark\.")], str]

_WORD = re.compile(r"\w[\w.-]*", re.ASCII)  # a topic, or a table
_FOLDERS = re.compile(r"(?!.*\.\.)[\w=.*/-]+", re.ASCII)


class NoConnectionError(SheafError):
    """A connection that is not there, or is no such thing as it is used for."""


@dataclass(frozen=True)
class Reached:
    """Where a connection leads: a place that engines know, and what Spark is told besides."""

    place: str
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry: str | None = field(default=None, repr=False)


class _Connection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    conf: Conf = Field(default={}, repr=False)  # settings of the Spark session
    options: dict[str, str] = Field(default={}, repr=False)  # of Spark's reader

    is_live: ClassVar[bool] = False


class KafkaConnection(_Connection):
    """A topic of these brokers, or all of their topics."""

    kind: OneOf["kafka"]
    brokers: str
    topic: str | None = None
    registry: Annotated[str, StringConstraints(pattern=r"^https?://")] | None = Field(
        default=None, repr=False
    )

    is_live: ClassVar[bool] = True

    @property
    def open(self) -> str | None:
        return None if self.topic else "TOPIC"

    def place(self, rest: str) -> tuple[str, dict[str, str]]:
        return f"{KAFKA}{self.brokers}/{_one('topic', self.topic, rest)}", {}


class TableConnection(_Connection):
    """A table of Spark's catalogs, or those under a name that ends with a dot."""

    kind: OneOf["table"]
    table: str

    @property
    def open(self) -> str | None:
        return "TABLE" if self.table.endswith(".") else None

    def place(self, rest: str) -> tuple[str, dict[str, str]]:
        if not self.table.endswith("."):
            return TABLE + _one("table", self.table, rest), {}
        return TABLE + self.table + _one("table", None, rest), {}


class PathConnection(_Connection):
    """Parquet at an address and below it, such as `s3a://bucket/events`."""

    kind: OneOf["path"]
    path: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9+.-]*://")]

    open: ClassVar[str | None] = None  # a path may follow, and need not

    def place(self, rest: str) -> tuple[str, dict[str, str]]:
        if rest and not _FOLDERS.fullmatch(rest):
            raise NoConnectionError(f"'{rest}' is no path below a connection")
        return (f"{self.path.rstrip('/')}/{rest}" if rest else self.path), {}


class JdbcConnection(_Connection):
    """A table of a database, or all of its tables."""

    kind: OneOf["jdbc"]
    url: Annotated[str, StringConstraints(pattern=rf"^{JDBC}")] = Field(repr=False)
    table: str | None = None

    @property
    def open(self) -> str | None:
        return None if self.table else "TABLE"

    def place(self, rest: str) -> tuple[str, dict[str, str]]:
        return self.url, {"dbtable": _one("table", self.table, rest)}


Connection: TypeAlias = KafkaConnection | TableConnection | PathConnection | JdbcConnection
_FILE: TypeAdapter[dict[str, Connection]] = TypeAdapter(
    dict[Name, Annotated[Connection, Field(discriminator="kind")]]
)


@dataclass(frozen=True)
class Connections:
    """Those of a file, by name."""

    by_name: Mapping[str, Connection] = field(default_factory=dict)

    def get(self, path: str) -> Connection:
        """The connection that `connection:NAME` or `connection:NAME/REST` names."""
        name = _parts(path)[0]
        if name not in self.by_name:
            hint = did_you_mean(name, self.by_name) or "there are " + (
                ", ".join(self.by_name) or "none (SHEAF_CONNECTIONS names a file of them)"
            )
            raise NoConnectionError(f"there is no connection '{name}'; {hint}")
        return self.by_name[name]

    def reach(self, path: str) -> Reached:
        """Where that is; any other path leads to itself."""
        if not path.startswith(CONNECTION):
            return Reached(path)
        connection = self.get(path)
        place, more = connection.place(_parts(path)[1])
        options = {**connection.options, **more}
        name = _parts(path)[0]
        registry = connection.registry if isinstance(connection, KafkaConnection) else None
        return Reached(
            _filled(place, name),
            {key: _filled(value, name) for key, value in connection.conf.items()},
            {key: _filled(value, name) for key, value in options.items()},
            None if registry is None else _filled(registry, name),
        )


def read_connections(path: str | Path | None) -> Connections:
    """The connections of a file; none without one. What is wrong is told without its values."""
    if path is None:
        return Connections()
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return Connections(_FILE.validate_python(document or {}))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise NoConnectionError(f"{path}: the connections cannot be read") from error
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in found["loc"]) or "the file"
        # Not as its cause, which would show what was given.
        raise NoConnectionError(f"{path}: {where}: {found['msg']}") from None


def connected(
    source: EventSource, connections: Connections
) -> tuple[EventSource, Mapping[str, str]]:
    """The source where its connection leads, and what the Spark session has to be made with."""
    named = [path for path in each_path(source.path) if path.startswith(CONNECTION)]
    if not named:
        return source, {}
    if not isinstance(source.path, str):
        raise NoConnectionError(f"'{named[0]}' is one of several sources, which are files")
    reached = connections.reach(source.path)
    found = replace(
        source,
        path=reached.place,
        options=reached.options,
        name=source.path,
        registry=reached.registry or source.registry,
    )
    return found, reached.conf


def _parts(path: str) -> tuple[str, str]:
    name, _, rest = path.removeprefix(CONNECTION).partition("/")
    return name, rest


def _one(what: str, given: str | None, rest: str) -> str:
    """The topic or the table: the connection's own, or the one asked for where it has none."""
    if given is not None:
        if rest:
            raise NoConnectionError(f"this connection is one {what}; leave out '/{rest}'")
        return given
    if not _WORD.fullmatch(rest):
        raise NoConnectionError(f"say which {what} is meant, as connection:NAME/{what.upper()}")
    return rest


def _filled(text: str, name: str) -> str:
    try:
        return Template(text).substitute(os.environ)
    except KeyError as error:
        missing = error.args[0]
        raise NoConnectionError(f"connection '{name}': there is no variable {missing}") from None
    except ValueError:
        raise NoConnectionError(
            f"connection '{name}': a '$' that is meant itself is written '$$'"
        ) from None
