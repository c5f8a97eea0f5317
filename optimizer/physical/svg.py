"""A plan as a picture: event types on the left, what runs in the middle, queries on the right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from optimizer.physical.plan import Operator, Plan

# Pixels. The texts are monospaced, so their widths are known without a font at hand.
CHARACTER = 7.3
LINE = 17
BOX = 2 * LINE + 12
GAP = 12
PILL = 26
MARGIN = 24
HEADING = 84
SPACE = 150  # between columns, for the edges
PADDING = 12
WIDEST = 64  # characters of a pattern that are shown

# One colour a type, in turn; dark enough for lines on white.
COLOURS = ("#2f6f9f", "#b4552d", "#4f7f3a", "#8a4f9e", "#a8862a", "#3b8686", "#a33f5f", "#5b62a8")

STYLE = """
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2933 }
.title { font-weight: bold; font-size: 14px } .quiet { fill: #66727f }
.panel { fill: #f4f6f8; stroke: #d5dbe1 } .box { fill: #ffffff; stroke: #8695a4 }
.aggregates { fill: #e6f0e2; stroke: #7d9c6f } .matches { fill: #fbeadd; stroke: #c08a63 }
.edge { fill: none; stroke-width: 1.4; opacity: 0.55 } .negated { stroke-dasharray: 4 3 }
"""


@dataclass(frozen=True)
class _Place:
    """Where a box is."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> tuple[float, float]:
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> tuple[float, float]:
        return self.x + self.width, self.y + self.height / 2


def render_svg(plan: Plan) -> str:
    """The picture; the same plan gives the same bytes."""
    return "\n".join(_Picture(plan).lines()) + "\n"


class _Picture:
    """Places everything first, then draws edges below boxes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.partitions = [o for o in plan.operators if o.kind == "partition"]
        self.sinks = {
            source: sink.id
            for sink in plan.operators
            if sink.kind == "sink"
            for source in sink.inputs
        }
        engines = [o for o in plan.operators if o.kind == "engine"]
        self.members = {
            p.id: [engine for engine in engines if p.id in engine.inputs] for p in self.partitions
        }
        self.engines = [engine for p in self.partitions for engine in self.members[p.id]]
        self.types = _ordered_types(self.engines)
        self.colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(self.types)}
        self._place()

    def _place(self) -> None:
        type_width = _width(self.types)
        engine_x = MARGIN + type_width + SPACE
        engine_width = _width(line for engine in self.engines for line in _texts(engine))
        query_x = engine_x + engine_width + PADDING + SPACE * 0.5
        query_width = _width(name for engine in self.engines for name in engine.detail["queries"])
        self.boxes: dict[str, _Place] = {}
        self.panels: list[tuple[str, _Place]] = []
        self.queries: dict[str, _Place] = {}
        y: float = HEADING
        for partition in self.partitions:
            top = y
            y += LINE + PADDING
            for engine in self.members[partition.id]:
                names = engine.detail["queries"]
                # A line for each pattern, level with its query, and one for the engine.
                height = BOX if len(names) == 1 else len(names) * (PILL + 4) + LINE + 10
                self.boxes[engine.id] = _Place(engine_x, y, engine_width, height)
                first = y + 4 if len(names) > 1 else y + (height - PILL) / 2
                for i, name in enumerate(names):
                    self.queries[name] = _Place(query_x, first + i * (PILL + 4), query_width, PILL)
                y += height + GAP
            panel = _Place(
                engine_x - PADDING, top, engine_width + 2 * PADDING, y - top - GAP + PADDING
            )
            key = ", ".join(partition.detail["key"])
            self.panels.append((f"partition by {key}" if key else "no partition", panel))
            y += PADDING + GAP
        self.height = max(y, HEADING + len(self.types) * (PILL + 6)) + MARGIN
        self.width = query_x + query_width + MARGIN
        step = (self.height - HEADING - MARGIN) / max(1, len(self.types))
        self.type_boxes = {
            name: _Place(MARGIN, HEADING + (i + 0.5) * step - PILL / 2, type_width, PILL)
            for i, name in enumerate(self.types)
        }

    def lines(self) -> Iterator[str]:
        plan = self.plan
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" '
            f'height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}">'
        )
        yield f"<title>{escape(f'{plan.id} of {plan.workload}')}</title>"
        yield f"<style>{STYLE}</style>"
        yield f'<rect width="{self.width:.0f}" height="{self.height:.0f}" fill="#ffffff"/>'
        yield _text(MARGIN, 26, f"{plan.workload}: {len(plan.queries)} queries", "title")
        cost = f"{plan.cost.shared:,.6g} of {plan.cost.separate:,.6g} {plan.cost.unit}"
        yield _text(MARGIN, 46, f"{plan.id}, {plan.solver}, {plan.status}; {cost}", "quiet")
        legend = "green: aggregates, orange: matches; a dashed line: must not occur"
        yield _text(MARGIN, 64, legend, "quiet")
        for label, panel in self.panels:
            yield _rectangle(panel, "panel", 8)
            yield _text(panel.x + PADDING, panel.y + LINE + 2, label, "quiet")
        for engine in self.engines:
            yield from self._edges(engine)
        for name, place in self.type_boxes.items():
            yield _rectangle(place, "box", PILL / 2)
            yield _text(place.x + PADDING, place.y + 17, name)
        for engine in self.engines:
            yield from self._engine(engine)
        yield "</svg>"

    def _edges(self, engine: Operator) -> Iterator[str]:
        target = self.boxes[engine.id]
        for kind in ("types", "negated"):
            for name in engine.detail[kind]:
                start = self.type_boxes[name].right
                yield _edge(start, target.left, self.colour[name], kind == "negated")
        for name in engine.detail["queries"]:
            pill = self.queries[name].left
            level = (
                target.right if len(engine.detail["queries"]) == 1 else (target.right[0], pill[1])
            )
            yield _edge(level, pill, "#8695a4", False)

    def _engine(self, engine: Operator) -> Iterator[str]:
        place = self.boxes[engine.id]
        yield _rectangle(place, "box", 4)
        *patterns, last = _texts(engine)
        step = LINE if len(patterns) == 1 else PILL + 4
        for i, line in enumerate(patterns):
            yield _text(place.x + PADDING, place.y + (18 if step == LINE else 21) + i * step, line)
        yield _text(place.x + PADDING, place.y + place.height - 11, last, "quiet")
        for name in engine.detail["queries"]:
            pill = self.queries[name]
            yield _rectangle(pill, self.sinks.get(engine.id, "box"), PILL / 2)
            yield _text(pill.x + PADDING, pill.y + 17, name)


def _ordered_types(engines: list[Operator]) -> list[str]:
    """Each type near the middle of the engines that read it, so that fewer edges cross."""
    rows: dict[str, list[int]] = {}
    for row, engine in enumerate(engines):
        for name in (*engine.detail["types"], *engine.detail["negated"]):
            rows.setdefault(name, []).append(row)
    return sorted(rows, key=lambda name: (sum(rows[name]) / len(rows[name]), name))


def _texts(engine: Operator) -> list[str]:
    """What stands in a box: the pattern of each query, then how they run."""
    detail = engine.detail
    patterns = [p if len(p) <= WIDEST else p[: WIDEST - 1] + "…" for p in detail["patterns"]]
    slide = f" every {detail['slide']}" if "slide" in detail else ""
    together = f"{len(patterns)} counted together, " if len(patterns) > 1 else ""
    return [*patterns, f"{together}{detail['engine']}, {detail['window']}{slide}"]


def _width(texts: Iterator[str] | list[str]) -> float:
    return max((len(text) for text in texts), default=0) * CHARACTER + 2 * PADDING


def _rectangle(place: _Place, css: str, radius: float) -> str:
    return (
        f'<rect class="{css}" x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" '
        f'height="{place.height:.1f}" rx="{radius:.0f}"/>'
    )


def _text(x: float, y: float, text: str, css: str = "") -> str:
    shown = f' class="{css}"' if css else ""
    return f'<text{shown} x="{x:.1f}" y="{y:.1f}">{escape(text, quote=False)}</text>'


def _edge(start: tuple[float, float], end: tuple[float, float], colour: str, negated: bool) -> str:
    (x1, y1), (x2, y2) = start, end
    bend = (x2 - x1) / 2
    css = "edge negated" if negated else "edge"
    return (
        f'<path class="{css}" stroke="{colour}" d="M{x1:.1f} {y1:.1f} '
        f'C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"/>'
    )
