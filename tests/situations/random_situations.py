"""Random queries about situations, and streams for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from optimizer.bind.binder import load_bound
from workloads.errors import WorkloadError
from workloads.situations.relations import NAMES

COLUMNS = {
    "ts": pa.int64(),
    "seq": pa.int64(),
    "kind": pa.string(),
    "k": pa.int64(),
    "x": pa.int64(),
    "y": pa.int64(),
}
CONDITIONS = ("x > 0", "x = 1", "y > 0", "x > 0 AND y > 0", "y IS NULL OR y > 0", "x <= 0")
values = st.sampled_from([0, 1, 1, 2, None])


def stream_of(sequenced: bool) -> dict[str, str]:
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    return stream | ({"sequence": "seq"} if sequenced else {})


@st.composite
def definitions(draw: st.DrawFn, name: str) -> str:
    kind = draw(st.sampled_from(["", " OF A", " OF B"]))
    length = draw(
        st.sampled_from(["", "", "", "AT LEAST 2 ms", "AT MOST 3 ms", "BETWEEN 1 ms AND 4 ms"])
    )
    gap = draw(st.sampled_from(["", "", "GAP 1 ms", "GAP 2 ms"]))
    return f"{name}{kind} AS {draw(st.sampled_from(CONDITIONS))} {length} {gap}"


@st.composite
def constraints(draw: st.DrawFn, left: str, right: str) -> str:
    some = draw(
        st.one_of(
            st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True),
            st.lists(st.sampled_from(NAMES), min_size=6, max_size=11, unique=True),
            st.sampled_from([["any"], ["intersects"], ["before"]]),
        )
    )
    if draw(st.booleans()):
        left, right = right, left
    return f"{left} {draw(st.sampled_from(';|')).join(some)} {right}"


@st.composite
def queries(draw: st.DrawFn, most: int = 3) -> str:
    names = [f"S{place}" for place in range(draw(st.integers(1, most)))]
    defined = ", ".join(draw(definitions(name)) for name in names)
    ties = [
        draw(constraints(names[draw(st.integers(0, place - 1))], names[place]))
        for place in range(1, len(names))
    ]
    if len(names) > 2 and draw(st.booleans()):
        ties.append(draw(constraints(names[0], names[2])))
    lines = [f"DEFINE {defined}", "PATTERN " + (" AND ".join(ties) or names[0])]
    if draw(st.integers(0, 3)) == 0:
        lines.append(f"WHERE max({names[-1]}.x) > 1 OR count({names[0]}.y) > 1")
    if draw(st.booleans()):
        lines.append("PARTITION BY k")
    items = list(names)
    if draw(st.booleans()):
        items = [f"{names[0]}.start", f"{names[-1]}.end AS until", f"sum({names[0]}.x) AS total"]
    if draw(st.booleans()):
        items += [f"first({names[-1]}.y) AS f", f"count({names[0]}.x) AS n"]
    lines += [f"RETURN {', '.join(items)}", f"WITHIN {draw(st.integers(1, 12))} ms"]
    if draw(st.booleans()):
        lines.append("EMIT " + draw(st.sampled_from(["EARLY", "COMPLETE"])))
    return " ".join(lines)


@st.composite
def workloads(draw: st.DrawFn, most: int = 3, size: int = 3) -> Any:
    """A bound workload; queries that can never match are left out."""
    sequenced = draw(st.booleans())
    kept = []
    for text in draw(st.lists(queries(most), min_size=1, max_size=size, unique=True)):
        try:
            load_bound({"stream": stream_of(sequenced), "queries": [text]})
        except WorkloadError as error:
            if "never matches" not in str(error):
                raise
            continue
        kept.append(text)
    kept = kept or ["DEFINE A AS x > 0 PATTERN A RETURN A WITHIN 5 ms"]
    return load_bound({"name": "some", "stream": stream_of(sequenced), "queries": kept})


@st.composite
def long_lasting(draw: st.DrawFn) -> tuple[Any, pa.Table]:
    """Queries about situations of many events, most of which silence ends; and a stream."""
    texts = []
    for number in range(draw(st.integers(1, 3))):
        names = ("A", "B")[: draw(st.integers(1, 2))]
        defined = ", ".join(
            f"{name}{draw(st.sampled_from(['', ' OF A']))} AS {draw(st.sampled_from('xy'))} > 0 "
            + draw(st.sampled_from(["", "GAP 2 ms", "GAP 4 ms", "AT LEAST 6 ms GAP 4 ms"]))
            for name in names
        )
        asked = draw(st.sampled_from(["before", "overlaps;during", "meets;met by", "intersects"]))
        values = [
            f"{function}({draw(st.sampled_from(names))}.{attribute}) AS {function}_{attribute}"
            for function, attribute in draw(
                st.lists(
                    st.tuples(
                        st.sampled_from(["min", "max", "first", "last", "sum", "count", "avg"]),
                        st.sampled_from("vw"),
                    ),
                    max_size=2,
                    unique=True,
                )
            )
        ]
        texts.append(
            f"QUERY q{number} DEFINE {defined} "
            f"PATTERN {'A' if len(names) == 1 else f'A {asked} B'} "
            + draw(st.sampled_from(["", "WHERE sum(A.v) > 9 "]))
            + draw(st.sampled_from(["", "PARTITION BY k "]))
            + f"RETURN {', '.join([*names, *values])} WITHIN {draw(st.integers(5, 60))} ms "
            + draw(st.sampled_from(["", "EMIT COMPLETE"]))
        )
    sequenced = draw(st.booleans())
    workload = load_bound({"name": "long", "stream": stream_of(sequenced), "queries": texts})
    # Which moments there are, and what holds at them, follows from a seed: they are many.
    random = draw(st.randoms(use_true_random=False))
    time, on, rows = draw(st.sampled_from([0, -30])), {"x": 1, "y": 0}, []
    for number in range(draw(st.integers(20, 50))):
        time += random.choices([0, 1, 2, 3, 9], [4, 8, 3, 1, 1])[0]
        on = {name: 1 - each if random.random() < 0.15 else each for name, each in on.items()}
        row = {"ts": time, "seq": number, "kind": random.choice("AAB"), "k": random.choice([1, 2])}
        values = {"v": random.choice([1, 2, 3, 2**40 + 1, None])}
        values["w"] = random.choice([0.1, -1e17, 1e17, 3.0, None])
        odd = {"x": 0} if random.random() < 0.1 else {}
        rows.append(row | on | odd | values)
    kinds = COLUMNS | {"v": pa.int64(), "w": pa.float64()}
    return workload, pa.table(
        {name: pa.array([r[name] for r in rows], t) for name, t in kinds.items()}
    )


@st.composite
def streams(draw: st.DrawFn, most: int = 14) -> pa.Table:
    """Events with several at one time, in some order."""
    size = draw(st.integers(0, most))
    steps = draw(st.lists(st.sampled_from([0, 1, 1, 2, 4]), min_size=size, max_size=size))
    rows: list[dict[str, Any]] = []
    time = draw(st.sampled_from([0, -9]))
    for number, step in enumerate(steps):
        time += step
        row = {"ts": time, "seq": number // 2, "kind": draw(st.sampled_from("AAAB"))}
        rows.append(row | {"k": draw(st.sampled_from([1, 1, 2, None]))})
        rows[-1] |= {"x": draw(values), "y": draw(values)}
    rows = draw(st.permutations(rows))
    return pa.table({name: pa.array([r[name] for r in rows], t) for name, t in COLUMNS.items()})
