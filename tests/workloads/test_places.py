"""Every mistake in a workload's text is said at its place, in the order of their places."""

import pytest

from optimizer.bind.binder import bind, load_bound
from workloads.errors import WorkloadError
from workloads.loading import parse_document, read_workload


def findings(text):
    workload, found = parse_document(text)
    if workload is None:
        return WorkloadError(found).diagnostics
    with pytest.raises(WorkloadError) as caught:
        bind(workload, None, found)
    return caught.value.diagnostics


def marked(found):
    """The characters that an error's caret stands under."""
    return found.source[found.column - 1 : found.column - 1 + found.width]


GOOD = """\
name: tiny
stream:
  time: ts
  unit: s
  type: kind
  types: {Big: "x > 5", Small: }
  attributes: {x: int}
  lateness: 10 s
limits: {partial_matches: 5, on_limit: stop}
statistics:
  rates: {Big: 2.5}
  keys: {x: {cardinality: 5}}
  events: 5
  span: 1.5
queries:
  - |
    QUERY one
    PATTERN SEQ(Big a, Small b)
    PARTITION BY x
    RETURN a
    WITHIN 1 s
  - "QUERY two PATTERN Small s AGG COUNT(*) WITHIN 1.5 min"
"""


@pytest.mark.parametrize(
    ("good", "bad", "line", "caret", "message"),
    [
        ("stream:", "straem:", 2, "straem", "no key 'straem'"),
        ("  unit: s", "  unit: minutes", 4, "minutes", "stream.unit is 'minutes'"),
        ("  unit: s", "  units: s", 4, "units", "no key 'units'"),
        ("  time: ts", "  time: 5", 3, "5", "not the name of a column"),
        ("  time: ts", "  tims: ts", 3, "tims", "no key 'tims'"),
        ("x > 5", "x >", 6, '"', "type 'Big': the query ends"),
        ("{x: int}", "{x: nt}", 7, "nt", "unknown type 'nt'"),
        ("10 s", "soon", 8, "soon", "stream.lateness"),
        ("partial_matches: 5", "partial_matches: 0", 9, "0", "limits.partial_matches"),
        ("on_limit: stop", "on_limit: go", 9, "go", "limits.on_limit"),
        ("Big: 2.5", "Big: -2.5", 11, "-2.5", "not a number at least 0"),
        ("cardinality: 5", "cardinality: 0.5", 12, "0.5", "not a number at least 1"),
        ("cardinality: 5", "cardinalty: 5", 12, "x", "has no cardinality"),
        ("  events: 5\n", "", 13, "span", "only one of events and span"),
        ("PARTITION BY x", "PARTITION BY y", 19, "y", "unknown attribute 'y'"),
        ("    RETURN a", "    RETRN a", 20, "RETRN", "unexpected 'RETRN'"),
        ("PATTERN Small s", "PATTERN Smal s", 22, "Smal s", "unknown type 'Smal'"),
    ],
)
def test_a_mistake_in_a_document_is_marked_where_it_is(good, bad, line, caret, message):
    assert good in GOOD
    (found,) = (f for f in findings(GOOD.replace(good, bad, 1)) if message in f.message)
    assert (found.file_line, marked(found)) == (line, caret)


def test_a_document_without_a_stream_is_marked_at_its_beginning():
    (found,) = findings("name: x\nqueries: ['PATTERN A a RETURN a WITHIN 1 s']\n")
    assert (found.message, found.file_line) == ("'stream' is missing", 1)


def test_a_misspelled_key_is_one_mistake_and_not_two():
    assert len(findings(GOOD.replace("stream:", "straem:", 1))) == 1


@pytest.mark.parametrize(
    "text", ["stream:\n\ttime: ts\n", "stream:\n  time: ts\n\ttype: kind\n", "a:\n  - b\n\t- c\n"]
)
def test_a_tab_in_yaml_is_called_a_tab(text):
    (found,) = findings(text)
    assert "a tab" in found.message
    assert "spaces" in found.hint
    assert found.source.startswith("\t")


def test_findings_come_in_the_order_of_their_places():
    text = GOOD.replace("QUERY two PATTERN", "QUERY two PATERN")
    text = text.replace("SEQ(Big a, Small b)", "SEQ(Big a, Smal b)").replace("unit: s", "unit: S")
    assert [found.file_line for found in findings(text)] == [4, 18, 22]


def test_without_lines_findings_come_in_the_order_of_the_queries():
    stream = {"time": "ts", "type": "kind", "attributes": {"x": "int"}}
    unbound = "QUERY first PATTERN A a PARTITION BY y RETURN a, b WITHIN 1 s"
    unparsed = "QUERY second PATTERN A a RETRUN a"
    with pytest.raises(WorkloadError) as caught:
        load_bound({"stream": stream, "queries": [unbound, unparsed]})
    found = [(f.query, f.column) for f in caught.value.diagnostics]
    assert found == [("first", 38), ("first", 50), ("second", 26)]


def test_every_unknown_attribute_of_a_key_is_said_at_its_own_place():
    query = "PATTERN SEQ(A a, B b) WHERE [z] PARTITION BY x, y RETURN a WITHIN 1 s"
    stream = {"time": "ts", "type": "kind", "attributes": {"w": "int"}}
    with pytest.raises(WorkloadError) as caught:
        load_bound({"stream": stream, "queries": [query]})
    assert [marked(found) for found in caught.value.diagnostics] == ["[z]", "x", "y"]


@pytest.mark.parametrize(
    ("query", "caret", "message", "hint"),
    [
        ("PATTERN login -> checkout", "->", "SEQ", "write SEQ(login, checkout)"),
        ("PATTERN login → checkout", "→", "SEQ", "write SEQ(login, checkout)"),
        ("PATTERN login then checkout", "checkout", "one name", "write SEQ(login, checkout)"),
        ("PATTERN SEQ(page view v, B b)", "v", "one name", '"page view" v'),
        ("PATTERN SEQ(add-to-cart a, B b)", "-", "'add-to-cart'", '"add-to-cart"'),
        ("PATTERN SEQ(payment.fail a, B b)", "payment.fail a", "'payment.fail'", '"payment.fail"'),
        ("PATTERN A a WHERE a.País = 1", "í", "'País'", '"País"'),
        ("PATTERN A a PARTITION BY session#", "#", "'session#'", '"session#"'),
        ("PATTERN A a WERE a.x = 1", "WERE", "unexpected 'WERE'", "'WHERE'"),
        ("QUERY q SELECT * FROM t", "SELECT", "this is SQL", "{name: …, sql:"),
        ("-- a\nselect x from t", "a", "without MATCH_RECOGNIZE", "SQL is taken as SELECT"),
        ("PATTERN A a AGG MEDIAN(a.x)", "MEDIAN(a.x)", "COUNT, SUM, AVG, MIN, MAX", "RETURN"),
        ("PATTERN A a AGG AVERAGE(a.x)", "AVERAGE(a.x)", "COUNT, SUM, AVG, MIN, MAX", ""),
        ("PATTERN A a AGG SUMM(a.x)", "SUMM(a.x)", "unknown aggregate 'summ'", "'sum'"),
        ("PATTERN A+ a WHERE median(a.x) > 1", "median(a.x)", "sum, avg, min, max", ""),
    ],
)
def test_what_other_languages_have_is_answered_with_what_is_written_here(
    query, caret, message, hint
):
    ending = " WITHIN 1 s" if "AGG" in query else " RETURN a WITHIN 1 s"
    with pytest.raises(WorkloadError) as caught:
        load_bound({"stream": {"time": "ts", "type": "kind"}, "queries": [query + ending]})
    found = caught.value.diagnostics[0]
    assert marked(found) == caret
    assert message in found.message
    assert hint in found.hint


@pytest.mark.parametrize("odd", ["\ufeff", "", " \u2028 \x85 "])
@pytest.mark.parametrize("ending", [".json", ".yaml"])
def test_places_are_right_behind_odd_line_breaks_and_byte_order_marks(tmp_path, odd, ending):
    path = tmp_path / f"w{ending}"
    key = '"a" 1' if ending == ".json" else "'a' '1'"
    text = odd + "{" + key + "}" if odd == "\ufeff" else '{"x": "' + odd + '",\n ' + key + "}"
    path.write_text(text, encoding="utf-8")
    _, (found,) = read_workload(path)
    assert found.source[found.column - 1 :].lstrip()[:1] in ("1", "'")
