"""A plan as a picture: event types on the left, what is computed once in the middle, queries right.

Colours are for sharing: each piece that several queries share has one, and so have its lines and
its queries; what a query reads for itself is grey. Many queries are drawn without lines, by
`overview`. Every box and line has a tooltip, and names what it is about (see `shapes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log10

from optimizer.explain.blocks import Block, DrawnFragment, about_piece, about_query, blocks
from optimizer.explain.layout import (
    LINE,
    PictureLayout,
    PlacedBlock,
    ends,
    pattern_label,
    piece_label,
)
from optimizer.explain.overview import Overview
from optimizer.explain.shapes import (
    COLOURS,
    MARGIN,
    MUTED_COLOR,
    PADDING,
    STYLE,
    Box,
    about_queries,
    edge,
    labelled,
    rectangle,
    text,
    width_of,
)
from optimizer.explain.text import amount, load
from optimizer.explain.text import number as number_text
from optimizer.plan.plan import Plan

MANY_QUERIES = 40  # queries; if there are more they are drawn by groups, without lines
MAX_QUERIES_DRAWN = 600
MAX_FRAGMENTS_DRAWN = 14  # of one block


def render_svg(plan: Plan) -> str:
    """The picture; the same plan gives the same bytes."""
    total = len(plan.queries)
    many = total > MANY_QUERIES
    drawn = blocks(plan, MAX_FRAGMENTS_DRAWN, merged=many)
    if not many:
        return "\n".join(_lines(plan, PictureLayout(drawn))) + "\n"
    fair = MAX_QUERIES_DRAWN / max(total, MAX_QUERIES_DRAWN)
    drawn = [block.limited(max(1, int(len(block.queries) * fair))) for block in drawn]
    return "\n".join(_overview_lines(plan, drawn)) + "\n"


class _Scale:
    """Widths of lines for events per second, logarithmic; the more lines, the finer."""

    def __init__(self, rates: Mapping[str, float], types: Sequence[str], lines: int) -> None:
        self.rates = rates
        self.most = 5.5 if lines <= 75 else 3.5
        used = [rates[name] for name in types if rates.get(name, 0.0) > 0] or [1.0]
        self.low, self.high = min(used), max(max(used), 10 * min(used))

    def width(self, rate: float) -> float:
        """Pixels."""
        if rate <= self.low:
            return 1.0
        part = log10(min(rate, self.high) / self.low) / log10(self.high / self.low)
        return 1.0 + (self.most - 1.0) * part

    def of(self, types: Sequence[str]) -> float:
        """Events per second of all these types."""
        return sum(self.rates.get(name, 0.0) for name in dict.fromkeys(types))


def _overview_lines(plan: Plan, drawn: Sequence[Block]) -> Iterator[str]:
    rates = {
        flow.type: number_text(plan.rates.get(flow.type, 0.0))
        for block in drawn
        for query in block.queries
        for flow in query.reads
    }
    overview = Overview(drawn, rates, plan.cost.unit)
    yield from _frame(plan, overview.width, overview.height)
    yield from _heading(plan, None, any(block.pieces for block in drawn))
    yield from overview.lines
    yield "</svg>"


def _lines(plan: Plan, layout: PictureLayout) -> Iterator[str]:
    number = sum(1 for placed in layout.placed for _ in ends(placed))
    scale = _Scale(plan.rates, list(layout.types), number)
    yield from _frame(plan, layout.width, layout.height)
    yield from _heading(plan, scale, any(block.pieces for block in layout.blocks))
    for placed in layout.placed:
        yield rectangle(placed.panel, "panel", 8)
    for own in (True, False):  # what is shared lies above what is not
        for placed in layout.placed:
            yield from _into(placed, layout, scale, own)
    for placed in layout.placed:
        yield from _shared(placed, scale)
    readers: dict[str, list[str]] = {}
    used: dict[str, list[str]] = {}
    for placed in layout.placed:
        for query in placed.block.queries:
            for flow in query.reads:
                readers.setdefault(flow.type, []).append(query.name)
        for n, piece in enumerate(placed.block.pieces):
            for flow in piece.flows:
                used.setdefault(flow.type, []).extend(placed.block.users(n))
    for name, box in layout.types.items():
        about = about_queries(list(dict.fromkeys(readers.get(name, ()))), used.get(name, ()))
        tooltip = f"{name}: {number_text(scale.of([name]))} events a second"
        yield labelled(box, name, "type", tooltip, about)
    for placed in layout.placed:
        yield from _titles(placed)
        yield from _boxes(plan, placed)
    yield "</svg>"


def _frame(plan: Plan, width: float, height: float) -> Iterator[str]:
    """The beginning of the picture: its size, its rules and its ground."""
    least = max(width_of([_costs(plan)]), width_of([load(plan)])) + MARGIN
    wide, high = f"{max(width, least):.0f}", f"{height:.0f}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" width="{wide}" height="{high}" '
        f'viewBox="0 0 {wide} {high}">'
    )
    yield f"<style>{STYLE}</style>"
    yield f'<rect width="{wide}" height="{high}" fill="#ffffff"/>'


def _heading(plan: Plan, scale: _Scale | None, shares: bool) -> Iterator[str]:
    """What it is a picture of, and what its lines, shapes and colours mean."""
    number = len(plan.written)
    many = "query" if number == 1 else "queries"
    heading = f"{plan.workload}: {number:,} {many}"
    yield text(MARGIN, 28, heading, "heading")
    yield text(MARGIN + 1.2 * width_of([heading]), 28, plan.id, "quiet small")
    yield text(MARGIN, 48, _costs(plan), "quiet")
    x: float = MARGIN
    if scale is not None:
        middle = (scale.low * scale.high) ** 0.5
        for rate in (scale.low, middle, scale.high):
            yield _sample(x, scale.width(rate), "edge sample")
            label = f"{rate:,.2g}/s" if rate < 100 else f"{rate:,.0f}/s"
            yield text(x + 32, 70, label, "quiet")
            x += 32 + width_of([label])
        yield _sample(x, 1.6, "edge negated sample")
        yield text(x + 32, 70, "must not occur", "quiet")
        x += 32 + width_of(["must not occur"])
    for kind, radius in (("aggregates", 7), ("matches", 3)):
        yield rectangle(Box(x, 59, 26, 14), "plain", radius)
        yield text(x + 32, 70, kind, "quiet")
        x += 32 + width_of([kind])
    if not shares:
        return
    for i, colour in enumerate(COLOURS[:3]):
        yield rectangle(Box(x + 11 * i, 61, 9, 9), "mark", 2, colour)
    said = "a colour for each piece that is shared"
    yield text(x + 39, 70, said, "quiet")


def _costs(plan: Plan) -> str:
    """What it takes, by itself and query by query."""
    shared, separate = (amount(c, plan.cost.unit) for c in (plan.cost.shared, plan.cost.separate))
    per = " of CPU for each second of stream" if plan.model == "measured" else ""
    return f"{shared}{per}; query by query {separate}; {load(plan)}"


def _sample(x: float, width: float, css: str) -> str:
    """A piece of a line, for the legend."""
    line = f'stroke="{MUTED_COLOR}" stroke-width="{width:.1f}" d="M{x:.1f} 66 h26"'
    return f'<path class="{css}" {line}/>'


def _into(placed: PlacedBlock, layout: PictureLayout, scale: _Scale, own: bool) -> Iterator[str]:
    """The lines from types to pieces, or with `own` to queries."""
    for flow, end, target in ends(placed):
        if isinstance(target, int) == own:
            continue
        if isinstance(target, int):
            piece = placed.block.pieces[target]
            css, name, colour = "to-piece", piece.label, piece.colour
            about = about_queries(piece.queries, placed.block.users(target))
        else:
            css, name, colour = "to-query own", target.name, MUTED_COLOR
            about = about_queries([target.name])
        css += " negated" if flow.negated else ""
        what = "must not occur in" if flow.negated else "into"
        rate = scale.of([flow.type])
        tooltip = f"{flow.type} {what} {name}: {number_text(rate)} events a second"
        start = layout.types[flow.type].right
        yield edge(start, end, colour, scale.width(rate), css, tooltip, about)


def _shared(placed: PlacedBlock, scale: _Scale) -> Iterator[str]:
    """The lines from pieces to larger pieces and to queries."""
    block = placed.block
    for number, (shown, box) in enumerate(zip(block.pieces, placed.pieces, strict=True)):
        for inner in shown.inner:
            part = block.pieces[inner]
            tooltip = f"{part.label} is a part of {shown.label}"
            about = about_queries(shown.queries, [part.id, *block.users(number)])
            start, width = placed.pieces[inner].right, scale.width(_rate(part, block, scale))
            yield edge(start, box.left, part.colour, width, "from-piece", tooltip, about)
        rate = _rate(shown, block, scale)
        for query, end in zip(block.queries, placed.queries, strict=True):
            if number in query.parts:
                what = f"{query.name} has {shown.label}, computed once"
                tooltip = f"{what}: {number_text(rate)} events a second"
                about = about_queries([query.name], block.related(number))
                width = scale.width(rate)
                yield edge(box.right, end.left, shown.colour, width, "from-piece", tooltip, about)


def _rate(shown: DrawnFragment, block: Block, scale: _Scale) -> float:
    """Events per second that a piece and the smaller ones in it read."""
    flows = list(shown.flows)
    for inner in shown.inner:
        flows += block.pieces[inner].flows
    return scale.of([flow.type for flow in flows if not flow.negated])


def _titles(placed: PlacedBlock) -> Iterator[str]:
    """At the right, where no edges go."""
    panel, block = placed.panel, placed.block
    side = panel.x + panel.width
    if placed.starts_partition:
        yield text(side, panel.y - 6, block.partition, "quiet halo ended outside")
    if block.title:
        yield text(side - PADDING, panel.y + LINE, block.title, "quiet halo ended")


def _boxes(plan: Plan, placed: PlacedBlock) -> Iterator[str]:
    block = placed.block
    for number, (shown, box) in enumerate(zip(block.pieces, placed.pieces, strict=True)):
        tooltip = about_piece(shown, plan.cost.unit)
        about = about_queries(shown.queries, block.related(number))
        yield labelled(box, piece_label(shown), "piece", tooltip, about, shown.colour)
    for query, box in zip(block.queries, placed.queries, strict=True):
        x, y = box.x + box.width + PADDING, box.left[1]
        if block.title:
            beside = text(x, y + 4.2, pattern_label(query))
        else:
            beside = text(x, y - 3.5, pattern_label(query)) + text(x, y + 11.5, query.how, "quiet")
        wide = placed.panel.x + placed.panel.width - PADDING - box.x
        beside += rectangle(Box(box.x, box.y, wide, box.height), "hit")  # all of it can be clicked
        colour = block.pieces[query.parts[0]].colour if query.parts else ""
        about = about_queries([query.name], [block.pieces[n].id for n in query.through])
        css, tooltip = f"query {query.kind}", about_query(query, block)
        yield labelled(box, query.name, css, tooltip, about, colour, more=beside)
