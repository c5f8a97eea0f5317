"""What is said about times that hardly can be what was meant."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from engines.input.time_sense import TimeSpan, notes_about_times
from workloads.workload import Stream

SCALE = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MARCH = int(datetime.datetime(2025, 3, 1, tzinfo=datetime.UTC).timestamp())


@pytest.mark.parametrize("unit", SCALE)
@pytest.mark.parametrize("written", SCALE)
def test_the_unit_that_fits_is_named(unit: str, written: str) -> None:
    stream = Stream(time="ts", unit=unit)  # type: ignore[arg-type]
    first, last = MARCH * SCALE[written], (MARCH + 86_400) * SCALE[written]
    notes = notes_about_times(first, last, 100, pa.int64(), stream)
    if unit == written:
        assert notes == []
        return
    (note,) = notes
    assert f"from 2025-03-01 to 2025-03-02: write `unit: {written}`" in note
    assert f"'ts', as {unit} since 1970" in note


@pytest.mark.parametrize("unit", SCALE)
def test_numbers_that_begin_near_zero_are_no_dates(unit: str) -> None:
    stream = Stream(time="ts", unit=unit)  # type: ignore[arg-type]
    for first, last in ((0, 10), (1, 10**6), (5, 86_400), (-10, 10)):
        assert notes_about_times(first, last, 100, pa.int64(), stream) == []


def test_times_that_no_unit_makes_sense_of() -> None:
    (note,) = notes_about_times(10**12, 10**16, 9, pa.int64(), Stream(time="ts", unit="s"))
    assert "is `unit: s` right" in note
    (note,) = notes_about_times(10**12, 10**12 + 9, 9, pa.timestamp("s"), Stream(time="ts"))
    assert "lie in the year 33,658" in note


def test_events_of_one_time() -> None:
    stream = Stream(time="day")
    (note,) = notes_about_times(20_000, 20_000, 7, pa.date32(), stream)
    assert "all 7 events have the same day in 'day'" in note
    (note,) = notes_about_times(5, 5, 7, pa.int64(), stream)
    assert "all 7 events have the same time" in note
    assert notes_about_times(5, 5, 1, pa.int64(), stream) == []


def test_pieces_are_put_together() -> None:
    span = TimeSpan()
    assert span.notes(pa.int64(), Stream(time="ts")) == []
    for ticks in ([], [5, 3], [9], [4]):
        span.add(np.array(ticks, np.int64))
    assert (span.first, span.last, span.events) == (3, 9, 4)
