"""`sheaf run --engine spark`: a workload over stored events as one Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal as OneOf

from api.cli.sinks import check_sink
from api.jobs.devices import Device
from engines.execution import SparkMaster
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
        """The same for a run."""
        return SparkMaster(self.master, self.conf)

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
    if path.startswith(TABLE):
        return
    if not path.endswith("/"):
        check_sink(path)
        return
    folder = Path(path.rstrip("/"))
    if not folder.absolute().parent.is_dir():
        raise SheafError(f"there is no folder '{folder.parent}' to write results to")
    if folder.is_file():
        raise SheafError(f"'{folder}' is a file; leave the slash out to write to a file")
