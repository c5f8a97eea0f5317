"""A plan as text: all of it, or what one query goes through."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum

from optimizer.engines import engine, label
from optimizer.explain.access_text import access_text
from optimizer.plan.groups import CountingGroup, Group
from optimizer.plan.lineage import QueryOperators, SharedSteps, computed_once
from optimizer.plan.plan import Operator, Plan

MAX_NAMES = 6
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def cpu(nanoseconds: float) -> str:
    """Time on one core, to three digits: `41.2 µs`."""
    for size, unit in _UNITS:
        if abs(nanoseconds) >= size * 0.9995:
            return f"{digits(nanoseconds / size)} {unit}"
    return f"{digits(nanoseconds)} ns" if nanoseconds else "0"


def rate(value: float) -> str:
    """Rows or events in a second."""
    if value >= 1e6:
        return f"{value:,.2e}"
    return digits(value) if value >= 0.001 or value == 0 else f"{value:.0e}"


def digits(value: float) -> str:
    """To three digits, without zeros at the end."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return f"{float(text):,.6f}".rstrip("0").rstrip(".") if "e" in text else text


def amount(value: float, unit: str) -> str:
    """A cost or a benefit in the unit of a plan's costs."""
    return cpu(value) if unit.startswith("nanoseconds") else f"{number(value)} {unit}"


def number(value: float) -> str:
    """A number for people: whole ones as they are, others to four digits."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:,.4g}"


_NAME = re.compile(r"'(?:[^']|'')*'|\"((?:[^\"]|\"\")+)\"")


def unquoted(pattern: str) -> str:
    """A pattern with its names as they are, without quotes around those that have blanks."""
    return _NAME.sub(lambda found: found[1].replace('""', '"') if found[1] else found[0], pattern)


def load(plan: Plan) -> str:
    """What a plan takes of a core, and how many events of its stream a core takes in a second.

    `0.0042 % of a core at 50 events/s; one core takes 1.2 million events/s`.
    """
    return core_load(plan.cost.shared, events_per_second(plan))


def events_per_second(plan: Plan) -> float:
    """Of the whole stream where that is known, or else of the types that queries read."""
    scan = next((o for o in plan.operators if o.kind == "scan"), None)
    if scan is not None and scan.rows is not None:
        return scan.rows
    return sum(plan.rates.values())


def tested_text(tests: Sequence[Operator], plan: Plan) -> str:
    """How events are tested: `40 conditions of 24 symbols, tested in one pass for 17 queries`."""
    symbols = {symbol for operator in tests for symbol in operator.detail["symbols"]}
    parts = [counted(len(symbols), "symbol")]
    if len(tests) == 1 and (conditions := tests[0].detail.get("conditions", 0)):
        parts.insert(0, counted(conditions, "condition"))
    many = len(plan.queries)
    if len(tests) > 1:
        return f"{' of '.join(parts)}, tested for each of {many:,} queries"
    together = f" for {many:,} queries" if many > 1 else ""
    return f"{' of '.join(parts)}, tested in one pass{together}{_texts_text(tests[0])}"


def _texts_text(tests: Operator) -> str:
    """`; 12 atomic ones, asked for 40 times, each once on every distinct value of 3 attributes`."""
    texts = tests.detail.get("of_texts")
    if texts is None:
        return ""
    atoms, times = counted(texts["conditions"], "atomic one"), counted(texts["asked"], "time")
    attributes = counted(texts["attributes"], "attribute")
    return f"; {atoms}, asked for {times}, each once on every distinct value of {attributes}"


def counted(number_: int, noun: str) -> str:
    """`1 symbol`, `24 symbols`."""
    return f"{number_:,} {noun}" + ("" if number_ == 1 else "s")


def core_load(nanoseconds: float, events: float) -> str:
    """CPU time for each second of a stream with so many events a second, as part of a core."""
    if nanoseconds <= 0 or events <= 0:
        return "nothing of a core"
    part = f"{percent(nanoseconds / 1e9)} of a core at {rate(events)} events/s"
    return f"{part}; one core takes {rounded(events * 1e9 / nanoseconds)} events/s"


def percent(part: float) -> str:
    """A part of 1 to two digits: `0.0042 %`, `150 %`."""
    value = float(f"{100 * part:.2g}")
    if value >= 1:
        return f"{value:,.4g} %" if value < 1e4 else f"{value:,.0f} %"
    return f"{value:.10f}".rstrip("0") + " %" if value >= 1e-6 else "below 0.000001 %"


def rounded(value: float) -> str:
    """A number to two digits, in words from a million on: `1.3 million`, `220,000`."""
    value = float(f"{value:.2g}")
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:,.3g} {word}" if value < 1000 * size else f"{value:.1e}"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def times(more: float, less: float) -> str:
    """How much more that is."""
    if not less:
        return "more"
    factor = digits(more / less)
    return "about as much" if factor == "1" else f"{factor} times as much"


def some(names: Sequence[str], most: int | None = MAX_NAMES) -> str:
    """The first of many names; all of them where `most` is None."""
    more = 0 if most is None else len(names) - most
    if more <= 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {more:,} more"


MANY_ROWS = 10_000_000  # of one query
MANY_ROWS_PER_EVENT = 100.0
_LINES = 24  # of one section
_FEW = 4  # names, where there is a list for each query
_CPU, _ROWS = 9, 9  # the columns in front of the tree
_WIDTH = 100


def render_text(plan: Plan, verbose: bool = False) -> str:
    """The whole plan for a terminal, in plain characters and without colour.

    Long lists are cut, with a count of what is left out, unless it is `verbose`.
    """
    text = PlanText(plan, verbose)
    parts = [text.heading(), text.graph(), text.reasons(), text.once(), text.candidates()]
    parts += [text.queries(), text.obstacles(), text.terms()]
    sections = [list(part) for part in parts]
    graph = sections[1]
    shown = [
        [part for line in lines for part in (branch if lines is graph else wrapped)(line)]
        for lines in sections
    ]
    return "\n\n".join("\n".join(lines) for lines in shown if lines) + "\n"


def branch(line: str) -> list[str]:
    """A line of the tree in lines that fit a terminal, with the tree's strokes going on."""
    found = re.match(rf".{{{_CPU + _ROWS + 2}}}((?:[│ ]  )*)([├└]─ )?", line)
    if len(line) <= _WIDTH or found is None:
        return [line]
    stroke = {"├": "│    ", "└": "     "}[found[2][0]] if found[2] else "  "
    further = " " * (_CPU + _ROWS + 2) + found[1] + stroke
    text = textwrap.wrap(
        line[found.end() :], _WIDTH - len(further), break_long_words=False, break_on_hyphens=False
    )
    return [line[: found.end()] + text[0], *(further + part for part in text[1:])]


def wrapped(line: str, further: int | None = None) -> list[str]:
    """A line in lines that fit a terminal, those after the first one `further` in."""
    if len(line) <= _WIDTH:
        return [line]
    if further is not None:
        return textwrap.wrap(line, _WIDTH, subsequent_indent=" " * further, break_on_hyphens=False)
    indent = " " * (4 + len(line) - len(line.lstrip()))
    mark = re.match(r" *-?\d[\d.,e+-]*( [\w. ]+?)? [-+] |[a-z]+ {2,}", line)
    if mark is not None:  # under the text, behind its number or name
        indent = " " * mark.end()
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def row_warnings(plan: Plan) -> Iterator[str]:
    """A sentence for each query that is expected to give very many rows.

    What rests on rates that are only assumed is left out.
    """
    known = plan.statistics
    events, span = known.get("events"), known.get("span")
    if not events or not span or "events: span" in plan.assumed:
        return
    is_measured = known.get("source") != "given"  # else they are a rate, and not all there is
    for operator in plan.operators:
        if operator.kind != "output" or not operator.rows or _is_assumed(plan, operator):
            continue
        rows = operator.rows * span
        if rows > MANY_ROWS_PER_EVENT * events or (is_measured and rows > MANY_ROWS):
            total = f"about {_rounded(rows):,} rows, {_rounded(rows / events):,} for each event"
            each = f"about {_rounded(rows / events):,} rows for each event"
            yield (
                f"query {operator.detail['query']} is expected to give "
                f"{total if is_measured else each}: limit them (--row-limit), shorten its window "
                f"({operator.detail['window']}), partition it by a key, or add conditions"
            )


def _is_assumed(plan: Plan, output: Operator) -> bool:
    types = {symbol.partition("[")[0] for symbol in output.detail["symbols"]}
    return any(f"rates: {name}" in plan.assumed for name in types)


def _rounded(value: float) -> int:
    """To two digits."""
    return int(float(f"{value:.1e}"))


@dataclass(frozen=True)
class PlanText:
    """The sections of a plan's text."""

    plan: Plan
    verbose: bool = False

    @cached_property
    def ways(self) -> QueryOperators:
        """Who uses what."""
        return QueryOperators(self.plan)

    @cached_property
    def pieces(self) -> dict[int, list[SharedSteps]]:
        """What groups compute once, by their number."""
        return computed_once(self.plan)

    def heading(self) -> Iterator[str]:
        """What it is about, what it costs, and what that rests on."""
        plan = self.plan
        number = len(plan.written)
        many = "query" if number == 1 else "queries"
        yield f"{plan.id}: {plan.workload}, {number:,} {many}"
        yield f"cost      {self._cost()}"
        yield f"load      {load(plan)}"
        yield f"sharing   {self._saving()}"
        yield f"decided   by the solver {plan.solver} with cost model {plan.model}{self._units()}"
        if known := self._known():
            yield f"known     {known}"
        # Nobody can give statistics of columns that engines add.
        if named := [name for name in plan.assumed if '"#' not in name]:
            yield f"assumed   {self._some(named)}; give statistics or events to do better"
        if plan.access:
            yield f"access    {access_text(plan.access)}"
        for note in plan.notes:
            yield f"note      {note}"
        for sentence in row_warnings(plan):
            yield f"warning   {sentence}"

    def _cost(self) -> str:
        cost = self.plan.cost
        shown = f"{cpu(cost.shared)} of CPU for each second of stream; query by query"
        if abs(cost.separate - cost.shared) <= 1e-9 * cost.shared:
            return f"{shown} it is the same"
        return f"{shown} {cpu(cost.separate)}, {times(cost.separate, cost.shared)}"

    def _saving(self) -> str:
        plan = self.plan
        if not plan.sharing:
            return "is switched off: each query reads, tests and orders events for itself"
        saved, groups = plan.objective, [g.cost for g in plan.groups if g.cost is not None]
        chosen = fsum(cost.separate - cost.shared for cost in groups)
        once = "by reading, testing and ordering events once"
        if abs(saved) <= 1e-9 * plan.cost.shared:
            found = f"saves nothing: {self._nothing()}"
        elif saved < 0:
            found = f"takes {cpu(-saved)} more than query by query"
        elif abs(chosen) <= 1e-9 * plan.cost.shared:
            found = f"saves {cpu(saved)} {once}, and nothing else: {self._nothing()}"
        else:
            found = f"saves {cpu(saved)}, {cpu(saved - chosen)} of it {once}"
        if plan.model == "aseq":
            return f"{found}; {self._by_thesis()}"
        if plan.status == "optimal":
            return f"{found}; no other choice of groups, engines or trees saves more"
        left = 100 * (plan.bound - saved) / plan.cost.shared if plan.cost.shared else 0.0
        most = cpu(plan.bound)
        gap = f"gap {left:.1f} % of the plan's cost" if left >= 0.1 else "gap below 0.1 %"
        return (
            f"{found}; no other choice of groups, engines or trees saves more than {most} ({gap})"
        )

    def _nothing(self) -> str:
        if self.plan.candidates:
            return "of what queries have in common nothing pays"
        return "no two queries that could run together have anything in common"

    def _by_thesis(self) -> str:
        by_equation = [c for c in self.plan.candidates if c.unit != self.plan.cost.unit]
        taken = sum(c.id in set(self.plan.chosen) for c in by_equation)
        most = " (no other choice is worth more)" if self.plan.status == "optimal" else ""
        return f"equation 4.4 takes {taken:,} of {len(by_equation):,} candidates{most}"

    def _units(self) -> str:
        if self.plan.model == "aseq":
            return " (Chop-Connect, equations 4.2 to 4.5); costs are by operations of a machine"
        source = self.plan.unit_costs.get("source", "defaults")
        if source == "defaults":
            return ", by default costs of operations ('sheaf calibrate' measures this machine's)"
        return ", by costs of operations as calibrated on this machine"

    def _stated(self) -> str:
        """How many numbers the workload states of its stream: `2 rates, 1 key`."""
        stated = self.plan.document.get("statistics") or {}
        kinds = {"rates": "rate", "selectivities": "selectivity", "keys": "key"}
        said = []
        for kind, one in kinds.items():
            if many := len(stated.get(kind) or ()):
                said.append(f"{many} {one if many == 1 else kind}")
        return ", ".join(said)

    def _known(self) -> str:
        known = self.plan.statistics
        sample = known.get("sample")
        if sample:
            by = "seen by a run: " if known.get("source") == "running" else ""
            text = f"{by}sampled from {sample['events']:,} of {known.get('events', 0):,} events"
            text += f" (seed {sample['seed']})"
            if known.get("source") == "sampled" and (stated := self._stated()):
                text = f"{stated} given with the workload; the rest {text}"
        elif self._all_assumed():
            return ""
        elif known.get("source") == "running":
            text = f"measured by a run of {known.get('events') or 0:,} events"
        else:
            text = "given with the workload"
        keys = known.get("keys", {})
        spread = [
            f"{name} has {number(key['cardinality'])} values, the heaviest {key['heaviest']:.2%}"
            for name, key in keys.items()
            if f"keys: {name}" not in self.plan.assumed
        ]
        if known.get("ties"):
            spread.append(f"{known['ties']:.1%} of events simultaneous with another")
        return "; ".join([text, *spread])

    def _all_assumed(self) -> bool:
        """Is there nothing that anybody said of the stream?"""
        assumed = set(self.plan.assumed)
        named = [f"rates: {name}" for name in self.plan.rates]
        for kind in ("selectivities", "keys"):
            named += [f"{kind}: {name}" for name in self.plan.statistics.get(kind, {})]
        return bool(named) and assumed.issuperset(named)

    # --- what runs -----------------------------------------------------------------------------

    def graph(self) -> Iterator[str]:
        """The scan, its partitions, and below each the groups with their queries."""
        yield f"{'CPU/s':>{_CPU}}{'rows/s':>{_ROWS}}  what runs"
        scans = [o for o in self.plan.operators if o.kind == "scan"]
        detail = scans[0].detail
        columns = [f"{key} {detail[key]}" for key in ("time", "type", "sequence") if key in detail]
        read = f"scan: {', '.join(columns)}; unit {detail['unit']}"
        if sources := self.plan.document.get("streams"):
            each = (f"{name} by {of['time']}, {of['unit']}" for name, of in sources.items())
            read += f"; of {'; '.join(each)}"
        if len(scans) > 1:
            read += f"; once for each of {len(scans):,} queries"
        yield _line(sum(scan.cost for scan in scans), scans[0].rows, read)
        tests = [o for o in self.plan.operators if o.kind == "conditions"]
        yield _line(sum(o.cost for o in tests), None, f"├─ {tested_text(tests, self.plan)}")
        by_key: dict[tuple[str, ...], list[int]] = {}
        for i, group in enumerate(self.plan.groups):
            key = tuple(self.ways.outputs[group.queries[0]].detail["key"])
            by_key.setdefault(key, []).append(i)
        keys = sorted(by_key, key=lambda key: (len(key), key))
        for key in keys:
            title = f"partition by {', '.join(key)}" if key else "no partition"
            ordered = [o for o in self.plan.operators if o.kind == "partition"]
            cost = sum(o.cost for o in ordered if tuple(o.detail["key"]) == key)
            yield _line(cost, None, f"├─ {title}")
            indent = "│  "
            shown = by_key[key] if self.verbose else by_key[key][: 2 * _LINES]
            hidden = len(by_key[key]) - len(shown)
            for i in shown:
                yield from self._group(i, indent, i == shown[-1] and not hidden)
            if hidden:
                yield _line(None, None, f"{indent}└─ and {hidden:,} more groups: --verbose")
        sinks = [o for o in self.plan.operators if o.kind == "sink"]
        for sink in sinks:
            made = sum(self.ways.by_id[source].cost for source in sink.inputs)
            branch = "└─" if sink is sinks[-1] else "├─"
            text = f"{branch} rows of {sink.detail['rows']}, made, sorted and written"
            yield _line(made + sink.cost, sink.rows, text)

    def _group(self, number_: int, indent: str, last: bool) -> Iterator[str]:
        group = self.plan.groups[number_]
        branch, deeper = ("└─ ", "   ") if last else ("├─ ", "│  ")
        cost = self.ways.cost_of(group)
        outputs = [self.ways.outputs[name] for name in group.queries]
        rows = [output.rows for output in outputs]
        total = None if None in rows else sum(row for row in rows if row is not None)
        if len(outputs) == 1:
            yield _line(cost, total, f"{indent}{branch}{_alone(outputs[0], group)}")
            return
        how = f"{len(outputs)} queries together, {label(group.engine)}"
        if group.cost is not None and group.cost.separate > group.cost.shared:
            saved = group.cost.separate - group.cost.shared
            how += f"; one by one {cpu(cost + saved)}"
        yield _line(cost, total, f"{indent}{branch}{how}")
        shown = outputs if self.verbose else outputs[:_LINES]
        hidden = len(outputs) - len(shown)
        width = max(len(output.detail["query"]) for output in shown)
        for output in shown:
            is_last = output is shown[-1] and not hidden
            text = f"{output.detail['query']:<{width}}  {_pattern(output)}"
            yield _line(None, output.rows, f"{indent}{deeper}{'└─' if is_last else '├─'} {text}")
        if hidden:
            yield _line(None, None, f"{indent}{deeper}└─ and {hidden:,} more: --verbose")

    # --- what is decided -----------------------------------------------------------------------

    def reasons(self) -> Iterator[str]:
        """Each reason once, with the queries that it is given for."""
        by_reason: dict[str, list[str]] = {}
        for group in self.plan.groups:
            by_reason.setdefault(group.why, []).append(self._joined(group.queries))
        yield "why each of them runs this way"
        for why, queries in by_reason.items():
            who = "all" if len(queries) == len(self.plan.groups) > 1 else self._some(queries)
            yield f"  {who}: {why}"

    def _joined(self, names: Sequence[str]) -> str:
        """The queries of a group, as one."""
        if self.verbose or len(names) <= MAX_NAMES + 1:
            return " + ".join(names)
        return f"{' + '.join(names[:MAX_NAMES])} + {len(names) - MAX_NAMES} more"

    def once(self) -> Iterator[str]:
        """What is computed once for several queries: pieces that are counted, and joins."""
        lines = []
        for number_, pieces in self.pieces.items():
            called = label(self.plan.groups[number_].engine)
            for piece in sorted(pieces, key=lambda piece: -(piece.benefit or 0.0)):
                who = self._some(list(piece.queries))
                by_time = piece.benefit and self.plan.model == "measured"
                saves = f"; saves {cpu(piece.benefit or 0.0)}" if by_time else ""
                lines.append(f"  {', '.join(piece.steps)}: for {who}, by {called}{saves}")
        for join in self.ways.shared_joins:
            users = self.ways.queries[join.id]
            # Not what sharing it saves: alone, a query may have another tree.
            more = (len(users) - 1) * self.ways.cost_below(join)
            saves = f"; for each anew it would take {cpu(more)} more" if more else ""
            rows = "" if join.rows is None else f", {rate(join.rows)} rows a second"
            who = self._some(list(users))
            lines.append(f"  {_bare(join)}: for {who}, joined once{rows}{saves}")
        if lines:
            yield "computed once for several queries"
            yield from self._most(lines)

    def candidates(self) -> Iterator[str]:
        """Every candidate with its benefit, and why it was chosen or not, the best first."""
        plan = self.plan
        if plan.candidates:
            yield "candidates for sharing, each with what it saves beside those above it"
            if any(c.unit != plan.cost.unit for c in plan.candidates):
                yield "  (op.: operations per window, by equation 4.4)"
        chosen = set(plan.chosen)
        ranked = sorted(plan.candidates, key=lambda c: (c.id not in chosen, -c.benefit, c.id))
        lines = []
        for c in ranked:
            is_time = c.unit == plan.cost.unit
            benefit = cpu(c.benefit) if is_time else f"{number(c.benefit)} op."
            mark = "+" if c.id in chosen else "-"
            who = self._some(list(c.queries))
            lines.append(f"{benefit:>14} {mark} {_steps(c.pattern)}: {who}; {c.why}")
        yield from self._most(lines)

    def queries(self) -> Iterator[str]:
        """For each query that shares: what, and with whom."""
        shares = self.shares
        sharing: list[str] = []
        alone: list[str] = []
        for name in self.plan.queries:
            group = self.ways.groups[name]
            counted = len(group.queries) > 1 and isinstance(group, CountingGroup)
            (sharing if counted or shares[name] else alone).append(name)
        if not sharing:
            return
        yield "with whom each query shares"
        shown = sharing if self.verbose else sharing[: _LINES + 1]
        lines = [f"  {name}: {'; '.join(self._with(name, shares[name]))}" for name in shown]
        yield from self._most(lines, len(sharing))
        if alone:
            yield f"  by themselves: {self._some(alone, 2 * MAX_NAMES)}"

    def _with(self, name: str, shares: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
        """What a query shares, each with whom."""
        group = self.ways.groups[name]
        if len(group.queries) > 1 and isinstance(group, CountingGroup):
            others = [other for other in group.queries if other != name]
            yield f"counted with {self._some(others, _FEW)}"
        for what, users in shares:
            yield f"[{what}] with {self._some([u for u in users if u != name], _FEW)}"

    @cached_property
    def shares(self) -> dict[str, list[tuple[str, Sequence[str]]]]:
        """For each query, what it has in common, and who has it."""
        found: dict[str, list[tuple[str, Sequence[str]]]] = {n: [] for n in self.plan.queries}
        for pieces in self.pieces.values():
            for piece in sorted(pieces, key=lambda piece: -len(piece.steps)):
                what = ", ".join(piece.steps)
                for name in piece.queries:
                    found[name].append((what, piece.queries))
        for join in self.ways.shared_joins:
            users = self.ways.queries[join.id]
            for name in users:
                found[name].append((_bare(join), users))
        return found

    def obstacles(self) -> Iterator[str]:
        """What queries have in common and do not share."""
        if self.plan.obstacles:
            yield "in common, but not shared"
            yield from self._most([f"  {obstacle}" for obstacle in self.plan.obstacles])

    def terms(self) -> Iterator[str]:
        """What the engines do that the plan names."""
        named = dict.fromkeys(group.engine for group in self.plan.groups)
        known = [each for name in named if (each := engine(name)) is not None]
        lines = [f"  {each.LABEL}: {each.MEANING}" for each in known]
        if lines:
            yield "what the engines do"
            yield from lines

    def _most(self, lines: list[str], total: int | None = None) -> Iterator[str]:
        """The first of so many lines, which are at least those that are shown."""
        every = len(lines) if total is None else total
        shown = lines if self.verbose or every <= _LINES + 1 else lines[:_LINES]
        yield from shown
        if every > len(shown):
            yield f"  and {every - len(shown):,} more: --verbose or --format json lists all"

    def _some(self, names: Sequence[str], most: int = MAX_NAMES) -> str:
        return some(names, None if self.verbose else most)


def _line(cost: float | None, rows: float | None, text: str) -> str:
    cost_text = "" if not cost else cpu(cost)
    rows_text = "" if rows is None else rate(rows)
    return f"{cost_text:>{_CPU}}{rows_text:>{_ROWS}}  {text}"


def _steps(pattern: Sequence[str]) -> str:
    """The steps of a candidate, as patterns are shown everywhere."""
    return ", ".join(unquoted(step) for step in pattern)


def _within(output: Operator) -> str:
    detail = output.detail
    every = f" every {detail['slide']}" if "slide" in detail else ""
    return f"{detail['window']}{every}"


def _pattern(output: Operator) -> str:
    pattern = str(output.detail["pattern"])
    within = "" if pattern.startswith(("JOIN(", "LEFT JOIN(")) else f", {_within(output)}"
    into = f" INTO {output.detail['into']}" if "into" in output.detail else ""
    return f"{pattern}{within} → {output.detail['rows']}{into}"


def _alone(output: Operator, group: Group) -> str:
    engine = label(group.engine)
    return f"{output.detail['query']}: {_pattern(output)}, by {engine}"


def _bare(join: Operator) -> str:
    """What a join makes, without the parentheses around all of it."""
    pattern = str(join.detail["pattern"])
    return pattern[1:-1] if pattern.startswith("(") else pattern
