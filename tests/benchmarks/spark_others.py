"""What one would write for Spark without Sheaf: how often A, B and C follow each other by key.

Both give a row for each C whose window, of so many milliseconds up to it, holds such sequences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

KIND = ("A", "B", "C")
KEYED = "QUERY q0 PATTERN SEQ(A, B, C) PARTITION BY user AGG COUNT(*) WITHIN {width} ms"


def self_join(width: int) -> str:
    """All matches by joins, then those of each trigger's window."""
    return f"""
        WITH matches AS (
          SELECT a.user AS user, a.ts AS start, c.ts AS at
          FROM events a
          JOIN events b ON b.user = a.user AND b.type = 'B' AND b.ts > a.ts
            AND b.ts < a.ts + {width}
          JOIN events c ON c.user = a.user AND c.type = 'C' AND c.ts > b.ts
            AND c.ts < a.ts + {width}
          WHERE a.type = 'A')
        SELECT t.ts AS ts, COUNT(*) AS n
        FROM matches m
        JOIN events t ON t.user = m.user AND t.type = 'C' AND t.ts >= m.at
          AND t.ts < m.start + {width}
        GROUP BY t.user, t.ts
    """


def by_pandas(events: DataFrame, width: int) -> DataFrame:
    """A function for each key that looks at the window of each trigger."""

    def count(group: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        ordered = group.sort_values("ts")
        times, types = ordered["ts"].to_numpy(), ordered["type"].to_numpy()
        rows = []
        for i, (time, kind) in enumerate(zip(times, types, strict=True)):
            if kind != "C":
                continue
            a = ab = abc = 0
            for j in range(times.searchsorted(time - width, side="right"), i + 1):
                if types[j] == "A":
                    a += 1
                elif types[j] == "B":
                    ab += a
                else:
                    abc += ab
            if abc:
                rows.append((time, abc))
        return pd.DataFrame(rows, columns=["ts", "n"])

    return events.groupBy("user").applyInPandas(count, "ts bigint, n bigint")
