"""The experiments of the Odense thesis, chapter 6: a pattern of six, as trees and as automata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tests.benchmarks.adapting import adapting
from tests.benchmarks.matching import (
    CHOSEN,
    Ranked,
    compare,
    judged,
    sought,
    stocks,
    warm_up_matching,
)
from tests.benchmarks.measuring import Measured, Row, Said, Size

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.benchmarks.matching import Sought
    from tests.benchmarks.rivals import Way
    from workloads.generators import Attribute, Phase

NAME = "odense"
NAMES = ("IBM", "Google", "Sun", "Oracle", "Microsoft", "Yahoo")
_PATTERN = "SEQ(" + ", ".join(f"{n} {a}" for n, a in zip(NAMES, "abcdef", strict=True)) + ")"
_NFA: dict[str, Way] = {"NFA configurations": "configurations", "NFA stacks": "stacks"}
# The thesis' queries by number: their predicates between two events.
QUERIES = {
    5: "a.price = d.price AND b.price = e.price AND c.price = f.price",
    6: "a.price = b.price AND c.price = d.price AND e.price = f.price",
    7: " AND ".join(f"a.price < {x}.price" for x in "bcdef"),
    8: " AND ".join(
        [*(f"{x}.price < d.price" for x in "abc"), "d.price < e.price", "d.price < f.price"]
    ),
    9: " AND ".join(f"{x}.price < f.price" for x in "abcde"),
    10: "a.volume < b.volume AND c.price < d.price AND e.kind < f.kind",
    11: "a.volume < d.volume AND c.price < f.price AND b.kind < e.kind",
    14: "a.volume < d.volume AND c.price < e.price AND b.kind < f.kind",
    15: "b.kind < f.kind",
}
_EVENTS = 100_000


def by_thesis(size: Size) -> Iterator[Row]:
    """Figures 6.2 to 6.12 of the Odense thesis: frequency, structure, window, change, rare ends.

    A sequence of six stocks in the thread's own processor time, from events in memory to columns
    of matches. An event a millisecond stands for the thesis' event a second. The thesis' automaton
    is the one with configurations. Only where the stream changes does the plan.
    """
    warm_up_matching()
    yield from _frequency(size)
    yield from _structure(size)
    yield from _windows(size)
    yield from _kleene(size)
    yield from _changing(size)
    yield from _rare_ends(size)


def _frequency(size: Size) -> Iterator[Row]:
    from workloads.generators import Attribute, Integers

    price = {"price": Attribute(Integers(0, 2))}
    cases: list[Ranked] = []
    rows: list[Measured] = []
    often = {"6.2": ("first", NAMES[:2]), "6.3": ("middle", NAMES[2:4]), "6.4": ("last", NAMES[4:])}
    for figure, (where, frequent) in often.items():
        for number in (5, 6):
            for times in (4, 16) if size == "full" else (4,):
                rates = {name: float(times if name in frequent else 1) for name in NAMES}
                table = stocks(rates, _events(size), price)
                title = f"figure {figure}: the {where} two stocks are more frequent, window of 40"
                case = f"query {number}, {times} times"
                yield from _row(title, case, number, 40, table, size, cases, rows)
    yield judged(NAME, "Figures 6.2 to 6.4", cases)
    yield _against("Figures 6.2 to 6.4", rows)


def _structure(size: Size) -> Iterator[Row]:
    from workloads.generators import Attribute, Uniform

    table = stocks(dict.fromkeys(NAMES, 1.0), _events(size), {"price": Attribute(Uniform(0, 1))})
    cases: list[Ranked] = []
    rows: list[Measured] = []
    for width in (20, 40) if size == "full" else (20,):
        for number, event in ((7, "first"), (8, "fourth"), (9, "last")):
            title = "figure 6.6: all predicates with one event"
            case = f"the {event}, window of {width}"
            yield from _row(title, case, number, width, table, size, cases, rows)
    yield judged(NAME, "Figure 6.6", cases)
    yield _against("Figure 6.6", rows)


def _windows(size: Size) -> Iterator[Row]:
    table = stocks(dict.fromkeys(NAMES, 1.0), _events(size), _drawn())
    cases: list[Ranked] = []
    rows: list[Measured] = []
    for number in (10, 11):
        for width in (10, 20, 30, 40, 50) if size == "full" else (10,):
            kind = "overlapping" if number == 11 else "side by side"
            title = f"figures 6.7 and 6.8: predicates {kind}"
            yield from _row(title, f"window of {width}", number, width, table, size, cases, rows)
    yield judged(NAME, "Figure 6.7", cases)
    yield _against("Figure 6.7", rows)


def _kleene(size: Size) -> Iterator[Row]:
    """Queries 12 and 13: as 11, with groups of Google, and of Microsoft, that are cheap."""
    from optimizer.trees.tree import Passed, without_passing

    table = stocks(dict.fromkeys(NAMES, 1.0), _events(size) // 2, _drawn())
    conditions = "a.volume < d.volume AND c.price < f.price AND b.price < 100"
    title = "figure 6.9: groups"
    for groups in ("b", "be"):
        pattern = _PATTERN
        for alias in groups:
            pattern = pattern.replace(f" {alias}", f"+ {alias}")
        asked_for = conditions + (" AND e.price < 100" if "e" in groups else "")
        for width in (20, 40) if size == "full" else (10,):
            asked = sought(
                f"QUERY q PATTERN {pattern} WHERE {asked_for} RETURN a.ts WITHIN {width} ms", table
            )
            case = f"{len(groups)} of them, window of {width}"
            ways: dict[str, Way] = {"NFA configurations": "configurations"}
            joins, _ = without_passing(asked.chosen)
            trees = {
                "left-deep": asked.shaped("left"),
                "push": joins,
                "pull": Passed(joins, "pull"),
            }
            row, _ = compare((NAME, title, case), asked, trees, ways, size)
            yield row


def _changing(size: Size) -> Iterator[Row]:
    """Figures 6.10 and 6.11; the thesis changes every 5,000 events, which take us a millisecond.

    Choosing another tree takes several, so phases are longer.
    """
    events = 5 * _events(size)
    names = ("a.volume is high", "b.kind is high, f.kind low", "c.price is high")
    phases = _phases(events)
    table = stocks(dict.fromkeys(NAMES, 1.0), 2 * len(phases) * events, _drawn(), phases)
    stretches = [(f"{name}{again}", events) for again in ("", ", again") for name in names]
    for number in (10, 11):
        width = 40 if size == "full" else 10
        kind = "overlapping" if number == 11 else "side by side"
        first = _asked(number, width, table.slice(0, events))
        trees = {"left-deep": first.shaped("left"), "right-deep": first.shaped("right")}
        for i, letter in enumerate("xyz"):
            best = _asked(number, width, table.slice(i * events, events)).shaped("bushy")
            if best not in trees.values():
                trees[f"best of {letter}"] = best
        title = (
            f"figures 6.10 and 6.11: predicates {kind}, window of {width}, another one holds once "
            f"in 20 times every {events:,} events"
        )
        yield from adapting(
            (NAME, title), _text(number, width), table, stretches, events // 10, trees, size
        )


def _rare_ends(size: Size) -> Iterator[Row]:
    cases: list[Ranked] = []
    rows: list[Measured] = []
    for number in (14, 15):
        for times in (1, 10, 100) if size == "full" else (10,):
            rates = dict.fromkeys(NAMES, 1.0) | {"Yahoo": 1 / times}
            # All matches of query 15 come to hundreds of millions where nothing is rare.
            events = _events(size) // (10 if number == 15 and times < 100 else 1)
            table = stocks(rates, events, _drawn())
            width = 50 if number == 14 else 30
            title = f"figure 6.12: the last event is rare, window of {width}"
            case = f"query {number}, once in {times}"
            yield from _row(title, case, number, width, table, size, cases, rows, passing=True)
    yield _against("Figure 6.12", rows)


# --- what they have in common -------------------------------------------------------------------


def _events(size: Size) -> int:
    return _EVENTS if size == "full" else 500


def _drawn() -> dict[str, Attribute]:
    from workloads.generators import Attribute, Integers

    return {name: Attribute(Integers(0, 1000)) for name in ("price", "kind", "volume")}


def _phases(events: int) -> Sequence[Phase]:
    """Three stretches of a stream; in each another predicate holds once in twenty times."""
    from workloads.generators import Attribute, Constant, Integers, Phase

    drawn, high, low = Integers(0, 1000), Constant(949), Constant(50)
    return (
        Phase(events, attributes={"volume": Attribute(drawn, {"IBM": high})}),
        Phase(events, attributes={"kind": Attribute(drawn, {"Google": high, "Yahoo": low})}),
        Phase(events, attributes={"price": Attribute(drawn, {"Sun": high})}),
    )


def _asked(number: int, width: int, table: pa.Table) -> Sought:
    return sought(_text(number, width), table)


def _text(number: int, width: int) -> str:
    return f"QUERY q PATTERN {_PATTERN} WHERE {QUERIES[number]} RETURN a.ts WITHIN {width} ms"


def _row(
    title: str,
    case: str,
    number: int,
    width: int,
    table: pa.Table,
    size: Size,
    cases: list[Ranked],
    rows: list[Measured],
    passing: bool = False,
) -> Iterator[Row]:
    """A query as the chosen tree, left-deep, right-deep and as automata; what it says is noted.

    With `passing` also the best tree with every event pushed, pulled and passed down.
    """
    from optimizer.trees.tree import Passed

    asked = _asked(number, width, table)
    trees = {"left-deep": asked.shaped("left"), "right-deep": asked.shaped("right")}
    if passing:
        best = asked.shaped("bushy")
        trees |= {
            "push": best,
            "pull": Passed(best, "pull"),
            "pass-down": Passed(best, "pass-down"),
        }
        del trees["right-deep"]
    row, ranked = compare((NAME, title, case), asked, trees, _NFA, size)
    cases.append(ranked)
    rows.append(row)
    yield row


def _against(figure: str, rows: list[Measured]) -> Said:
    """How the chosen tree stands to the automaton of the thesis, at best, at worst, and mostly."""
    ratios = sorted(row.ratios["NFA configurations"] for row in rows)
    left = max(row.ratios["left-deep"] for row in rows)
    slower = sum(ratio < 1 for ratio in ratios)
    return Said(
        NAME,
        f"{figure}: the {CHOSEN} is {ratios[0]:.2g} to {ratios[-1]:.2g} times as fast as the NFA "
        f"with configurations, half of the times {ratios[len(ratios) // 2]:.2g} or more; slower "
        f"than it in {slower} of {len(ratios)} cases; and up to {left:.2g} times as fast as the "
        "left-deep tree.",
        {
            "least": ratios[0],
            "most": ratios[-1],
            "median": ratios[len(ratios) // 2],
            "slower": slower,
            "left-deep": left,
        },
    )
