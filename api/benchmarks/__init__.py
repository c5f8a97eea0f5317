"""Benchmarks: each compares ways to do one thing in one run, and prints ratios.

A benchmark is a function that takes a `Size` and gives rows; `BENCHMARKS` is the list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from api.benchmarks.chopconnect import by_sharing
from api.benchmarks.detection import by_workload_size
from api.benchmarks.devices import by_device
from api.benchmarks.experiment2 import by_group
from api.benchmarks.length import by_length
from api.benchmarks.live import by_live
from api.benchmarks.measuring import Measured, Row, Said, Size
from api.benchmarks.model import by_model
from api.benchmarks.neel import by_nesting
from api.benchmarks.negation import by_negation
from api.benchmarks.odense import by_thesis
from api.benchmarks.own import by_stream
from api.benchmarks.passing import by_propagation
from api.benchmarks.plan_fidelity import by_fidelity
from api.benchmarks.planning import by_workload
from api.benchmarks.queries import by_queries
from api.benchmarks.service import by_load
from api.benchmarks.spark import by_spark
from api.benchmarks.sql import by_sql
from api.benchmarks.window import by_window
from api.benchmarks.zstream import by_tree

BENCHMARKS: dict[str, Callable[[Size], Iterator[Row]]] = {
    "length": by_length,
    "window": by_window,
    "negation": by_negation,
    "chopconnect": by_sharing,
    "experiment2": by_group,
    "planning": by_workload,
    "model": by_model,
    "plan-fidelity": by_fidelity,
    "queries": by_queries,
    "sql": by_sql,
    "devices": by_device,
    "zstream": by_tree,
    "odense": by_thesis,
    "passdown": by_propagation,
    "neel": by_nesting,
    "detection": by_workload_size,
    "spark": by_spark,
    "live": by_live,
    "service": by_load,
}

__all__ = ["BENCHMARKS", "Measured", "Row", "Said", "Size", "by_stream"]
