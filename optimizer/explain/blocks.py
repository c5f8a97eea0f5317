"""What a plan's picture shows: blocks of queries, the pieces they share, the events they read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from optimizer.engines import label
from optimizer.explain.shapes import COLOURS
from optimizer.explain.text import amount, cpu, unquoted
from optimizer.plan.groups import CountingGroup, Group
from optimizer.plan.lineage import (
    Cover,
    SharedSteps,
    computed_once,
    cover,
    is_part,
    made_once,
    steps_of,
    with_widest,
)
from optimizer.plan.plan import Operator, Plan

MAX_LEVELS = 3  # of pieces that are made of smaller ones
_LISTED = 12
_QUOTED = re.compile(r"'(?:[^']|'')*'")


class Flow(NamedTuple):
    """Events of a type that something reads, or that must not occur there."""

    type: str
    negated: bool


@dataclass(frozen=True)
class DrawnFragment:
    """A piece as it is drawn: `queries` lead through it, `piece.queries` all contain it.

    `inner` are the smaller pieces of its block, by number, that it is made of; `flows` is what it
    reads besides. `level` is 0 for a piece without smaller ones. `window` is that of its queries,
    where it tells pieces of a block apart.
    """

    id: str
    piece: SharedSteps
    engine: str
    queries: tuple[str, ...]
    flows: tuple[Flow, ...]
    inner: tuple[int, ...] = ()
    level: int = 0
    colour: str = COLOURS[0]
    window: str = ""

    @property
    def label(self) -> str:
        """Its steps."""
        return ", ".join(unquoted(step) for step in self.piece.steps)


@dataclass(frozen=True)
class DrawnQuery:
    """A query: `parts` are pieces of its block, by number, and `own` is what it reads besides.

    `through` are its parts and the pieces that these are made of; `hidden` is the number of pieces
    that it shares and that are not drawn.
    """

    name: str
    pattern: str
    how: str
    kind: str
    parts: tuple[int, ...]
    through: tuple[int, ...]
    own: tuple[Flow, ...]
    reads: tuple[Flow, ...]
    hidden: int = 0


@dataclass(frozen=True)
class Block:
    """Queries that are drawn together: a group, or groups of one query each."""

    partition: str
    title: str
    queries: tuple[DrawnQuery, ...]
    pieces: tuple[DrawnFragment, ...] = ()

    def together(self, other: Block) -> Block:
        """Both as one; neither has pieces."""
        return replace(self, queries=self.queries + other.queries)

    def limited(self, most: int) -> Block:
        """With at most so many queries, those that share the most first."""
        if len(self.queries) <= most:
            return self
        ordered = sorted(self.queries, key=lambda query: -len(query.through))
        title = f"{self.title}; {len(ordered) - most:,} queries are not drawn"
        return replace(self, queries=tuple(ordered[:most]), title=title)

    def related(self, number: int) -> list[str]:
        """The ids of a piece, first, of those that it is made of, and of those made of it."""
        inside = {number, *_inside(self.pieces, number)}
        around = {n for n in range(len(self.pieces)) if number in _inside(self.pieces, n)}
        return [self.pieces[n].id for n in (number, *sorted(inside | around))]

    def users(self, number: int) -> list[str]:
        """The ids of a piece and of those that are made of it."""
        found = [n for n in range(len(self.pieces)) if number in (n, *_inside(self.pieces, n))]
        return [self.pieces[n].id for n in found]


def _inside(pieces: Sequence[DrawnFragment], number: int) -> set[int]:
    """The pieces that a piece is made of, and those that these are made of."""
    found: set[int] = set()
    waiting = list(pieces[number].inner)
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting.extend(pieces[at].inner)
    return found


def blocks(plan: Plan, most_pieces: int, merged: bool) -> list[Block]:
    """The plan's groups by partition; with `merged`, lone queries of an engine are one block."""
    outputs = {o.detail["query"]: o for o in plan.operators if o.kind == "output"}
    once = computed_once(plan) | made_once(plan)
    found: dict[object, Block] = {}
    keys = {tuple(output.detail["key"]) for output in outputs.values()}
    order = {key: i for i, key in enumerate(sorted(keys, key=lambda key: (len(key), key)))}

    def key_of(number: int) -> tuple[str, ...]:
        return tuple(outputs[plan.groups[number].queries[0]].detail["key"])

    colours = 0
    for number in sorted(range(len(plan.groups)), key=lambda n: order[key_of(n)]):
        group = plan.groups[number]
        key = ", ".join(key_of(number))
        block = _block(
            [outputs[name] for name in group.queries],
            group,
            number,
            once.get(number, []),
            f"partition by {key}" if key else "no partition",
            most_pieces,
        )
        coloured = [
            replace(piece, colour=COLOURS[(colours + i) % len(COLOURS)])
            for i, piece in enumerate(block.pieces)
        ]
        colours += len(coloured)
        block = replace(block, pieces=tuple(coloured))
        alone = merged and len(block.queries) == 1
        place = (key, group.engine) if alone else number
        found[place] = found[place].together(block) if place in found else block
    return [_titled(block) for block in found.values()] if merged else list(found.values())


def some(names: Sequence[str]) -> str:
    """The first of many names."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def about_piece(shown: DrawnFragment, unit: str) -> str:
    """What a piece is, who shares it, what that saves and why, in lines."""
    piece = shown.piece
    lines = [shown.label, f"computed once ({label(shown.engine)}) for {some(piece.queries)}"]
    if through := [name for name in piece.queries if name not in shown.queries]:
        lines.append(f"{some(through)}: drawn through other pieces")
    if piece.benefit is not None:
        lines += [f"saves {amount(piece.benefit, unit)}", piece.why]
    return "\n".join(lines)


def about_query(query: DrawnQuery, block: Block) -> str:
    """What a query looks for, how it runs, and with whom it shares what, in lines."""
    lines = [query.name, query.pattern, query.how]
    for number in query.through:
        shown = block.pieces[number]
        others = [name for name in shown.piece.queries if name != query.name]
        lines.append(f"shares {shown.label} with {some(others)}")
    if query.hidden:
        pieces = "1 piece" if query.hidden == 1 else f"{query.hidden:,} pieces"
        lines.append(f"shares {pieces} not drawn here; click to see all")
    return "\n".join(lines)


def _block(
    outputs: Sequence[Operator],
    group: Group,
    number: int,
    pieces: Sequence[SharedSteps],
    partition: str,
    most: int,
) -> Block:
    read = {name.removeprefix("!") for output in outputs for name in output.detail["reads"]}
    types = sorted(read, key=lambda name: (-len(name), name))
    steps = steps_of(group) if pieces else {}
    if isinstance(group, CountingGroup):
        covered = with_widest(cover(pieces, steps, most), pieces, steps, most)
    else:
        covered = _largest(pieces, most)
    shown = _fragments(covered, group, number, types)
    hidden = Counter(
        name
        for piece in pieces
        if not any(piece is each.piece for each in shown)
        for name in piece.queries
    )
    drawn = []
    for output in outputs:
        detail = output.detail
        name, pattern = detail["query"], detail["pattern"]
        reads = tuple(Flow(r.removeprefix("!"), r.startswith("!")) for r in detail["reads"])
        parts = tuple(dict.fromkeys(number for _, number in covered.places.get(name, ())))
        through = sorted({n for part in parts for n in (part, *_inside(shown, part))})
        own = reads
        if parts:
            rest = covered.uncovered(name, steps.get(name, ()))
            left = {f for step in rest for f in flows(step, types)}
            shared = {f for n in through for f in shown[n].flows}
            own = tuple(flow for flow in reads if flow in left or flow not in shared)
        how = _how(group, _window(detail))
        drawn.append(
            DrawnQuery(
                name, pattern, how, detail["rows"], parts, tuple(through), own, reads, hidden[name]
            )
        )
    windows = {output.detail["query"]: _window(output.detail) for output in outputs}
    if len(set(windows.values())) > 1:
        shown = tuple(_of_window(piece, windows) for piece in shown)
    title = ""
    if len(drawn) > 1:
        title = f"{len(drawn):,} queries together: {_how(group, *set(windows.values()))}"
        if group.cost is not None and group.cost.separate > group.cost.shared:
            title += f" in place of {cpu(group.cost.separate)}"
    if len(shown) < len(pieces):
        title += f"; {len(shown):,} of {len(pieces):,} shared pieces are drawn"
    return Block(partition, title, tuple(drawn), shown)


def _fragments(
    covered: Cover, group: Group, number: int, types: Sequence[str]
) -> tuple[DrawnFragment, ...]:
    """The pieces of a cover, each made of the largest ones that it contains."""
    pieces = covered.pieces
    made_of: dict[int, list[int]] = {}
    levels: dict[int, int] = {}
    for n in sorted(range(len(pieces)), key=lambda n: len(pieces[n].steps)):
        parts = [
            i
            for i, part in enumerate(pieces)
            if i in levels
            and len(part.steps) < len(pieces[n].steps)
            and is_part(part.steps, pieces[n].steps)
            and set(pieces[n].queries) <= set(part.queries)
        ]
        levels[n] = min(MAX_LEVELS - 1, 1 + max((levels[i] for i in parts), default=-1))
        below = [i for i in parts if levels[i] < levels[n]]
        made_of[n] = [
            i
            for i in below
            if not any(i != j and is_part(pieces[i].steps, pieces[j].steps) for j in below)
        ]
    through = {n: set(covered.queries(n)) for n in range(len(pieces))}
    for n in sorted(range(len(pieces)), key=lambda n: -levels[n]):
        for part in made_of[n]:
            through[part] |= through[n]
    shown = []
    for n, piece in enumerate(pieces):
        left = list(piece.steps)
        for part in made_of[n]:
            for step in pieces[part].steps:
                if step in left:
                    left.remove(step)
        own = tuple(dict.fromkeys(f for step in left for f in flows(step, types)))
        queries = tuple(name for name in piece.queries if name in through[n])
        shown.append(
            DrawnFragment(
                f"{number}.{n}", piece, group.engine, queries, own, tuple(made_of[n]), levels[n]
            )
        )
    return tuple(shown)


def _largest(pieces: Sequence[SharedSteps], most: int) -> Cover:
    """The pieces that save the most, each in the queries where it is in no larger one."""
    ranked = sorted(pieces, key=lambda piece: -(piece.benefit or 0.0))[:most]
    places: dict[str, tuple[tuple[int, int], ...]] = {}
    for name in dict.fromkeys(name for piece in ranked for name in piece.queries):
        mine = [(i, piece.steps) for i, piece in enumerate(ranked) if name in piece.queries]
        inner = {
            i
            for i, steps in mine
            if any(steps != other and is_part(steps, other) for _, other in mine)
        }
        places[name] = tuple((0, i) for i, _ in mine if i not in inner)
    return Cover(tuple(ranked), places)


def _titled(block: Block) -> Block:
    if block.title:
        return block
    how = block.queries[0].how
    if len(block.queries) == 1:
        return replace(block, title=f"1 query: {how}")
    engine = how.split(",")[0]
    return replace(block, title=f"{len(block.queries):,} queries, each alone: {engine}")


def _how(group: Group, *windows: str) -> str:
    """What runs a group, over which window or how many of them, and at what cost."""
    window = windows[0] if len(windows) == 1 else f"{len(windows):,} windows"
    cost = f", {cpu(group.cost.shared)}" if group.cost is not None else ""
    return f"{label(group.engine)}, {window}{cost}"


def _window(detail: Mapping[str, Any]) -> str:
    """The window of a query, and its slide."""
    window: str = detail["window"]
    return f"{window} every {detail['slide']}" if "slide" in detail else window


def _of_window(piece: DrawnFragment, windows: Mapping[str, str]) -> DrawnFragment:
    """A piece with the window of its queries, where that is one."""
    found = {windows[name] for name in piece.piece.queries}
    return replace(piece, window=found.pop()) if len(found) == 1 else piece


def flows(step: str, types: Iterable[str]) -> list[Flow]:
    """What a step such as `A[x > 1] !B` reads, of types of which longer ones come first."""
    plain = unquoted(_QUOTED.sub("''", step))
    found = []
    for negated, before in ((False, "^"), (True, " !")):
        for name in types:
            if re.search(rf"{before}{re.escape(name)}(?=[\[ ]|$)", plain):
                found.append(Flow(name, negated))
                if not negated:
                    break
    return found
