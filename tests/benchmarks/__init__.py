"""Benchmarks: each compares ways to do one thing in one run, and prints ratios.

A benchmark is a function that takes a `Size` and gives rows; `BENCHMARKS` is the list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.benchmarks.access import by_access
from tests.benchmarks.chopconnect import by_sharing
from tests.benchmarks.detection import by_workload_size
from tests.benchmarks.devices import by_device
from tests.benchmarks.experiment2 import by_group
from tests.benchmarks.funnels import by_funnels
from tests.benchmarks.joins import by_relation
from tests.benchmarks.length import by_length
from tests.benchmarks.live import by_live
from tests.benchmarks.measuring import Goal, Measured, Row, Said, Size
from tests.benchmarks.model import by_model
from tests.benchmarks.neel import by_nesting
from tests.benchmarks.negation import by_negation
from tests.benchmarks.odense import by_thesis
from tests.benchmarks.own import by_stream
from tests.benchmarks.passing import by_propagation
from tests.benchmarks.plan_fidelity import by_fidelity
from tests.benchmarks.planning import by_workload
from tests.benchmarks.queries import by_queries
from tests.benchmarks.rowpattern import by_statements
from tests.benchmarks.rules import by_own_rules, by_rules
from tests.benchmarks.service import by_load
from tests.benchmarks.spark import by_spark
from tests.benchmarks.sql import by_sql
from tests.benchmarks.strategies import by_strategy
from tests.benchmarks.tpstream import by_situations
from tests.benchmarks.whole import by_whole
from tests.benchmarks.window import by_window
from tests.benchmarks.zstream import by_tree

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
    "strategies": by_strategy,
    "joins": by_relation,
    "rowpattern": by_statements,
    "funnels": by_funnels,
    "spark": by_spark,
    "live": by_live,
    "service": by_load,
    "access": by_access,
    "tpstream": by_situations,
    "rules": by_rules,
    "whole": by_whole,
}

__all__ = [
    "BENCHMARKS",
    "Goal",
    "Measured",
    "Row",
    "Said",
    "Size",
    "by_own_rules",
    "by_stream",
    "by_whole",
]
