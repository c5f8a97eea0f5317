"""Trees as JSON documents, such as a plan's group carries, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from optimizer.trees.tree import (
    AndJoin,
    Closure,
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
    TreeError,
)
from workloads.syntax import All, Exactly, One, Plus, Quantifier


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
                        "quantifier": _quantifier_text(closure.quantifier),
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
        case {"operator": "PASSED", "parts": [part], "way": "pull" | "pass-down" as way}:
            return Passed(from_document(part), way)
        case {"operator": "KSEQ", "parts": [start, end], "closures": [*closures]}:
            return KSeq(
                None if start is None else from_document(start),
                tuple(Closure(c["alias"], _quantifier(c["quantifier"])) for c in closures),
                None if end is None else from_document(end),
            )
        case _:
            raise TreeError(f"this is no tree: {str(document)[:80]}")


def _quantifier_text(quantifier: Quantifier) -> str:
    match quantifier:
        case One():
            return "1"
        case Plus():
            return "+"
        case Exactly(count):
            return f"^{count}"
        case All():
            return "ALL"


def _quantifier(text: str) -> Quantifier:
    match text:
        case "1":
            return One()
        case "+":
            return Plus()
        case "ALL":
            return All()
        case _ if text[:1] == "^" and text[1:].isdecimal():
            return Exactly(int(text[1:]))
        case _:
            raise TreeError(f"this is no quantifier: {text!r}")
