"""Random patterns that bind, for `strategies`.

A `Shape` says which constructs may occur; `replace(SHAPE, negation=False)` leaves one out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from workloads import syntax as sx

Draw = st.DrawFn


@dataclass(frozen=True)
class Shape:
    """Which constructs a random query may have, and how large it may grow."""

    types: tuple[str, ...] = ("A", "B", "C", "D")
    max_components: int = 5
    max_depth: int = 3
    operators: tuple[sx.Operator, ...] = ("SEQ", "AND", "OR")
    negation: bool = True
    nested_negation: bool = True  # a negation of more than one component
    kleene: bool = True  # E+
    groups: bool = True  # E^n and ALL E
    counted: bool = False  # E{n,m}
    optional: bool = False  # E?, E* and E{0,m}
    prev: bool = False  # prev(b.x) < b.x
    local: bool = True  # conditions on one component
    ties: bool = True  # conditions on several
    group_conditions: bool = True  # sum(b.x) > 1 and its like
    constants: bool = True  # conditions on none
    keys: bool = True
    outputs: tuple[str, ...] = ("return", "trigger", "slide")
    count_windows: bool = True
    having: bool = True
    limit: bool = False  # LIMIT k
    marks: bool = False  # `:` and `>` before parts of a SEQ, and E:+
    strategies: tuple[sx.Strategy, ...] = ("any",)
    skips: bool = False  # AFTER MATCH SKIP PAST LAST EVENT
    component_keys: bool = False  # PARTITION BY (a.x, b.y) AS key
    grouped: bool = False  # GROUP BY a.x
    max_window: int = 8
    # FIRST and VAR, COUNT(DISTINCT …), and values of several components: not counted from batch to
    # batch, or not at all
    tied_aggregates: bool = False


SHAPE = Shape()
FLAT = replace(SHAPE, operators=("SEQ",), max_depth=1, nested_negation=False)


def patterns(shape: Shape = SHAPE) -> st.SearchStrategy[sx.Pattern]:
    """A pattern that binds, every component with an alias of its own."""

    @st.composite
    def named(draw: Draw) -> sx.Pattern:
        return named_components(draw, draw(unnamed_patterns(shape)))

    return named()


@st.composite
def unnamed_patterns(draw: Draw, shape: Shape) -> sx.Pattern:
    """The tree, its components still without aliases."""
    sizes = range(1, shape.max_components + 1)
    budget = draw(st.sampled_from([n for n in sizes for _ in range(min(n, 4))]))
    return _positive(draw, shape, budget, shape.max_depth, under_negation=False)


@st.composite
def negated_sequences(draw: Draw, shape: Shape = SHAPE) -> sx.Pattern:
    """`SEQ(A, !SEQ(B, C), D)` and its like, in any gap, now and then in an AND or OR.

    Once in a while it is an AND that is negated, of different types.
    """
    plain = replace(shape, kleene=False, groups=False)
    positives = draw(st.integers(1, 2))
    where = draw(st.integers(0, positives))
    parts: list[sx.Pattern] = []
    for place in range(positives + 1):
        if place == where or not draw(st.integers(0, 4)):
            length = draw(st.sampled_from([2, 2, 2, 3]))
            kind = shape if not draw(st.integers(0, 5)) else plain
            if "AND" in shape.operators and not draw(st.integers(0, 3)):
                types = draw(st.permutations(shape.types))[:length]
                several = tuple(sx.Component(name, None, sx.ONE) for name in types)
                parts.append(sx.Negation(sx.Operation("AND", several)))
            else:
                inner = tuple([_component(draw, kind) for _ in range(length)])
                parts.append(sx.Negation(sx.Operation("SEQ", inner)))
            if not draw(st.integers(0, 7)):
                parts.append(sx.Negation(_component(draw, plain)))
        if place < positives:
            parts.append(_component(draw, shape))
    whole: sx.Pattern = sx.Operation("SEQ", tuple(parts))
    others = [o for o in shape.operators if o != "SEQ"]
    if others and not draw(st.integers(0, 3)):
        whole = sx.Operation(draw(st.sampled_from(others)), (whole, _component(draw, shape)))
    return whole


def _positive(
    draw: Draw, shape: Shape, budget: int, depth: int, under_negation: bool
) -> sx.Pattern:
    if depth == 0 or (budget == 1 and draw(st.integers(0, 9))):
        return _component(draw, shape)
    operator = draw(st.sampled_from(shape.operators + shape.operators[:1]))  # SEQ more often
    # Parts share the budget; a negation may take one share where the operator allows it.
    shares = _shares(draw, budget)
    positives = [True] * len(shares)
    if operator != "OR" and shape.negation and len(shares) > 1:
        positives = [draw(st.booleans()) for _ in shares]
        if not any(positives):
            positives[draw(st.integers(0, len(shares) - 1))] = True
    parts = [
        _positive(draw, shape, share, depth - 1, under_negation)
        if positive
        else _negative(draw, shape, share, depth - 1)
        for share, positive in zip(shares, positives, strict=True)
    ]
    return sx.Operation(operator, tuple(parts))


def _negative(draw: Draw, shape: Shape, budget: int, depth: int) -> sx.Pattern:
    """`!P`, or once in a while `AND(!P, !Q)`, which stands for its parts."""
    if budget > 1 and depth > 0 and "AND" in shape.operators and not draw(st.integers(0, 3)):
        shares = _shares(draw, budget)
        parts = tuple(_negative(draw, shape, share, depth - 1) for share in shares)
        return sx.Operation("AND", parts)
    if not shape.nested_negation:
        return sx.Negation(_component(draw, shape))
    return sx.Negation(_positive(draw, shape, budget, depth, under_negation=True))


def _shares(draw: Draw, budget: int) -> list[int]:
    """A budget cut into one to four shares; seldom into one."""
    shares: list[int] = []
    while budget > 0:
        most = budget if shares or budget == 1 or not draw(st.integers(0, 7)) else budget - 1
        share = budget if len(shares) == 3 else draw(st.integers(1, most))
        shares.append(share)
        budget -= share
    return shares


def _component(draw: Draw, shape: Shape) -> sx.Component:
    quantifiers: list[sx.Quantifier] = [sx.ONE] * 5
    if shape.kleene:
        quantifiers.append(sx.Plus())
    if shape.groups:
        quantifiers += [draw(st.sampled_from([sx.Exactly(1), sx.Exactly(2)])), sx.All()]
    if shape.counted:
        quantifiers += [sx.Between(1, 2), sx.Between(2, 2), sx.Between(2, None), sx.Between(2, 3)]
    kind = draw(st.sampled_from(shape.types))
    return sx.Component(kind, None, draw(st.sampled_from(quantifiers)))


def named_components(draw: Draw, pattern: sx.Pattern) -> sx.Pattern:
    """Give aliases: needed where a type occurs twice, now and then left out where it does not."""
    leaves = [node for node in _walk(pattern) if isinstance(node, sx.Component)]
    uses = [leaf.type for leaf in leaves]
    names = iter(
        [
            None
            if uses.count(leaf.type) == 1 and not draw(st.integers(0, 2))
            else f"{leaf.type.lower()}{i}"
            for i, leaf in enumerate(leaves)
        ]
    )

    def visit(node: sx.Pattern) -> sx.Pattern:
        match node:
            case sx.Component(kind, _, quantifier):
                return sx.Component(kind, next(names), quantifier)
            case sx.Negation(part):
                return sx.Negation(visit(part))
            case sx.Operation(operator, parts):
                return sx.Operation(operator, tuple([visit(part) for part in parts]))

    return visit(pattern)


def _walk(pattern: sx.Pattern) -> list[sx.Pattern]:
    match pattern:
        case sx.Component():
            return [pattern]
        case sx.Negation(part):
            return [pattern, *_walk(part)]
        case sx.Operation(_, parts):
            return [pattern, *(node for part in parts for node in _walk(part))]


def with_marks(draw: Draw, pattern: sx.Pattern) -> sx.Pattern:
    """The pattern with marks in gaps of its SEQs, and groups without gaps."""
    match pattern:
        case sx.Component(quantifier=sx.Plus()) if draw(st.booleans()):
            return replace(pattern, quantifier=sx.ConsecutivePlus())
        case sx.Component(quantifier=sx.Between() as group) if draw(st.booleans()):
            return replace(pattern, quantifier=replace(group, consecutive=True))
        case sx.Component():
            return pattern
        case sx.Negation(part):
            return sx.Negation(with_marks(draw, part))
        case sx.Operation(operator, parts):
            marks: list[sx.Mark | None] = []
            occurs = False
            for part in parts:
                own = isinstance(part, sx.Component)
                may = occurs and operator == "SEQ" and not _is_negative(part)
                choices: list[sx.Mark | None] = [None, "strict"] if may else [None]
                marks.append(draw(st.sampled_from([*choices, "next"] if may and own else choices)))
                occurs = occurs or not _is_negative(part)
            inner = tuple([with_marks(draw, part) for part in parts])
            return sx.Operation(operator, inner, marks=tuple(marks) if any(marks) else ())


def with_optional(draw: Draw, pattern: sx.Pattern, may: bool = False) -> sx.Pattern:
    """The pattern with optional components, though not every part of a SEQ or AND."""
    match pattern:
        case sx.Component(quantifier=quantifier):
            least = quantifier.least if isinstance(quantifier, sx.Between) else 1
            fits = not isinstance(quantifier, sx.Exactly | sx.All) and least == 1
            return replace(pattern, optional=may and fits and draw(st.booleans()))
        case sx.Negation(part):
            return sx.Negation(with_optional(draw, part))
        case sx.Operation(operator, parts):
            made = tuple([with_optional(draw, part, operator != "OR") for part in parts])
            positive = [part for part in made if not _is_negative(part)]
            if operator != "OR" and all(getattr(part, "optional", False) for part in positive):
                return pattern
            return sx.Operation(operator, made)


def _is_negative(part: sx.Pattern) -> bool:
    if isinstance(part, sx.Operation) and part.operator == "AND":
        return all(map(_is_negative, part.parts))
    return isinstance(part, sx.Negation)
