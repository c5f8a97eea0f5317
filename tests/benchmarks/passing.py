"""A condition that ties the first event of a pattern to the last, passed down or not."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.matching import CHOSEN, sought, stocks, warm_up_matching
from tests.benchmarks.measuring import Measured, Row, Said, Size, measure
from tests.benchmarks.odense import NAMES

NAME = "passdown"
_PATTERN = "SEQ(" + ", ".join(f"{n} {a}" for n, a in zip(NAMES, "abcdef", strict=True)) + ")"
_CONDITIONS = {"a.kind = f.kind": (60, 100), "a.kind < f.kind": (60,)}


def by_propagation(size: Size) -> Iterator[Row]:
    """All events joined, or those that the last event of a match can follow, or that it fits.

    The pattern of six of the Odense thesis, whose first event is tied to the last: by an equality
    that one pair in a thousand satisfies, or by a comparison that half of them do. `push` is the
    best tree for all events; `pull` and `pass-down` are the same for the events that are left.
    """
    from optimizer.trees.tree import Passed
    from workloads.generators import Attribute, Integers

    warm_up_matching()
    gains = []
    events = 50_000 if size == "full" else 1_000
    for condition, widths in _CONDITIONS.items():
        for width in widths:
            for times in (1, 10, 100) if size == "full" else (10,):
                rates = dict.fromkeys(NAMES, 1.0) | {"Yahoo": 1 / times}
                table = stocks(rates, events, {"kind": Attribute(Integers(0, 1000))})
                if condition != "a.kind = f.kind" and times == 1:
                    continue  # tens of millions of matches
                text = f"QUERY q PATTERN {_PATTERN} WHERE {condition} RETURN a WITHIN {width} ms"
                asked = sought(text, table)
                best = asked.shaped("bushy")
                seconds = measure(
                    {
                        f"{CHOSEN}": asked.by_tree(asked.chosen),
                        "push": asked.by_tree(best),
                        "pull": asked.by_tree(Passed(best, "pull")),
                        "pass-down": asked.by_tree(Passed(best, "pass-down")),
                    },
                    size,
                )
                case = f"{condition}, window of {width}, the last event once in {times}"
                row = Measured(NAME, "a sequence of six", case, events, seconds)
                gains.append(row.ratios["push"])
                yield row
    yield Said(
        NAME,
        f"What is chosen is {min(gains):.2g} to {max(gains):.2g} times as fast as the best tree "
        "for all events.",
        {"least": min(gains), "most": max(gains)},
    )
