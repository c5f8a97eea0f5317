"""The words that editors complete are those that the grammar and the checker know."""

import re
from pathlib import Path
from typing import Any

from optimizer.bind.outputs import AGGREGATES
from workloads import vocabulary
from workloads.builder import _UNIT_WORDS
from workloads.clause_words import CLAUSE_WORDS, PHRASES
from workloads.expressions import GROUP_FUNCTIONS, VALUE_FUNCTIONS
from workloads.funnel_clauses import _WORDS as STRICTNESS
from workloads.loading import read_workload
from workloads.parser import _CLAUSES
from workloads.situations.parsing import _CLAUSES as SITUATION_CLAUSES
from workloads.syntax import STRATEGIES
from workloads.text_words import _TEXT_OPERATORS

GRAMMAR = Path(__file__).parents[2] / "workloads" / "grammar.lark"


VALID: dict[str, Any] = {
    "name": "w",
    "stream": {"time": "ts", "type": "kind"},
    "queries": ["QUERY q PATTERN A a RETURN a WITHIN 1 s"],
}


def test_every_word_of_the_grammar_is_explained() -> None:
    text = GRAMMAR.read_text(encoding="utf-8")
    words = set(re.findall(r'"([A-Z]+)"i', text))
    for declared in re.findall(r"%declare (.*)", text):
        words |= set(declared.split())
    words -= {"TEXT_OPERATOR", "EVERY"}  # which are no words
    assert "SUPPRESS" in words
    assert "HAVING" in words
    words |= {*CLAUSE_WORDS, *PHRASES, *PHRASES.values(), *_TEXT_OPERATORS, *_CLAUSES}
    words |= {*SITUATION_CLAUSES, *STRICTNESS, *(word.upper() for word in STRATEGIES)}
    words |= {word.upper() for word in (*GROUP_FUNCTIONS, *VALUE_FUNCTIONS)}
    words |= {word.upper() for word in AGGREGATES if " " not in word}
    explained = {word.upper() for word, _ in vocabulary.explained()}
    assert words - explained == set()


def test_clauses_are_those_that_a_query_may_have() -> None:
    assert vocabulary.CLAUSES.keys() - {"HAVING"} == {*_CLAUSES, *SITUATION_CLAUSES} - {"BY"}
    assert set(vocabulary.UNITS) == {*_UNIT_WORDS.values()} - {"EVENTS"}


def test_keys_of_a_workload_are_those_that_are_taken() -> None:
    for inside, keys in vocabulary.KEYS.items():
        for key in (*keys, "nosuch"):
            document: dict[str, Any] = {**VALID, key: VALID.get(key)}
            if inside:
                document = {**VALID, inside: {**VALID.get(inside, {}), key: None}}
            _, found = read_workload(document)
            refused = any(f"no key '{key}'" in finding.message for finding in found)
            assert refused == (key == "nosuch"), (inside, key, [f.message for f in found])
