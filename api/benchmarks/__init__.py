"""Benchmarks: each compares ways to do one thing in one run, and prints ratios.

A benchmark is a function that takes a `Size` and gives rows; `BENCHMARKS` is the list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from api.benchmarks.counting import by_length, by_queries, by_window
from api.benchmarks.measuring import Measured, Size

BENCHMARKS: dict[str, Callable[[Size], Iterator[Measured]]] = {
    "queries": by_queries,
    "window": by_window,
    "length": by_length,
}

__all__ = ["BENCHMARKS", "Measured", "Size"]
