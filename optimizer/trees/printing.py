"""Trees as text, and with what each operator of them costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from optimizer.ir.pattern import GroupWithout, print_pattern, print_without
from optimizer.trees.cost_walk import CostStep
from optimizer.trees.tree import (
    AndJoin,
    Closure,
    KSeq,
    Latest,
    Leaf,
    Marked,
    Narrowed,
    NegTop,
    NSeq,
    OrMerge,
    Passed,
    SeqJoin,
    Shared,
    Taken,
    Tree,
    Walk,
    symbol_labels,
)
from workloads.syntax import (
    All,
    Exactly,
    One,
    Plus,
)

Labels = Mapping[str, str]  # what to call an alias; its own name where there is none


def print_tree(tree: Tree, labels: Labels | None = None) -> str:
    """`((A ; B) ; C)`, `KSEQ(A ; B+ ; C)`, `(A ; NSEQ(!B ; C))`, `NEG((A ; C), !B)`.

    A negated sequence that one pass decides is `LATEST(A ; B)`.
    """
    names = labels or {}

    def of(node: Tree) -> str:
        return print_tree(node, names)

    match tree:
        case Leaf(alias):
            return names.get(alias, alias)
        case Shared(name):
            return f"<{name}>"
        case SeqJoin(left, right):
            return f"({of(left)} ; {of(right)})"
        case AndJoin(left, right):
            return f"({of(left)} & {of(right)})"
        case Walk(parts):
            return f"WALK({', '.join(map(of, parts))})"
        case OrMerge(parts):
            return f"({' | '.join(map(of, parts))})"
        case NSeq(part, negation, "left"):
            return f"NSEQ(!{of(negation)} ; {of(part)})"
        case NSeq(part, negation):
            return f"NSEQ({of(part)} ; !{of(negation)})"
        case NegTop(part, negation):
            return f"NEG({of(part)}, !{of(negation)})"
        case Passed(part, way):
            return f"{of(part)} by {way}"
        case Narrowed(part):
            other = symbol_labels(tree) if names else {}
            return f"FILTER({print_tree(part, {**names, **other})})"
        case Marked(part, _, tests):
            absent = (f"!{print_pattern(test.negation)}" for test in tests)
            return f"MARKS({', '.join((of(part), *absent))})"
        case Taken(Marked(part, _, tests, readers), reader):
            own = (f"!{print_pattern(tests[number].negation)}" for number in readers[reader])
            return f"MARKED({', '.join((of(part), *own))})"
        case Taken(part):
            return f"MARKED({of(part)})"
        case Latest(parts):
            return f"LATEST({' ; '.join(map(of, parts))})"
        case KSeq(start, closures, end):
            sides = [None if side is None else of(side) for side in (start, end)]
            groups = [print_closure(closure, names) for closure in closures]
            shown = [text for text in (sides[0], *groups, sides[1]) if text is not None]
            return f"KSEQ({' ; '.join(shown)})"
        case _:
            assert_never(tree)


def print_closure(closure: Closure, labels: Labels | None = None) -> str:
    """`B+`, `B^5` or `ALL B`; a label says so itself."""
    name = closure.alias
    if labels and name in labels:
        return labels[name]
    match closure.quantifier:
        case Plus():
            return f"{name}+"
        case Exactly(count):
            return f"{name}^{count}"
        case All():
            return f"ALL {name}"
        case GroupWithout():
            return f"{name}{print_without(closure.quantifier)}"
        case One():
            return name


def print_steps(steps: Sequence[CostStep], labels: Labels | None = None) -> str:
    """The tree, indented, with what each operator costs itself and how many rows it gives."""
    lines = []
    for step in steps:
        text = "  " * step.depth + _operator(step.node, labels or {})
        cost = f"cost {step.own:,.4g}, " if step.own else ""
        lines.append(f"{text}  [{cost}rows {step.rows:,.4g}]")
    return "\n".join(lines) + "\n"


def _operator(tree: Tree, labels: Labels) -> str:
    match tree:
        case Leaf() | Shared():
            return print_tree(tree, labels)
        case SeqJoin():
            return "SEQ"
        case AndJoin():
            return "AND"
        case Walk():
            return "WALK"
        case OrMerge():
            return "OR"
        case NSeq(_, negation, side):
            return f"NSEQ with !{print_tree(negation, labels)} on its {side}"
        case NegTop(_, negation):
            return f"NEG of !{print_tree(negation, labels)}"
        case Passed(_, way):
            return f"events by {way}"
        case Narrowed():
            return "FILTER"
        case Marked(_, _, tests, readers):
            return f"MARKS of {len(tests)} negations for {len(readers)} readers"
        case Taken(_, reader):
            return f"MARKED for reader {reader + 1}"
        case Latest():
            return "LATEST"
        case KSeq(_, closures):
            return f"KSEQ of {', '.join(print_closure(c, labels) for c in closures)}"
        case _:
            assert_never(tree)
