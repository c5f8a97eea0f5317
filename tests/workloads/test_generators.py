"""Generated streams are what their specs say: the same every time, and with the asked-for shares.

Bounds on random shares are five standard deviations wide; with fixed seeds they never flake.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from workloads.generators import (
    Attribute,
    Constant,
    Integers,
    Keys,
    OneOfValues,
    Phase,
    SpecError,
    StreamSpec,
    Uniform,
    constant_for,
    generate,
    generate_table,
    numbered_types,
    uniform_rates,
    with_shares,
    write_events,
    zipf_rates,
)
from workloads.generators.columns import BLOCK_ROWS

PLAIN = StreamSpec(rates={"A": 60.0, "B": 30.0, "C": 10.0}, events=50_000, seed=1)
RICH = replace(
    PLAIN,
    events=3 * BLOCK_ROWS + 17,
    sequence="seq",
    ties=0.3,
    disorder=25,
    phases=(Phase(5_000), Phase(3_000, rates={"B": 200.0, "C": 200.0})),
    attributes={
        "price": Attribute(Uniform(0, 100), by_type={"A": Uniform(50, 60)}, nulls=0.1),
        "volume": Attribute(Integers(0, 1000)),
        "user": Attribute(Keys(300, skew=1.0, prefix="u"), nulls=0.05),
        "side": Attribute(OneOfValues(("buy", "sell"), (3, 1)), by_type={"C": Constant("none")}),
        "rush": Attribute(None, by_type={"B": OneOfValues((True, False))}),
    },
)


def column(table: pa.Table, name: str) -> np.ndarray:
    return table.column(name).to_numpy(zero_copy_only=False)


def share_is(share: float, expected: float, count: int) -> bool:
    return abs(share - expected) <= 5 * math.sqrt(expected * (1 - expected) / count) + 1e-12


# --- the same stream every time


def test_the_same_spec_gives_the_same_stream() -> None:
    assert generate_table(RICH).equals(generate_table(replace(RICH)))


def test_another_seed_gives_another_stream() -> None:
    assert not generate_table(PLAIN).equals(generate_table(replace(PLAIN, seed=2)))


@pytest.mark.parametrize("batch_rows", [1_000, BLOCK_ROWS - 1, BLOCK_ROWS + 1, 10**9])
def test_the_stream_does_not_depend_on_the_size_of_its_batches(batch_rows: int) -> None:
    batches = list(generate(RICH, batch_rows))
    sizes = [batch.num_rows for batch in batches]
    assert sum(sizes) == RICH.events
    assert all(size == batch_rows for size in sizes[:-1])
    assert pa.Table.from_batches(batches).equals(generate_table(RICH))


def test_a_longer_stream_begins_with_the_shorter_one() -> None:
    longer = replace(RICH, disorder=0)
    shorter = replace(longer, events=BLOCK_ROWS + 5)
    assert generate_table(longer).slice(0, shorter.events).equals(generate_table(shorter))


def test_a_column_does_not_depend_on_the_other_columns() -> None:
    fewer = replace(RICH, attributes={"volume": RICH.attributes["volume"]}, sequence=None)
    assert generate_table(RICH).column("volume").equals(generate_table(fewer).column("volume"))


def test_a_fixed_seed_gives_the_stream_it_always_gave() -> None:
    table = generate_table(
        replace(PLAIN, events=5, attributes={"x": Attribute(Integers(0, 100))}, sequence="seq")
    )
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (4, 0, "A", 8),
        (13, 1, "B", 32),
        (18, 2, "B", 69),
        (35, 3, "C", 39),
        (47, 4, "A", 70),
    ]


# --- types, rates, phases


def test_types_come_at_their_rates() -> None:
    types = column(generate_table(PLAIN), "type")
    for name, expected in (("A", 0.6), ("B", 0.3), ("C", 0.1)):
        assert share_is(float(np.mean(types == name)), expected, PLAIN.events)


def test_the_total_rate_is_the_sum_of_the_rates() -> None:
    times = column(generate_table(PLAIN), "ts")
    seconds = (times[-1] - times[0]) / 1000
    assert PLAIN.events / seconds == pytest.approx(100.0, rel=0.03)


def test_regular_arrivals_are_evenly_spaced() -> None:
    spec = replace(PLAIN, rates={"A": 400.0}, arrivals="regular", events=200_000)
    gaps = np.diff(column(generate_table(spec), "ts"))
    assert set(gaps) == {2, 3}
    assert gaps.mean() == pytest.approx(2.5, abs=1e-4)


def test_poisson_gaps_are_memoryless() -> None:
    gaps = np.diff(column(generate_table(PLAIN), "ts"))
    assert gaps.min() == 1
    assert gaps.mean() == pytest.approx(10.0, rel=0.03)
    assert share_is(float(np.mean(gaps > 20)), 0.9**20, len(gaps))
    assert share_is(float(np.mean(gaps[gaps > 20] > 30)), 0.9**10, int(np.sum(gaps > 20)))


def test_zipf_rates_fall_with_the_rank() -> None:
    spec = replace(PLAIN, rates=zipf_rates(numbered_types(8), total=100, skew=1.5))
    types = column(generate_table(spec), "type")
    weights = np.arange(1, 9) ** -1.5
    for i, expected in enumerate(weights / weights.sum()):
        assert share_is(float(np.mean(types == f"E{i}")), float(expected), spec.events)


def test_some_types_can_be_held_to_a_share() -> None:
    rates = with_shares(uniform_rates(("A", "B", "C", "D"), 1000), {"B": 0.005})
    assert rates["B"] == pytest.approx(5)
    assert rates["A"] == pytest.approx(995 / 3)
    assert sum(rates.values()) == pytest.approx(1000)


def test_a_type_without_a_rate_never_comes() -> None:
    spec = replace(PLAIN, rates={"A": 10.0, "B": 20.0, "C": 0.0})
    assert set(column(generate_table(spec), "type")) == {"A", "B"}


def test_phases_change_rates_and_attributes_and_come_round_again() -> None:
    usual = Attribute(Integers(0, 1000))
    spec = StreamSpec(
        rates=uniform_rates(("IBM", "Google"), 500),
        events=100_000,
        attributes={"volume": usual},
        phases=(
            Phase(5_000),
            Phase(
                5_000,
                rates={"IBM": 100.0, "Google": 900.0},
                attributes={"volume": replace(usual, by_type={"IBM": Constant(950)})},
            ),
        ),
    )
    table = generate_table(spec)
    types, volumes, times = (column(table, name) for name in ("type", "volume", "ts"))
    second = np.arange(spec.events) // 5_000 % 2 == 1
    ibm = types == "IBM"
    assert share_is(float(np.mean(ibm[~second])), 0.5, 50_000)
    assert share_is(float(np.mean(ibm[second])), 0.1, 50_000)
    assert set(volumes[second & ibm]) == {950}
    assert share_is(float(np.mean(volumes[second & ~ibm] == 950)), 0.001, 45_000)
    assert share_is(float(np.mean(volumes[~second & ibm] < 500)), 0.5, 25_000)
    assert np.diff(times[:5_000]).mean() == pytest.approx(2, rel=0.1)
    assert np.diff(times[5_000:10_000]).mean() == pytest.approx(1, rel=0.1)


# --- attributes


@pytest.mark.parametrize("selectivity", [0.0, 1 / 32, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("distribution", [Uniform(-3, 7), Integers(-320, 320)])
def test_a_predicate_has_the_selectivity_that_was_asked_for(
    distribution: Uniform | Integers, operator: str, selectivity: float
) -> None:
    spec = replace(PLAIN, attributes={"x": Attribute(distribution)})
    constant = constant_for(distribution, operator, selectivity)  # type: ignore[arg-type]
    values = column(generate_table(spec), "x")
    holds = {
        "<": values < constant,
        "<=": values <= constant,
        ">": values > constant,
        ">=": values >= constant,
    }[operator]
    assert share_is(float(np.mean(holds)), selectivity, spec.events)


def test_a_predicate_between_two_types_has_the_selectivity_that_was_asked_for() -> None:
    prices = Uniform(0, 1000)
    spec = replace(
        PLAIN,
        attributes={
            "price": Attribute(prices, by_type={"A": Constant(constant_for(prices, ">", 0.05))})
        },
    )
    table = generate_table(spec)
    prices_a, prices_b = (
        column(table, "price")[column(table, "type") == name] for name in ("A", "B")
    )
    assert set(prices_a) == {950.0}
    assert share_is(float(np.mean(prices_b > 950)), 0.05, len(prices_b))


def test_integers_refuse_a_selectivity_they_cannot_have() -> None:
    with pytest.raises(SpecError, match=r"10 different integers; the nearest is 0\.3"):
        constant_for(Integers(0, 10), "<", 0.33)


def test_keys_are_as_many_as_asked_for_and_equally_frequent() -> None:
    spec = replace(PLAIN, attributes={"user": Attribute(Keys(100, prefix="u"))})
    users, counts = np.unique(column(generate_table(spec), "user").astype(str), return_counts=True)
    assert set(users) == {f"u{k}" for k in range(100)}
    assert all(share_is(count / spec.events, 0.01, spec.events) for count in counts)


def test_skewed_keys_follow_zipf() -> None:
    spec = replace(PLAIN, attributes={"user": Attribute(Keys(1000, skew=1.0))})
    users = column(generate_table(spec), "user")
    harmonic = sum(1 / k for k in range(1, 1001))
    assert users.min() >= 0
    assert users.max() < 1000
    for k in (0, 1, 9, 99):
        assert share_is(float(np.mean(users == k)), 1 / (k + 1) / harmonic, spec.events)


def test_choices_follow_their_weights() -> None:
    spec = replace(PLAIN, attributes={"x": Attribute(OneOfValues((1.5, 2.5, 9.5), (1, 0, 3)))})
    values = column(generate_table(spec), "x")
    assert set(values) == {1.5, 9.5}
    assert share_is(float(np.mean(values == 9.5)), 0.75, spec.events)


def test_attributes_may_differ_by_type() -> None:
    rows = generate_table(replace(RICH, events=2_000)).to_pylist()
    for row in rows:
        assert (row["rush"] is None) == (row["type"] != "B")
        assert (row["side"] == "none") == (row["type"] == "C")
        if row["type"] == "A" and row["price"] is not None:
            assert 50 <= row["price"] < 60


def test_nulls_come_at_their_share_and_only_where_asked_for() -> None:
    table = generate_table(RICH)
    assert share_is(table.column("price").null_count / RICH.events, 0.1, RICH.events)
    assert share_is(table.column("user").null_count / RICH.events, 0.05, RICH.events)
    for name in ("ts", "seq", "type", "volume", "side"):
        assert table.column(name).null_count == 0


# --- time: ties, disorder, sequence


@pytest.mark.parametrize("arrivals", ["poisson", "regular"])
def test_ties_come_at_their_share_and_leave_the_rate_as_it_is(arrivals: str) -> None:
    spec = replace(PLAIN, ties=0.4, arrivals=arrivals, events=2 * BLOCK_ROWS)  # type: ignore[arg-type]
    times = column(generate_table(spec), "ts")
    assert share_is(float(np.mean(np.diff(times) == 0)), 0.4, spec.events)
    assert (times[-1] - times[0]) / spec.events == pytest.approx(10.0, rel=0.03)


def test_without_ties_every_event_has_a_time_of_its_own() -> None:
    spec = replace(PLAIN, rates={"A": 990.0}, events=3 * BLOCK_ROWS)
    assert np.diff(column(generate_table(spec), "ts")).min() == 1


def test_the_time_before_the_first_event_is_the_start() -> None:
    spec = replace(PLAIN, rates={"A": 1000.0}, start=1_700_000_000_000, events=3)
    assert list(column(generate_table(spec), "ts")) == [1_700_000_000_000 + k for k in (1, 2, 3)]


@pytest.mark.parametrize("disorder", [1, 40, 2_000_000])
def test_events_are_late_by_at_most_the_disorder(disorder: int) -> None:
    spec = replace(PLAIN, disorder=disorder, ties=0.2, events=2 * BLOCK_ROWS + 100)
    times = column(generate_table(spec), "ts")
    lateness = np.maximum.accumulate(times) - times
    assert 0 < lateness.max() <= disorder
    if disorder > 1:
        assert lateness.max() > disorder / 2


def test_disorder_changes_the_order_and_nothing_else() -> None:
    ordered = generate_table(replace(RICH, disorder=0))
    assert not generate_table(RICH).equals(ordered)
    assert generate_table(RICH).sort_by("seq").equals(ordered)


def test_the_sequence_numbers_events_in_order_of_time() -> None:
    table = generate_table(RICH).sort_by("seq")
    assert np.array_equal(column(table, "seq"), np.arange(RICH.events))
    assert np.diff(column(table, "ts")).min() == 0


# --- sizes and files


@pytest.mark.parametrize("events", [0, 1, BLOCK_ROWS, BLOCK_ROWS + 1])
def test_a_stream_has_as_many_events_as_asked_for(events: int) -> None:
    for disorder in (0, 10):
        assert generate_table(replace(PLAIN, events=events, disorder=disorder)).num_rows == events


def test_many_types_are_no_trouble() -> None:
    spec = replace(PLAIN, rates=uniform_rates(numbered_types(5_000), 900), events=200_000)
    assert len(set(column(generate_table(spec), "type"))) == 5_000


def test_a_parquet_file_holds_the_stream(tmp_path: Path) -> None:
    path = write_events(RICH, tmp_path / "events.parquet", batch_rows=10_000)
    assert pq.read_table(path).equals(generate_table(RICH))
    assert [p.name for p in tmp_path.iterdir()] == ["events.parquet"]


def test_a_csv_file_holds_the_stream(tmp_path: Path) -> None:
    spec = replace(RICH, events=3_000)
    path = write_events(spec, tmp_path / "events.csv")
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert pyarrow.csv.read_csv(path, convert_options=options).equals(
        generate_table(spec).cast(
            pa.schema([f.with_nullable(True) for f in generate_table(spec).schema])
        )
    )


def test_a_json_lines_file_holds_the_stream(tmp_path: Path) -> None:
    awkward = OneOfValues(('a "quoted" \\ one', "ünï\n", ""))
    spec = replace(RICH, events=3_000, attributes={**RICH.attributes, 'a "b"': Attribute(awkward)})
    path = write_events(spec, tmp_path / "events.jsonl", batch_rows=700)
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == generate_table(spec).to_pylist()


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
def test_an_empty_stream_can_be_written(tmp_path: Path, ending: str) -> None:
    path = write_events(replace(RICH, events=0), tmp_path / f"none{ending}")
    if ending == ".parquet":
        assert pq.read_table(path).num_rows == 0
    else:
        assert len(path.read_text().splitlines()) == (1 if ending == ".csv" else 0)


def test_times_may_be_written_as_timestamps() -> None:
    spec = replace(PLAIN, timestamps=True, unit="us", start=10**15, events=10)
    ticks = generate_table(replace(spec, timestamps=False)).column("ts")
    times = generate_table(spec).column("ts")
    assert times.type == pa.timestamp("us", tz="UTC")
    assert times.cast(pa.int64()).equals(ticks)


def test_the_type_column_may_be_left_out() -> None:
    spec = replace(
        PLAIN,
        type=None,
        attributes={"action": Attribute(Constant("view"), by_type={"B": Constant("buy")})},
    )
    table = generate_table(spec)
    assert table.column_names == ["ts", "action"]
    assert share_is(float(np.mean(column(table, "action") == "buy")), 0.3, spec.events)


# --- what is refused

MISTAKES = {
    "no types": ({"rates": {}}, "rates must be finite"),
    "negative rate": ({"rates": {"A": -1.0}}, "none negative"),
    "all rates zero": ({"rates": {"A": 0.0}}, "not all zero"),
    "infinite rate": ({"rates": {"A": math.inf}}, "must be finite"),
    "negative events": ({"events": -1}, "events is 0 or more, not -1"),
    "negative seed": ({"seed": -1}, "seed is 0 or more"),
    "negative disorder": ({"disorder": -1}, "disorder is 0 or more"),
    "unknown unit": ({"unit": "min"}, "unit is one of s, ms, us, ns, not 'min'"),
    "unknown arrivals": ({"arrivals": "bursty"}, "arrivals is one of poisson, regular"),
    "all tied": ({"ties": 1.0}, "less than 1, not 1.0"),
    "too fast": ({"rates": {"A": 5000.0}}, "finer unit, or ties of at least 0.8"),
    "two columns of a name": ({"attributes": {"ts": Attribute(Uniform())}}, "called ts"),
    "empty name": ({"type": ""}, "name is empty"),
    "misspelt type": (
        {"rates": {"View": 1.0}, "attributes": {"x": Attribute(None, {"Veiw": Uniform()})}},
        "unknown type of attribute 'x': 'Veiw'; did you mean 'View'?",
    ),
    "phase of unknown type": (
        {"phases": (Phase(10, rates={"Z": 1.0}),)},
        "unknown type in phase 1: 'Z'",
    ),
    "phase of unknown attribute": (
        {"phases": (Phase(10, attributes={"x": Attribute(Uniform())}),)},
        "unknown attribute in phase 1: 'x'",
    ),
    "phase of another kind": (
        {
            "attributes": {"x": Attribute(Uniform())},
            "phases": (Phase(10, attributes={"x": Attribute(Integers(0, 2))}),),
        },
        "attribute 'x' is float, but int in phase 1",
    ),
    "times without end": (
        {"unit": "ns", "rates": {"A": 1e-3}, "events": 10**10},
        "beyond 2 ** 62 ticks",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_spec_that_cannot_be_is_refused(mistake: str) -> None:
    changes, message = MISTAKES[mistake]
    with pytest.raises(SpecError) as error:
        replace(PLAIN, **changes)
    assert message in str(error.value)


def test_distributions_that_cannot_be_are_refused() -> None:
    for make, message in (
        (lambda: Uniform(1, 1), "low < high"),
        (lambda: Integers(5, 5), "low < high"),
        (lambda: Keys(0), "1 to 10,000,000 keys, not 0"),
        (lambda: Keys(10, skew=-1), "skew of 0 or more"),
        (lambda: OneOfValues(()), "all str, all int"),
        (lambda: OneOfValues((1, "a")), "all str, all int"),
        (lambda: OneOfValues((1, 2), (1.0,)), "2 values but 1 weights"),
        (lambda: Constant(math.nan), "finite"),
        (lambda: Attribute(None), "needs values"),
        (lambda: Attribute(Uniform(), {"A": Integers(0, 2)}), "one kind, not float, int"),
        (lambda: Attribute(Uniform(), nulls=1.5), "between 0 and 1"),
        (lambda: Phase(0), "at least one event"),
        (lambda: constant_for(Uniform(), "<", 1.1), "between 0 and 1"),
        (lambda: generate(PLAIN, 0), "at least one row"),
    ):
        with pytest.raises(SpecError, match=message):
            make()


def test_files_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"\.parquet, \.csv, \.jsonl, not to 'events\.txt'"):
        write_events(PLAIN, tmp_path / "events.txt")
    with pytest.raises(SpecError, match="there is no folder"):
        write_events(PLAIN, tmp_path / "missing" / "events.csv")
