"""Trees under other aliases, and with trees in the place of shared pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from optimizer.trees.tree import (
    AndJoin,
    KSeq,
    Latest,
    Leaf,
    NegTop,
    NSeq,
    OrMerge,
    Passed,
    SeqJoin,
    Shared,
    Tree,
)


def renamed(tree: Tree, names: Mapping[str, str], inner: Mapping[str, Tree] | None = None) -> Tree:
    """The same tree with aliases replaced; a shared piece that `inner` has is written out."""

    def of(node: Tree) -> Tree:
        return renamed(node, names, inner)

    match tree:
        case Leaf(alias):
            return Leaf(names.get(alias, alias))
        case Shared(name, aliases):
            if inner is not None and name in inner:
                return inner[name]
            return Shared(name, frozenset(names.get(alias, alias) for alias in aliases))
        case SeqJoin(left, right):
            return SeqJoin(of(left), of(right))
        case AndJoin(left, right):
            return AndJoin(of(left), of(right))
        case OrMerge(parts):
            return OrMerge(tuple(map(of, parts)))
        case NSeq(part, negation, side):
            return NSeq(of(part), of(negation), side)
        case NegTop(part, negation):
            return NegTop(of(part), of(negation))
        case Passed(part, way):
            return Passed(of(part), way)
        case Latest(parts):
            return Latest(tuple(map(of, parts)))
        case KSeq(start, closures, end):
            return KSeq(
                None if start is None else of(start),
                tuple(replace(c, alias=names.get(c.alias, c.alias)) for c in closures),
                None if end is None else of(end),
            )
        case _:
            assert_never(tree)
