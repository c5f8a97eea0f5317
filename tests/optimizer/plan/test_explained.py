"""What people read of a plan besides its picture: load, terms, and one query."""

from __future__ import annotations

import pytest

from optimizer.engines import ENGINES
from optimizer.explain.glossary import BY_ID, TERMS
from optimizer.explain.query_text import obstacles_of, query_facts, query_table, render_query
from optimizer.explain.text import PlanText, core_load, load, render_text, unquoted
from optimizer.plan.plan import PlanError
from tests.optimizer.plan.test_plan import plan_of

ODD = {
    "name": "odd",
    "stream": {"time": "ts", "type": "kind"},
    "statistics": {"rates": {"page view": 40.0, "add-to-cart": 10.0, "payment.ok": 50.0}},
    "queries": [
        'QUERY "my query" PATTERN SEQ("page view" v, "add-to-cart" c) AGG COUNT(*) WITHIN 1 min',
        'QUERY my PATTERN SEQ("page view" v, "add-to-cart" c, "payment.ok" p)'
        " AGG COUNT(*) WITHIN 1 min",
        'QUERY later PATTERN SEQ("page view" v, "add-to-cart" c) PARTITION BY k '
        "AGG COUNT(*) WITHIN 1 min",
    ],
}


@pytest.mark.parametrize(
    ("nanoseconds", "events", "said"),
    [
        # 50 events in 38.46 µs are 1.3 million in a second.
        (38_460, 50, "0.0038 % of a core at 50 events/s; one core takes 1.3 million events/s"),
        (2e9, 100_000, "200 % of a core at 100,000 events/s; one core takes 50,000 events/s"),
        (36e6, 9, "3.6 % of a core at 9 events/s; one core takes 250 events/s"),
        (0, 9, "nothing of a core"),
    ],
)
def test_the_load_is_a_part_of_a_core(nanoseconds: float, events: float, said: str) -> None:
    assert core_load(nanoseconds, events) == said


def test_a_plan_says_its_load_at_the_rate_of_its_stream() -> None:
    plan = plan_of(ODD)
    assert "of a core at 100 events/s; one core takes " in load(plan)
    assert f"load      {load(plan)}" in render_text(plan).splitlines()


def test_names_are_shown_without_their_quotes_and_texts_as_they_are() -> None:
    written = '"add-to-cart" c[x = \'a "b" c\'] WHERE c."amount (€)" > 1'
    assert unquoted(written) == "add-to-cart c[x = 'a \"b\" c'] WHERE c.amount (€) > 1"
    assert unquoted('"a ""b"""') == 'a "b"'


def test_every_engine_has_a_meaning_and_phrases_lead_to_one_term() -> None:
    assert {engine.NAME for engine in ENGINES} <= set(BY_ID)
    assert len(BY_ID) == len(TERMS)
    own = [{p.lower() for p in (*t.name.split(", "), *t.phrases)} for t in TERMS]
    phrases = [phrase for found in own for phrase in found]
    assert len(phrases) == len(set(phrases))
    text = render_text(plan_of(ODD))
    assert "  the sliding product: Counts matches with one counter for every distinct" in text


def test_the_facts_of_a_query_say_what_it_shares_and_what_not() -> None:
    plan = plan_of(ODD)
    facts = query_facts(PlanText(plan), "my query")
    assert facts["text"].startswith('QUERY "my query" PATTERN')
    assert facts["together"] == ["my"]
    assert facts["shares"] == [{"what": "page view, add-to-cart", "with": ["my"]}]
    assert any(
        "later" in sentence and "partition key" in sentence for sentence in facts["obstacles"]
    )
    cost = facts["cost"]
    assert 0 < cost["own"] < cost["part"] < cost["all"]
    parts = [query_facts(PlanText(plan), name)["cost"]["part"] for name in plan.queries]
    assert sum(parts) == pytest.approx(cost["all"])
    assert "page view, add-to-cart with my:" in render_query(plan, "my query")
    with pytest.raises(PlanError, match="has no query 'none'"):
        query_facts(PlanText(plan), "none")


def test_the_table_of_queries_says_what_each_costs_and_what_others_pay_of_its_way() -> None:
    plan = plan_of(ODD)
    text = PlanText(plan)
    table = {row["name"]: row for row in query_table(text)}
    assert list(table) == list(plan.queries)
    assert table["my query"]["with"] == ["my"]
    assert table["my"]["with"] == ["my query"]
    parts = sum(row["cost"]["part"] for row in table.values())
    assert parts == pytest.approx(sum(o.cost for o in plan.operators))
    for name, row in table.items():
        ways = text.ways
        way = sum(operator.cost for operator in ways.of(name))
        assert row["cost"]["part"] + row["cost"]["spared"] == pytest.approx(way)
        assert row["cost"]["spared"] > 0  # the scan, at least


def test_obstacles_are_those_of_the_query_and_not_of_one_whose_name_begins_alike() -> None:
    plan = plan_of(ODD)
    for name in plan.queries:
        assert obstacles_of(plan, name), name
    assert obstacles_of(plan, "late") == []
