"""Trees of joins: their nodes, under other aliases, and as a plain document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, assert_never
from typing import Literal as OneOf

from optimizer.bind.conditions import canonical, read_condition
from optimizer.ir.pattern import (
    Event,
    Neg,
    Quantifier,
    Seq,
    Symbol,
    positive_events,
    print_pattern,
)
from optimizer.ir.pattern import walk as parts_below
from optimizer.ir.query import Query, Window
from optimizer.trees.errors import TooEarlyError as TooEarlyError
from optimizer.trees.errors import TreeError as TreeError
from optimizer.trees.marks import MarkTest, quantifier_of, quantifier_text
from workloads import expressions as ex
from workloads.printing import print_expression
from workloads.syntax import Exactly, Plus

Side = OneOf["left", "right"]
Propagation = OneOf["push", "pull", "pass-down"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """The events of one component."""

    alias: str


@dataclass(frozen=True, slots=True)
class Shared:
    """A piece of the pattern that is computed elsewhere, and only read here."""

    name: str
    aliases: frozenset[str]


@dataclass(frozen=True, slots=True)
class SeqJoin:
    """`(left ; right)`"""

    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class AndJoin:
    """`(left & right)`"""

    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class Walk:
    """Parts of one SEQ, or of one AND, bound depth first in the order in which they stand here.

    No partial match is written down: each part is looked for given those before it.
    """

    parts: tuple[Tree, ...]
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class OrMerge:
    """`(part | part …)`"""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class NSeq:
    """A negation pushed down to its neighbour: every row with the event that negates it.

    `side` is where the negation stands: left of the part, `!B` in `A; !B; C` pushed to C, or right
    of it, the same pushed to A.
    """

    part: Tree
    negation: Tree
    side: Side


@dataclass(frozen=True, slots=True)
class Latest:
    """A negated sequence that one pass decides: the latest of each part before the next.

    Only as what a `NSeq` or `NegTop` negates. No sequence of it is made: of those that end with an
    event only the latest start matters. Parts are leaves, with what is negated to their left.
    """

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class NegTop:
    """A filter on finished rows: the negation is checked when all it needs is there."""

    part: Tree
    negation: Tree


@dataclass(frozen=True, slots=True)
class Closure:
    """A group of events: `E+`, `E^n` or `ALL E`."""

    alias: str
    quantifier: Quantifier


@dataclass(frozen=True, slots=True)
class KSeq:
    """Groups between a start and an end; either is absent at an edge of the pattern."""

    start: Tree | None
    closures: tuple[Closure, ...]
    end: Tree | None


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Rows of a piece that asks for less than the query does; a filter keeps the query's own.

    The part is made in a longer `window` (None: the query's), of other `symbols` for some aliases,
    and under `conditions`, which those of the query imply. So others can read the same rows.
    """

    part: Tree
    window: Window | None
    symbols: tuple[tuple[str, Symbol], ...]
    conditions: tuple[ex.Expression, ...]


@dataclass(frozen=True, slots=True)
class Marked:
    """Rows of a piece, each with a bit for every reader whose negations leave it.

    `aliases` are those of the piece in its order. Each distinct negation is one of the `tests`, and
    is looked for once, whoever asks for it; `readers` are the numbers of those that each asks for.
    """

    part: Tree
    aliases: tuple[str, ...]
    tests: tuple[MarkTest, ...]
    readers: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """The rows that have the bit of a reader; the part is a `Marked`."""

    part: Tree
    reader: int


@dataclass(frozen=True, slots=True)
class Passed:
    """The root of a tree whose events are thinned out by the last component before they are joined.

    With `pull` only such events are joined as the last component can follow; with `pass-down` also
    its conditions with each component are tested (Odense thesis, sections 4.1 to 4.4).
    """

    part: Tree
    way: OneOf["pull", "pass-down"]


Tree: TypeAlias = (
    Leaf
    | Shared
    | SeqJoin
    | AndJoin
    | Walk
    | OrMerge
    | NSeq
    | NegTop
    | KSeq
    | Latest
    | Narrowed
    | Marked
    | Taken
    | Passed
)


def children(tree: Tree) -> tuple[Tree, ...]:
    """The inputs of a node, negations last."""
    match tree:
        case Leaf() | Shared():
            return ()
        case SeqJoin(left, right) | AndJoin(left, right):
            return (left, right)
        case OrMerge(parts) | Latest(parts) | Walk(parts):
            return parts
        case NSeq(part, negation) | NegTop(part, negation):
            return (part, negation)
        case Passed(part) | Narrowed(part) | Marked(part) | Taken(part):
            return (part,)
        case KSeq(start, _, end):
            return tuple(side for side in (start, end) if side is not None)


def without_passing(tree: Tree) -> tuple[Tree, Propagation]:
    """A reading's tree of joins, and which events are joined."""
    return (tree.part, tree.way) if isinstance(tree, Passed) else (tree, "push")


def readings_of(tree: Tree) -> tuple[Tree, ...]:
    """The tree of each reading of a query's ORs."""
    return tree.parts if isinstance(tree, OrMerge) else (tree,)


def walk(tree: Tree) -> Iterator[Tree]:
    """The tree and everything below it, parents first."""
    yield tree
    for child in children(tree):
        yield from walk(child)


def leaf_groups(tree: Tree) -> frozenset[str]:
    """The groups of a tree that are made by themselves, without neighbours."""
    return frozenset(
        node.closures[0].alias
        for node in walk(tree)
        if isinstance(node, KSeq)
        and node.start is None
        and node.end is None
        and len(node.closures) == 1
    )


def free_groups(query: Query) -> frozenset[str]:
    """The groups `E+` and `E^n` in sequences whose events depend on no other component.

    Of two parts there is only one order, in which groups are looked for beside the other part.
    """
    found: set[str] = set()
    for part in parts_below(query.pattern):
        if isinstance(part, Seq) and sum(not isinstance(p, Neg) for p in part.parts) > 2:
            groups = (p for p in part.parts if isinstance(p, Event))
            found |= {p.alias for p in groups if isinstance(p.quantifier, Plus | Exactly)}
    for condition in query.conditions:
        tied = ex.aliases(condition)
        if len(tied) > 1:
            found -= tied
    return frozenset(event.alias for event in positive_events(query.pattern)) & found


def bound(tree: Tree) -> frozenset[str]:
    """The aliases that a row of the tree binds; not those of its negations."""
    match tree:
        case Leaf(alias):
            return frozenset({alias})
        case Shared(_, aliases):
            return aliases
        case SeqJoin(left, right) | AndJoin(left, right):
            return bound(left) | bound(right)
        case OrMerge(parts) | Latest(parts) | Walk(parts):
            return frozenset().union(*map(bound, parts))
        case NSeq(part) | NegTop(part) | Passed(part) | Narrowed(part):
            return bound(part)
        case Marked(part) | Taken(part):
            return bound(part)
        case KSeq(start, closures, end):
            sides = [bound(side) for side in (start, end) if side is not None]
            return frozenset(closure.alias for closure in closures).union(*sides)


def replaced_parts(tree: Tree, of: Callable[[Tree], Tree]) -> Tree:
    """The same node over other parts and negations."""
    match tree:
        case Leaf() | Shared():
            return tree
        case SeqJoin(left, right):
            return SeqJoin(of(left), of(right))
        case AndJoin(left, right):
            return AndJoin(of(left), of(right))
        case Walk(parts, ordered):
            return Walk(tuple(map(of, parts)), ordered)
        case OrMerge(parts):
            return OrMerge(tuple(map(of, parts)))
        case Latest(parts):
            return Latest(tuple(map(of, parts)))
        case NSeq(part, negation):
            return replace(tree, part=of(part), negation=of(negation))
        case NegTop(part, negation):
            return NegTop(of(part), of(negation))
        case Passed(part) | Narrowed(part) | Marked(part) | Taken(part):
            return replace(tree, part=of(part))
        case KSeq(start, closures, end):
            return KSeq(
                None if start is None else of(start), closures, None if end is None else of(end)
            )
        case _:
            assert_never(tree)


def renamed(tree: Tree, names: Mapping[str, str], inner: Mapping[str, Tree] | None = None) -> Tree:
    """The same tree with aliases replaced; a shared piece that `inner` has is written out."""
    match tree:
        case Leaf(alias):
            return Leaf(names.get(alias, alias))
        case Shared(name, aliases):
            if inner is not None and name in inner:
                return inner[name]
            return Shared(name, frozenset(names.get(alias, alias) for alias in aliases))
    found = replaced_parts(tree, lambda node: renamed(node, names, inner))
    match found:
        case KSeq(_, closures):
            again = (replace(c, alias=names.get(c.alias, c.alias)) for c in closures)
            return replace(found, closures=tuple(again))
        case Marked():
            return replace(found, aliases=tuple(names.get(a, a) for a in found.aliases))
        case Narrowed(part, window, symbols, conditions):
            return Narrowed(
                part,
                window,
                tuple((names.get(alias, alias), symbol) for alias, symbol in symbols),
                tuple(canonical(ex.rename(condition, dict(names))) for condition in conditions),
            )
        case _:
            return found


def to_document(tree: Tree, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The tree as plain values; `labels` say what an alias is of, for readers."""
    names = labels or {}

    def of(node: Tree) -> dict[str, Any]:
        return to_document(node, names)

    match tree:
        case Leaf(alias):
            return {"event": names.get(alias, alias), "alias": alias}
        case Shared(name, aliases):
            return {"shared": name, "aliases": sorted(aliases)}
        case SeqJoin(left, right):
            return {"operator": "SEQ", "parts": [of(left), of(right)]}
        case AndJoin(left, right):
            return {"operator": "AND", "parts": [of(left), of(right)]}
        case Walk(parts, ordered):
            of_what = "SEQ" if ordered else "AND"
            return {"operator": "WALK", "of": of_what, "parts": [of(part) for part in parts]}
        case OrMerge(parts):
            return {"operator": "OR", "parts": [of(part) for part in parts]}
        case NSeq(part, negation, side):
            return {
                "operator": "NSEQ",
                "parts": [of(part)],
                "negation": of(negation),
                "side": side,
            }
        case NegTop(part, negation):
            return {"operator": "NEG", "parts": [of(part)], "negation": of(negation)}
        case Passed(part, way):
            return {"operator": "PASSED", "parts": [of(part)], "way": way}
        case Narrowed(part, window, symbols, conditions):
            return {
                "operator": "NARROWED",
                "parts": [to_document(part, {**names, **symbol_labels(tree)})],
                "window": None if window is None else _window_document(window),
                "symbols": [
                    {
                        "alias": alias,
                        "type": symbol.type,
                        "predicates": list(map(print_expression, symbol.predicates)),
                    }
                    for alias, symbol in symbols
                ],
                "conditions": list(map(print_expression, conditions)),
            }
        case Marked(part, aliases, tests, readers):
            return {
                "operator": "MARKED",
                "parts": [of(part)],
                "components": list(aliases),
                "tests": [test.to_document() for test in tests],
                "readers": [list(asked) for asked in readers],
            }
        case Taken(part, reader):
            return {"operator": "TAKEN", "parts": [of(part)], "reader": reader}
        case Latest(parts):
            return {"operator": "LATEST", "parts": [of(part) for part in parts]}
        case KSeq(start, closures, end):
            return {
                "operator": "KSEQ",
                "parts": [None if side is None else of(side) for side in (start, end)],
                "closures": [
                    {
                        "event": names.get(closure.alias, closure.alias),
                        "alias": closure.alias,
                        "quantifier": quantifier_text(closure.quantifier),
                    }
                    for closure in closures
                ],
            }
        case _:
            assert_never(tree)


def from_document(document: Mapping[str, Any]) -> Tree:
    """The tree that `to_document` made these values from."""
    match document:
        case {"shared": str(name), "aliases": [*aliases]}:
            return Shared(name, frozenset(map(str, aliases)))
        case {"alias": str(alias), "event": _}:
            return Leaf(alias)
        case {"operator": "SEQ", "parts": [left, right]}:
            return SeqJoin(from_document(left), from_document(right))
        case {"operator": "AND", "parts": [left, right]}:
            return AndJoin(from_document(left), from_document(right))
        case {"operator": "WALK", "of": "SEQ" | "AND" as of, "parts": [*parts]} if parts:
            return Walk(tuple(map(from_document, parts)), of == "SEQ")
        case {"operator": "OR", "parts": [*parts]}:
            return OrMerge(tuple(map(from_document, parts)))
        case {"operator": "LATEST", "parts": [*parts]} if parts:
            return Latest(tuple(map(from_document, parts)))
        case {
            "operator": "NSEQ",
            "parts": [part],
            "negation": negation,
            "side": "left" | "right" as side,
        }:
            return NSeq(from_document(part), from_document(negation), side)
        case {"operator": "NEG", "parts": [part], "negation": negation}:
            return NegTop(from_document(part), from_document(negation))
        case {
            "operator": "MARKED",
            "parts": [part],
            "components": [*aliases],
            "tests": [*tests],
            "readers": [*readers],
        }:
            return Marked(
                from_document(part),
                tuple(map(str, aliases)),
                tuple(map(MarkTest.from_document, tests)),
                tuple(tuple(map(int, asked)) for asked in readers),
            )
        case {"operator": "TAKEN", "parts": [part], "reader": int(reader)}:
            return Taken(from_document(part), reader)
        case {"operator": "PASSED", "parts": [part], "way": "pull" | "pass-down" as way}:
            return Passed(from_document(part), way)
        case {
            "operator": "NARROWED",
            "parts": [part],
            "window": window,
            "symbols": [*symbols],
            "conditions": [*conditions],
        }:
            return Narrowed(
                from_document(part),
                None if window is None else _window(window),
                tuple((str(s["alias"]), _symbol(s)) for s in symbols),
                tuple(map(read_condition, conditions)),
            )
        case {"operator": "KSEQ", "parts": [start, end], "closures": [*closures]}:
            return KSeq(
                None if start is None else from_document(start),
                tuple(Closure(c["alias"], quantifier_of(c["quantifier"])) for c in closures),
                None if end is None else from_document(end),
            )
        case _:
            raise TreeError(f"this is no tree: {str(document)[:80]}")


def _window_document(window: Window) -> dict[str, Any]:
    inclusive = {"inclusive": True} if window.is_inclusive else {}
    return {"size": window.size, "events": window.is_count} | inclusive


def _window(document: Mapping[str, Any]) -> Window:
    inclusive = bool(document.get("inclusive", False))
    size, is_count = int(document["size"]), bool(document["events"])
    return Window(size, is_count, is_inclusive=inclusive)


def _symbol(document: Mapping[str, Any]) -> Symbol:
    return Symbol(str(document["type"]), tuple(map(read_condition, document["predicates"])))


def symbol_labels(tree: Narrowed) -> dict[str, str]:
    """What the aliases are of whose symbols are others below."""
    return {alias: print_pattern(Event(symbol, alias)) for alias, symbol in tree.symbols}
