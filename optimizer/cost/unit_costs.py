"""What operations cost on a machine, and what joins cost by them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import add, mul
from typing import Any, NamedTuple
from typing import Literal as OneOf

from optimizer.ir.pattern import GroupWithout, Quantifier
from workloads.errors import SheafError
from workloads.syntax import (
    All,
    Exactly,
    One,
    Plus,
)

VERSION = 4


class UnitCostsError(SheafError):
    """A document that holds no unit costs; says what is wrong with it."""


class Operations(NamedTuple):
    """How often each kind of operation happens in a second of stream."""

    # Common to all: events of the stream, and those that a query speaks of, made into letters.
    seen: float = 0.0
    keyed: float = 0.0  # events that stand in the order of a partition key
    spoken: float = 0.0
    watched: float = 0.0  # those again, where negations look at all that occurs at one time
    # The product whose events can be taken back (kernels/reversible/cpu.py).
    reversible_events: float = 0.0  # that arrive, and leave later
    reversible_adds: float = 0.0  # one counter to another, or taken off again
    reversible_reads: float = 0.0  # of a query's counter
    # The product of two stacks (kernels/product/cpu.py).
    stack_events: float = 0.0
    stack_adds: float = 0.0  # to counters of the back
    stack_front: float = 0.0  # to counters of the front, looked at for the log first
    stack_logged: float = 0.0  # written to the log, and taken back from it
    stack_reads: float = 0.0
    stack_pairs: float = 0.0  # front times back
    stack_floats: float = 0.0  # adds and pairs again, in floating point
    stack_values: float = 0.0  # the same of values
    product_rows: float = 0.0  # result rows, written query by query
    # Panes: products of stretches, combined at each evaluation.
    pane_events: float = 0.0
    pane_adds: float = 0.0
    pane_cells: float = 0.0  # counters of a new pane
    pane_pairs: float = 0.0  # a counter of one stretch times one of the next
    pane_windows: float = 0.0  # evaluations of a query
    # Columns of single events, folded by panes (kernels/folds/cpu.py).
    fold_events: float = 0.0  # of a symbol
    fold_values: float = 0.0  # of its attributes
    fold_panes: float = 0.0  # that the windows of a query go over
    fold_rows: float = 0.0  # numbers of result rows
    # Runs of events without gaps, all followed at once (kernels/runs/cpu.py).
    run_events: float = 0.0
    run_steps: float = 0.0  # beginnings of runs that an event completes
    # Prefix counters for every active START (kernels/prefixes/cpu.py).
    tree_events: float = 0.0  # looked at, once by each tree
    tree_nodes: float = 0.0  # that an event extends or clears
    tree_laden: float = 0.0  # of these, nodes that carry more than one count for each START
    tree_counters: float = 0.0  # added: a node's, one for each START
    tree_cells: float = 0.0  # set to zero for a new START
    tree_reads: float = 0.0
    tree_totals: float = 0.0  # counters summed up
    tree_floats: float = 0.0  # counters, again in floating point, and values
    # Vectors over states for every active START (kernels/starts/cpu.py).
    sem_events: float = 0.0
    sem_rows: float = 0.0  # of counters, added to others
    sem_laden: float = 0.0  # of these, rows with values or floating-point counts beside them
    sem_counters: float = 0.0  # added: a row's, one for each START
    sem_cells: float = 0.0  # set for a new START
    sem_reads: float = 0.0
    sem_totals: float = 0.0  # counters summed up
    sem_values: float = 0.0  # counters again, in floating point, and values
    # Segments, connected by snapshots (kernels/chopconnect/cpu.py).
    chop_events: float = 0.0
    chop_windows: float = 0.0  # segments whose STARTs are looked through, at events that slide
    chop_nodes: float = 0.0
    chop_laden: float = 0.0
    chop_counters: float = 0.0
    chop_cells: float = 0.0
    chop_snapshots: float = 0.0  # one for each link at each CNET
    chop_rows: float = 0.0  # of snapshots over one segment
    chop_products: float = 0.0  # rows of earlier snapshots, multiplied into later ones
    chop_reads: float = 0.0
    chop_totals: float = 0.0
    chop_connected: float = 0.0  # STARTs looked up in their snapshots
    chop_floats: float = 0.0
    sorted_rows: float = 0.0  # result rows, written as they come and sorted by query
    # Trees of joins: events touched by their cost model (optimizer/cost/unit_costs.py).
    joined: float = 0.0
    node_rows: float = 0.0  # that come to a node of a tree
    group_rows: float = 0.0  # that come to a node that makes groups
    # Reading events, from Parquet (optimizer/cost/stages.py).
    read_rows: float = 0.0
    read_numbers: float = 0.0  # values
    read_texts: float = 0.0
    # Testing events against symbols; looking up the symbols of an event is `seen`.
    text_columns: float = 0.0  # values of columns of texts, made into numbers
    tested: float = 0.0  # attributes compared with constants, and other conditions, of an event
    numbered: float = 0.0  # events with a number for the set of symbols that they are of
    # Putting events in order by key.
    key_columns: float = 0.0  # values of keys, made into numbers
    key_pairs: float = 0.0  # values of further columns of a key, joined to those before
    arranged: float = 0.0  # events, in the order of a key
    picked: float = 0.0  # events that trees read
    # Making rows, sorting and writing them.
    aggregate_rows: float = 0.0
    output_events: float = 0.0  # whose columns are at hand for the matches of a query
    match_rows: float = 0.0
    match_values: float = 0.0  # written as JSON
    sunk_aggregates: float = 0.0
    sunk_matches: float = 0.0
    sunk_values: float = 0.0  # of match rows

    def __add__(self, other: Operations) -> Operations:  # type: ignore[override]
        return Operations._make(map(add, self, other))

    def times(self, factor: float) -> Operations:
        """All of them so many times."""
        return Operations._make([factor * number for number in self])


NAMES = Operations._fields
STAGES = NAMES[NAMES.index("node_rows") :]  # what whole runs do besides counting and joining
DEFAULT_SOURCE = "defaults"


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Nanoseconds for each kind of operation; `source` says where they were measured."""

    each: Operations
    source: str = DEFAULT_SOURCE

    @property
    def is_default(self) -> bool:
        """Was nothing measured on this machine?"""
        return self.source == DEFAULT_SOURCE

    def to_document(self) -> dict[str, Any]:
        """Plain values, `version` first."""
        return {"version": VERSION, "source": self.source, "nanoseconds": self.each._asdict()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> UnitCosts:
        """What `to_document` made these values from."""
        if not isinstance(document, Mapping) or document.get("version") != VERSION:
            raise UnitCostsError(
                f"these are not unit costs of version {VERSION}; run 'sheaf calibrate'"
            )
        source, costs = document.get("source"), document.get("nanoseconds")
        if not isinstance(source, str) or not isinstance(costs, Mapping):
            raise UnitCostsError("these are not unit costs: source or nanoseconds is missing")
        if costs.keys() != set(NAMES):
            wrong = ", ".join(sorted(set(NAMES) ^ costs.keys()))
            raise UnitCostsError(f"these are not unit costs: {wrong} is missing or not known")
        for name, cost in costs.items():
            is_number = isinstance(cost, (int, float)) and not isinstance(cost, bool)
            if not is_number or not (cost >= 0 and math.isfinite(cost)):
                raise UnitCostsError(f"these are not unit costs: {name} is {cost}")
        return cls(Operations(**{name: float(costs[name]) for name in NAMES}), source)


# What an operation takes where nobody has calibrated: fitted as `sheaf calibrate` does, but to 159
# workloads, on one core of an x86-64 server (AMD EPYC, Linux, Python 3.11, numba 0.68). What the
# fit put at nothing has a twentieth or a tenth of a nanosecond, from where a calibration can move.
# From `joined` on they are rounded from whole runs on a machine of that kind: of the
# trials of `engines/calibration/stage_trials.py`, over 300,000 events, and of the bundled
# workloads, over up to a million, whose longer sorts and texts take up to twice as much for a row
# as those of the trials.
DEFAULTS = UnitCosts(
    Operations(
        seen=10.6,
        keyed=3.39,
        spoken=40.1,
        watched=19.7,
        reversible_events=71.9,
        reversible_adds=0.933,
        reversible_reads=3.54,
        stack_events=245,
        stack_adds=1.48,
        stack_front=0.1,
        stack_logged=4.48,
        stack_reads=88,
        stack_pairs=3.25,
        stack_floats=1.44,
        stack_values=2.16,
        product_rows=21.1,
        pane_events=59.1,
        pane_adds=1.72,
        pane_cells=2.16,
        pane_pairs=1.32,
        pane_windows=53,
        fold_events=2.0,
        fold_values=5.0,
        fold_panes=8.0,
        fold_rows=45.0,
        run_events=10.0,
        run_steps=8.0,
        tree_events=27.8,
        tree_nodes=20.9,
        tree_laden=78.6,
        tree_counters=0.1,
        tree_cells=21.6,
        tree_reads=0.14,
        tree_totals=0.05,
        tree_floats=0.307,
        sem_events=35.0,
        sem_rows=12.0,
        sem_laden=100.0,
        sem_counters=0.1,
        sem_cells=8.0,
        sem_reads=20.0,
        sem_totals=0.1,
        sem_values=0.7,
        chop_events=7.62,
        chop_windows=6.9,
        chop_nodes=51.6,
        chop_laden=51.6,
        chop_counters=0.05,
        chop_cells=27.9,
        chop_snapshots=130,
        chop_rows=3.34,
        chop_products=1.61,
        chop_reads=2.83,
        chop_totals=0.146,
        chop_connected=6.72,
        chop_floats=0.666,
        sorted_rows=63.8,
        joined=8.0,
        node_rows=10.0,
        group_rows=70.0,
        read_rows=15.0,
        read_numbers=12.0,
        read_texts=25.0,
        text_columns=25.0,
        tested=12.0,
        numbered=5.0,
        key_columns=28.0,
        key_pairs=6.0,
        arranged=30.0,
        picked=30.0,
        aggregate_rows=90.0,
        output_events=12.0,
        match_rows=500.0,
        match_values=50.0,
        sunk_aggregates=500.0,
        sunk_matches=550.0,
        sunk_values=100.0,
    )
)


def nanoseconds(operations: Operations, unit_costs: UnitCosts) -> float:
    """What operations take: in a second of stream, nanoseconds of one core."""
    return math.fsum(map(mul, operations, unit_costs.each))


MAX_CHOICES = 64  # of E+: more than 2^64 groups are as good as never finished


@dataclass(frozen=True, slots=True)
class JoinCosts:
    """The weights of equation 1 and the ways to estimate.

    `equality`: whether `a.x = b.y` is evaluated like any predicate or looked up by hash, which
    tries only what is equal but costs a look-up for each row of the outer loop.
    """

    predicate: float = 0.25  # k
    output: float = 1.0  # p
    vain: float = 0.5  # of a pair that is looked at and does not fit the window
    equality: OneOf["scan", "hash"] = "scan"
    arrivals: OneOf["halves", "poisson"] = "halves"
    # Of a walk: a candidate, a test of it, a partial match that others are looked for, a look-up of
    # these by hash, a row; and an event of any part, for the index of each.
    walk_try: float = 0.45
    walk_test: float = 0.1
    walk_bind: float = 2.0
    walk_look_up: float = 2.0
    walk_output: float = 1.0
    walk_index: float = 0.2


ZSTREAM = JoinCosts()
# What the kernels do: equalities are looked up, and what ends in a window is tried.
COMPILED = JoinCosts(equality="hash", arrivals="poisson")


def touched(model: JoinCosts, tried: float, predicates: int, made: float) -> float:
    """Equation 1."""
    return tried * (1 + predicates * model.predicate) + model.output * made


def meeting(model: JoinCosts, left: int, right: int, ordered: bool) -> float:
    """How many of the pairs of rows of so many events fit together: Pt of table 1, and the window.

    Without events, at an edge, all do.
    """
    if not left or not right:
        return 1.0
    if model.arrivals == "halves":
        return 0.5 if ordered else 1.0
    in_one_window = (left + right) / (left * right)
    return in_one_window / math.comb(left + right, left) if ordered else in_one_window


def looked_at(
    model: JoinCosts, left: int, right: int, ordered: bool, free: tuple[float, float] = (1.0, 1.0)
) -> float:
    """How many of the pairs of rows of so many events a join looks at to find those that fit.

    The paper's estimate does not tell them apart. The kernels go over left rows by their end: those
    that begin too early for the window are looked at in vain, which single events never are. Of m
    events that fit a window the span is (m - 1) / m of it on average, so a right row leaves 1 / m.
    A look in vain counts for less than one that leads to predicates and a row. `free` are the
    shares that negations between the two let through, of pairs that fit and of all these: what
    they rule out is not looked at.
    """
    fitting = meeting(model, left, right, ordered) * free[0]
    if not left or not right or model.arrivals == "halves":
        return fitting
    near = (1 / right if ordered else 1 + 1 / right) * free[1]
    return fitting + model.vain * max(near - fitting, 0.0)


def join(
    model: JoinCosts,
    pairs: float,
    lookups: float,
    predicates: int,
    equal: float | None,
    made: float,
) -> float:
    """Sequence and conjunction; `pairs` are looked at.

    `equal` is the selectivity of the equalities that are looked up, None where there are none.
    """
    tried = pairs if equal is None else pairs * equal + lookups
    return touched(model, tried, predicates, made)


def merged(model: JoinCosts, rows: float) -> float:
    """Disjunction: each row is fetched once and given on."""
    return touched(model, rows, 0, rows)


def latest(model: JoinCosts, rows: float, made: float) -> float:
    """LATEST: each event of its parts is looked at once, and those that complete it are made."""
    return touched(model, rows, 0, made)


def pushed(model: JoinCosts, rows: float, predicates: int) -> float:
    """NSEQ: each row of the positive side finds the event that negates it, without a search."""
    return touched(model, rows, predicates, rows)


def filtered(model: JoinCosts, before: float, predicates: int, after: float) -> float:
    """NEG: each row is looked at, and those that nothing negates are given on."""
    return touched(model, before, predicates, after)


def surviving(sides: int, selectivity: float) -> float:
    """The share of rows that a negation leaves by the paper's estimate, whatever its rate.

    `sides`: between two parts, on one side of one, or anywhere in the window (0).
    """
    share: float = 1 - 0.5 ** max(sides, 1) * min(1.0, selectivity)
    return share


def between(model: JoinCosts, sides: int, rows: float) -> float:
    """How many of a closure's candidates lie between a start and an end, or beside the one."""
    if model.arrivals == "halves":
        share: float = 0.5**sides
        return rows * share
    return rows / 2 if sides == 2 else rows


def groups(model: JoinCosts, quantifier: Quantifier, candidates: float, sides: int) -> float:
    """How many groups a closure makes of so many candidates on average, between `sides`."""
    if model.arrivals == "poisson":
        return _random_groups(quantifier, 2 * candidates if sides == 2 else candidates, sides == 2)
    match quantifier:
        case One():
            return candidates
        case Plus() | GroupWithout():
            chosen: float = 2.0 ** min(candidates, MAX_CHOICES) - 1
            return chosen
        case All():
            return min(1.0, candidates)
        case Exactly(count):
            some: float = (candidates / count) ** count
            return candidates - count + 1 if candidates >= count else some


def _random_groups(quantifier: Quantifier, most: float, in_gap: bool) -> float:
    """The mean over a Poisson number of candidates, with `most` of them in a whole window.

    In a gap, which is any part of a window equally likely, their number is spread accordingly.
    """
    if most < 1e-6:
        most = 1e-6
    match quantifier:
        case One():
            return most / 2 if in_gap else most
        case Plus() | GroupWithout():
            # 2^N has the mean exp(N's mean).
            capped = min(most, MAX_CHOICES * math.log(2))
            return math.expm1(capped) / capped - 1 if in_gap else math.expm1(capped)
        case All():
            return 1 + math.expm1(-most) / most if in_gap else -math.expm1(-most)
        case Exactly(count):
            if most > 500:
                return max((most / 2 if in_gap else most) - count + 1, 0.0)
            return _sliding(count, most, in_gap)


def _sliding(count: int, most: float, in_gap: bool) -> float:
    """The mean of N - count + 1, where that is positive."""
    chance, below, mean = math.exp(-most), 0.0, 0.0  # of exactly j, and of at most j
    for j in range(count + int(most + 10 * math.sqrt(most)) + 20):
        below += chance
        here = max(1 - below, 0.0) / most if in_gap else chance
        mean += max(j - count + 1, 0) * here
        chance *= most / (j + 1)
    return mean


def groups_from(quantifier: Quantifier, following: float) -> tuple[float, float]:
    """The size of a group, and how many begin with an event that so many of a window follow."""
    match quantifier:
        case Exactly(count):
            chance, none = math.exp(-following), 0.0
            for j in range(count - 1):
                none += chance
                chance *= following / (j + 1)
            return float(count), max(1 - none, 1e-12)
        case _:
            return 1 + following / 2, math.exp(min(following, MAX_CHOICES * math.log(2)))


def group_size(quantifier: Quantifier, candidates: float) -> float:
    """How many events a group has."""
    match quantifier:
        case One():
            return 1.0
        case Plus() | GroupWithout():
            return max(1.0, candidates / 2)
        case All():
            return max(1.0, candidates)
        case Exactly(count):
            return float(count)


def searched(quantifier: Quantifier, candidates: float) -> float:
    """N of table 2: the events of the closure that are touched for each start and end."""
    match quantifier:
        case Exactly(count):
            return max(1.0, candidates * count)
        case _:
            return max(1.0, candidates)
