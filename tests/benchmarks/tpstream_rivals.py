"""Other ways to find `A starts B before C overlaps D`, which Sheaf's situations compare with."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from engines.input.event_table import Events

Ends = npt.NDArray[np.int64]


def by_event_patterns(names: tuple[str, ...], window: int) -> tuple[dict[str, str], list[str]]:
    """Types and queries of Sheaf's event patterns that find the same.

    A situation begins where `off` is followed by `on`, and ends where `on` is by `off`: it is a
    match of these two, and one that lasts for the query that compares its ends with others'.
    """
    types: dict[str, str] = {}
    queries = []
    for name in names:
        upper = name.upper()
        types |= {f"{name}_on": f"{name} = 1", f"{name}_off": f"{name} = 0"}
        queries += [
            f"QUERY up_{name} PATTERN SEQ({name}_off x, {name}_on y) STRATEGY STRICT "
            f"RETURN y.ts AS since WITHIN 2 s INTO Up{upper}",
            f"QUERY down_{name} PATTERN SEQ({name}_on x, {name}_off y) STRATEGY STRICT "
            f"RETURN y.ts AS until WITHIN 2 s INTO Down{upper}",
            f"QUERY run_{name} PATTERN SEQ(Up{upper} u, !Down{upper} n, Down{upper} d) "
            f"RETURN u.since WITHIN 103 s INTO Run{upper}",
        ]
    # What lasts begins at the event before the situation does.
    queries.append(
        "QUERY q PATTERN AND(RunA a, RunB b, RunC c, RunD d) WHERE a.since = b.since "
        "AND a.time < b.time AND b.time < c.since AND c.since < d.since AND d.since < c.time "
        f"AND c.time < d.time RETURN a.since WITHIN {window + 1} s"
    )
    return types, queries


def drivers_by_event_patterns() -> tuple[dict[str, str], list[str]]:
    """Types and queries of event patterns that find the aggressive drivers, by car."""
    asked = {"a": "accel > 8", "b": "speed > 70", "c": "accel < -9"}
    types: dict[str, str] = {}
    queries = []
    for name, condition in asked.items():
        upper, by = name.upper(), "PARTITION BY car RETURN"
        types |= {f"{name}_on": condition, f"{name}_off": f"NOT ({condition})"}
        queries += [
            f"QUERY up_{name} PATTERN SEQ({name}_off x, {name}_on y) STRATEGY STRICT "
            f"{by} y.ts AS since WITHIN 2 s INTO Up{upper}",
            f"QUERY down_{name} PATTERN SEQ({name}_on x, {name}_off y) STRATEGY STRICT "
            f"{by} y.ts AS until WITHIN 2 s INTO Down{upper}",
            f"QUERY run_{name} PATTERN SEQ(Up{upper} u, !Down{upper} n, Down{upper} d) "
            f"{by} u.since WITHIN 103 s INTO Run{upper}",
        ]
    # A meets, overlaps, starts or is during B, which contains, is finished by, overlaps or meets C.
    queries.append(
        "QUERY q PATTERN AND(RunA a, RunB b, RunC c) WHERE b.since <= a.time AND a.time < b.time "
        "AND b.since < c.since AND c.since <= b.time AND a.time < c.since PARTITION BY car "
        "RETURN a.since WITHIN 301 s"
    )
    return types, queries


def drivers_by_one_automaton() -> dict[str, str]:
    """A statement that finds the same where each trip has every phase once at most: letters are
    what holds at an event, and the last is the one that ends it all.
    """
    held = {
        "off": "accel <= 8 AND speed <= 70",
        "a": "accel > 8 AND speed <= 70",
        "ab": "accel > 8 AND speed > 70",
        "b": "accel <= 8 AND accel >= -9 AND speed > 70",
        "bc": "accel < -9 AND speed > 70",
        "c": "accel < -9 AND speed <= 70",
        "calm": "accel >= -9 AND accel <= 8 AND speed <= 70",
    }
    defined = ", ".join(f"{letter} AS {condition}" for letter, condition in held.items())
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY car ORDER BY ts MEASURES FIRST(ts) AS since "
        "PATTERN (off (a+ ab* | ab+) b+ (bc+ c* | c+) calm) "
        f"DEFINE {defined})"
    )
    return {"name": "q", "sql": sql}


def iseq_ends(events: Events, names: tuple[str, ...], window: int) -> Ends:
    """When each match ends, by ISEQ."""
    runs = [_runs(events.table.column(name).to_numpy(), events.ticks) for name in names]
    (a, a_end), (b, b_end), (c, c_end), (d, d_end) = runs
    none = np.zeros(0, np.int64)
    number = _iseq(a, a_end, b, b_end, c, c_end, d, d_end, window, none)
    ends = np.empty(number, np.int64)
    _iseq(a, a_end, b, b_end, c, c_end, d, d_end, window, ends)
    return ends


def _runs(values: Ends, ticks: Ends) -> tuple[Ends, Ends]:
    """Starts and ends of the stretches that have ended."""
    on = np.concatenate([[0], values])
    starts, ends = np.flatnonzero(np.diff(on) == 1), np.flatnonzero(np.diff(on) == -1)
    return ticks[starts[: len(ends)]], ticks[ends]


@numba.njit(cache=True)
def _iseq(
    a: Ends, a_end: Ends, b: Ends, b_end: Ends, c: Ends, c_end: Ends, d: Ends, d_end: Ends,
    window: int, found: Ends,
) -> int:  # fmt: skip
    """Buffers in the order of ends; each new D scans them from the latest back to the window."""
    number = 0
    last_a, last_b, last_c = 0, 0, 0
    for k in range(len(d)):
        now = d_end[k]
        while last_a < len(a) and a_end[last_a] <= now:
            last_a += 1
        while last_b < len(b) and b_end[last_b] <= now:
            last_b += 1
        while last_c < len(c) and c_end[last_c] <= now:
            last_c += 1
        for i in range(last_c - 1, -1, -1):
            if c_end[i] <= now - window:
                break
            if not (c[i] < d[k] and d[k] < c_end[i] and c_end[i] < now):
                continue
            for j in range(last_b - 1, -1, -1):
                if b_end[j] <= now - window:
                    break
                if not b_end[j] < c[i]:
                    continue
                for m in range(last_a - 1, -1, -1):
                    if a_end[m] <= now - window:
                        break
                    if a[m] == b[j] and a_end[m] < b_end[j] and now - a[m] < window:
                        if len(found):
                            found[number] = now
                        number += 1
    return number
