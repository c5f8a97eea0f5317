"""The operators that run a tree of joins, and when the groups of a Kleene pattern are bound."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from optimizer.ir.pattern import Event, GroupWithout, Position, Quantifier, Symbol
from optimizer.ir.query import Window
from optimizer.trees import KSeq, Tree
from optimizer.trees.tree import Side, bound, walk
from workloads import expressions as ex
from workloads.expressions import Expression
from workloads.syntax import (
    All,
    Exactly,
    One,
    Plus,
)

Conditions = tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """The events of a symbol."""

    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Keep:
    """The rows for which conditions hold."""

    part: Operator
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class Within:
    """The rows of a part that is made in a longer window, as far as they fit into the query's."""

    part: Operator
    window: Window


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows in one window: the left one before the right one, or in any order.

    `rivals` are components that may not be the same event.
    """

    left: Operator
    right: Operator
    ordered: bool
    conditions: Conditions = ()
    rivals: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Walk:
    """Rows of several parts in one window, bound depth first, without partial matches between.

    `parts` stand as in the pattern, one before the next where they are `ordered`; `order` says
    which is bound first, second and so on. `rivals` are components that may not be the same event.
    """

    parts: tuple[Operator, ...]
    order: tuple[int, ...]
    ordered: bool
    conditions: Conditions = ()
    rivals: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Push:
    """Rows with the moment that a negation beside them names: NSEQ."""

    part: Operator
    negation: Operator
    side: Side
    conditions: Conditions = ()


@dataclass(frozen=True, slots=True)
class Latest:
    """For each event of the last part the sequence that starts latest and ends there.

    Of those that start together only the first to end: wherever one of all sequences lies between
    two places, one of these does. Rows have their first and their last event; parts are single
    events, each with the moment that a negation before it names.
    """

    parts: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """Where a negation looks: between some components and others, up to the window for None.

    `anywhere`: in all of the window, but not behind the last event. `inside`: rows have a gap of
    their own (see `Inside`), and that is meant instead of the window.
    """

    before: tuple[int, ...] | None
    after: tuple[int, ...] | None
    anywhere: bool = False
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Absent:
    """The rows in whose gap there is nothing of a negation."""

    part: Operator
    negation: Operator
    gap: Gap
    conditions: Conditions = ()


@dataclass(frozen=True, slots=True)
class Check:
    """A negation of which nothing may lie in a gap of a row."""

    negation: Operator
    gap: Gap
    conditions: Conditions = ()


@dataclass(frozen=True, slots=True)
class Marked:
    """Rows with a bit for each reader whose negations leave them: bit-marking (NEEL, IV-B).

    `readers` are the numbers of the checks that each reader asks for. Each check is made once, and
    not where no reader is left that asks for it; a row without readers is given up.
    """

    part: Operator
    checks: tuple[Check, ...]
    readers: tuple[tuple[int, ...], ...]

    def only(self, reader: int) -> Marked:
        """The same for one reader."""
        return Marked(
            self.part,
            tuple(self.checks[number] for number in self.readers[reader]),
            (tuple(range(len(self.readers[reader]))),),
        )


@dataclass(frozen=True, slots=True)
class Taken:
    """The rows that have the bit of a reader."""

    part: Marked
    reader: int


@dataclass(frozen=True, slots=True)
class Shorten:
    """Rows with the moments of a negation at the edge of a pattern whose matches are aggregated.

    A window may not hold the last that starts before a row, nor the first that ends behind it.
    """

    part: Operator
    negation: Operator
    gap: Gap
    conditions: Conditions = ()


@dataclass(frozen=True, slots=True)
class Reached:
    """The rows that a row of `last` follows in one window, under conditions: a semi-join."""

    part: Operator
    last: Operator
    conditions: Conditions = ()


End = OneOf["gap", "reach", "follows", "open"]


@dataclass(frozen=True, slots=True)
class Closure:
    """Every row with each of the groups `E+`, `E^n` or `ALL E` in its gap: KSEQ.

    The group is the last component, and without a part the only one. The components next to it
    that are bound make the gap. `tests` choose the events of the group one by one, and none of
    them may be one of the `rivals`. Of `ALL E`, `lower` and `upper` say how its ends are found: it
    reaches to a bound neighbour, to the end of the match's window, or of the window that its own
    first event opens, or all ends are tried, and `Whole` tells which is right.
    """

    part: Operator | None
    symbol: Symbol
    quantifier: Quantifier
    gap: Gap
    tests: Conditions = ()
    rivals: tuple[tuple[int, Symbol], ...] = ()
    lower: End = "gap"
    upper: End = "gap"


@dataclass(frozen=True, slots=True)
class Whole:
    """The rows whose group `ALL E`, component `number`, leaves out no event of its gap."""

    part: Operator
    number: int
    symbol: Symbol
    gap: Gap
    tests: Conditions = ()


@dataclass(frozen=True, slots=True)
class Inside:
    """The rows that `Lacking` looks at, each with every row of a negation that lies in its gap.

    Behind the components of the row comes its number, and then those of the negation; without one
    there is the row alone. What is bound or absent in the negation because of what is around it is
    left to the operators above.
    """

    negation: Operator | None
    gap: Gap
    conditions: Conditions = ()


@dataclass(frozen=True, slots=True)
class Lacking:
    """The rows of which nothing is found by operators that begin with `Inside`."""

    part: Operator
    found: Operator


Operator: TypeAlias = (
    Scan
    | Keep
    | Within
    | Join
    | Walk
    | Push
    | Latest
    | Absent
    | Marked
    | Taken
    | Shorten
    | Reached
    | Closure
    | Whole
    | Inside
    | Lacking
)


def inputs(operator: Operator) -> tuple[Operator, ...]:
    """What an operator reads."""
    match operator:
        case Scan():
            return ()
        case Keep(part) | Within(part) | Whole(part) | Taken(part):
            return (part,)
        case Marked(part, checks):
            return (part, *dict.fromkeys(check.negation for check in checks))
        case Latest(parts) | Walk(parts):
            return parts
        case Closure(part) | Inside(part):
            return () if part is None else (part,)
        case Lacking(part, found):
            return (part, *_independent(found))
        case Join(left, right):
            return (left, right)
        case Push(part, other) | Absent(part, other) | Shorten(part, other) | Reached(part, other):
            return (part, other)


def _independent(found: Operator) -> Iterator[Operator]:
    """What operators that begin with `Inside` read besides the rows that they look at."""
    match found:
        case Inside(negation):
            if negation is not None:
                yield negation
        case Lacking(part, inner):
            yield from _independent(part)
            yield from _independent(inner)
        case _:
            first, *others = inputs(found)
            yield from _independent(first)
            yield from others


def walk_operators(operator: Operator) -> Iterator[Operator]:
    """The operator and all below it, parents first."""
    yield operator
    for part in inputs(operator):
        yield from walk_operators(part)


def symbols(operator: Operator) -> tuple[Symbol, ...]:
    """The symbols of an operator's components."""
    match operator:
        case Scan(symbol):
            return (symbol,)
        case Keep(part) | Push(part) | Absent(part) | Shorten(part) | Reached(part):
            return symbols(part)
        case Within(part) | Marked(part) | Taken(part):
            return symbols(part)
        case Latest(parts):
            return (symbols(parts[0])[0], symbols(parts[-1])[0])
        case Whole(part):
            return symbols(part)
        case Lacking(part):
            return symbols(part)
        case Inside():
            raise AssertionError("what is found in a gap is joined with nothing")
        case Closure(part, symbol):
            return (symbol,) if part is None else (*symbols(part), symbol)
        case Join(left, right):
            return (*symbols(left), *symbols(right))
        case Walk(parts):
            return tuple(symbol for part in parts for symbol in symbols(part))


def is_partial(operator: Operator) -> bool:
    """Are its rows partial matches, and not just single events?"""
    match operator:
        case Scan():
            return False
        case (
            Keep(part)
            | Within(part)
            | Push(part)
            | Absent(part)
            | Shorten(part)
            | Reached(part)
            | Whole(part)
        ):
            return is_partial(part)
        case Lacking(part) | Marked(part) | Taken(part):
            return is_partial(part)
        case Join() | Walk() | Closure() | Inside() | Latest():
            return True


Components = Mapping[str, Position]

_ORDER: dict[type[Quantifier], int] = {One: 0, Plus: 1, Exactly: 2, All: 3, GroupWithout: 4}


def quantifier(place: Position) -> Quantifier:
    assert isinstance(place.leaf, Event)
    return place.leaf.quantifier


def in_turn(aliases: Iterable[str], components: Components) -> list[str]:
    """Groups in the order in which they are bound."""
    given = set(aliases)
    known = [alias for alias in components if alias in given]
    return sorted(known, key=lambda alias: _ORDER[type(quantifier(components[alias]))])


def tests_of(alias: str, known: Collection[str], conditions: Conditions) -> list[ex.Expression]:
    """The conditions that choose the events of a group one by one, with nothing unknown."""
    return [
        condition
        for condition in conditions
        if alias in (named := ex.aliases(condition))
        and named.issubset({*known, alias})
        and not ex.has_group_call(condition)
    ]


def late_groups(
    tree: Tree, components: Components, conditions: Conditions, outer: frozenset[str]
) -> frozenset[str]:
    """The groups that cannot be bound where they stand in a tree; `outer` is bound around it."""
    late: frozenset[str] = frozenset()
    nodes = [node for node in walk(tree) if isinstance(node, KSeq)]
    while True:
        more = frozenset(
            closure.alias
            for node in nodes
            for closure in node.closures
            if closure.alias in components
            and _is_late(
                components[closure.alias],
                bound(node) - late,
                components.keys() | outer,
                conditions,
            )
        )
        if more <= late:
            return late
        late |= more


def _is_late(
    place: Position, here: frozenset[str], known: Collection[str], conditions: Conditions
) -> bool:
    assert isinstance(place.leaf, Event)
    if isinstance(place.leaf.quantifier, One | Plus):
        return False
    asked = tests_of(place.leaf.alias, known, conditions)
    needs = frozenset().union(*map(ex.aliases, asked))
    if isinstance(place.leaf.quantifier, All):
        if place.gap.at_edge:
            return True
        needs |= place.gap.aliases
    return not needs <= here | {place.leaf.alias}


def nearest(parts: Iterable[tuple[str, ...]], known: Collection[str]) -> list[str]:
    """The bound aliases next to a component, up to a part that is wholly bound."""
    found: list[str] = []
    for part in parts:
        inside = [alias for alias in part if alias in known]
        found += inside
        if len(inside) == len(part):
            break
    return found


def ends_of(
    place: Position, known: Collection[str], components: Components, inside: bool
) -> tuple[End, End]:
    """How the two ends of `ALL E` are found when some components are bound.

    `inside`: rows have a gap of their own, to whose ends it reaches.
    """

    def end(neighbours: tuple[str, ...] | None, before: bool) -> End:
        if neighbours is not None:
            return "gap" if set(neighbours) <= set(known) else "open"
        if inside:
            return "gap"
        return "reach" if _is_settled(known, components, before) else "open"

    lower, upper = end(place.gap.before, before=True), end(place.gap.after, before=False)
    unbound = components.keys() - set(known)
    if upper == "open" and len(unbound) == 1 and place.gap.after is None:
        upper = "follows"
    return lower, upper


def _is_settled(known: Collection[str], components: Components, before: bool) -> bool:
    """Is the match's last event (which opens its window), or its first, already bound?"""
    bound_here = set(known)
    return all(
        any(bound_here.intersection(part) for part in (place.later if before else place.earlier))
        for alias, place in components.items()
        if alias not in bound_here
    )
