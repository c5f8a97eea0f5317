"""What a plan's picture shows, and where each part of it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from math import ceil
from typing import Any, NamedTuple, TypeAlias

from optimizer.explain.text import cpu
from optimizer.plan.lineage import (
    Cover,
    SharedSteps,
    computed_once,
    cover,
    is_part,
    made_once,
    steps_of,
)
from optimizer.plan.plan import CountingGroup, Group, Operator, Plan

Point: TypeAlias = tuple[float, float]

# The texts are monospaced, so their widths are known without a font at hand: pixels.
CHARACTER = 7.3
SMALL = 6.1
PADDING = 10

# One colour a thing, in turn; dark enough for lines on white.
COLOURS = ("#2f6f9f", "#b4552d", "#4f7f3a", "#8a4f9e", "#a8862a", "#3b8686", "#a33f5f", "#5b62a8")

# Each rule begins with the picture's class: within a page, it must not touch anything else.
STYLE = """
.plan text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2933 }
.plan .heading { font-weight: bold; font-size: 14px }
.plan .quiet { fill: #66727f } .plan .small { font-size: 10px }
.plan .panel { fill: #f5f7f9; stroke: #dbe1e7 } .plan .type rect { fill: #ffffff; stroke: #8695a4 }
.plan .piece rect { fill: #ffffff; stroke-width: 1.6 }
.plan .alone rect { fill: #fbfcfd; stroke: #b3bec9 }
.plan .aggregates rect { fill: #e6f0e2; stroke: #7d9c6f }
.plan .matches rect { fill: #fbeadd; stroke: #c08a63 }
.plan .edge { fill: none; opacity: 0.5 } .plan .faint { opacity: 0.28 }
.plan .negated { stroke-dasharray: 5 4 } .plan .edge:hover { opacity: 1 }
.plan .halo { paint-order: stroke; stroke: #f5f7f9; stroke-width: 4px }
.plan .outside { stroke: #ffffff } .plan .ended { text-anchor: end }
"""


@dataclass(frozen=True)
class Box:
    """Where something is."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> Point:
        """The middle of its left side."""
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        """The middle of its right side."""
        return self.x + self.width, self.y + self.height / 2


def width_of(texts: Iterable[str], character: float = CHARACTER) -> float:
    """Of a box that holds the longest of these texts."""
    return max((len(text) for text in texts), default=0) * character + 2 * PADDING


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def rectangle(box: Box, css: str = "", radius: float = 4, stroke: str = "") -> str:
    """A box by itself."""
    more = (f' class="{css}"' if css else "") + (f' stroke="{stroke}"' if stroke else "")
    return (
        f'<rect{more} x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{radius:.0f}"/>'
    )


def text(x: float, y: float, content: str, css: str = "") -> str:
    """A line of text; y is where its letters stand."""
    shown = f' class="{css}"' if css else ""
    return f'<text{shown} x="{x:.1f}" y="{y:.1f}">{escape(content, quote=False)}</text>'


def labelled(
    box: Box,
    label: str,
    css: str,
    tooltip: str,
    queries: Sequence[str] = (),
    stroke: str = "",
    small: bool = False,
) -> str:
    """A box with a text in it and a tooltip; `queries` are those that it is about."""
    radius = box.height / 2 if css.split()[0] in ("type", "query") else 4
    baseline = box.y + box.height / 2 + (3.5 if small else 4.2)
    return (
        f'<g class="{css}"{_about(queries)}>{_title(tooltip)}'
        f"{rectangle(box, radius=radius, stroke=stroke)}"
        f"{text(box.x + PADDING, baseline, label, 'small' if small else '')}</g>"
    )


def edge(
    start: Point,
    end: Point,
    colour: str,
    width: float,
    css: str,
    tooltip: str,
    queries: Sequence[str] = (),
    on_to: float | None = None,
) -> str:
    """A curve from left to right, and straight on from there to an x where one is given."""
    (x1, y1), (x2, y2) = start, end
    bend = (x2 - x1) / 2
    straight = "" if on_to is None else f" H{on_to:.1f}"
    return (
        f'<path class="edge {css}"{_about(queries)} stroke="{colour}" stroke-width="{width:.1f}" '
        f'd="M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} '
        f'{x2:.1f} {y2:.1f}{straight}">{_title(tooltip)}</path>'
    )


def _about(queries: Sequence[str]) -> str:
    return f' data-query="{escape(" ".join(queries))}"' if queries else ""


def _title(tooltip: str) -> str:
    return f"<title>{escape(tooltip, quote=False)}</title>"


_LISTED = 12
_QUOTED = re.compile(r"'(?:[^']|'')*'")


class Flow(NamedTuple):
    """Events of a type that something reads, or that must not occur there."""

    type: str
    negated: bool


@dataclass(frozen=True)
class DrawnFragment:
    """A piece as it is drawn: `queries` lead through it, `piece.queries` all contain it."""

    piece: SharedSteps
    engine: str
    queries: tuple[str, ...]
    flows: tuple[Flow, ...]

    @property
    def label(self) -> str:
        """Its steps."""
        return ", ".join(self.piece.steps)


@dataclass(frozen=True)
class DrawnQuery:
    """A query: `parts` are pieces of its block, by number, and `own` is what it reads besides."""

    name: str
    pattern: str
    how: str
    kind: str
    parts: tuple[int, ...]
    own: tuple[Flow, ...]

    def main(self, otherwise: int) -> int:
        """The first of its pieces."""
        return min(self.parts, default=otherwise)


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
        """With at most so many queries, those of one piece side by side."""
        ordered = sorted(self.queries, key=lambda query: query.main(len(self.pieces)))
        if len(ordered) <= most:
            return replace(self, queries=tuple(ordered))
        title = f"{self.title}; {len(ordered) - most:,} queries are not drawn"
        return replace(self, queries=tuple(ordered[:most]), title=title)


def blocks(plan: Plan, most_pieces: int, merged: bool) -> list[Block]:
    """The plan's groups by partition; with `merged`, lone queries of an engine are one block."""
    outputs = {o.detail["query"]: o for o in plan.operators if o.kind == "output"}
    once = computed_once(plan) | made_once(plan)
    found: dict[object, Block] = {}
    keys = {tuple(output.detail["key"]) for output in outputs.values()}
    order = {key: i for i, key in enumerate(sorted(keys, key=lambda key: (len(key), key)))}

    def key_of(number: int) -> tuple[str, ...]:
        return tuple(outputs[plan.groups[number].queries[0]].detail["key"])

    for number in sorted(range(len(plan.groups)), key=lambda n: order[key_of(n)]):
        group = plan.groups[number]
        key = ", ".join(key_of(number))
        block = _block(
            [outputs[name] for name in group.queries],
            group,
            once.get(number, []),
            f"partition by {key}" if key else "no partition",
            most_pieces,
        )
        alone = merged and len(block.queries) == 1
        place = (key, group.engine) if alone else number
        found[place] = found[place].together(block) if place in found else block
    return [_titled(block) for block in found.values()] if merged else list(found.values())


def some(names: Sequence[str]) -> str:
    """The first of many names."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _block(
    outputs: Sequence[Operator],
    group: Group,
    pieces: Sequence[SharedSteps],
    partition: str,
    most: int,
) -> Block:
    read = {name.removeprefix("!") for output in outputs for name in output.detail["reads"]}
    types = sorted(read, key=lambda name: (-len(name), name))
    steps = steps_of(group) if pieces else {}
    counted = isinstance(group, CountingGroup)
    covered = cover(pieces, steps, most) if counted else _largest(pieces, most)
    shown = tuple(
        DrawnFragment(
            piece,
            group.engine,
            covered.queries(number),
            tuple(dict.fromkeys(f for step in piece.steps for f in flows(step, types))),
        )
        for number, piece in enumerate(covered.pieces)
    )
    drawn = []
    for output in outputs:
        detail = output.detail
        name, pattern = detail["query"], detail["pattern"]
        own = [Flow(read.removeprefix("!"), read.startswith("!")) for read in detail["reads"]]
        parts = tuple(number for _, number in covered.places.get(name, ()))
        if parts:
            rest = covered.uncovered(name, steps.get(name, ()))
            left = {f for step in rest for f in flows(step, types)}
            through = {f for number in parts for f in shown[number].flows}
            own = [flow for flow in own if flow in left or flow not in through]
        how = _how(group, detail)
        drawn.append(DrawnQuery(name, pattern, how, detail["rows"], parts, tuple(own)))
    title = f"{len(drawn):,} queries together: {drawn[0].how}" if len(drawn) > 1 else ""
    if title and group.cost is not None and group.cost.separate > group.cost.shared:
        title += f" ({cpu(group.cost.separate)} one by one)"
    if len(shown) < len(pieces):
        title += f"; {len(shown):,} of {len(pieces):,} pieces in common are drawn"
    return Block(partition, title, tuple(drawn), shown)


def _largest(pieces: Sequence[SharedSteps], most: int) -> Cover:
    """The pieces that save the most, each in all queries that it is made for."""
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


def _how(group: Group, detail: Mapping[str, Any]) -> str:
    slide = f" every {detail['slide']}" if "slide" in detail else ""
    cost = f", {cpu(group.cost.shared)}" if group.cost is not None else ""
    return f"{group.engine}, {detail['window']}{slide}{cost}"


def flows(step: str, types: Iterable[str]) -> list[Flow]:
    """What a step such as `A[x > 1] !B` reads, of types of which longer ones come first."""
    plain = _QUOTED.sub("''", step)
    found = []
    for negated, before in ((False, "^"), (True, " !")):
        for name in types:
            if re.search(rf"{before}{re.escape(name)}(?=[\[ ]|$)", plain):
                found.append(Flow(name, negated))
                if not negated:
                    break
    return found


MARGIN = 24
HEADING = 96
SPACE = 140  # between columns, for the edges; more where these are steep
MOST_SPACE = 260
GAP = 10
LINE = 17
ROW = 28  # of a query with its pattern
PILL = 22
SMALL_PILL = 16
SMALL_ROW = 19
MAX_ROWS = 34  # of small pills, that a block should have at most
COLUMNS = 8  # of small pills, that it has at least
LONGEST_PATTERN = 66  # characters
LONGEST_PIECE = 34
ALONE, BESIDES = "each on its own", "other steps"


class Rail(NamedTuple):
    """A row of small pills that belong to a piece, by its number, or to no piece."""

    piece: int | None
    queries: tuple[int, ...]


@dataclass(frozen=True)
class PlacedBlock:
    """A block and where its parts are; `alone` stands for what queries read by themselves."""

    block: Block
    panel: Box
    pieces: tuple[Box, ...]
    queries: tuple[Box, ...]
    alone: Box | None = None
    rails: tuple[Rail, ...] = ()
    starts_partition: bool = False


@dataclass
class PictureLayout:
    """The places of all blocks and types; where queries are `many` they are small pills."""

    blocks: Sequence[Block]
    many: bool
    placed: list[PlacedBlock] = field(default_factory=list)
    types: dict[str, Box] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0

    def __post_init__(self) -> None:
        names = list(dict.fromkeys(flow.type for block in self.blocks for flow in _flows(block)))
        rows = 0 if self.many else sum(len(block.queries) for block in self.blocks)
        self.piece_x = MARGIN + width_of(names) + min(SPACE + 4 * rows, MOST_SPACE)
        character = SMALL if self.many else CHARACTER
        labels = [piece_label(piece) for block in self.blocks for piece in block.pieces]
        if self.many:
            labels += [ALONE, BESIDES]
        self.piece_width = width_of(labels, character) if labels else 0.0
        self.query_x = self.piece_x + self.piece_width + (SPACE * 0.6 if labels else 0)
        drawn = [query for block in self.blocks for query in block.queries]
        self.query_width = width_of([query.name for query in drawn], character)
        self.pattern_width = width_of(map(pattern_label, drawn))
        self._place_blocks()
        self._place_types(names)

    def _place_blocks(self) -> None:
        y: float = HEADING
        before = ""
        for block in self.blocks:
            new = block.partition != before
            before = block.partition
            y += LINE + 4 if new else 0
            placed = self._pills(block, y) if self.many else self._rows(block, y)
            self.placed.append(replace(placed, starts_partition=new))
            y += placed.panel.height + GAP
        right = max((p.panel.x + p.panel.width for p in self.placed), default=0.0)
        self.placed = [
            replace(p, panel=replace(p.panel, width=right - p.panel.x)) for p in self.placed
        ]
        self.width, self.height = right + MARGIN, y + MARGIN

    def _rows(self, block: Block, y: float) -> PlacedBlock:
        """A row for each query, with its pattern beside it."""
        top = y + (LINE + 6 if block.title else 6)
        row = ROW if block.title else 2 * LINE + 2
        pills = tuple(
            Box(self.query_x, top + i * row + (row - PILL) / 2, self.query_width, PILL)
            for i in range(len(block.queries))
        )
        number = len(block.pieces)
        height = max(len(pills) * row, number * ROW)
        step = min(height / max(1, number), 2.5 * ROW)
        first = top + (height - step * number) / 2 + (step - PILL) / 2
        pieces = tuple(
            Box(self.piece_x, first + i * step, self.piece_width, PILL) for i in range(number)
        )
        right = self.query_x + self.query_width + self.pattern_width
        right = max(right, self.piece_x + width_of([block.title]))
        left = self.piece_x - PADDING
        panel = Box(left, y, right + PADDING - left, top + height + 6 - y)
        return PlacedBlock(block, panel, pieces, pills)

    def _pills(self, block: Block, y: float) -> PlacedBlock:
        """A band of small pills for each piece, and one for the queries that have none of them."""
        bands: list[list[int]] = [[] for _ in range(len(block.pieces) + 1)]
        for i, query in enumerate(block.queries):
            bands[query.main(len(block.pieces))].append(i)
        columns = COLUMNS
        while sum(ceil(len(band) / columns) for band in bands) > MAX_ROWS and columns < len(
            bands[-1]
        ):
            columns += 1
        pills: dict[int, Box] = {}
        rails = []
        boxes = []
        top = first = y + LINE + 8
        for number, band in enumerate(bands):
            is_alone = number == len(block.pieces)
            if is_alone and not any(query.own for query in block.queries):
                break
            rows = [band[at : at + columns] for at in range(0, len(band), columns)]
            for r, row in enumerate(rows):
                rails.append(Rail(None if is_alone else number, tuple(row)))
                for c, i in enumerate(row):
                    x = self.query_x + c * (self.query_width + GAP)
                    pills[i] = Box(x, top + r * SMALL_ROW, self.query_width, SMALL_PILL)
            height = max(1, len(rows)) * SMALL_ROW
            box_y = top + (height - SMALL_ROW) / 2
            boxes.append(Box(self.piece_x, box_y, self.piece_width, SMALL_PILL))
            top += height + 5
        alone = boxes.pop() if len(boxes) > len(block.pieces) else None
        right = self.query_x + columns * (self.query_width + GAP)
        right = max(right, self.piece_x + width_of([block.title]))
        left = self.piece_x - PADDING
        panel = Box(left, y, right - left, max(top, first + SMALL_ROW) - y)
        queries = tuple(pills[i] for i in range(len(block.queries)))
        return PlacedBlock(block, panel, tuple(boxes), queries, alone, tuple(rails))

    def _place_types(self, names: Sequence[str]) -> None:
        """In the order of what reads them: half level with its middle, half evenly spread."""
        targets: dict[str, list[float]] = {name: [] for name in names}
        for placed in self.placed:
            for flow, end, _ in ends(placed):
                targets[flow.type].append(end[1])
        middle = {name: sum(ys) / len(ys) for name, ys in targets.items() if ys}
        order = sorted(middle, key=lambda name: (middle[name], name))
        step = PILL + 6
        top, width = HEADING + LINE + PILL / 2, width_of(names)
        self.height = max(self.height, top + step * len(order) + MARGIN)
        bottom = self.height - MARGIN - GAP - PILL / 2
        even = (bottom - top) / max(1, len(order))
        places = []
        low: float = top
        for i, name in enumerate(order):
            low = max(low, (middle[name] + top + (i + 0.5) * even) / 2)
            places.append(low)
            low += step
        high = bottom
        for i in reversed(range(len(places))):
            places[i] = high = min(places[i], high)
            high -= step
        for name, y in zip(order, places, strict=True):
            self.types[name] = Box(MARGIN, y - PILL / 2, width, PILL)


def ends(placed: PlacedBlock) -> Iterator[tuple[Flow, Point, DrawnFragment | DrawnQuery | Block]]:
    """Where events of types lead to: pieces, and queries or what stands for them by themselves."""
    block = placed.block
    for piece, box in zip(block.pieces, placed.pieces, strict=True):
        for flow in piece.flows:
            yield flow, box.left, piece
    if placed.alone is not None:
        for flow in dict.fromkeys(flow for query in block.queries for flow in query.own):
            yield flow, placed.alone.left, block
    elif not placed.rails:
        for query, box in zip(block.queries, placed.queries, strict=True):
            for flow in query.own:
                yield flow, box.left, query


def piece_label(shown: DrawnFragment) -> str:
    """What stands in a piece's box: its steps, and how many queries have them."""
    return f"{shortened(shown.label, LONGEST_PIECE)} ×{len(shown.piece.queries):,}"


def pattern_label(query: DrawnQuery) -> str:
    """What stands beside a query."""
    return shortened(query.pattern, LONGEST_PATTERN)


def _flows(block: Block) -> Iterator[Flow]:
    for piece in block.pieces:
        yield from piece.flows
    for query in block.queries:
        yield from query.own
