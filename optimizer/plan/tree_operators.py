"""The operators of queries that construct matches: those that their trees are compiled to.

A node's id rests on what it does and on what it reads, with numbers for components, so that the
same subtree of two queries of one key and window is one operator, here as when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, get_args

from optimizer.ir.fingerprint import fingerprint
from optimizer.ir.pattern import (
    Symbol,
    events,
    positive_events,
    print_pattern,
)
from optimizer.ir.query import Construction, Query, Window
from optimizer.plan import join_operators as joins
from optimizer.plan.compile_tree import ReadingTree, reading_trees
from optimizer.plan.groups import CompactGroup, StepwiseGroup
from optimizer.plan.operators import Graph, setting, spread_of, window_state
from optimizer.plan.plan import Operator, OperatorKind, identity
from optimizer.statistics import MissingStatisticError
from optimizer.trees import TreeError
from optimizer.trees.narrowing import walk_query
from optimizer.trees.propagation import estimate_tree
from optimizer.trees.tree import Tree, bound, from_document, without_passing
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.printing import print_expression
from workloads.syntax import All, Exactly, Plus

MATCHED = {"start": "time", "end": "time"}
OperatorRows = tuple[str, float | None]  # an operator, and its rows a second
KINDS: Mapping[type[joins.Operator], OperatorKind] = {
    joins.Scan: "events",
    joins.Keep: "filter",
    joins.Within: "filter",
    joins.Marked: "marks",
    joins.Taken: "filter",
    joins.Join: "join",
    joins.Walk: "walk",
    joins.Reached: "semijoin",
    joins.Closure: "group",
    joins.Whole: "group",
}  # the others are negations


def tree(graph: Graph, query: Query, document: Mapping[str, Any]) -> OperatorRows:
    """The operators of a query's trees, from their leaves to the root."""
    readings = reading_trees(query, from_document(document))
    made = [add_reading(graph, query, reading) for reading in readings]
    rows = [graph.operators[ids[reading.compiled.operator]].rows
            for ids, reading in zip(made, readings, strict=True)]  # fmt: skip
    total = None if None in rows else sum(row for row in rows if row is not None)
    roots = [ids[r.compiled.operator] for ids, r in zip(made, readings, strict=True)]
    if len(roots) == 1:
        return roots[0], total
    # Each reading gives its own rows, so that equal ones come more than once.
    inputs = tuple(dict.fromkeys(roots))
    union = graph.add(
        Operator(
            identity("union", [*setting(query), roots, *graph.salt(query)], inputs),
            "union",
            inputs,
            {"pattern": print_pattern(query.pattern), "queries": [query.name]},
            MATCHED,
            ("end",),
            spread_of(query.key, query.window.is_count),
            window_state(query, "partial matches"),
            0.0,
            total,
        )
    )
    return union, total


def add_reading(graph: Graph, query: Query, reading: ReadingTree) -> dict[joins.Operator, str]:
    """The ids of all operators of a reading's tree, which the graph has from now on."""
    return _Reading(graph, query, _expected(graph, reading)).ids_below(reading.compiled.operator)


def stepwise(graph: Graph, query: Query, group: StepwiseGroup) -> OperatorRows:
    """A query whose matches are found by itself: step by step, or in order."""
    is_listed = isinstance(group, CompactGroup)
    symbols = dict.fromkeys(event.symbol for event in events(query.pattern))
    inputs = tuple(graph.events(symbol, query) for symbol in symbols)
    bindings = {f"c{i}": "event" for i, _ in enumerate(positive_events(query.pattern), 1)}
    rows = None
    if group.tree:
        root = from_document(group.tree)
        costs = _costs(graph, query, root)
        rows = costs[root].rows if root in costs else None
    if is_listed and rows is not None:
        rows = _limited(graph, query, rows)
    made = graph.add(
        Operator(
            (compact_id if is_listed else stepwise_id)(graph, query, inputs),
            "compact" if is_listed else "stepwise",
            inputs,
            {"pattern": print_pattern(query.pattern), "queries": [query.name]},
            MATCHED | bindings,
            ("end",),
            spread_of(query.key, query.window.is_count),
            window_state(query, "partial matches"),
            group.cost.shared if group.cost is not None else 0.0,
            rows,
        )
    )
    return made, rows


def stepwise_id(graph: Graph, query: Query, inputs: tuple[str, ...]) -> str:
    """The id of the operator that binds a query's components one after the other."""
    content = [fingerprint(query), *setting(query), query.slide, *graph.salt(query)]
    return identity("stepwise", content, inputs)


def _limited(graph: Graph, query: Query, rows: float) -> float:
    """The matches that are given of so many."""
    limit = query.output.limit if isinstance(query.output, Construction) else None
    *_, last = positive_events(query.pattern)
    ends = graph.rate(last.symbol)
    return rows if limit is None or ends is None else min(rows, limit.number * ends)


def compact_id(graph: Graph, query: Query, inputs: tuple[str, ...]) -> str:
    """The id of the operator that lists a query's matches in order."""
    limit = query.output.limit if isinstance(query.output, Construction) else None
    number = None if limit is None else limit.number
    content = [fingerprint(query), *setting(query), number, *graph.salt(query)]
    return identity("compact", content, inputs)


class _Expected(NamedTuple):
    """What a node is expected to take and to give, both in a second of stream."""

    cost: float
    rows: float


def _expected(graph: Graph, reading: ReadingTree) -> dict[joins.Operator, _Expected]:
    """By operator; nothing where the tree's costs cannot be told."""
    nodes = reading.compiled.nodes
    found = _costs(graph, reading.asked, reading.tree)
    return {nodes[node]: each for node, each in found.items() if node in nodes}


def _costs(graph: Graph, asked: Query, root: Tree) -> dict[Tree, _Expected]:
    """By node of a tree; nothing where its costs cannot be told."""
    if not graph.statistics.rates:  # only ids are asked for
        return {}
    joined, _ = without_passing(root)
    try:
        problem, steps = walk_query(asked, joined, graph.statistics)
        costs = estimate_tree(asked, root, graph.statistics).costs
    except (TreeError, UnsupportedError, MissingStatisticError):
        return {}
    each, touched = problem.seconds, graph.unit_costs.each.joined
    span = graph.statistics.known_span
    is_longer = not asked.window.is_count and span is not None and asked.window.size / 1e9 >= span
    # A window that holds the whole stream is never full but at its end: of k components, a k-th of
    # what a full one gives with each event.
    return {
        step.node: _Expected(
            touched * own / each,
            step.rows / each / (max(1, len(bound(step.node))) if is_longer else 1),
        )
        for step, own in zip(steps, costs, strict=True)
    }


@dataclass
class _Reading:
    graph: Graph
    query: Query
    expected: Mapping[joins.Operator, _Expected]

    def ids_below(self, root: joins.Operator) -> dict[joins.Operator, str]:
        self._ids: dict[joins.Operator, str] = {}
        self._add(root, self.query.window)
        return self._ids

    def _add(self, operator: joins.Operator, window: Window) -> str:
        """The id of an operator that is made in a window, after those below it."""
        if operator in self._ids:
            return self._ids[operator]
        if isinstance(operator, joins.Scan):
            made = self.graph.events(operator.symbol, self.query)
        else:
            made = self._made(operator, window)
        self._ids[operator] = made
        return made

    def _made(self, operator: joins.Operator, own: Window) -> str:
        inner = operator.window if isinstance(operator, joins.Within) else own
        below = [self._add(part, inner) for part in joins.inputs(operator)]
        if isinstance(operator, joins.Closure | joins.Whole):
            below.append(self.graph.events(operator.symbol, self.query))
        inputs = tuple(dict.fromkeys(below))
        kind = KINDS.get(type(operator), "negation")
        window = [own.size, own.is_count]
        content = [content_of(operator), below, window, *self.graph.salt(self.query)]
        expected = self.expected.get(operator)
        bindings = {f"c{i}": "event" for i in range(1, _components(operator) + 1)}
        return self.graph.add(
            Operator(
                identity(kind, content, inputs),
                kind,
                inputs,
                {
                    "pattern": print_operator(operator),
                    "operator": type(operator).__name__,
                    "conditions": _conditions(operator),
                }
                | _marking(operator),
                MATCHED | bindings,
                ("end",),
                spread_of(self.query.key, self.query.window.is_count),
                window_state(replace(self.query, window=own), "partial matches"),
                0.0 if expected is None else expected.cost,
                None if expected is None else expected.rows,
            )
        )


def content_of(operator: joins.Operator) -> list[Any]:
    """What an operator does, without what it reads, as plain values."""
    found: list[Any] = [type(operator).__name__]
    for field in fields(operator):
        value = getattr(operator, field.name)
        if isinstance(value, _OPERATORS) and field.name != "found":
            continue
        found.append(_plain(value))
    return found


_OPERATORS = get_args(joins.Operator)
_EXPRESSIONS = get_args(ex.Expression)


def _plain(value: Any) -> Any:
    if isinstance(value, _EXPRESSIONS):
        return print_expression(value)
    if isinstance(value, Symbol):
        return str(value)
    if isinstance(value, tuple) and not is_dataclass(value):
        return [_plain(part) for part in value]
    if is_dataclass(value):
        parts = [_plain(getattr(value, field.name)) for field in fields(value)]
        return [type(value).__name__, *parts]
    return value


def print_operator(operator: joins.Operator) -> str:
    """What an operator puts together, with symbols for components: `((A ; B) ; C)`."""
    match operator:
        case joins.Scan(symbol):
            return str(symbol)
        case joins.Keep(part) | joins.Within(part) | joins.Reached(part) | joins.Whole(part):
            return print_operator(part)
        case joins.Marked(part, checks):
            return _with_absent(part, checks)
        case joins.Taken(part, reader):
            return _with_absent(part.part, [part.checks[i] for i in part.readers[reader]])
        case joins.Join(left, right, ordered):
            sign = ";" if ordered else "&"
            return f"({print_operator(left)} {sign} {print_operator(right)})"
        case joins.Walk(parts, order):
            return f"WALK({', '.join(print_operator(parts[number]) for number in order)})"
        case joins.Push(part, negation, side):
            absent = f"!{print_operator(negation)}"
            both = (absent, print_operator(part))
            return f"NSEQ({' ; '.join(both if side == 'left' else reversed(both))})"
        case joins.Absent(part, negation) | joins.Shorten(part, negation):
            return f"NEG({print_operator(part)}, !{print_operator(negation)})"
        case joins.Closure(part, symbol, quantifier):
            group = str(symbol)
            match quantifier:
                case Plus():
                    group += "+"
                case Exactly(count):
                    group += f"^{count}"
                case All():
                    group = f"ALL {group}"
                case _:
                    pass
            return f"KSEQ({group})" if part is None else f"KSEQ({print_operator(part)} ; {group})"
        case joins.Inside(negation):
            return "" if negation is None else print_operator(negation)
        case joins.Lacking(part, found):
            return f"NEG({print_operator(part)}, !{print_operator(found)})"
        case joins.Latest(parts):
            return f"LATEST({' ; '.join(map(print_operator, parts))})"


def _marking(operator: joins.Operator) -> dict[str, Any]:
    """How many readers have a bit, and what of a piece is checked for them."""
    match operator:
        case joins.Marked(_, checks, readers):
            return {"readers": len(readers), "checks": len(checks)}
        case joins.Taken(_, reader):
            return {"reader": reader}
        case _:
            return {}


def _with_absent(part: joins.Operator, checks: Sequence[joins.Check]) -> str:
    absent = dict.fromkeys(f"!{print_operator(check.negation)}" for check in checks)
    return f"MARKS({', '.join((print_operator(part), *absent))})"


def _conditions(operator: joins.Operator) -> list[str]:
    found = getattr(operator, "conditions", ()) or getattr(operator, "tests", ())
    return [print_expression(condition) for condition in found]


def _components(operator: joins.Operator) -> int:
    """How many components its rows bind."""
    match operator:
        case joins.Join(left, right):
            return _components(left) + _components(right)
        case joins.Walk(parts):
            return sum(map(_components, parts))
        case joins.Closure(part):
            return 1 if part is None else 1 + _components(part)
        case joins.Scan() | joins.Inside():
            return 1
        case _:
            return _components(joins.inputs(operator)[0])
