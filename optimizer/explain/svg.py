"""A plan as a picture: event types on the left, what is computed once in the middle, queries right.

Every box and line has a tooltip. Those that are about certain queries name them in `data-query`, so
that a page can light up one query's way with `[data-query~="name"]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log10

from optimizer.explain.layout import (
    ALONE,
    BESIDES,
    COLOURS,
    LINE,
    MARGIN,
    PADDING,
    STYLE,
    Block,
    Box,
    DrawnFragment,
    DrawnQuery,
    PictureLayout,
    PlacedBlock,
    blocks,
    edge,
    ends,
    labelled,
    pattern_label,
    piece_label,
    rectangle,
    some,
    text,
    width_of,
)
from optimizer.explain.text import amount
from optimizer.plan.plan import Plan

MANY_QUERIES = 40  # queries; if there are more they are small pills without their patterns
MAX_QUERIES_DRAWN = 600  # that are drawn
MAX_FRAGMENTS_DRAWN = 14  # of one block
MUTED_COLOR = "#8695a4"


def render_svg(plan: Plan) -> str:
    """The picture; the same plan gives the same bytes."""
    total = len(plan.queries)
    many = total > MANY_QUERIES
    drawn = blocks(plan, MAX_FRAGMENTS_DRAWN, merged=many)
    if many:
        fair = MAX_QUERIES_DRAWN / max(total, MAX_QUERIES_DRAWN)
        drawn = [block.limited(max(1, int(len(block.queries) * fair))) for block in drawn]
    return "\n".join(_lines(plan, PictureLayout(drawn, many))) + "\n"


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


def _lines(plan: Plan, layout: PictureLayout) -> Iterator[str]:
    number = sum(1 for placed in layout.placed for _ in ends(placed))
    scale = _Scale(plan.rates, list(layout.types), 0 if layout.many else number)
    least = width_of([_costs(plan)]) + MARGIN
    width, height = f"{max(layout.width, least):.0f}", f"{layout.height:.0f}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">'
    )
    yield f"<style>{STYLE}</style>"
    yield f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    yield from _heading(plan, scale)
    for placed in layout.placed:
        yield rectangle(placed.panel, "panel", 8)
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(layout.types)}
    for placed in layout.placed:
        yield from _into(placed, layout, colour, scale)
        yield from _shared(placed, scale)
    for name, box in layout.types.items():
        yield labelled(box, name, "type", f"{name}: {_number(scale.of([name]))} events a second")
    for placed in layout.placed:
        yield from _titles(placed, layout.many)
        yield from _boxes(plan, placed, layout.many)
    yield "</svg>"


def _heading(plan: Plan, scale: _Scale) -> Iterator[str]:
    """What it is a picture of, and what its lines and colours mean."""
    many = "query" if len(plan.queries) == 1 else "queries"
    yield text(MARGIN, 28, f"{plan.workload}: {len(plan.queries):,} {many}", "heading")
    yield text(MARGIN, 48, _costs(plan), "quiet")
    x: float = MARGIN
    middle = (scale.low * scale.high) ** 0.5
    for rate in (scale.low, middle, scale.high):
        yield _sample(x, scale.width(rate), "edge")
        label = f"{rate:,.2g}/s" if rate < 100 else f"{rate:,.0f}/s"
        yield text(x + 32, 70, label, "quiet")
        x += 32 + width_of([label])
    yield _sample(x, 1.6, "edge negated")
    yield text(x + 32, 70, "must not occur", "quiet")
    x += 32 + width_of(["must not occur"])
    for kind in ("aggregates", "matches"):
        yield f'<g class="{kind}">{rectangle(Box(x, 59, 26, 14), radius=7)}</g>'
        yield text(x + 32, 70, kind, "quiet")
        x += 32 + width_of([kind])


def _costs(plan: Plan) -> str:
    """What it is, and what it takes."""
    shared, separate = (amount(c, plan.cost.unit) for c in (plan.cost.shared, plan.cost.separate))
    per = " of CPU for each second of stream" if plan.model == "measured" else ""
    return f"{plan.id}, {plan.solver}, {plan.status}; {shared}{per}; query by query {separate}"


def _sample(x: float, width: float, css: str) -> str:
    """A piece of a line, for the legend."""
    line = f'stroke="{MUTED_COLOR}" stroke-width="{width:.1f}" d="M{x:.1f} 66 h26"'
    return f'<path class="{css}" {line}/>'


def _into(
    placed: PlacedBlock, layout: PictureLayout, colour: Mapping[str, str], scale: _Scale
) -> Iterator[str]:
    """The lines from types to pieces and queries."""
    for flow, end, target in ends(placed):
        match target:
            case DrawnFragment():
                css, name, queries = "to-piece", target.label, target.queries
            case DrawnQuery():
                css, name, queries = "to-query", target.name, (target.name,)
            case Block():
                css, name = "to-query", "queries on their own"
                queries = tuple(query.name for query in target.queries if flow in query.own)
        css += (" faint" if layout.many else "") + (" negated" if flow.negated else "")
        what = "must not occur in" if flow.negated else "into"
        rate = scale.of([flow.type])
        tooltip = f"{flow.type} {what} {name}: {_number(rate)} events a second"
        start = layout.types[flow.type].right
        yield edge(start, end, colour[flow.type], scale.width(rate), css, tooltip, queries)


def _shared(placed: PlacedBlock, scale: _Scale) -> Iterator[str]:
    """The lines from pieces to queries: through a row of pills at once, where there are rows."""
    block = placed.block
    on_rail: set[tuple[int, int]] = set()
    for rail in placed.rails:
        names = tuple(block.queries[i].name for i in rail.queries)
        first, last = placed.queries[rail.queries[0]], placed.queries[rail.queries[-1]]
        if rail.piece is None:
            if placed.alone is not None:
                tooltip = f"on their own: {some(names)}"
                start, colour = placed.alone.right, MUTED_COLOR
                yield edge(start, first.left, colour, 1.2, "rail", tooltip, names, last.x)
            continue
        on_rail.update((rail.piece, i) for i in rail.queries)
        shown, colour = block.pieces[rail.piece], COLOURS[rail.piece % len(COLOURS)]
        tooltip = f"{shown.label}, computed once for {some(names)}"
        width = scale.width(_rate(shown, scale))
        start = placed.pieces[rail.piece].right
        yield edge(start, first.left, colour, width, "rail", tooltip, names, last.x)
    for number, (shown, box) in enumerate(zip(block.pieces, placed.pieces, strict=True)):
        rate = _rate(shown, scale)
        for i, query in enumerate(block.queries):
            if number in query.parts and (number, i) not in on_rail:
                width, css = (1.2, "faint") if placed.rails else (scale.width(rate), "from-piece")
                what = f"{query.name} has {shown.label}, computed once"
                tooltip = f"{what}: {_number(rate)} events a second"
                colour = COLOURS[number % len(COLOURS)]
                end = placed.queries[i].left
                yield edge(box.right, end, colour, width, css, tooltip, (query.name,))


def _rate(shown: DrawnFragment, scale: _Scale) -> float:
    return scale.of([flow.type for flow in shown.flows if not flow.negated])


def _titles(placed: PlacedBlock, many: bool) -> Iterator[str]:
    """Where no edges go: those of many queries end at the left, those of few further on."""
    panel, block = placed.panel, placed.block
    side, css, inside = panel.x, "quiet halo", PADDING
    if not many:
        side, css, inside = panel.x + panel.width, "quiet halo ended", -PADDING
    if placed.starts_partition:
        yield text(side, panel.y - 6, block.partition, f"{css} outside")
    if block.title:
        yield text(side + inside, panel.y + LINE, block.title, css)


def _boxes(plan: Plan, placed: PlacedBlock, many: bool) -> Iterator[str]:
    block = placed.block
    for number, (shown, box) in enumerate(zip(block.pieces, placed.pieces, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        tooltip = _about_piece(plan, shown)
        yield labelled(box, piece_label(shown), "piece", tooltip, shown.queries, colour, many)
    if placed.alone is not None:
        own = tuple(query.name for query in block.queries if query.own)
        tooltip = f"what {len(own):,} queries read besides the pieces that are drawn"
        label = BESIDES if block.pieces else ALONE
        yield labelled(placed.alone, label, "alone", tooltip, own, small=many)
    for query, box in zip(block.queries, placed.queries, strict=True):
        css, tooltip = f"query {query.kind}", _about_query(query, block)
        yield labelled(box, query.name, css, tooltip, (query.name,), small=many)
        if many:
            continue
        x, y = box.x + box.width + PADDING, box.left[1]
        if block.title:
            yield text(x, y + 4.2, pattern_label(query))
        else:
            yield text(x, y - 3.5, pattern_label(query))
            yield text(x, y + 11.5, query.how, "quiet")


def _about_piece(plan: Plan, shown: DrawnFragment) -> str:
    piece = shown.piece
    lines = [shown.label, f"computed once ({shown.engine}) for {some(piece.queries)}"]
    if through := [name for name in piece.queries if name not in shown.queries]:
        lines.append(f"{some(through)}: drawn through other pieces")
    if piece.benefit is not None:
        lines.append(f"saves {amount(piece.benefit, plan.cost.unit)}")
        lines.append(piece.why)
    return "\n".join(lines)


def _about_query(query: DrawnQuery, block: Block) -> str:
    lines = [query.name, query.pattern, query.how]
    for number in dict.fromkeys(query.parts):
        shown = block.pieces[number]
        others = [name for name in shown.piece.queries if name != query.name]
        lines.append(f"shares {shown.label} with {some(others)}")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:,.4g}"
