"""Figure 2.6 and listing 3.1 of the dissertation on indexes, GPUs and temporal patterns."""

import pytest

from tests.oracle.notation import matches
from tests.sql_workloads import both, table


def test_figure_2_6_skip_till_any_finds_nine_matches():
    # The figure prints <a1, c2> twice; the second stands for <a2, c2>, else one match is missing.
    found = matches("OR(SEQ(A a, C c), SEQ(A a2, B+ b, C c2))", "a1 b2 a3 c4 b5 c6")
    assert found == sorted(
        [
            "a3 c4",
            "a1 b2 c4",
            "a1 b2 c6",
            "a1 c4",
            "a1 c6",
            "a1 b2 b5 c6",
            "a1 b5 c6",
            "a3 c6",
            "a3 b5 c6",
        ]
    )


# Listing 3.1 in the spelling of the standard: with parentheses, an order, names of measures, and
# BETWEEN for `X1 <= A.LAT <= X2`.
CRIMES = """
SELECT * FROM CRIMES MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES A.ID AS a, B.ID AS b, C.ID AS c
  PATTERN (A T* B T* C) WITHIN INTERVAL '30' MINUTE
  DEFINE
    A AS A.PRIMARY = 'ROBBERY' AND {},
    B AS B.PRIMARY = 'BATTERY' AND {},
    C AS C.PRIMARY = 'VEHICLE THEFT' AND {}
)"""
BEAT = ("A.BEAT = 2232", "B.BEAT = A.BEAT", "C.BEAT = A.BEAT")
BOX = tuple(f"{name}.LAT BETWEEN 1 AND 2 AND {name}.LON BETWEEN 3 AND 4" for name in "ABC")
ROBBERY, BATTERY, THEFT = "ROBBERY", "BATTERY", "VEHICLE THEFT"
REPORTED = [  # minute, id, primary, beat, latitude, longitude
    (0, 1, ROBBERY, 2232, 1.5, 3.5),
    (5, 2, "FRAUD", 2232, 1.5, 3.5),
    (10, 3, BATTERY, 2232, 9.0, 3.5),
    (12, 4, BATTERY, 9, 1.5, 3.5),
    (20, 5, THEFT, 9, 1.5, 3.5),
    (25, 6, THEFT, 2232, 1.5, 3.5),
    (30, 7, THEFT, 2232, 1.5, 3.5),  # 30 minutes behind the robbery
    (40, 8, ROBBERY, 2232, 1.5, 3.5),
    (45, 9, BATTERY, 2232, 1.5, 3.5),
    (50, 10, THEFT, 2232, 1.5, 9.0),
    (69, 11, THEFT, 9, 1.5, 3.5),
]


@pytest.mark.parametrize(
    ("asked", "expected"),
    # T* takes as many rows as it can, so the last battery and the last theft that fit.
    [(BEAT, [[1, 3, 6], [8, 9, 10]]), (BOX, [[1, 4, 6], [8, 9, 11]])],
    ids=["beat", "box"],
)
def test_listing_3_1_finds_possibly_related_crimes(
    asked: tuple[str, ...], expected: list[list[int]]
) -> None:
    names = ("ts", "ID", "PRIMARY", "BEAT", "LAT", "LON")
    rows = [dict(zip(names, (60 * row[0], *row[1:]), strict=True)) for row in REPORTED]
    assert both(CRIMES.format(*asked), table(rows)) == expected
