"""The engines that a plan can name, as far as planning knows them: a module for each.

`engines` has their counterparts that run. Another engine is another module here, and a line below.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.engines import (
    aseq,
    chopconnect,
    compact,
    deferred_trees,
    fenwick,
    folds,
    frames,
    funnels,
    joins,
    latest,
    panes,
    pretree,
    product,
    rowpattern,
    runs,
    selection,
    sem,
    situations,
    stepwise,
    trees,
)
from optimizer.engines.spec import CountingEngine, Device, Engine, PassEngine
from optimizer.ir.query import Query


def _counting(*modules: CountingEngine) -> tuple[CountingEngine, ...]:
    return modules


def _constructing(*modules: Engine) -> tuple[Engine, ...]:
    return modules


def _passing(*modules: PassEngine) -> tuple[PassEngine, ...]:
    return modules


# Of equal costs, the first one is taken.
COUNTING = _counting(product, aseq, pretree, chopconnect, sem, panes, folds, fenwick, runs)
CONSTRUCTING = _constructing(trees, deferred_trees, stepwise, compact)
# The first that takes a query runs it.
PASSING = _passing(latest, joins, funnels, frames, rowpattern, situations, selection)
ENGINES: tuple[Engine, ...] = (*COUNTING, *CONSTRUCTING, *PASSING)

__all__ = [
    "CONSTRUCTING",
    "COUNTING",
    "ENGINES",
    "PASSING",
    "CountingEngine",
    "Device",
    "Engine",
    "PassEngine",
    "counting_engine",
    "engine",
    "label",
    "pass_engine",
    "pass_engine_of",
    "takes",
]

_BY_NAME: dict[str, Engine] = {each.NAME: each for each in ENGINES}
_COUNTING: dict[str, CountingEngine] = {each.NAME: each for each in COUNTING}


def engine(name: str) -> Engine | None:
    """The engine of that name; None where there is none."""
    return _BY_NAME.get(name)


def counting_engine(name: str) -> CountingEngine:
    """The engine of that name, which counts."""
    return _COUNTING[name]


def pass_engine(name: str) -> PassEngine | None:
    """The engine of that name, if it answers queries in one pass over the events."""
    return next((each for each in PASSING if name == each.NAME), None)


def pass_engine_of(query: Query) -> PassEngine | None:
    """The engine that answers a query in one pass over the events, where there is one."""
    return next((each for each in PASSING if each.refusal(query) is None), None)


def takes(engine: Engine, queries: Sequence[Query]) -> bool:
    """Can an engine run these queries as one group?"""
    return engine.refusal_together(queries) is None and all(
        engine.refusal(query) is None for query in queries
    )


def label(name: str) -> str:
    """What people read for an engine's name."""
    return _BY_NAME[name].LABEL if name in _BY_NAME else name
