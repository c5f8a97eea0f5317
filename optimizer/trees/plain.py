"""Trees that need no search: left-deep, with negations on top."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Pattern,
    Seq,
    alternatives,
)
from optimizer.trees.errors import TreeError
from optimizer.trees.negation import Link
from optimizer.trees.tree import AndJoin, Closure, KSeq, Latest, Leaf, NegTop, NSeq, SeqJoin, Tree
from workloads.syntax import One


def plain_tree(pattern: Pattern) -> Tree:
    """A left-deep tree, with its negations on top."""
    match pattern:
        case Event(_, alias, One()):
            return Leaf(alias)
        case Event(_, alias, quantifier):
            return KSeq(None, (Closure(alias, quantifier),), None)
        case Seq(parts) | And(parts):
            positive = [part for part in parts if not isinstance(part, Neg)]
            if isinstance(pattern, Seq):
                tree = _plain_sequence(positive)
            else:
                tree = functools.reduce(AndJoin, map(plain_tree, positive))
            for part in parts:
                if isinstance(part, Neg):
                    tree = NegTop(tree, negated_tree(part))
            return tree
        case _:
            raise TreeError("only SEQ and AND of events and negations have a tree here")


def _plain_sequence(parts: Sequence[Pattern]) -> Tree:
    tree: Tree | None = None
    groups: tuple[Closure, ...] = ()
    for part in parts:
        if isinstance(part, Event) and not isinstance(part.quantifier, One):
            groups += (Closure(part.alias, part.quantifier),)
        else:
            other = plain_tree(part)
            if groups:
                tree, groups = KSeq(tree, groups, other), ()
            else:
                tree = other if tree is None else SeqJoin(tree, other)
    if groups:
        return KSeq(tree, groups, None)
    assert tree is not None
    return tree


def negated_tree(negation: Neg) -> Tree:
    """Names a negation by its first choice; with several each has a tree of its own."""
    return plain_tree(alternatives(negation.part)[0])


def latest_tree(chain: Sequence[Link]) -> Latest:
    """The tree of a negated sequence that one pass decides."""
    parts: list[Tree] = []
    for link in chain:
        part: Tree = Leaf(link.event.alias)
        for negation in link.absent:
            part = NSeq(part, negated_tree(negation), "left")
        parts.append(part)
    return Latest(tuple(parts))


def is_latest_of(tree: Latest, chain: Sequence[Link] | None) -> bool:
    """Are the parts of the tree the events of a sequence, in their order?"""
    parts = []
    for part in tree.parts:
        while isinstance(part, NSeq) and part.side == "left":
            part = part.part
        parts.append(part)
    return chain is not None and parts == [Leaf(link.event.alias) for link in chain]
