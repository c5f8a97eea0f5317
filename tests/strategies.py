"""Random queries, workloads and streams for property tests.

`bound_queries` and `workloads` build *syntax*, print it, parse the text and bind it, so every use
of them also tests printer, parser and binder. `event_rows` gives the rows of a small stream for
such a workload: few types, small integers with nulls, ties in time, in no particular order.
Any query that parses, whether it means anything or not, is in `syntax_strategies`; what a `Shape`
is, in `pattern_strategies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any, get_args

from hypothesis import strategies as st

from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload, Query
from tests.grouped_queries import groupings
from tests.pattern_strategies import (
    SHAPE,
    Draw,
    Shape,
    named_components,
    negated_sequences,
    unnamed_patterns,
    with_marks,
    with_optional,
)
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.parser import parse_query
from workloads.printing import print_query

TIME, SEQUENCE, KIND, KEY = "ts", "seq", "kind", "k"
VALUES = ("x", "y")
TEXT, TEXTS = "m", ("s", "t")

Row = dict[str, Any]


# --- streams -----------------------------------------------------------------------------------


def stream_document(
    sequence: bool = False, overlapping: bool = False, types: Sequence[str] = SHAPE.types
) -> dict[str, Any]:
    """The `stream` of a workload document; `overlapping`: events may be of two types."""
    document: dict[str, Any] = {"time": TIME, "type": KIND, "unit": "ms"}
    if sequence:
        document["sequence"] = SEQUENCE
    if overlapping:
        document["types"] = {types[-1]: f"{KIND} = '{types[-1]}' OR x = 2"}
    return document


def event_rows(
    sequence: bool = False,
    types: Sequence[str] = SHAPE.types,
    max_size: int = 8,
    max_gap: int = 2,
    nulls: bool = True,
    keys: int = 2,
) -> st.SearchStrategy[list[Row]]:
    """The rows of a small stream, as dicts of columns, in any order."""
    value = st.sampled_from([0, 1, 2, None] if nulls else [0, 1, 2])
    key = st.sampled_from([*range(1, keys + 1)] * 3 + [None] * nulls)
    one = st.tuples(
        st.integers(0, max_gap), st.sampled_from(list(types)), key, value, value, st.integers(0, 2)
    )

    def rows(drawn: list[tuple[Any, ...]]) -> list[Row]:
        time, found = 0, []
        for gap, kind, k, x, y, seq in drawn:
            time += gap
            row: Row = {TIME: time, KIND: kind, KEY: k, "x": x, "y": y}
            found.append({**row, SEQUENCE: seq} if sequence else row)
        return found

    # Lengths are drawn first: left to itself a list is mostly short, and nothing matches in it.
    length = st.sampled_from([*range(max_size + 1), *range(max_size // 2, max_size + 1)])
    drawn = length.flatmap(lambda n: st.lists(one, min_size=n, max_size=n))
    return drawn.map(rows).flatmap(_mostly_in_order)


def _mostly_in_order(rows: list[Row]) -> st.SearchStrategy[list[Row]]:
    return st.one_of(st.just(rows), st.just(rows), st.permutations(rows))


def has_sequence(workload: BoundWorkload) -> bool:
    return workload.stream.sequence is not None


# --- queries that bind -------------------------------------------------------------------------


@st.composite
def workloads(
    draw: Draw, shape: Shape = SHAPE, max_queries: int = 3, nested: bool = False
) -> BoundWorkload:
    """A bound workload of one to `max_queries` queries over one stream.

    With `nested` their patterns are those of `negated_sequences`.
    """
    sequence = shape.count_windows and draw(st.booleans())
    shape = shape if sequence else replace(shape, count_windows=False)
    document = {
        "name": "random",
        "stream": stream_document(sequence, draw(st.integers(0, 3)) == 0, shape.types),
        "queries": [
            query_text(draw(bindable_queries(shape, f"q{i + 1}", nested)))
            for i in range(draw(st.integers(1, max_queries)))
        ],
    }
    return load_bound(document)


def bound_queries(shape: Shape = SHAPE) -> st.SearchStrategy[tuple[BoundWorkload, Query]]:
    """One bound query, and the workload of it alone."""
    return workloads(shape, max_queries=1).map(lambda found: (found, found.queries[0]))


def queries_with_rows(
    shape: Shape = SHAPE, max_size: int = 7, nested: bool = False
) -> st.SearchStrategy[tuple[BoundWorkload, list[Row]]]:
    """A workload of one query, and rows of a stream for it."""
    return workloads(shape, max_queries=1, nested=nested).flatmap(
        lambda found: st.tuples(
            st.just(found),
            event_rows(sequence=has_sequence(found), types=shape.types, max_size=max_size),
        )
    )


@st.composite
def constants_with_rows(
    draw: Draw, shape: Shape = SHAPE, max_size: int = 7
) -> tuple[BoundWorkload, list[Row]]:
    """A workload of one query that gives the text `m` constants, ties and keys, and rows."""
    sequence = shape.count_windows and draw(st.booleans())
    shape = shape if sequence else replace(shape, count_windows=False)
    query = _with_texts(draw, draw(bindable_queries(shape)))
    document = {
        "name": "random",
        "stream": stream_document(sequence, types=shape.types),
        "queries": [query_text(query)],
    }
    rows = draw(event_rows(sequence, shape.types, max_size))
    texts = draw(st.lists(_TEXT, min_size=len(rows), max_size=len(rows)))
    return load_bound(document), [row | {TEXT: text} for row, text in zip(rows, texts, strict=True)]


_TEXT = st.sampled_from([*TEXTS[:1] * 5, *TEXTS, None])


def _with_texts(draw: Draw, query: sx.Query) -> sx.Query:
    scope = _Scope.of(query.pattern)
    names = sorted(scope.components)
    conditions = [] if query.where is None else [query.where]
    constant = ex.Literal(draw(st.sampled_from(TEXTS[:1] * 4 + TEXTS)))
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    conditions += [ex.Comparison("=", ex.Attribute(name, TEXT), constant) for name in chosen]
    if len(names) > 1:
        for _ in range(draw(st.integers(0, 3))):
            pair = draw(st.lists(st.sampled_from(names), min_size=2, max_size=2, unique=True))
            if scope.can_be_tied(pair):
                conditions.append(_equal(pair[0], pair[1], TEXT))
    key = query.partition_by
    if draw(st.booleans()):
        key = tuple(draw(st.permutations([*key, TEXT])))
    return replace(query, where=_joined(conditions), partition_by=key)


def query_text(query: sx.Query) -> str:
    """The query as text; what is printed must parse to the same query."""
    text = print_query(query)
    assert parse_query(text) == query, text
    return text


@st.composite
def bindable_queries(
    draw: Draw, shape: Shape = SHAPE, name: str = "q1", nested: bool = False
) -> sx.Query:
    """A parsed query that binds to a stream of `stream_document`.

    With `shape.count_windows` that stream must have a sequence.
    """
    pattern = named_components(
        draw, draw(negated_sequences(shape) if nested else unnamed_patterns(shape))
    )
    if shape.optional:
        pattern = with_optional(draw, pattern)
    if shape.marks:
        pattern = with_marks(draw, pattern)
    scope = _Scope.of(pattern)
    conditions = _conditions(draw, shape, scope)
    partition_by: tuple[str, ...] = ()
    if shape.keys:
        how = draw(st.sampled_from(["none", "none", "brackets", "clause", "chain"]))
        names = sorted(scope.components)
        if how == "brackets":
            conditions.append(ex.Equivalence((KEY,)))
        elif how == "clause":
            partition_by = (KEY,)
        elif how == "chain" and len(names) > 1:
            # Ties between two negations are refused, so chain everything to a positive one.
            root = scope.positive[0]
            others = [name for name in names if name != root]
            if all(scope.can_be_tied([root, name]) for name in others):
                conditions += [_equal(root, other, KEY) for other in others]
    tied = _component_keys(draw, sorted(scope.components)) if shape.component_keys else ()
    strategy = draw(st.sampled_from(shape.strategies))
    if shape.prev:
        conditions += _looking_back(draw, scope, strategy)
    kind = draw(st.sampled_from(shape.outputs))
    unit = "EVENTS" if shape.count_windows and draw(st.booleans()) else "ms"
    size = draw(st.integers(1, shape.max_window))
    slide = None
    if kind == "slide":
        slide = sx.Duration(Decimal(draw(st.integers(1, size + 2))), unit)
    output: sx.Aggregates | sx.Return
    if kind == "return":
        output = _returned(draw, shape, scope)
    else:
        output = _aggregates(draw, shape, scope)
        if shape.grouped:
            output = replace(output, groups=groupings(draw, pattern, (*VALUES, KEY), strategy))
    return sx.Query(
        name=name,
        pattern=pattern,
        within=sx.Duration(Decimal(size), unit),
        output=output,
        where=_joined(conditions),
        partition_by=partition_by,
        slide=slide,
        strategy=strategy,
        tied_keys=tied,
        skip="past last event" if shape.skips and draw(st.booleans()) else None,
    )


def _component_keys(draw: Draw, names: list[str]) -> tuple[sx.TiedKey, ...]:
    """One or two keys of which each component has its own column."""
    columns = st.sampled_from(["x", "x", "y", KEY])
    return tuple(
        sx.TiedKey(
            tuple(ex.Attribute(name, draw(columns)) for name in names),
            key,
            optional=draw(st.integers(0, 3)) == 0,
        )
        for key in (["both"] if draw(st.integers(0, 3)) else ["other", "more"])
    )


def _equal(first: str, second: str, name: str) -> ex.Expression:
    return ex.Comparison("=", ex.Attribute(first, name), ex.Attribute(second, name))


def _joined(conditions: list[ex.Expression]) -> ex.Expression | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return ex.Logical("AND", tuple(conditions))


@dataclass(frozen=True)
class _Scope:
    """What a pattern offers to conditions and outputs."""

    components: Mapping[str, sx.Component]
    paths: Mapping[str, tuple[int, ...]]  # the negations above each component

    @property
    def positive(self) -> list[str]:
        return [name for name, path in self.paths.items() if not path]

    def is_group(self, name: str) -> bool:
        return not isinstance(self.components[name].quantifier, sx.One)

    def is_filtered(self, name: str) -> bool:
        return isinstance(self.components[name].quantifier, sx.Exactly | sx.All)

    def can_be_tied(self, names: Sequence[str]) -> bool:
        """Negations one inside the other, and no filtered group tied to another group."""
        deepest = max((self.paths[name] for name in names), key=len)
        nested = all(deepest[: len(self.paths[n])] == self.paths[n] for n in names)
        groups = [name for name in names if self.is_group(name)]
        return nested and (len(groups) < 2 or not any(map(self.is_filtered, groups)))

    @staticmethod
    def of(pattern: sx.Pattern) -> _Scope:
        components: dict[str, sx.Component] = {}
        paths: dict[str, tuple[int, ...]] = {}
        count = 0

        def visit(node: sx.Pattern, path: tuple[int, ...]) -> None:
            nonlocal count
            match node:
                case sx.Component():
                    components[node.name] = node
                    paths[node.name] = path
                case sx.Negation(part):
                    count += 1
                    visit(part, (*path, count))
                case sx.Operation(_, parts):
                    for part in parts:
                        visit(part, path)

        visit(pattern, ())
        return _Scope(components, paths)


COMPARISONS = st.sampled_from(get_args(ex.ComparisonOperator))
ARITHMETIC = st.sampled_from(get_args(ex.ArithmeticOperator))
_NUMBERS = st.sampled_from([0, 1, 2, 3, -1, 0.5, 1.5, 2.0])


def _conditions(draw: Draw, shape: Shape, scope: _Scope) -> list[ex.Expression]:
    names = sorted(scope.components)
    found: list[ex.Expression] = []
    if shape.local:
        chosen = [name for name in names if not draw(st.integers(0, 3))]
        found += [_condition(draw, [name], depth=2) for name in chosen]
    if shape.ties and len(names) > 1:
        for _ in range(draw(st.integers(0, 2))):
            tied = draw(st.lists(st.sampled_from(names), min_size=2, max_size=3, unique=True))
            if scope.can_be_tied(tied):
                found.append(_tie(draw, tied, shape.constants))
    groups = [name for name in names if scope.is_group(name)]
    if shape.group_conditions and groups and draw(st.booleans()):
        found.append(_group_condition(draw, scope, groups))
    if shape.constants and not draw(st.integers(0, 7)):
        found.append(_condition(draw, [], depth=2))
    return found


def _value(draw: Draw, names: Sequence[str], depth: int) -> ex.Expression:
    """A number made of attributes of `names`; a constant where there are none."""
    choice = draw(st.integers(0, 5))
    if depth > 0 and choice == 0:
        left, right = _value(draw, names, depth - 1), _value(draw, names, depth - 1)
        return ex.Arithmetic(draw(ARITHMETIC), left, right)
    if depth > 0 and choice == 1 and names:
        return ex.Negative(_attribute(draw, names))
    if names and choice < 5:
        return _attribute(draw, names)
    return ex.Literal(draw(_NUMBERS))


def _attribute(draw: Draw, names: Sequence[str]) -> ex.Attribute:
    name = draw(st.sampled_from([*VALUES * 4, "time"]))
    return ex.Attribute(draw(st.sampled_from(list(names))), name)


def _condition(draw: Draw, names: Sequence[str], depth: int) -> ex.Expression:
    """A condition over one component, or over none."""
    choice = draw(st.integers(0, 9))
    if depth > 0 and choice == 0:
        return ex.Not(_condition(draw, names, depth - 1))
    if depth > 0 and choice == 1:
        parts = [_condition(draw, names, depth - 1) for _ in range(draw(st.integers(2, 3)))]
        return ex.Logical(draw(st.sampled_from(["AND", "OR"])), tuple(parts))
    if choice == 2 and names:
        return ex.IsNull(_attribute(draw, names), draw(st.booleans()))
    if choice == 3 and names:
        listed = draw(st.lists(_NUMBERS, min_size=1, max_size=3, unique=True))
        values = tuple(map(ex.Literal, listed))
        return ex.Membership(_attribute(draw, names), values, draw(st.booleans()))
    if choice == 4 and depth < 2:
        return ex.Literal(draw(st.booleans()))
    constant = ex.Literal(None) if choice == 5 else ex.Literal(draw(_NUMBERS))
    return ex.Comparison(draw(COMPARISONS), _value(draw, names, 1), constant)


def _tie(draw: Draw, names: Sequence[str], constants: bool) -> ex.Expression:
    """A condition that speaks of all of `names`; with `constants`, at times constantly false."""
    links: list[ex.Expression] = []
    for first, second in pairwise(names):
        left: ex.Expression = _attribute(draw, [first])
        right: ex.Expression = _attribute(draw, [second])
        if not draw(st.integers(0, 3)):
            right = ex.Arithmetic(draw(ARITHMETIC), right, ex.Literal(draw(_NUMBERS)))
        links.append(ex.Comparison(draw(COMPARISONS), left, right))
    choice = draw(st.integers(0, 9))
    if choice == 0 and constants:
        return ex.Not(ex.Logical("OR", (*links, ex.Literal(True))))
    if len(links) == 1:
        return ex.Not(links[0]) if choice in (1, 2) else links[0]
    # An AND would fall apart into conjuncts of two each.
    return ex.Logical("OR", tuple(links))


def _group_condition(draw: Draw, scope: _Scope, groups: list[str]) -> ex.Expression:
    name = draw(st.sampled_from(groups))
    function = draw(st.sampled_from(ex.GROUP_FUNCTIONS))
    call = ex.Call(function, ex.Attribute(name, draw(st.sampled_from(VALUES))))
    other: ex.Expression = ex.Literal(draw(_NUMBERS))
    singles = [
        n for n in scope.components if not scope.is_group(n) and scope.can_be_tied([n, name])
    ]
    if draw(st.booleans()) and singles:
        other = _attribute(draw, [draw(st.sampled_from(sorted(singles)))])
    return ex.Comparison(draw(COMPARISONS), call, other)


def _looking_back(draw: Draw, scope: _Scope, strategy: sx.Strategy) -> list[ex.Expression]:
    """Conditions on events and those just before them, of groups or of any component."""
    names = [n for n in scope.positive if strategy == "strict" or scope.is_group(n)]
    found: list[ex.Expression] = []
    for _ in range(draw(st.integers(0, 2)) if names else 0):
        name = draw(st.sampled_from(names))
        before = ex.Call("prev", ex.Attribute(name, draw(st.sampled_from(VALUES))))
        value: ex.Expression = _attribute(draw, [name])
        others = [n for n in scope.positive if not scope.is_group(n) and n != name]
        if others and draw(st.booleans()):
            other = _attribute(draw, [draw(st.sampled_from(others))])
            value = ex.Arithmetic("+", value, other) if draw(st.booleans()) else other
        found.append(ex.Comparison(draw(COMPARISONS), before, value))
    return found


def _returned(draw: Draw, shape: Shape, scope: _Scope) -> sx.Return:
    items: list[sx.Item] = []
    for name in scope.positive:
        choice = draw(st.integers(0, 5))
        if choice < 2:
            items.append(sx.Item(name))
        elif choice == 2:
            items += [sx.Item(ex.Attribute(name, "x")), sx.Item(ex.Attribute(name, "time"))]
        elif choice == 3:
            value: ex.Expression = ex.Attribute(name, "y")
            if scope.is_group(name):
                value = ex.Call(draw(st.sampled_from(ex.GROUP_FUNCTIONS)), value)
            total = ex.Arithmetic(draw(ARITHMETIC), value, ex.Literal(2))
            items.append(sx.Item(total, f"v_{name}"))
    limit = draw(st.none() | st.integers(1, 3)) if shape.limit else None
    return sx.Return(tuple(items) or (sx.Item(scope.positive[0]),), limit)


AGGREGATES = ("sum", "avg", "min", "max", "count", "first", "last", "var", "stddev_pop")


def _aggregates(draw: Draw, shape: Shape, scope: _Scope) -> sx.Aggregates:
    def one() -> ex.Expression:
        if not draw(st.integers(0, 4)):
            return ex.Call("count", None)
        known = AGGREGATES[:4] * 2 + AGGREGATES if shape.tied_aggregates else AGGREGATES[:5]
        function = draw(st.sampled_from(known))
        if shape.tied_aggregates and draw(st.booleans()):
            function = draw(st.sampled_from(("count distinct", "sum", "min", "count", "var")))
        alias = draw(st.sampled_from(scope.positive))
        value: ex.Expression = ex.Attribute(alias, draw(st.sampled_from(VALUES)))
        if not draw(st.integers(0, 2)):
            tied = shape.tied_aggregates and function not in ("first", "last")
            other = draw(st.sampled_from(scope.positive)) if tied else alias
            more = ex.Attribute(other, draw(st.sampled_from(VALUES)))
            value = ex.Arithmetic(draw(ARITHMETIC), value, more)
        return ex.Call(function, value)

    items = tuple(dict.fromkeys(one() for _ in range(draw(st.integers(1, 3)))))
    having = None
    if shape.having and not draw(st.integers(0, 3)):
        having = ex.Comparison(draw(COMPARISONS), one(), ex.Literal(draw(_NUMBERS)))
    return sx.Aggregates(items, having)
