"""`sheaf run --engine spark`: a workload over stored events as one Spark job."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal as OneOf

from api.cli.sinks import check_sink
from api.jobs.devices import Device
from engines.execution import EventSource, SparkMaster
from engines.input.event_paths import CONNECTION, each_path
from workloads.errors import SheafError

TABLE = "table:"


@dataclass(frozen=True)
class SparkOptions:
    """Where Spark runs, and settings that win over ours."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Do tasks run on this machine?"""
        return self.master.startswith("local")

    @property
    def where(self) -> SparkMaster:
        """This master and its settings as a run takes them."""
        return SparkMaster(self.master, self.conf)

    def connected(
        self, source: EventSource, out: str | None
    ) -> tuple[EventSource, str | None, Mapping[str, str], SparkOptions]:
        """The source and the sink where connections lead, the options of what writes there, and
        Spark with the settings that they need."""
        if not any(path.startswith(CONNECTION) for path in (*each_path(source.path), out or "")):
            return source, out, {}, self
        from api.connections import connected, read_connections
        from engines.spark.stream.kafka import KAFKA

        connections = read_connections(os.environ.get("SHEAF_CONNECTIONS"))
        source, conf = connected(source, connections)
        rows = connections.reach(out or "")
        if out is not None and not rows.place.startswith((TABLE, KAFKA)) and rows.place != out:
            raise SheafError(f"'{out}' is a source; rows go to tables and topics, or to files")
        more = replace(self, conf={**conf, **rows.conf, **self.conf})
        return source, rows.place or None, rows.options, more

    def device(self, wanted: Device) -> OneOf["cpu", "opencl"]:
        """What tasks on other machines compute on: by itself a GPU if Spark gives them one."""
        given = float(self.conf.get("spark.task.resource.gpu.amount", "0")) > 0
        return "opencl" if wanted == "opencl" or (wanted == "auto" and given) else "cpu"


def settings_of(texts: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` texts as settings."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise SheafError(f"--conf is '{text}'; write spark.NAME=VALUE")
        found[key] = value
    return found


def check_spark_sink(path: str) -> None:
    """Refuse what a job could not write to."""
    from engines.results.lake_place import lake_place

    if path.startswith((TABLE, CONNECTION)):
        return
    if not path.endswith("/") or lake_place(path) is not None:
        check_sink(path)
        return
    folder = Path(path.rstrip("/"))
    if not folder.absolute().parent.is_dir():
        raise SheafError(f"there is no folder '{folder.parent}' to write results to")
    if folder.is_file():
        raise SheafError(f"'{folder}' is a file; leave the slash out to write to a file")
    from engines.results.result_folder import check_replaceable

    check_replaceable(folder)
