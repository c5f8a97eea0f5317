"""ZStream's experiments (Mei and Madden 2009, section 6): trees against each other and automata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.benchmarks.adapting import adapting
from tests.benchmarks.matching import (
    compare,
    judged,
    sought,
    stocks,
    warm_up_matching,
    weighed,
)
from tests.benchmarks.measuring import Measured, Row, Said, Size
from tests.benchmarks.real import real_events

if TYPE_CHECKING:
    from optimizer.trees import Tree
    from tests.benchmarks.rivals import Way
    from workloads.generators import Attribute

NAME = "zstream"
_NFA: dict[str, Way] = {"NFA stacks": "stacks", "NFA configurations": "configurations"}
_EVENTS = 10_000
# Which pages stand for publications, projects and courses: rare, more and most of the accesses.
_PAGES = ("software", "history", "shuttle")


def by_tree(size: Size) -> Iterator[Row]:
    """ZStream's figures 8 to 17: the chosen tree, fixed trees, and automata, on the same events.

    From events in memory to columns of matches, in the thread's own processor time; without
    choosing the tree and without output, as in the paper. An event a millisecond; the automata are
    SASE's with stacks, which the paper compares with, and the Odense thesis' with configurations.
    """
    warm_up_matching()
    yield from _selectivity(size)
    yield from _rates(size)
    yield from _complex(size)
    yield from _adaptation(size)
    yield from _negation(size)
    yield from _web_log(size)


def _events(size: Size) -> int:
    return _EVENTS if size == "full" else 400


def _selectivity(size: Size) -> Iterator[Row]:
    """Query 4, figures 8 and 9."""
    from optimizer.trees import Leaf, SeqJoin
    from workloads.generators import Attribute, Constant, Uniform

    left = SeqJoin(SeqJoin(Leaf("i"), Leaf("s")), Leaf("o"))
    right = SeqJoin(Leaf("i"), SeqJoin(Leaf("s"), Leaf("o")))
    cases, rows = [], []
    for part in (1, 2, 4, 8, 16, 32) if size == "full" else (1, 8):
        price = Attribute(Uniform(0, 1), {"IBM": Constant(1 / part)})
        table = stocks({"IBM": 1, "Sun": 1, "Oracle": 1}, _events(size), {"price": price})
        asked = sought(
            "QUERY q PATTERN SEQ(IBM i, Sun s, Oracle o) WHERE i.price > s.price RETURN i.ts"
            " WITHIN 200 ms",
            table,
        )
        title = "figure 8: IBM; Sun; Oracle, IBM.price > Sun.price, window of 200 events"
        row, case = compare(
            (NAME, title, f"selectivity 1/{part}"),
            asked,
            {"left-deep": left, "right-deep": right},
            _NFA,
            size,
        )
        yield row
        rows.append(row)
        cases.append(case)
    yield judged(NAME, "Figure 9", cases)
    yield _against("Figure 8", rows, "The paper has left-deep up to 5 times as fast as right-deep.")


def _rates(size: Size) -> Iterator[Row]:
    """Query 5, figures 10 and 11."""
    from optimizer.trees import Leaf, SeqJoin

    trees: dict[str, Tree] = {
        "left-deep": SeqJoin(SeqJoin(Leaf("i"), Leaf("s")), Leaf("o")),
        "right-deep": SeqJoin(Leaf("i"), SeqJoin(Leaf("s"), Leaf("o"))),
    }
    cases, rows = [], []
    ratios = ((50, 1), (10, 1), (1, 1), (1, 10), (1, 50)) if size == "full" else ((1, 1), (1, 10))
    for ibm, others in ratios:
        table = stocks({"IBM": ibm, "Sun": others, "Oracle": others}, _events(size))
        asked = sought(
            "QUERY q PATTERN SEQ(IBM i, Sun s, Oracle o) RETURN i.ts WITHIN 200 ms", table
        )
        title = "figure 10: IBM; Sun; Oracle, window of 200 events"
        case_name = f"rates {ibm}:{others}:{others}"
        row, case = compare((NAME, title, case_name), asked, trees, _NFA, size)
        yield row
        rows.append(row)
        cases.append(case)
    yield judged(NAME, "Figure 11", cases)
    yield _against("Figure 10", rows, "")


def _complex(size: Size) -> Iterator[Row]:
    """Query 6, figures 12 and 13."""
    trees = query_6_trees()
    cases, rows = [], []
    for name, (rates, sun, google) in query_6_cases().items():
        table = stocks(rates, _events(size), {"price": prices(sun, google)})
        asked = sought(QUERY_6, table)
        title = (
            "figure 12: IBM; Sun; Oracle; Google, Oracle.price > Sun.price and > Google.price, "
            "window of 100 events"
        )
        row, case = compare((NAME, title, name), asked, trees, _NFA, size)
        yield row
        rows.append(row)
        cases.append(case)
    yield judged(NAME, "Figure 13", cases)
    yield _against("Figure 12", rows, "The paper has up to 4 times the NFA's throughput.")


QUERY_6 = (
    "QUERY q PATTERN SEQ(IBM i, Sun s, Oracle o, Google g)"
    " WHERE o.price > s.price AND o.price > g.price RETURN i.ts WITHIN 100 ms"
)


def query_6_trees() -> dict[str, Tree]:
    """The four trees that the paper names."""
    from optimizer.trees import Leaf, SeqJoin

    i, s, o, g = map(Leaf, "isog")
    return {
        "left-deep": SeqJoin(SeqJoin(SeqJoin(i, s), o), g),
        "right-deep": SeqJoin(i, SeqJoin(s, SeqJoin(o, g))),
        "bushy": SeqJoin(SeqJoin(i, s), SeqJoin(o, g)),
        "inner": SeqJoin(i, SeqJoin(SeqJoin(s, o), g)),
    }


def query_6_cases() -> dict[str, tuple[dict[str, float], bool, bool]]:
    """Rates, and whether the first and the second predicate hold once in 50 times."""
    even = {"IBM": 1.0, "Sun": 1.0, "Oracle": 1.0, "Google": 1.0}
    rare = even | {"IBM": 0.01}
    return {
        "rates 1:1:1:1": (even, False, False),
        "rates 1:100:100:100": (rare, False, False),
        "first predicate 1/50": (even, True, False),
        "second predicate 1/50": (even, False, True),
    }


def prices(sun: bool, google: bool) -> Attribute:
    """Prices for which Oracle's is above Sun's, and above Google's, once in 50 times or always."""
    from workloads.generators import Attribute, Constant, Uniform

    low, drawn = Constant(-1.0), Uniform(0, 1)
    return Attribute(
        Constant(0.02), {"Sun": drawn if sun else low, "Google": drawn if google else low}
    )


def _adaptation(size: Size) -> Iterator[Row]:
    """Query 6 over three streams behind each other, figure 14."""
    from workloads.generators import Phase

    events = 40 * _events(size) if size == "full" else 800
    cases = list(query_6_cases().items())[1:]
    phases = [
        Phase(events, weighed(rates), {"price": prices(sun, google)})
        for _, (rates, sun, google) in cases
    ]
    rates = cases[0][1][0]
    table = stocks(rates, events * len(phases), {"price": prices(False, False)}, phases)
    yield from adapting(
        (NAME, f"figure 14: the same over a stream that changes every {events:,} events"),
        QUERY_6,
        table,
        [(name, events) for name, _ in cases],
        events // 10,
        {name: tree for name, tree in query_6_trees().items() if name != "bushy"},
        size,
    )


def _negation(size: Size) -> Iterator[Row]:
    """Query 7, figures 15 and 16."""
    from optimizer.trees import Leaf, NegTop, NSeq, SeqJoin

    i, s, o = map(Leaf, "iso")
    trees: dict[str, Tree] = {
        "pushed to Oracle": SeqJoin(i, NSeq(o, s, "left")),
        "pushed to IBM": SeqJoin(NSeq(i, s, "right"), o),
        "on top": NegTop(SeqJoin(i, o), s),
    }
    cases, best = [], 0.0
    figures = {"15": ("Oracle", (1, 5, 20)), "16": ("Sun", (1, 5, 20))}
    for figure, (often, times) in figures.items():
        for many in times if size == "full" else times[:1]:
            rates = {"IBM": 1.0, "Sun": 1.0, "Oracle": 1.0} | {often: float(many)}
            asked = sought(
                "QUERY q PATTERN SEQ(IBM i, !Sun s, Oracle o) RETURN i.ts WITHIN 200 ms",
                stocks(rates, 10 * _events(size)),
            )
            title = f"figure {figure}: IBM; !Sun; Oracle, window of 200 events"
            case = f"{often} {many} times as often"
            row, ranked = compare((NAME, title, case), asked, trees, _NFA, size)
            yield row
            cases.append(ranked)
            best = max(best, row.seconds["on top"] / row.seconds["pushed to Oracle"])
    yield judged(NAME, "Figures 15 and 16", cases)
    yield Said(
        NAME,
        f"Pushed down, a negation is up to {best:.1f} times as fast as on top (the paper: almost "
        "10 times).",
        {"pushed down against on top": best},
    )


def _web_log(size: Size) -> Iterator[Row]:
    """Query 8, figure 17."""
    from optimizer.trees import Leaf, SeqJoin

    table, why = real_events("nasa_weblog_19950801.parquet")
    title = "figure 17: three kinds of pages from one host, window of 10 hours"
    case = "a day of a web server's log"
    if table is None:
        yield Measured(NAME, title, case, 1, {}, {"chosen tree": why})
        return
    rare, some, many = _PAGES
    stream = {"time": "time", "unit": "s", "type": "section", "sequence": "row"}
    asked = sought(
        f"QUERY q PATTERN SEQ({rare} a, {some} b, {many} c) PARTITION BY host RETURN a.url"
        " WITHIN 10 hours",
        table,
        stream,
    )
    a, b, c = map(Leaf, "abc")
    trees: dict[str, Tree] = {
        "left-deep": SeqJoin(SeqJoin(a, b), c),
        "right-deep": SeqJoin(a, SeqJoin(b, c)),
    }
    row, _ = compare((NAME, title, case), asked, trees, _NFA, size)
    yield row
    matches = asked.by_tree(trees["left-deep"])
    number = matches.found(matches.run()).rows
    yield Said(NAME, f"Figure 17 has {number:,} matches.", {"matches": number})


def _against(figure: str, rows: list[Measured], paper: str) -> Said:
    """The chosen tree against the slowest tree and the automaton of the paper, at best."""
    others = [name for name in rows[0].ratios if not name.startswith("NFA")]
    worst = max(row.ratios[name] for row in rows for name in others)
    stacks = max(row.ratios["NFA stacks"] for row in rows)
    configurations = max(row.ratios["NFA configurations"] for row in rows)
    return Said(
        NAME,
        f"{figure}: the chosen tree is up to {worst:.2g} times as fast as the slowest of these "
        f"trees, {stacks:.2g} times as fast as the NFA with stacks and {configurations:.2g} times "
        f"as the one with configurations. {paper}".rstrip(),
        {"slowest tree": worst, "stacks": stacks, "configurations": configurations},
    )
